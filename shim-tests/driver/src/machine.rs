//! The one global: what `cuInit` made, and whether this process is a fork of one that had called it.
//! Locks are taken in this order: a primary context's, a context's roster, a capture's, a stream's queue, the memory.

use crate::context::{Context, Primary};
use crate::cuda::{Answer, CuError, Handle};
use crate::event::Event;
use crate::graph::{Exec, Graph, Node};
use crate::handles::Handles;
use crate::memory::Memory;
use crate::module::{Function, Module, Pool};
use crate::stream::Stream;
use crate::{config, stats, uvm};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) memory: Mutex<Memory>,
    pub(crate) primaries: Vec<Mutex<Primary>>,
    pub(crate) contexts: Handles<Context>,
    /// Contexts that a program made and destroyed.
    pub(crate) destroyed: Mutex<HashSet<Handle>>,
    pub(crate) streams: Handles<Stream>,
    pub(crate) events: Handles<Event>,
    pub(crate) modules: Handles<Module>,
    pub(crate) functions: Handles<Function>,
    pub(crate) graphs: Handles<Graph>,
    pub(crate) nodes: Handles<Node>,
    pub(crate) execs: Handles<Exec>,
    pub(crate) pools: Handles<Pool>,
    /// Bytes behind each `cuMemCreate` handle, and the device they count on.
    pub(crate) physical: Handles<(usize, usize)>,
    /// Each device's default pool, then its current one.
    pub(crate) device_pools: Vec<(Handle, Mutex<Handle>)>,
}

static MACHINE: OnceLock<Machine> = OnceLock::new();
static FORKED: AtomicBool = AtomicBool::new(false);

/// The machine, once `cuInit` has made it.
pub(crate) fn machine() -> Result<&'static Machine, CuError> {
    MACHINE.get().ok_or(CuError::NOT_INITIALIZED)
}

/// A child of a process that had initialised the driver: it may call nothing, and no lock may be taken in it.
pub(crate) fn forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

pub(crate) fn init() -> Answer {
    if MACHINE.get().is_some() {
        return Ok(());
    }
    let config = config::config();
    if config.devices == 0 {
        return Err(CuError(100));
    }
    let memory = Memory::new(config.devices, config.vram).ok_or(CuError::OUT_OF_MEMORY)?;
    let pools = Handles::default();
    let device_pools = (0..config.devices)
        .map(|device| pools.add(Pool::new(device, true)))
        .map(|pool| (pool, Mutex::new(pool)))
        .collect();
    let machine = Machine {
        memory: Mutex::new(memory),
        primaries: (0..config.devices).map(|_| Mutex::default()).collect(),
        contexts: Handles::default(),
        destroyed: Mutex::default(),
        streams: Handles::default(),
        events: Handles::default(),
        modules: Handles::default(),
        functions: Handles::reusing(),
        graphs: Handles::default(),
        nodes: Handles::default(),
        execs: Handles::default(),
        pools,
        physical: Handles::default(),
        device_pools,
    };
    if MACHINE.set(machine).is_ok() {
        watch_process();
        uvm::init();
    }
    Ok(())
}

#[expect(unsafe_code, reason = "hooks exit and fork")]
fn watch_process() {
    extern "C" fn at_exit() {
        if !forked() {
            stats::write();
        }
    }
    unsafe extern "C" fn in_child() {
        FORKED.store(true, Ordering::Relaxed);
    }
    // SAFETY: at_exit is a function of this library, which stays loaded: its threads and mappings do, too.
    unsafe { libc::atexit(at_exit) };
    // SAFETY: in_child only stores to an atomic, which a child may do.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

pub(crate) fn device(id: i32) -> Result<usize, CuError> {
    let machine = machine()?;
    usize::try_from(id)
        .ok()
        .filter(|device| *device < machine.primaries.len())
        .ok_or(CuError::INVALID_DEVICE)
}
