//! The way into every exported function: after a fork, hidden by version, told to fail or to take long, not initialised — then the handler, and the log.

use crate::cuda::{Answer, CuError};
use crate::{config, hold, inject, journal, machine, slow};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

/// What a null stream means to a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Legacy,
    PerThread,
}

/// An exported function's name, history and count.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) base: &'static str,
    pub(crate) since: u32,
    pub(crate) lane: Lane,
    early: bool,
    pub(crate) count: AtomicU64,
}

impl Call {
    pub(crate) const fn new(
        name: &'static str,
        base: &'static str,
        since: u32,
        lane: Lane,
        early: bool,
    ) -> Self {
        Self {
            name,
            base,
            since,
            lane,
            early,
            count: AtomicU64::new(0),
        }
    }
}

/// Runs one call. `describe` appends the arguments to a log line and is told whether the call succeeded.
pub(crate) fn enter(
    call: &'static Call,
    describe: impl Fn(&mut String, bool),
    handler: impl FnOnce() -> Answer,
) -> u32 {
    if machine::forked() {
        return CuError::NOT_INITIALIZED.0;
    }
    call.count.fetch_add(1, Ordering::Relaxed);
    hold::wait_in_call(call.base);
    let number = journal::next();
    let answer = admit(call).and_then(|()| {
        // A panic must not cross into the program; the handlers' state is behind locks that survive one.
        catch_unwind(AssertUnwindSafe(handler)).unwrap_or(Err(CuError::UNKNOWN))
    });
    journal::call(number, call.name, answer, describe);
    code(answer)
}

fn admit(call: &'static Call) -> Answer {
    if call.since > config::config().driver {
        return Err(CuError::NOT_SUPPORTED);
    }
    inject::check(call)?;
    slow::wait(call);
    if call.early {
        Ok(())
    } else {
        machine::machine().map(|_| ())
    }
}

pub(crate) fn code(answer: Answer) -> u32 {
    match answer {
        Ok(()) => 0,
        Err(error) => error.0,
    }
}
