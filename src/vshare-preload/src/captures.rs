//! Which streams record a graph. What is captured does not run, and nothing of ours may enter it.

use crate::cuda::{CUcontext, CUstream};
use crate::driver;
use crate::lock::Lock;
use crate::streams::Key;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Streams in which a capture has begun and not ended, each with its context.
static CAPTURES: Lock<Vec<(Key, CUcontext)>> = Lock::new(Vec::new());

/// How many they are, for those who hold no lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Calls under way that begin a capture: no stream becomes solo any more, but nothing is captured yet.
static BEGINNING: AtomicUsize = AtomicUsize::new(0);

/// Keeps streams from becoming solo while it lives.
#[derive(Debug)]
pub(crate) struct Beginning;

impl Beginning {
    pub(crate) fn new() -> Self {
        BEGINNING.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Beginning {
    fn drop(&mut self) {
        BEGINNING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Whether any capture is going on, or about to.
pub(crate) fn any_soon() -> bool {
    BEGINNING.load(Ordering::SeqCst) != 0 || any()
}

/// A capture has begun in a stream.
pub(crate) fn begun(key: Key, context: CUcontext) {
    change(|captures| captures.push((key, context)));
}

/// The capture of a stream has ended, well or badly.
pub(crate) fn ended(key: Key) {
    change(|captures| captures.retain(|c| c.0 != key));
}

/// A context has ended, and its streams' captures with it.
pub(crate) fn context_gone(context: CUcontext) {
    change(|captures| captures.retain(|c| c.1 != context));
}

fn change(f: impl FnOnce(&mut Vec<(Key, CUcontext)>)) {
    let mut captures = CAPTURES.lock();
    f(&mut captures);
    COUNT.store(captures.len(), Ordering::Relaxed);
}

/// Whether any capture is going on in this process.
pub(crate) fn any() -> bool {
    COUNT.load(Ordering::Relaxed) != 0
}

/// Whether work submitted to `stream` is captured, by the capture's own stream or one that joined.
pub(crate) fn takes(stream: CUstream) -> bool {
    any() && driver::is_capturing(stream)
}
