//! `vshare`: runs a program under the interposer, and reads what it published.
//!
//! Exit codes of its own: 0 good, 1 failed, 2 wrong usage; `vshare run` else gives the program's,
//! or 126 and 127 as a shell does when there is no such program to run.
#![forbid(unsafe_code)]

mod elf;
mod library;
mod program;
mod ps;
mod run;
mod segments;
mod snapshot;
mod stats;
mod summary;
mod supervise;
mod text;

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            _ = error.print(); // nowhere left to complain to
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let done = match cli.command {
        Command::Run(options) => run::run(&options),
        Command::Stats(options) => stats::stats(&options),
        Command::Ps(options) => ps::ps(&options),
    };
    done.unwrap_or_else(|failure| {
        say(&failure.message);
        ExitCode::from(failure.code)
    })
}

/// One line for the user, on stderr, where it does not mix with the program's output.
pub(crate) fn say(message: impl Display) {
    _ = writeln!(io::stderr(), "vshare: {message}"); // nowhere left to complain to
}

/// Writes `text` to stdout. A reader that has seen enough, like `head`, is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
