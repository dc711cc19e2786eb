//! Tables of live objects by handle. A handle's value is never used twice in a process, so a stale one is always unknown.

use crate::cuda::{CuError, Handle};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Takes a lock whatever happened to an earlier holder: the driver's bookkeeping must outlive a panic of its own.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A value no other handle of this process has or had; looks like an address and is none.
pub(crate) fn fresh_handle() -> Handle {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    Handle(0x5100_0000_0000 + 16 * NEXT.fetch_add(1, Ordering::Relaxed))
}

#[derive(Debug)]
pub(crate) struct Handles<T>(Mutex<HashMap<Handle, Arc<T>>>);

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Handles<T> {
    pub(crate) fn insert(&self, handle: Handle, object: Arc<T>) {
        lock(&self.0).insert(handle, object);
    }

    pub(crate) fn add(&self, object: T) -> Handle {
        let handle = fresh_handle();
        self.insert(handle, Arc::new(object));
        handle
    }

    pub(crate) fn find(&self, handle: Handle) -> Option<Arc<T>> {
        lock(&self.0).get(&handle).cloned()
    }

    pub(crate) fn get(&self, handle: Handle) -> Result<Arc<T>, CuError> {
        self.find(handle).ok_or(CuError::INVALID_HANDLE)
    }

    pub(crate) fn remove(&self, handle: Handle) -> Result<Arc<T>, CuError> {
        lock(&self.0).remove(&handle).ok_or(CuError::INVALID_HANDLE)
    }

    pub(crate) fn retain(&self, keep: impl Fn(&T) -> bool) {
        lock(&self.0).retain(|_, object| keep(object));
    }
}
