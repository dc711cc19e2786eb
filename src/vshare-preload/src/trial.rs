//! Whether the direct road does what it should, seen on memory that nothing uses yet, before anything rests on it.
//!
//! Two pages go through all that road and mover will do with them, and are compared byte by byte. Work of the program's is not
//! waited for, and while a capture is going on nothing of this is done.

use crate::cuda::{CUcontext, CUdevice, CUresult, CUstream};
use crate::uvm::{self, Direct, Lack, Refused, Road};
use crate::visits::Visit;
use crate::{captures, driver, notice, os, process, report};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use vshare_core::config;
use vshare_core::units::PAGE;

/// Why the direct road is not taken.
#[derive(Clone, Copy, Debug)]
enum Failure {
    Lack(Lack),
    /// The module refused what it must be able to do.
    Refused(Refused),
    /// A call of the driver's that the trial takes.
    Driver(&'static str, CUresult),
    /// The pages do not hold what was written to them.
    Differs,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lack(Lack::Descriptor) => {
                write!(f, "this process has no descriptor of the UVM module")
            }
            Self::Lack(Lack::Refused(refused)) | Self::Refused(refused) => refused.fmt(f),
            Self::Driver(call, code) => write!(f, "{call} answered {}", code.0),
            Self::Differs => write!(f, "memory that was moved came back changed"),
        }
    }
}

/// Where it is tried.
#[derive(Clone, Copy, Debug)]
struct Ground {
    device: CUdevice,
    /// A stream of ours.
    stream: CUstream,
    /// The extent, of which all is protected or nothing.
    extent: (u64, u64),
    first: u64,
    second: u64,
}

/// Finds out by which road a context's arena is to move its memory, on an extent of its that it does not use yet. The extent is left
/// as it came, but for two pages, which hold nothing that anybody reads and are not on the device.
pub(crate) fn road(context: CUcontext, extent: (u64, u64)) -> Option<Road> {
    if process::config().road == config::Road::Libcuda {
        return Some(Road::Libcuda);
    }
    if uvm::is_given_up() {
        return Some(Road::Libcuda);
    }
    // A later extent will do, too.
    if captures::any_soon() {
        return None;
    }
    let first = extent.0.checked_next_multiple_of(PAGE)?;
    let second = first + PAGE;
    if second + PAGE > extent.0 + extent.1 {
        return None;
    }
    let _visit = Visit::begin(context)?;
    let (device, stream) = {
        let mut state = process::state();
        let owned = state.arenas.of(context)?;
        if !matches!(owned.road, Road::Untried) {
            return None;
        }
        (owned.device, owned.inward)
    };
    let ground = Ground {
        device,
        stream,
        extent,
        first,
        second,
    };
    let tried = driver::outside_captures(|| {
        driver::in_context(context, || Ok(attempt(&ground)))
            .unwrap_or_else(|code| Err(Failure::Driver("cuCtxPushCurrent", code)))
    });
    Some(match tried {
        Ok(direct) => Road::Direct(direct),
        Err(failure) => {
            failed(&failure, device);
            Road::Libcuda
        }
    })
}

/// A trial has come to nothing: libcuda's road is taken.
fn failed(failure: &Failure, device: CUdevice) {
    static SAID: AtomicBool = AtomicBool::new(false);
    let (call, code) = match *failure {
        // There are machines without it, and processes: nothing is wrong.
        Failure::Lack(Lack::Descriptor) => ("", CUresult::SUCCESS),
        Failure::Lack(Lack::Refused(refused)) | Failure::Refused(refused) => {
            ("UVM_MIGRATE", refused.code())
        }
        Failure::Driver(call, code) => (call, code),
        Failure::Differs => ("UVM_MIGRATE", CUresult::UNKNOWN),
    };
    if code != CUresult::SUCCESS {
        report::driver_failed(call, code, 2 * PAGE, device);
        uvm::give_up();
    }
    if process::config().road == config::Road::Direct && !SAID.swap(true, Ordering::Relaxed) {
        notice::say(format_args!(
            "VSHARE_ROAD=direct cannot be had ({failure}); memory moves by libcuda's calls"
        ));
    }
}

fn attempt(ground: &Ground) -> Result<Direct, Failure> {
    let device =
        driver::uuid(ground.device).map_err(|code| Failure::Driver("cuDeviceGetUuid", code))?;
    let direct = Direct::find(device, (ground.first, PAGE)).map_err(Failure::Lack)?;
    let holds = holds_data(direct, ground);
    let can_discard = can_discard(direct, ground);
    if !can_discard {
        // Its room is the program's. Where even this fails, the two pages run over the budget until the driver needs them.
        _ = direct.evict(ground.first, 2 * PAGE);
    }
    holds.map(|()| direct.discarding(can_discard))
}

/// Writes to both pages, and moves them out and in as they will be: out while the extent is protected, in under protection and without.
fn holds_data(direct: Direct, ground: &Ground) -> Result<(), Failure> {
    let Ground {
        stream,
        first,
        second,
        ..
    } = *ground;
    let written = pattern();
    direct.promote(second, PAGE).map_err(Failure::Refused)?;
    driver::copy_in(first, &written, stream)
        .and_then(|()| driver::stream_synchronize(stream))
        .map_err(|code| Failure::Driver("cuMemcpyHtoDAsync", code))?;
    {
        let _protected = Protected::begin(ground.extent);
        direct
            .evict(first, 2 * PAGE)
            .and_then(|()| direct.promote(first, PAGE))
            .map_err(Failure::Refused)?;
    }
    direct.promote(second, PAGE).map_err(Failure::Refused)?;
    let mut read = vec![0; written.len()];
    driver::copy_out(&mut read, first, stream)
        .and_then(|()| driver::stream_synchronize(stream))
        .map_err(|code| Failure::Driver("cuMemcpyDtoHAsync", code))?;
    if read == written {
        Ok(())
    } else {
        Err(Failure::Differs)
    }
}

/// Discards both pages, as the mover may: one with the extent protected.
fn can_discard(direct: Direct, ground: &Ground) -> bool {
    let first = direct.discard(ground.first, PAGE);
    let _protected = Protected::begin(ground.extent);
    first.is_ok() && direct.discard(ground.second, PAGE).is_ok()
}

/// Two pages in which every word differs from all others.
fn pattern() -> Vec<u64> {
    // An odd factor: no two products are alike.
    (1..=2 * PAGE / 8)
        .map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .collect()
}

/// An extent without the host's view, while this lives.
#[derive(Debug)]
struct Protected((u64, u64));

impl Protected {
    fn begin(extent: (u64, u64)) -> Self {
        os::protect(&[extent], true);
        Self(extent)
    }
}

impl Drop for Protected {
    fn drop(&mut self) {
        os::protect(&[self.0], false);
    }
}
