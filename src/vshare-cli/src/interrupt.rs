//! Signals that end what goes on, and not what is still to be done then.

use std::os::fd::AsFd as _;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::Failure;

/// Ctrl-C and a request to end, kept from ending the process at once.
#[derive(Debug)]
pub(crate) struct Interrupt(SignalFd);

impl Interrupt {
    /// Keeps them from now on.
    pub(crate) fn new() -> Result<Self, Failure> {
        let failed = |error| Failure::new(format!("cannot wait for signals: {error}"));
        let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
        signals.thread_block().map_err(failed)?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        SignalFd::with_flags(&signals, flags)
            .map(Self)
            .map_err(failed)
    }

    /// Waits for one, but no longer than `time`; whether one came.
    pub(crate) fn within(&self, time: Duration) -> bool {
        let mut watched = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        let time = PollTimeout::try_from(time).unwrap_or(PollTimeout::ZERO);
        poll(&mut watched, time).is_ok_and(|ready| ready > 0)
    }
}
