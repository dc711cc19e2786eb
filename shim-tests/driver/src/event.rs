//! Events: each record makes a new mark, which the stream's thread sets when it gets there.

use crate::cuda::Handle;
use crate::handles::lock;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) context: Handle,
    pub(crate) timed: bool,
    pub(crate) state: Mutex<State>,
}

#[derive(Clone, Debug)]
pub(crate) enum State {
    Never,
    Recorded(Arc<Mark>),
    /// Recorded in a capture: that capture's id, the stream, and how many steps that stream had captured.
    Captured {
        capture: u64,
        stream: Handle,
        steps: usize,
    },
}

/// One record of an event.
#[derive(Debug, Default)]
pub(crate) struct Mark {
    reached: Mutex<Option<Instant>>,
    changed: Condvar,
}

impl Mark {
    pub(crate) fn set(&self) {
        *lock(&self.reached) = Some(Instant::now());
        self.changed.notify_all();
    }

    pub(crate) fn reached(&self) -> Option<Instant> {
        *lock(&self.reached)
    }

    pub(crate) fn wait(&self) {
        let reached = lock(&self.reached);
        drop(
            self.changed
                .wait_while(reached, |reached| reached.is_none())
                .unwrap_or_else(PoisonError::into_inner),
        );
    }
}

impl Event {
    pub(crate) fn state(&self) -> State {
        lock(&self.state).clone()
    }

    pub(crate) fn set_state(&self, state: State) {
        *lock(&self.state) = state;
    }
}
