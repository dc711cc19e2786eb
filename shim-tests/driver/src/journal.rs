//! The log: one line per call, and a `*` line for each piece of work that a stream did. Each line is one write, so threads never mix.

use crate::config;
use crate::cuda::{Answer, Handle};
use crate::gate::code;
use std::fmt::{Debug, Write as _};
use std::fs::File;
use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

static NUMBER: AtomicU64 = AtomicU64::new(1);

/// The next sequence number; calls and work share one count.
pub(crate) fn next() -> u64 {
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

fn file() -> Option<&'static File> {
    static FILE: OnceLock<Option<File>> = OnceLock::new();
    let open = || {
        let path = config::config().log.as_ref()?;
        File::options().create(true).append(true).open(path).ok()
    };
    FILE.get_or_init(open).as_ref()
}

/// ` name=value`; of an out parameter, what was put there when the call succeeded.
pub(crate) fn argument(line: &mut String, name: &str, value: &dyn Debug, succeeded: bool) {
    let written = if succeeded {
        write!(line, " {name}={value:#?}")
    } else {
        write!(line, " {name}={value:?}")
    };
    debug_assert!(written.is_ok(), "a String takes any text");
}

pub(crate) fn call(number: u64, name: &str, answer: Answer, describe: impl Fn(&mut String, bool)) {
    if file().is_none() {
        return;
    }
    let mut line = format!("{number} {} {name}", thread_id());
    describe(&mut line, answer.is_ok());
    put(line, &format!(" -> {}\n", code(answer)));
}

/// Work that a stream's thread finished, or that went wrong there.
pub(crate) fn work(stream: Handle, name: &str, answer: Answer) {
    if file().is_some() {
        put(
            format!("{} {} * {name} stream={stream:?}", next(), thread_id()),
            &format!(" -> {}\n", code(answer)),
        );
    }
}

fn put(mut line: String, end: &str) {
    line.push_str(end);
    if let Some(mut file) = file() {
        // A log that cannot be written is not a reason to fail the program.
        drop(file.write_all(line.as_bytes()));
    }
}

/// The kernel's id of this thread.
#[expect(unsafe_code, reason = "gettid has no wrapper in std")]
pub(crate) fn thread_id() -> i32 {
    thread_local! { static ID: std::cell::Cell<i32> = const { std::cell::Cell::new(0) }; }
    ID.with(|id| {
        if id.get() == 0 {
            // SAFETY: gettid takes nothing and cannot fail.
            id.set(unsafe { libc::gettid() });
        }
        id.get()
    })
}
