//! `vshare report`: what a process held, moved and waited for, as one HTML file that needs nothing else.

mod advice;
mod chart;
pub(crate) mod page;

use std::process::ExitCode;

use crate::recording::Request;
use crate::{Failure, say};

pub(crate) fn report(request: &Request) -> Result<ExitCode, Failure> {
    let recording = request.record()?;
    request.put(&page::of(&recording), |file| {
        say(format_args!(
            "process {} is told of in {file}: open it in a browser",
            recording.last.owner.pid,
        ));
    })
}
