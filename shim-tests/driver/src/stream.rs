//! A stream: a queue, and a thread that works through it. Tickets count what was queued, so that others can wait for a place in it.

use crate::capture::Capture;
use crate::context::Context;
use crate::cuda::{CuError, Handle};
use crate::handles::{fresh_handle, lock};
use crate::machine::machine;
use crate::op::Op;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The default stream that blocking streams wait for.
    Legacy,
    PerThread,
    Created,
}

/// `CU_STREAM_NON_BLOCKING`
pub(crate) const NON_BLOCKING: u32 = 1;

#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) handle: Handle,
    pub(crate) id: u64,
    pub(crate) context: Handle,
    pub(crate) role: Role,
    pub(crate) flags: u32,
    pub(crate) priority: i32,
    pub(crate) capture: Mutex<Option<Arc<Capture>>>,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Step>,
    issued: u64,
    done: u64,
    closing: bool,
    has_thread: bool,
}

#[derive(Debug)]
struct Step {
    op: Op,
    after: Vec<Fence>,
}

/// A place in another stream's queue.
#[derive(Debug)]
pub(crate) struct Fence {
    stream: Arc<Stream>,
    ticket: u64,
}

const STACK_BYTES: usize = 256 << 10;

impl Stream {
    pub(crate) fn new(role: Role, context: Handle, flags: u32, priority: i32) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        Self {
            handle: fresh_handle(),
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            context,
            role,
            flags,
            priority,
            capture: Mutex::default(),
            queue: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Whether the legacy stream and this one wait for each other.
    pub(crate) fn blocking(&self) -> bool {
        self.role != Role::Legacy && self.flags & NON_BLOCKING == 0
    }

    /// Queues work and returns its ticket. The caller holds the context's roster, so that fences name earlier work only.
    pub(crate) fn push(self: &Arc<Self>, context: &Arc<Context>, op: Op, after: Vec<Fence>) -> u64 {
        let mut queue = lock(&self.queue);
        queue.waiting.push_back(Step { op, after });
        queue.issued += 1;
        if !queue.has_thread {
            let (stream, context) = (Arc::clone(self), Arc::clone(context));
            let thread = std::thread::Builder::new()
                .name("simcuda".into())
                .stack_size(STACK_BYTES);
            queue.has_thread = thread.spawn(move || stream.work(&context)).is_ok();
        }
        let ticket = queue.issued;
        drop(queue);
        self.changed.notify_all();
        ticket
    }

    /// Where the queue ends now, if there is anything left in it.
    pub(crate) fn fence(self: &Arc<Self>) -> Option<Fence> {
        let queue = lock(&self.queue);
        (queue.done < queue.issued).then(|| Fence {
            stream: Arc::clone(self),
            ticket: queue.issued,
        })
    }

    pub(crate) fn busy(&self) -> bool {
        let queue = lock(&self.queue);
        queue.done < queue.issued
    }

    pub(crate) fn wait(&self, ticket: u64) {
        let queue = lock(&self.queue);
        drop(
            self.changed
                .wait_while(queue, |queue| queue.done < ticket)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }

    /// Waits for all that was queued so far.
    pub(crate) fn drain(&self) {
        let ticket = lock(&self.queue).issued;
        self.wait(ticket);
    }

    /// Lets the thread end when it has done what is queued. False if there is none, and so nobody to clean up.
    pub(crate) fn close(&self) -> bool {
        let mut queue = lock(&self.queue);
        queue.closing = true;
        self.changed.notify_all();
        queue.has_thread
    }

    fn next(&self) -> Option<Step> {
        let queue = lock(&self.queue);
        let idle = |queue: &mut Queue| queue.waiting.is_empty() && !queue.closing;
        let mut queue = self
            .changed
            .wait_while(queue, idle)
            .unwrap_or_else(PoisonError::into_inner);
        let step = queue.waiting.pop_front();
        queue.has_thread = step.is_some();
        step
    }

    fn work(&self, context: &Arc<Context>) {
        block_signals();
        while let Some(step) = self.next() {
            for fence in step.after {
                fence.stream.wait(fence.ticket);
            }
            // Whatever goes wrong here, those who wait for this step must not wait for ever.
            let work = AssertUnwindSafe(|| step.op.run(context, self));
            if catch_unwind(work).is_err() {
                context.poison(CuError::LAUNCH_FAILED);
            }
            lock(&self.queue).done += 1;
            self.changed.notify_all();
        }
        lock(&context.roster)
            .streams
            .retain(|stream| stream.handle != self.handle);
        if let Ok(machine) = machine() {
            drop(machine.streams.remove(self.handle));
        }
    }
}

/// The program's signals are for the program's threads.
#[expect(unsafe_code, reason = "sets a signal mask")]
fn block_signals() {
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `all` is room for a set, which sigfillset initialises.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: `all` is initialised above; the old mask is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), std::ptr::null_mut()) };
}
