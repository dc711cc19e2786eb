//! Tables of live objects by handle. A handle's value is never used twice in a process, so a stale one is always unknown; but functions'
//! are used again as soon as they can be, as addresses of the real driver's are: whoever kept one finds another function behind it.

use crate::cuda::{CuError, Handle};
use std::collections::{BTreeSet, HashMap};
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
pub(crate) struct Handles<T> {
    live: Mutex<HashMap<Handle, Arc<T>>>,
    /// Handles that may be used again, where any may.
    unused: Option<Mutex<BTreeSet<Handle>>>,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self {
            live: Mutex::default(),
            unused: None,
        }
    }
}

impl<T> Handles<T> {
    /// A table whose handles are used again.
    pub(crate) fn reusing() -> Self {
        Self {
            live: Mutex::default(),
            unused: Some(Mutex::default()),
        }
    }

    pub(crate) fn insert(&self, handle: Handle, object: Arc<T>) {
        lock(&self.live).insert(handle, object);
    }

    pub(crate) fn add(&self, object: T) -> Handle {
        let unused = self.unused.as_ref().and_then(|u| lock(u).pop_first());
        let handle = unused.unwrap_or_else(fresh_handle);
        self.insert(handle, Arc::new(object));
        handle
    }

    pub(crate) fn find(&self, handle: Handle) -> Option<Arc<T>> {
        lock(&self.live).get(&handle).cloned()
    }

    pub(crate) fn get(&self, handle: Handle) -> Result<Arc<T>, CuError> {
        self.find(handle).ok_or(CuError::INVALID_HANDLE)
    }

    pub(crate) fn remove(&self, handle: Handle) -> Result<Arc<T>, CuError> {
        lock(&self.live)
            .remove(&handle)
            .ok_or(CuError::INVALID_HANDLE)
    }

    pub(crate) fn retain(&self, keep: impl Fn(&T) -> bool) {
        let mut gone = BTreeSet::new();
        lock(&self.live).retain(|handle, object| {
            let keeps = keep(object);
            if !keeps {
                gone.insert(*handle);
            }
            keeps
        });
        if let Some(unused) = &self.unused {
            lock(unused).append(&mut gone);
        }
    }
}
