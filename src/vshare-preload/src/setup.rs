//! Making an arena when a context first takes memory, and extents when an arena needs more.

use crate::arenas::{Kind, Owned};
use crate::clock::{Deadline, wait_until};
use crate::cuda::{CUcontext, CUdevice, CUevent, CUresult, CUstream};
use crate::driver::{self, Answer};
use crate::uvm::Road;
use crate::{headroom, mover, notice, process, recording, report, trial};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use vshare_core::arena::{Arena, Terms};
use vshare_core::config::{Config, Policy};
use vshare_core::ledger;
use vshare_core::residency::Order;
use vshare_core::units::{Human, PAGE};

/// Bytes by which an arena of device memory grows: it takes what others could use.
const DEVICE_EXTENT: u64 = 64 << 20;

/// The current context, which has an arena now; `None` where vshare must step aside.
pub(crate) fn context_with_arena() -> Option<CUcontext> {
    let context = driver::current_context()?;
    if process::state().arenas.of(context).is_some() {
        return Some(context);
    }
    // Before anything can fail, so that it leaves an event.
    start_report();
    match driver::outside_captures(|| make(context)) {
        Ok(mut owned) => {
            describe(owned.device);
            recording::start(&owned);
            let mut state = process::state();
            // Another thread may have been faster; then this one's two streams are left over.
            if state.arenas.of(context).is_none() {
                state.recording.begin_arena(&mut owned);
                state.arenas.add(owned);
            }
            drop(state);
            mover::ask_others(context);
            Some(context)
        }
        Err(_) => {
            report::add(report::FALLBACKS, 1);
            None
        }
    }
}

fn make(context: CUcontext) -> Answer<Owned> {
    let config = process::config();
    let device = twice("cuCtxGetDevice", driver::current_device)?;
    let (free, _) = twice("cuMemGetInfo", driver::memory_info)?;
    // What earlier contexts' arenas keep resident on the device is not free, but is ours.
    let free = free + process::state().arenas.resident_on(device);
    let physical = twice("cuDeviceTotalMem", || driver::total_memory(device))?;
    let can = twice("cuDeviceGetAttribute", || driver::can_oversubscribe(device));
    let arrival = twice("cuEventCreate", driver::new_event);
    let roads = match (can, arrival) {
        (Ok(true), Ok(_)) => roads(),
        (Ok(false), _) => Err(Lack::Access),
        (Err(code), _) | (_, Err(code)) => Err(Lack::Call(code)),
    };
    let kind = if roads.is_ok() {
        Kind::Managed
    } else {
        Kind::Device
    };
    if let Err(lack) = roads {
        say_once(&SAID_DEVICE, || {
            notice::say(format_args!(
                "device {} cannot oversubscribe ({lack}); using its own memory only",
                device.0
            ));
        });
    }
    let (inward, outward) = roads.unwrap_or((CUstream::NULL, CUstream::NULL));
    let budget = budget(config, kind, free, physical);
    let limit = limit(config, kind, budget, physical);
    Ok(Owned {
        context,
        device,
        kind,
        arena: Arena::new(Terms {
            order: match config.policy {
                Policy::Auto | Policy::Lru => Order::Used,
                Policy::Demand => Order::Migrated,
            },
            looks_ahead: kind == Kind::Managed && config.policy == Policy::Auto,
            budget: if kind == Kind::Managed {
                budget
            } else {
                u64::MAX
            },
            limit,
            physical,
        }),
        limit,
        budget,
        inward,
        outward,
        road: match kind {
            Kind::Managed => Road::Untried,
            Kind::Device => Road::Libcuda,
        },
        arrival: arrival.unwrap_or(CUevent::NULL),
        begun: 0,
        can_drop: true,
        extending: false,
        wanted: 0,
        stuck: false,
        patience: None,
        failures: 0,
        cannot_leave: false,
        waits: false,
        place: None,
        placed: 0,
        fences: Vec::new(),
    })
}

/// Why an arena is of device memory.
#[derive(Clone, Copy, Debug)]
enum Lack {
    Access,
    /// A call of ours has failed.
    Call(CUresult),
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Access => write!(f, "no concurrent managed access"),
            Self::Call(code) => write!(f, "a driver call that this takes answered {}", code.0),
        }
    }
}

/// Streams for moves to the device and to the host.
fn roads() -> Result<(CUstream, CUstream), Lack> {
    let stream = || twice("cuStreamCreate", driver::new_stream).map_err(Lack::Call);
    Ok((stream()?, stream()?))
}

/// What an arena rests on is asked for once more if it fails. A failure is counted, and leaves an event.
fn twice<T>(call: &'static str, ask: impl Fn() -> Answer<T>) -> Answer<T> {
    driver::noted(call, 0, ask()).or_else(|_| driver::noted(call, 0, ask()))
}

static SAID_DEVICE: AtomicBool = AtomicBool::new(false);
static SAID_BUDGET: AtomicBool = AtomicBool::new(false);
static SAID_LIMIT: AtomicBool = AtomicBool::new(false);

fn say_once(said: &AtomicBool, say: impl FnOnce()) {
    if !said.swap(true, Ordering::Relaxed) {
        say();
    }
}

/// The budget: never more than what is free, less a reserve, because above that the driver would
/// have to evict by itself.
fn budget(config: &Config, kind: Kind, free: u64, physical: u64) -> u64 {
    let most = ledger::default_budget(free, physical).max(PAGE);
    let Some(asked) = config.budget else {
        return most;
    };
    let asked = asked.of(physical);
    if asked < PAGE && kind == Kind::Managed {
        say_once(&SAID_BUDGET, || {
            notice::say(format_args!(
                "VSHARE_BUDGET of {} is less than one page; using {}",
                Human(asked),
                Human(PAGE)
            ));
        });
    }
    let asked = asked.max(PAGE);
    if asked > most && kind == Kind::Managed {
        say_once(&SAID_BUDGET, || {
            notice::say(format_args!(
                "VSHARE_BUDGET of {} is more than the device can keep; using {}",
                Human(asked),
                Human(most)
            ));
        });
    }
    asked.min(most)
}

/// The limit. Host memory is one for all devices: each has an equal share of what can be spared.
fn limit(config: &Config, kind: Kind, budget: u64, physical: u64) -> u64 {
    if kind == Kind::Device {
        return config
            .limit
            .map_or(physical, |l| l.of(physical).min(physical));
    }
    let spare = headroom::bytes();
    let Some(asked) = config.limit else {
        return budget + spare / driver::devices();
    };
    let most = budget + spare;
    let asked = asked.of(physical);
    if asked > most {
        say_once(&SAID_LIMIT, || {
            notice::say(format_args!(
                "VSHARE_LIMIT of {} is more than the budget and the host's memory hold; using {}",
                Human(asked),
                Human(most)
            ));
        });
    }
    asked.min(most)
}

/// Makes the segment, if one is wanted and there is none.
fn start_report() {
    static STARTED: AtomicBool = AtomicBool::new(false);
    let config = process::config();
    if STARTED.swap(true, Ordering::Relaxed) || !config.telemetry {
        return;
    }
    report::start(config.policy.name(), config.run);
}

/// Publishes what is used: the first device of which there is an arena.
fn describe(device: CUdevice) {
    static DESCRIBED: AtomicBool = AtomicBool::new(false);
    if DESCRIBED.swap(true, Ordering::Relaxed) {
        return;
    }
    let name = driver::name(device).unwrap_or_default();
    let uuid = driver::uuid(device).unwrap_or_default();
    let version = driver::driver_version().unwrap_or_default();
    report::with(|writer| {
        writer.set_device(device.0.unsigned_abs(), &name, uuid);
        writer.set_driver_version(version);
    });
}

/// Gets an extent of at least `pages` pages for a context's arena.
///
/// # Errors
/// The driver has no memory, or the arena may have none: `OUT_OF_MEMORY`.
pub(crate) fn extend(context: CUcontext, pages: u64) -> Answer<()> {
    let Some((kind, sizes)) = begin_extending(context, pages)? else {
        // Another thread has just got one: try that first.
        return Ok(());
    };
    let got = driver::outside_captures(|| {
        driver::in_context(context, || {
            let mut answer = Err(CUresult::OUT_OF_MEMORY);
            for bytes in sizes {
                let got = match kind {
                    Kind::Managed => driver::alloc_managed(bytes),
                    Kind::Device => driver::alloc_device(bytes),
                };
                answer = got.map(|base| (base, bytes));
                if answer.is_ok() {
                    break;
                }
            }
            answer
        })
    });
    // While the extent is nobody's.
    let road = got.ok().and_then(|extent| trial::road(context, extent));
    let mut state = process::state();
    let Some(owned) = state.arenas.of(context) else {
        // The context has ended meanwhile, and what it had with it.
        return Err(CUresult::INVALID_CONTEXT);
    };
    owned.extending = false;
    owned.road = road.unwrap_or(owned.road);
    if let Ok((base, bytes)) = got {
        owned.arena.add_extent(base, bytes);
        state.arenas.publish_bounds();
    }
    drop(state);
    report::gauges();
    let call = match kind {
        Kind::Managed => "cuMemAllocManaged",
        Kind::Device => "cuMemAlloc",
    };
    driver::noted(call, pages * PAGE, got)
        .map(|_| ())
        .map_err(|_| CUresult::OUT_OF_MEMORY)
}

/// Becomes the thread that gets the extent. Returns the sizes to ask for, in order; `None` if
/// another thread has just got one.
fn begin_extending(context: CUcontext, pages: u64) -> Answer<Option<(Kind, Vec<u64>)>> {
    let mut waited = false;
    let deadline = Deadline::after_ms(20_000);
    let mut answer = Err(CUresult::OUT_OF_MEMORY);
    wait_until(deadline, || {
        let mut state = process::state();
        let Some(owned) = state.arenas.of(context) else {
            answer = Err(CUresult::INVALID_CONTEXT);
            return true;
        };
        if owned.extending {
            waited = true;
            return false;
        }
        answer = if waited {
            Ok(None)
        } else {
            let sizes = sizes(owned, pages);
            owned.extending = sizes.is_some();
            sizes
                .map(|sizes| Some((owned.kind, sizes)))
                .ok_or(CUresult::OUT_OF_MEMORY)
        };
        true
    });
    answer
}

/// A driver may give an address that is no multiple of a page: there is a page to spare where the
/// limit allows. If the driver refuses a size, the next is asked for.
fn sizes(owned: &Owned, pages: u64) -> Option<Vec<u64>> {
    let least = pages.checked_mul(PAGE)?;
    let best = owned.arena.next_extent(pages)?;
    let spare = (least + PAGE).min(best);
    let first = match owned.kind {
        Kind::Managed => best,
        Kind::Device => spare.max(DEVICE_EXTENT.min(best)),
    };
    Some(vec![first, spare, least])
}
