//! Runs a program as a child that hardly differs from one run directly: signals reach it once,
//! and its end is told as a shell tells it.
//!
//! Signals are blocked here from before the start and read from a descriptor, so none is lost or
//! ends us before the child; the child starts with the mask we were started with.

use std::ffi::{CString, OsString};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd, siginfo};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpgid, getpgrp};
use vshare_shm::process::Identity;

use crate::program::Program;

/// What is passed on to the child.
const FORWARDED: [Signal; 6] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// A child that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Who it was.
    pub(crate) identity: Option<Identity>,
    /// Its exit code, or 128 and the signal that killed it.
    pub(crate) code: u8,
}

/// Runs a program with `arguments` (its name first), adding to our environment.
pub(crate) fn run(
    program: &Program,
    arguments: &[OsString],
    environment: Vec<(OsString, OsString)>,
) -> nix::Result<Ended> {
    let mut blocked: SigSet = FORWARDED.into_iter().collect();
    blocked.add(Signal::SIGCHLD);
    let before = SigSet::thread_get_mask()?;
    blocked.thread_block()?;
    let signals = SignalFd::with_flags(&blocked, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    let child = start(program, arguments, environment, &before)?;
    let identity = u32::try_from(child.as_raw())
        .ok()
        .and_then(|pid| Identity::of(pid).ok());
    let code = wait(child, &signals)?;
    Ok(Ended { identity, code })
}

fn start(
    program: &Program,
    arguments: &[OsString],
    environment: Vec<(OsString, OsString)>,
    mask: &SigSet,
) -> nix::Result<Pid> {
    let mut attributes = PosixSpawnAttr::init()?;
    attributes.set_flags(
        PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF,
    )?;
    attributes.set_sigmask(mask)?;
    // Rust's start-up ignores it in every Rust program; others expect it to work.
    attributes.set_sigdefault(&SigSet::from(Signal::SIGPIPE))?;
    let actions = PosixSpawnFileActions::init()?;
    let mut variables: Vec<_> = std::env::vars_os()
        .filter(|(name, _)| environment.iter().all(|(ours, _)| ours != name))
        .collect();
    variables.extend(environment);
    let variables = c_strings(variables.into_iter().map(|(mut pair, value)| {
        pair.push("=");
        pair.push(value);
        pair
    }))?;
    let file = c_string(program.path.as_os_str().as_bytes().to_vec())?;
    let words = c_strings(arguments.iter().cloned())?;
    match posix_spawn(&*file, &actions, &attributes, &words, &variables) {
        // Text without a first line that names an interpreter: a shell's, as execvp has it.
        Err(Errno::ENOEXEC) if !program.foreign => {
            let shell = c_string(b"/bin/sh".to_vec())?;
            let mut shell_words = vec![shell.clone(), file];
            shell_words.extend(words.into_iter().skip(1));
            posix_spawn(&*shell, &actions, &attributes, &shell_words, &variables)
        }
        started => started,
    }
}

fn wait(child: Pid, signals: &SignalFd) -> nix::Result<u8> {
    loop {
        // The time limit is for a SIGCHLD that we were started to ignore.
        let mut ready = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        match poll(&mut ready, PollTimeout::from(1000u16)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
        while let Some(info) = signals.read_signal()? {
            forward(child, &info);
        }
        match waitpid(child, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(_, code)) => return Ok(code.to_le_bytes()[0]),
            Ok(WaitStatus::Signaled(_, signal, _)) => {
                return Ok(128 | (signal as i32).to_le_bytes()[0]);
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Passes a signal on, unless the child has had it already: the terminal sends to the whole group.
fn forward(child: Pid, info: &siginfo) {
    let Some(signal) = i32::try_from(info.ssi_signo)
        .ok()
        .and_then(|number| Signal::try_from(number).ok())
        .filter(|signal| FORWARDED.contains(signal))
    else {
        return;
    };
    let from_kernel = info.ssi_code > 0;
    let same_group = getpgid(Some(child)) == Ok(getpgrp());
    if !(from_kernel && same_group) {
        // It may have ended meanwhile; until we wait for it, its pid is nobody else's.
        _ = kill(child, signal);
    }
}

fn c_strings(texts: impl Iterator<Item = OsString>) -> nix::Result<Vec<CString>> {
    texts.map(|text| c_string(text.into_vec())).collect()
}

fn c_string(bytes: Vec<u8>) -> nix::Result<CString> {
    CString::new(bytes).map_err(|_| Errno::EINVAL)
}
