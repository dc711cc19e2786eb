//! Which segments a command is about: those of a directory, a process's, the one in a file.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use vshare_shm::directory::{self, Found};
use vshare_shm::layout::State;
use vshare_shm::process::Liveness;
use vshare_shm::reader::{OpenError, Segment};

use crate::{Failure, say};

/// Where segments are looked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Place {
    /// Where segments lie
    #[arg(long, value_name = "DIR", default_value = directory::DEFAULT)]
    directory: PathBuf,
}

/// A segment's file, and what opening it gave.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) found: Found,
    pub(crate) segment: Result<Segment, OpenError>,
}

impl Place {
    /// The directory, if it is one.
    pub(crate) fn directory(&self) -> Result<&Path, Failure> {
        if self.directory.is_dir() {
            return Ok(&self.directory);
        }
        Err(Failure::new(format!(
            "no directory {}: --directory names the one in which segments lie",
            self.directory.display()
        )))
    }

    /// All files named as segments, those that may not be read too; not those that went meanwhile.
    pub(crate) fn survey(&self) -> Result<Vec<Seen>, Failure> {
        let seen = self.found()?.into_iter().map(|found| Seen {
            segment: Segment::open(&found.path),
            found,
        });
        Ok(seen
            .filter(|seen| !matches!(&seen.segment, Err(error) if is_gone(error)))
            .collect())
    }

    /// All that may be read; says which of our own may not.
    pub(crate) fn readable(&self) -> Result<Vec<Segment>, Failure> {
        let mut segments = Vec::new();
        let mut unreadable = 0;
        for seen in self.survey()? {
            match seen.segment {
                Ok(segment) => segments.push(segment),
                Err(error) if is_others(&error) => {}
                Err(error) => {
                    unreadable += 1;
                    say(cannot_read(&seen.found.path, &error).message);
                }
            }
        }
        if segments.is_empty() && unreadable > 0 {
            return Err(Failure::new(format!(
                "none of the {unreadable} segments in {} can be read",
                self.directory.display()
            )));
        }
        Ok(segments)
    }

    /// The segment of a pid, or the one at a path; without either the only live one, else the only one.
    pub(crate) fn choose(&self, which: Option<&Path>) -> Result<Segment, Failure> {
        let Some(which) = which else {
            return self.only();
        };
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
        self.of_process(pid)
    }

    fn of_process(&self, pid: u32) -> Result<Segment, Failure> {
        let mut failure = Failure::new(format!(
            "process {pid} has no segment in {}: it has not used CUDA under vshare; `vshare ps` lists those that have",
            self.directory.display()
        ));
        let mut segments = Vec::new();
        for found in self.found()?.into_iter().filter(|f| f.owner.pid == pid) {
            match Segment::open(&found.path) {
                Ok(segment) => segments.push(segment),
                Err(error) => failure = cannot_read(&found.path, &error),
            }
        }
        // A pid may have been given out again: the live one is meant, else the latest.
        let latest = |s: &Segment| (s.liveness() == Liveness::Alive, s.created_ns());
        segments.into_iter().max_by_key(latest).ok_or(failure)
    }

    fn only(&self) -> Result<Segment, Failure> {
        let all = self.readable()?;
        let (live, dead): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|segment| segment.liveness() == Liveness::Alive);
        let mut candidates = if live.is_empty() { dead } else { live };
        match (candidates.pop(), candidates.is_empty()) {
            (Some(only), true) => Ok(only),
            (Some(last), false) => {
                candidates.push(last);
                let pids: Vec<_> = candidates
                    .iter()
                    .map(|segment| segment.owner().pid.to_string())
                    .collect();
                Err(Failure::with_code(
                    format!(
                        "there are several processes: name one of {}",
                        pids.join(", ")
                    ),
                    2,
                ))
            }
            (None, _) => Err(Failure::new(self.nobody())),
        }
    }

    /// That there is no segment, for a person.
    pub(crate) fn nobody(&self) -> String {
        format!(
            "no process has run under vshare (nothing in {})",
            self.directory.display()
        )
    }

    fn found(&self) -> Result<Vec<Found>, Failure> {
        let directory = self.directory()?;
        directory::list(directory)
            .map_err(|error| Failure::new(format!("cannot list {}: {error}", directory.display())))
    }
}

/// How the owner is, by what it says and by what we see.
pub(crate) fn state(segment: &Segment) -> &'static str {
    state_of(segment.liveness(), segment.state())
}

/// The same of what has been asked already.
pub(crate) fn state_of(liveness: Liveness, state: Option<State>) -> &'static str {
    match (liveness, state) {
        (Liveness::Dead, Some(State::Exited)) => "exited",
        (Liveness::Dead, _) => "dead",
        (Liveness::Unknown, _) => "unknown",
        (Liveness::Alive, Some(State::Starting)) => "starting",
        (Liveness::Alive, Some(State::Exited)) => "exiting",
        (Liveness::Alive, _) => "live",
    }
}

/// Whether more may come of the owner: it lives, or cannot be seen and has not said that it ends.
pub(crate) fn goes_on(segment: &Segment) -> bool {
    match segment.liveness() {
        Liveness::Alive => true,
        Liveness::Dead => false,
        Liveness::Unknown => segment.state() != Some(State::Exited),
    }
}

/// Another user's, who alone may read it.
pub(crate) fn is_others(error: &OpenError) -> bool {
    match error {
        OpenError::Foreign { .. } => true,
        OpenError::Io(error) => error.kind() == ErrorKind::PermissionDenied,
        _ => false,
    }
}

/// Pruned since it was listed.
fn is_gone(error: &OpenError) -> bool {
    matches!(error, OpenError::Io(error) if error.kind() == ErrorKind::NotFound)
}

/// That a segment could not be read, and why.
pub(crate) fn cannot_read(path: &Path, error: &OpenError) -> Failure {
    Failure::new(format!("cannot read {}: {error}", path.display()))
}
