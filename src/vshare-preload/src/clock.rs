//! The one clock.

use std::sync::OnceLock;
use std::time::Instant;

/// Nanoseconds since some moment before the first call.
pub(crate) fn nanoseconds() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let start = START.get_or_init(Instant::now);
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// A stretch of time that ends, for whatever waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(u64);

impl Deadline {
    pub(crate) fn after_ms(milliseconds: u64) -> Self {
        Self(nanoseconds() + milliseconds * 1_000_000)
    }

    pub(crate) fn earlier(self, other: Self) -> Self {
        Self(self.0.min(other.0))
    }

    /// The earlier of this one and one that ends in so many milliseconds.
    pub(crate) fn or_after_ms(self, milliseconds: u64) -> Self {
        Self(self.0.min(Self::after_ms(milliseconds).0))
    }

    pub(crate) fn has_passed(self) -> bool {
        nanoseconds() >= self.0
    }
}

/// Waits until `done`, first by giving the processor away, then by sleeping; at most until the
/// deadline. Returns whether it is done.
pub(crate) fn wait_until(deadline: Deadline, mut done: impl FnMut() -> bool) -> bool {
    let mut turns = 0_u32;
    loop {
        if done() {
            return true;
        }
        if deadline.has_passed() {
            return false;
        }
        turns += 1;
        if turns < 200 {
            std::thread::yield_now();
        } else {
            std::thread::sleep(std::time::Duration::from_micros(20));
        }
    }
}
