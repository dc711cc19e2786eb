//! `vshare stats`: what segments say, of live processes and dead ones.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::Value;
use vshare_shm::directory;
use vshare_shm::process::Liveness;
use vshare_shm::reader::{OpenError, Segment};

use crate::{Failure, print, report, say};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// A process, or a segment's file [default: all processes whose segments may be read]
    #[arg(value_name = "PID|PATH")]
    which: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Where segments lie
    #[arg(long, value_name = "DIR", default_value = directory::DEFAULT)]
    directory: PathBuf,
}

pub(crate) fn stats(options: &Options) -> Result<ExitCode, Failure> {
    if !options.directory.is_dir() {
        return Err(Failure::new(format!(
            "no directory {}: --directory names the one in which segments lie",
            options.directory.display()
        )));
    }
    match &options.which {
        Some(which) => one(&choose(which, &options.directory)?, options.json)?,
        None => all(
            &readable(&options.directory)?,
            &options.directory,
            options.json,
        )?,
    }
    Ok(ExitCode::SUCCESS)
}

fn one(segment: &Segment, as_json: bool) -> Result<(), Failure> {
    if as_json {
        print(&format!("{:#}\n", report::to_json(segment)))
    } else {
        print(&report::full(segment))
    }
}

fn all(segments: &[Segment], directory: &Path, as_json: bool) -> Result<(), Failure> {
    if as_json {
        let list: Value = segments.iter().map(report::to_json).collect();
        print(&format!("{list:#}\n"))
    } else if segments.is_empty() {
        say(format_args!(
            "no process has run under vshare (nothing in {})",
            directory.display()
        ));
        Ok(())
    } else {
        print(&report::overview(segments))
    }
}

/// The segment of a pid, or the one at a path.
fn choose(which: &Path, directory: &Path) -> Result<Segment, Failure> {
    let pid = which.to_str().and_then(|text| text.parse::<u32>().ok());
    let Some(pid) = pid else {
        if !which.exists() {
            return Err(Failure::new(format!(
                "{}: neither a process's number nor a segment's file",
                which.display()
            )));
        }
        return Segment::open(which).map_err(|error| cannot_read(which, &error));
    };
    let found = directory::list(directory).map_err(|error| cannot_list(directory, &error))?;
    let mut failure = Failure::new(format!(
        "process {pid} has no segment in {}: it has not used CUDA under vshare; `vshare stats` lists those that have",
        directory.display()
    ));
    let mut segments = Vec::new();
    for found in found.into_iter().filter(|found| found.owner.pid == pid) {
        match Segment::open(&found.path) {
            Ok(segment) => segments.push(segment),
            Err(error) => failure = cannot_read(&found.path, &error),
        }
    }
    // A pid may have been given out again: the live one is meant, else the latest.
    let latest = |s: &Segment| (s.liveness() == Liveness::Alive, s.created_ns());
    segments.into_iter().max_by_key(latest).ok_or(failure)
}

/// All that may be read; says which of our own may not.
fn readable(directory: &Path) -> Result<Vec<Segment>, Failure> {
    let found = directory::list(directory).map_err(|error| cannot_list(directory, &error))?;
    let mut segments = Vec::new();
    let mut unreadable = 0;
    for found in found {
        match Segment::open(&found.path) {
            Ok(segment) => segments.push(segment),
            Err(error) if is_others(&error) => {}
            Err(error) => {
                unreadable += 1;
                say(cannot_read(&found.path, &error).message);
            }
        }
    }
    if segments.is_empty() && unreadable > 0 {
        return Err(Failure::new(format!(
            "none of the {unreadable} segments in {} can be read",
            directory.display()
        )));
    }
    Ok(segments)
}

/// Not ours to read, or gone since it was listed.
fn is_others(error: &OpenError) -> bool {
    use std::io::ErrorKind::{NotFound, PermissionDenied};
    match error {
        OpenError::Foreign { .. } => true,
        OpenError::Io(error) => matches!(error.kind(), NotFound | PermissionDenied),
        _ => false,
    }
}

fn cannot_read(path: &Path, error: &OpenError) -> Failure {
    Failure::new(format!("cannot read {}: {error}", path.display()))
}

fn cannot_list(directory: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot list {}: {error}", directory.display()))
}
