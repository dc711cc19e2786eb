//! One look at a process: everything its segment says but its events, read once.

use nix::unistd::{Uid, User};
use vshare_shm::layout::State;
use vshare_shm::process::{Identity, Liveness};
use vshare_shm::reader::{Device, Reading, Segment};

use crate::segments::state_of;

/// What a segment said at one moment. Counters are read one after the other: they may differ by
/// what happened meanwhile.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) owner: Identity,
    pub(crate) uid: u64,
    pub(crate) command: String,
    pub(crate) policy: String,
    pub(crate) library: String,
    pub(crate) device: Option<Device>,
    pub(crate) liveness: Liveness,
    pub(crate) said: Option<State>,
    pub(crate) counters: Vec<Reading>,
}

impl Snapshot {
    /// Reads `segment` now.
    pub(crate) fn of(segment: &Segment) -> Self {
        // A copy that cannot be brought up to date says what it said.
        _ = segment.refresh();
        Self {
            owner: segment.owner(),
            uid: segment.uid(),
            command: segment.command(),
            policy: segment.policy(),
            library: segment.library(),
            device: segment.device(),
            liveness: segment.liveness(),
            said: segment.state(),
            counters: segment.counters(),
        }
    }

    /// The value of a counter; 0 if the library that wrote it had none.
    pub(crate) fn value(&self, name: &str) -> u64 {
        let mut counters = self.counters.iter();
        counters.find(|c| c.name == name).map_or(0, |c| c.value)
    }

    /// Bytes that went over the link, both ways.
    pub(crate) fn moved(&self) -> u64 {
        self.value("promoted_bytes")
            .saturating_add(self.value("evicted_bytes"))
    }

    /// How the owner is.
    pub(crate) fn state(&self) -> &'static str {
        state_of(self.liveness, self.said)
    }
}

/// What a user is called, or the number if nobody is.
pub(crate) fn user_name(uid: u64) -> String {
    u32::try_from(uid)
        .ok()
        .and_then(|uid| User::from_uid(Uid::from_raw(uid)).ok().flatten())
        .map_or_else(|| uid.to_string(), |user| user.name)
}

/// Whether a process lives, where that can be told.
pub(crate) fn is_alive(liveness: Liveness) -> Option<bool> {
    match liveness {
        Liveness::Alive => Some(true),
        Liveness::Dead => Some(false),
        Liveness::Unknown => None,
    }
}
