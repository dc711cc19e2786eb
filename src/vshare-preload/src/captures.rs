//! Whether any stream is recording a graph. What is captured does not run, and nothing of ours may
//! enter it.

use crate::cuda::CUstream;
use crate::driver;
use std::sync::atomic::{AtomicU32, Ordering};

static CAPTURES: AtomicU32 = AtomicU32::new(0);

/// A capture has begun.
pub(crate) fn begun() {
    CAPTURES.fetch_add(1, Ordering::Relaxed);
}

/// A capture has ended, well or badly.
pub(crate) fn ended() {
    _ = CAPTURES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
}

/// Whether any capture is going on in this process.
pub(crate) fn any() -> bool {
    CAPTURES.load(Ordering::Relaxed) != 0
}

/// Whether work submitted to `stream` is captured, by the capture's own stream or one that joined.
pub(crate) fn takes(stream: CUstream) -> bool {
    any() && driver::is_capturing(stream)
}
