//! `vshare stats`: what segments say, of live processes and dead ones.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::Value;
use vshare_shm::reader::Segment;

use crate::segments::Place;
use crate::text::json;
use crate::{Failure, print, say, summary};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// A process, or a segment's file [default: all processes whose segments may be read]
    #[arg(value_name = "PID|PATH")]
    which: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

pub(crate) fn stats(options: &Options) -> Result<ExitCode, Failure> {
    options.place.directory()?;
    match &options.which {
        Some(which) => one(&options.place.choose(Some(which))?, options.json)?,
        None => all(&options.place, options.json)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn one(segment: &Segment, as_json: bool) -> Result<(), Failure> {
    if as_json {
        print(&(json(&format_args!("{:#}", summary::to_json(segment))) + "\n"))
    } else {
        print(&summary::full(segment))
    }
}

fn all(place: &Place, as_json: bool) -> Result<(), Failure> {
    let segments = place.readable()?;
    if as_json {
        let list: Value = segments.iter().map(summary::to_json).collect();
        print(&(json(&format_args!("{list:#}")) + "\n"))
    } else if segments.is_empty() {
        say(place.nobody());
        Ok(())
    } else {
        print(&summary::overview(&segments))
    }
}
