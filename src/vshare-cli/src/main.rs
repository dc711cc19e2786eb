//! `vshare`: runs a program under the interposer, and reads what it published.
//!
//! Exit codes of its own: 0 good, 1 failed, 2 wrong usage; `vshare run` else gives the program's,
//! or 126 and 127 as a shell does when there is no such program to run.
#![deny(unsafe_code)]

#[cfg(test)]
mod any_bytes;
mod doctor;
mod elf;
mod events;
mod exposition;
mod interrupt;
mod library;
mod log;
mod metrics;
mod probe;
mod program;
mod ps;
mod recording;
mod report;
mod run;
mod segments;
mod shells;
mod sim;
mod snapshot;
mod stats;
mod summary;
mod supervise;
mod text;
mod timeline;
mod top;
mod trace;

use std::fmt::Display;
use std::fs;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

#[derive(Debug, Parser)]
#[command(
    name = "vshare",
    version,
    about = "Run CUDA programs that need more memory than the GPU has for them"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a program with libvshare.so preloaded
    Run(run::Options),
    /// Show what processes under vshare hold and have moved, the dead ones' too
    Stats(stats::Options),
    /// List the processes that run or have run under vshare, one line each
    Ps(ps::Options),
    /// Watch the processes under vshare: who holds what, what moves, who waits
    Top(top::Options),
    /// Tell what happened in a process, in plain words; with -f, go on with what happens
    Log(log::Options),
    /// Serve metrics for Prometheus, or write them to a file
    Metrics(metrics::Options),
    /// Write what happened in a process for Perfetto or Chrome
    Trace(recording::Request),
    /// Write what a process held, moved and waited for as one HTML file
    Report(recording::Request),
    /// Look whether vshare can work here, and say what to do where it cannot
    Doctor(doctor::Options),
    /// Print completions for a shell
    Completions(shells::CompletionOptions),
    /// Write manual pages into a directory
    Man(shells::ManOptions),
    /// Replay recorded or generated traces under policies, against what is possible
    Sim(sim::Options),
}

/// Why the command could not do its work: what, where, and what to do.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// A failure of vshare's own, exit code 1.
    pub(crate) fn new(message: impl Display) -> Self {
        Self::with_code(message, 1)
    }

    /// A failure with an exit code that means something to the caller.
    pub(crate) fn with_code(message: impl Display, code: u8) -> Self {
        Self {
            message: message.to_string(),
            code,
        }
    }
}

fn main() -> ExitCode {
    if let Some(asked) = probe::asked() {
        return finish(probe::probe(&asked));
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            _ = error.print(); // nowhere left to complain to
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    finish(match cli.command {
        Command::Run(options) => run::run(&options),
        Command::Stats(options) => stats::stats(&options),
        Command::Ps(options) => ps::ps(&options),
        Command::Top(options) => top::top(&options),
        Command::Log(options) => log::log(&options),
        Command::Metrics(options) => metrics::metrics(&options),
        Command::Trace(options) => trace::trace(&options),
        Command::Report(options) => report::report(&options),
        Command::Doctor(options) => doctor::doctor(&options),
        Command::Completions(options) => shells::completions(&options, Cli::command()),
        Command::Man(options) => shells::man(&options, Cli::command()),
        Command::Sim(options) => sim::sim(&options),
    })
}

fn finish(done: Result<ExitCode, Failure>) -> ExitCode {
    done.unwrap_or_else(|failure| {
        say(&failure.message);
        ExitCode::from(failure.code)
    })
}

/// One line for the user, on stderr, where it does not mix with the program's output.
pub(crate) fn say(message: impl Display) {
    _ = writeln!(io::stderr(), "vshare: {message}"); // nowhere left to complain to
}

/// Puts `text` into the file at `path`: all of it, or nothing is changed. A device or a pipe is written to.
pub(crate) fn write_whole(path: &Path, text: &str) -> Result<(), Failure> {
    let written = match fs::metadata(path) {
        Ok(found) if found.is_file() => path.canonicalize().and_then(|path| replace(&path, text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => replace(path, text),
        // A rename would replace even /dev/null.
        _ => fs::write(path, text),
    };
    written.map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = Path::new(&temporary);
    let done = fs::write(temporary, text).and_then(|()| fs::rename(temporary, path));
    done.inspect_err(|_| _ = fs::remove_file(temporary)) // the first error is the one to tell
}

/// Whether anyone still reads our stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listener {
    There,
    Gone,
}

/// Writes `text` to stdout. A reader that has seen enough, like `head`, is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_on(text).map(drop)
}

/// The same, for a command that goes on: it should not, once the reader has gone.
pub(crate) fn print_on(text: &str) -> Result<Listener, Failure> {
    let mut out = io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(Listener::There),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Listener::Gone),
        Err(error) => Err(Failure::new(format!("cannot write to stdout: {error}"))),
    }
}

/// Waits so long, or until nobody reads our stdout any more.
pub(crate) fn pause(milliseconds: u16) -> Listener {
    let out = io::stdout();
    // No event is asked for: errors and the other side's end are told all the same.
    let mut watched = [PollFd::new(out.as_fd(), PollFlags::empty())];
    match poll(&mut watched, PollTimeout::from(milliseconds)) {
        Ok(0) | Err(_) => Listener::There,
        Ok(_) => Listener::Gone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
