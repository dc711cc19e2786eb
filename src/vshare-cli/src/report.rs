//! `vshare report`: what a process held, moved and waited for, as one HTML file that needs nothing else.

mod advice;
mod chart;
pub(crate) mod page;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::recording::{Recording, Span};
use crate::segments::Place;
use crate::{Failure, print, say, write_whole};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// A process, or a segment's file [default: the only process under vshare]
    #[arg(value_name = "PID|PATH")]
    which: Option<PathBuf>,
    /// Where to put it; - for stdout
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    span: Span,
    #[command(flatten)]
    place: Place,
}

pub(crate) fn report(options: &Options) -> Result<ExitCode, Failure> {
    let segment = options.place.choose(options.which.as_deref())?;
    let recording = Recording::take(&segment, &options.span)?;
    let page = page::of(&recording);
    if options.output == Path::new("-") {
        print(&page)?;
    } else {
        write_whole(&options.output, &page)?;
        say(format_args!(
            "process {} is told of in {}: open it in a browser",
            recording.last.owner.pid,
            options.output.display()
        ));
    }
    Ok(ExitCode::SUCCESS)
}
