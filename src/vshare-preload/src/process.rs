//! The one global: this process's configuration, arenas and streams, and its life.
//!
//! | state     | from                                            | what becomes of a call     |
//! |-----------|-------------------------------------------------|----------------------------|
//! | on        | the start, unless `VSHARE_DISABLE` is set         | a handler does its work    |
//! | off       | `VSHARE_DISABLE`, or a fork after CUDA was used   | it goes to the driver      |
//!
//! Lock order: [`STATE`] is the only lock, taken for short stretches of bookkeeping, and never
//! while the driver is called, while waiting, or while writing a notice.

use crate::arenas::Arenas;
use crate::crew;
use crate::host_ranges::HostRanges;
use crate::lock::{Held, Lock};
use crate::notice;
use crate::recording::{self, Recording};
use crate::report;
use crate::streams::Streams;
use crate::visits::Visits;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use vshare_core::config::{self, Complaint, Config};

/// Everything that changes.
#[derive(Debug)]
pub(crate) struct State {
    /// One arena for each context that has taken memory.
    pub(crate) arenas: Arenas,
    /// The streams that have had work.
    pub(crate) streams: Streams,
    /// Host memory that work on the device can write.
    pub(crate) host: HostRanges,
    /// Contexts that are about to end, and who uses them.
    pub(crate) visits: Visits,
    /// What has been recorded and not yet written.
    pub(crate) recording: Recording,
}

static STATE: Lock<State> = Lock::new(State {
    arenas: Arenas::new(),
    streams: Streams::new(),
    host: HostRanges::new(),
    visits: Visits::new(),
    recording: Recording::new(),
});

static ON: AtomicBool = AtomicBool::new(true);

/// Whether CUDA has been used: from then on a forked child cannot use it.
static USED: AtomicBool = AtomicBool::new(false);

/// Operations submitted so far; also counts frees, so that a free has a place among them.
static TICK: AtomicU64 = AtomicU64::new(0);

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// What the environment said when the library was loaded.
#[derive(Debug)]
struct Settings {
    config: Config,
    complaints: Vec<Complaint>,
}

/// Whether calls go to handlers.
pub(crate) fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Steps aside for good.
pub(crate) fn turn_off() {
    ON.store(false, Ordering::Relaxed);
}

/// CUDA is in use from now on.
pub(crate) fn used() {
    if !USED.swap(true, Ordering::Relaxed) {
        complain();
    }
}

/// The state, locked.
pub(crate) fn state() -> Held<'static, State> {
    STATE.lock()
}

/// The state, if it can be had: perhaps this thread, or one that has ended, was interrupted while it had it.
pub(crate) fn try_state() -> Option<Held<'static, State>> {
    STATE.try_lock()
}

/// The next tick.
pub(crate) fn tick() -> u64 {
    TICK.fetch_add(1, Ordering::AcqRel) + 1
}

/// The last tick given out.
pub(crate) fn now() -> u64 {
    TICK.load(Ordering::Acquire)
}

/// What the user asked for.
pub(crate) fn config() -> &'static Config {
    &settings().config
}

fn settings() -> &'static Settings {
    SETTINGS.get_or_init(|| {
        let variable =
            |name: &str| std::env::var_os(name).map(|v| v.to_string_lossy().into_owned());
        let (mut config, complaints) = config::read(variable);
        // The program may change its directory.
        let trace = config
            .trace
            .as_ref()
            .and_then(|t| std::path::absolute(t).ok());
        config.trace = trace.map_or(config.trace, |t| Some(t.to_string_lossy().into_owned()));
        Settings { config, complaints }
    })
}

/// Says what is wrong with the configuration, once, when CUDA is first used: a shell that only
/// passes the variables on to its children says nothing.
fn complain() {
    for complaint in &settings().complaints {
        notice::say(format_args!("{complaint}"));
    }
}

/// Reads the environment and registers what fork needs. All that is done when the library is
/// loaded.
pub(crate) fn loaded() {
    if config().disabled {
        turn_off();
    }
    fork::register();
}

/// Work in flight, and its bookkeeping, as a forked child sees it: not its own.
fn become_child() {
    report::disown();
    if USED.load(Ordering::Relaxed) {
        crew::forget();
        recording::forget();
        turn_off();
    }
}

/// Sums over all arenas, for the gauges.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) live: u64,
    pub(crate) budget: u64,
    pub(crate) limit: u64,
    pub(crate) resident: u64,
    pub(crate) peak_resident: u64,
    pub(crate) host: u64,
    pub(crate) arena: u64,
    pub(crate) device_class: u64,
    pub(crate) plans: u64,
    pub(crate) plans_broken: u64,
}

/// See [`Sums`]. `None`: the lock is not to be had, perhaps because this thread was interrupted while
/// it had it.
pub(crate) fn sums() -> Option<Sums> {
    for _ in 0..10_000 {
        if let Some(state) = STATE.try_lock() {
            return Some(state.arenas.sums());
        }
        std::thread::yield_now();
    }
    None
}

/// Keeps the lock across `fork`, so that the child does not inherit it held by a thread it lacks.
mod fork {
    #![expect(unsafe_code, reason = "registers handlers with the C library")]

    use super::{Held, STATE, become_child};
    use crate::guard;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Whether `before` got the lock. Only the forking thread uses it between its two handlers.
    static HELD: AtomicBool = AtomicBool::new(false);

    pub(super) fn register() {
        // SAFETY: the three functions live as long as the library, which is never unloaded.
        _ = unsafe { libc::pthread_atfork(Some(before), Some(parent), Some(child)) };
    }

    /// Takes the lock, but does not wait for it for ever: a fork from within a handler of ours
    /// would wait for itself.
    extern "C" fn before() {
        if guard::inside() {
            return;
        }
        for _ in 0..1_000_000 {
            if let Some(guard) = STATE.try_lock() {
                Held::leak(guard);
                HELD.store(true, Ordering::Relaxed);
                return;
            }
            std::thread::yield_now();
        }
    }

    extern "C" fn parent() {
        release();
    }

    extern "C" fn child() {
        become_child();
        release();
    }

    fn release() {
        if HELD.swap(false, Ordering::Relaxed) {
            // SAFETY: `before` took the lock in this very thread and left it held.
            unsafe { STATE.force_unlock() };
        }
    }
}
