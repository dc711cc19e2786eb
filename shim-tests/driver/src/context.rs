//! Contexts, and which one is current on a thread.

use crate::capture;
use crate::cuda::{Answer, CuError, Handle};
use crate::handles::{fresh_handle, lock};
use crate::machine::machine;
use crate::stream::{Role, Stream};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) handle: Handle,
    pub(crate) device: usize,
    pub(crate) primary: bool,
    pub(crate) flags: u32,
    pub(crate) legacy: Arc<Stream>,
    pub(crate) roster: Mutex<Roster>,
    /// The first error of work on the device; zero while there is none. Nothing works after one.
    sticky: AtomicU32,
    closed: AtomicBool,
}

/// A context's streams. Its lock is what gives work in different streams one order.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    pub(crate) streams: Vec<Arc<Stream>>,
    per_thread: HashMap<i32, Arc<Stream>>,
}

/// A device's primary context: the same handle each time it comes back to life.
#[derive(Debug, Default)]
pub(crate) struct Primary {
    pub(crate) handle: Option<Handle>,
    pub(crate) users: u32,
    pub(crate) flags: u32,
}

impl Context {
    pub(crate) fn open(
        handle: Handle,
        device: usize,
        primary: bool,
        flags: u32,
    ) -> Result<Arc<Self>, CuError> {
        let legacy = Arc::new(Stream::new(Role::Legacy, handle, 0, 0));
        let roster = Roster {
            streams: vec![Arc::clone(&legacy)],
            per_thread: HashMap::new(),
        };
        let context = Arc::new(Self {
            handle,
            device,
            primary,
            flags,
            legacy,
            roster: Mutex::new(roster),
            sticky: AtomicU32::new(0),
            closed: AtomicBool::new(false),
        });
        machine()?.contexts.insert(handle, Arc::clone(&context));
        Ok(context)
    }

    /// Waits for the work, then ends everything that belongs to the context.
    pub(crate) fn close(&self) -> Answer {
        let machine = machine()?;
        if self.closed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        capture::context_gone(self.handle);
        for stream in self.streams() {
            let _ = stream.close();
            stream.drain();
        }
        if !self.primary {
            lock(&machine.destroyed).insert(self.handle);
        }
        drop(machine.contexts.remove(self.handle));
        machine
            .streams
            .retain(|stream| stream.context != self.handle);
        machine.events.retain(|event| event.context != self.handle);
        machine
            .modules
            .retain(|module| module.context != self.handle);
        machine
            .functions
            .retain(|function| function.context != self.handle);
        lock(&machine.memory).free_of_context(self.handle);
        *lock(&self.roster) = Roster::default();
        Ok(())
    }

    pub(crate) fn streams(&self) -> Vec<Arc<Stream>> {
        lock(&self.roster).streams.clone()
    }

    /// Waits for everything submitted so far.
    pub(crate) fn drain(&self) {
        for stream in self.streams() {
            stream.drain();
        }
    }

    pub(crate) fn healthy(&self) -> Answer {
        match self.sticky.load(Ordering::Relaxed) {
            0 => Ok(()),
            code => Err(CuError(code)),
        }
    }

    pub(crate) fn poison(&self, error: CuError) {
        // Only the first error stays; a failed exchange means there was one already.
        let _already =
            self.sticky
                .compare_exchange(0, error.0, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(crate) fn per_thread(&self) -> Arc<Stream> {
        let thread = crate::journal::thread_id();
        let mut roster = lock(&self.roster);
        if let Some(stream) = roster.per_thread.get(&thread) {
            return Arc::clone(stream);
        }
        let stream = Arc::new(Stream::new(Role::PerThread, self.handle, 0, 0));
        roster.streams.push(Arc::clone(&stream));
        roster.per_thread.insert(thread, Arc::clone(&stream));
        stream
    }
}

const DEPTH: usize = 64;

thread_local! {
    static STACK: [Cell<Handle>; DEPTH] = const { [const { Cell::new(Handle::NULL) }; DEPTH] };
    static TOP: Cell<usize> = const { Cell::new(0) };
    static IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// The handle on top of this thread's stack; null when there is none.
pub(crate) fn current_handle() -> Handle {
    match TOP.get().checked_sub(1) {
        Some(top) => STACK.with(|stack| stack.get(top).map_or(Handle::NULL, Cell::get)),
        None => Handle::NULL,
    }
}

pub(crate) fn push(handle: Handle) -> Answer {
    let top = TOP.get();
    let slot = |stack: &[Cell<Handle>; DEPTH]| stack.get(top).map(|slot| slot.set(handle));
    STACK.with(slot).ok_or(CuError::OUT_OF_MEMORY)?;
    TOP.set(top + 1);
    Ok(())
}

pub(crate) fn pop() -> Result<Handle, CuError> {
    let handle = current_handle();
    let top = TOP.get().checked_sub(1).ok_or(CuError::INVALID_CONTEXT)?;
    TOP.set(top);
    Ok(handle)
}

/// Replaces the top; null takes it away.
pub(crate) fn set_current(handle: Handle) -> Answer {
    if TOP.get() > 0 {
        pop()?;
    }
    if handle.is_null() {
        Ok(())
    } else {
        push(handle)
    }
}

/// The current context, alive but perhaps after an error.
pub(crate) fn current_any() -> Result<Arc<Context>, CuError> {
    let machine = machine()?;
    if IN_HOST_FUNCTION.get() {
        return Err(CuError::NOT_PERMITTED);
    }
    let handle = current_handle();
    if handle.is_null() {
        return Err(CuError::INVALID_CONTEXT);
    }
    machine
        .contexts
        .find(handle)
        .ok_or(CuError::CONTEXT_IS_DESTROYED)
}

/// The current context, fit for use.
pub(crate) fn current() -> Result<Arc<Context>, CuError> {
    let context = current_any()?;
    context.healthy()?;
    Ok(context)
}

/// Runs a host function of the program's, which may call nothing of CUDA.
pub(crate) fn as_host_function(work: impl FnOnce()) {
    IN_HOST_FUNCTION.set(true);
    work();
    IN_HOST_FUNCTION.set(false);
}

/// Takes one use of a device's primary context, making it if need be.
pub(crate) fn retain_primary(device: usize) -> Result<Arc<Context>, CuError> {
    let machine = machine()?;
    let slot = machine
        .primaries
        .get(device)
        .ok_or(CuError::INVALID_DEVICE)?;
    let mut primary = lock(slot);
    let handle = *primary.handle.get_or_insert_with(fresh_handle);
    let context = match machine.contexts.find(handle) {
        Some(context) => context,
        None => Context::open(handle, device, true, primary.flags)?,
    };
    primary.users += 1;
    Ok(context)
}

/// Gives one use back; the last one ends the context.
pub(crate) fn release_primary(device: usize) -> Answer {
    let slot = machine()?
        .primaries
        .get(device)
        .ok_or(CuError::INVALID_DEVICE)?;
    let mut primary = lock(slot);
    primary.users = primary
        .users
        .checked_sub(1)
        .ok_or(CuError::INVALID_CONTEXT)?;
    if primary.users == 0 {
        close_primary(&primary)
    } else {
        Ok(())
    }
}

pub(crate) fn close_primary(primary: &Primary) -> Answer {
    let alive = primary
        .handle
        .and_then(|handle| machine().ok()?.contexts.find(handle));
    alive.map_or(Ok(()), |context| context.close())
}
