//! Pools for stream-ordered memory: which of them our own pool serves, and what each holds there.
//!
//! Served are a device's default pool and pools made for plain device memory that no other process
//! can open. Of all others, and of pools that we did not see made, the driver is left to serve.

use crate::cuda::{CUdevice, CUmemoryPool};
use crate::driver;
use crate::lock::Lock;

/// `CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT` and its neighbours.
const RESERVED_CURRENT: u32 = 5;
const RESERVED_HIGH: u32 = 6;
const USED_CURRENT: u32 = 7;
const USED_HIGH: u32 = 8;

#[derive(Clone, Copy, Debug)]
struct Served {
    pool: CUmemoryPool,
    device: CUdevice,
    used: u64,
    high: u64,
}

static SERVED: Lock<Vec<Served>> = Lock::new(Vec::new());

/// The pool has been made, and is plain, or is the default one of its device.
pub(crate) fn serve(pool: CUmemoryPool, device: CUdevice) {
    let mut served = SERVED.lock();
    if served.iter().all(|s| s.pool != pool) {
        served.push(Served {
            pool,
            device,
            used: 0,
            high: 0,
        });
    }
}

/// The pool is gone, or another process may open it. What it holds here stays good.
pub(crate) fn leave(pool: CUmemoryPool) {
    SERVED.lock().retain(|s| s.pool != pool);
}

/// Whether our pool serves this one, with memory of a device.
pub(crate) fn is_served(pool: CUmemoryPool, device: CUdevice) -> bool {
    let served = SERVED.lock();
    served.iter().any(|s| s.pool == pool && s.device == device)
}

/// The pool from which `cuMemAllocAsync` takes in the current context, if our pool serves it.
pub(crate) fn current() -> Option<CUmemoryPool> {
    let device = driver::current_device().ok()?;
    let pool = driver::current_pool(device).ok()?;
    if is_served(pool, device) || is_default(pool, device) {
        return Some(pool);
    }
    None
}

/// Whether a pool is a device's default one; it is served from then on.
pub(crate) fn is_default(pool: CUmemoryPool, device: CUdevice) -> bool {
    let default = driver::default_pool(device) == Ok(pool);
    if default {
        serve(pool, device);
    }
    default
}

/// An allocation from the pool with this handle has taken `bytes`; 0: from none.
pub(crate) fn allocated(pool: u64, bytes: u64) {
    with(pool, |s| {
        s.used += bytes;
        s.high = s.high.max(s.used);
    });
}

/// An allocation from it has given them back.
pub(crate) fn freed(pool: u64, bytes: u64) {
    with(pool, |s| s.used = s.used.saturating_sub(bytes));
}

fn with(pool: u64, f: impl FnOnce(&mut Served)) {
    if pool == 0 {
        return;
    }
    let mut served = SERVED.lock();
    if let Some(found) = served.iter_mut().find(|s| s.pool.0 as u64 == pool) {
        f(found);
    }
}

/// What our pool adds to an attribute of this one: bytes.
pub(crate) fn adds_to(pool: CUmemoryPool, attribute: u32) -> Option<u64> {
    let served = SERVED.lock();
    let found = served.iter().find(|s| s.pool == pool)?;
    match attribute {
        RESERVED_CURRENT | USED_CURRENT => Some(found.used),
        RESERVED_HIGH | USED_HIGH => Some(found.high),
        _ => None,
    }
}

/// The program sets a high mark back (to 0 is all it may).
pub(crate) fn reset_high(pool: CUmemoryPool, attribute: u32) {
    if matches!(attribute, RESERVED_HIGH | USED_HIGH) {
        with(pool.0 as u64, |s| s.high = s.used);
    }
}
