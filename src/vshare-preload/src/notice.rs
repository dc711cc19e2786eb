//! The one way in which the library says anything: a line on standard error.
//!
//! Written with one `write`, from memory on the stack, so that it neither mixes with the program's
//! lines nor allocates in an odd moment.
#![expect(unsafe_code, reason = "calls write(2)")]

use crate::os;
use std::fmt::{Arguments, Write};
use std::sync::atomic::{AtomicU32, Ordering};

/// Lines that a process may say in all. What goes wrong often is counted, not repeated.
const MOST: u32 = 20;

/// Writes `vshare: ` and `text`, at most 400 bytes.
pub(crate) fn say(text: Arguments<'_>) {
    static SAID: AtomicU32 = AtomicU32::new(0);
    if SAID.fetch_add(1, Ordering::Relaxed) >= MOST {
        return;
    }
    let mut line = Line {
        bytes: [0; 400],
        length: 0,
    };
    // A line that is too long is cut: what was written so far stands.
    _ = write!(line, "vshare: {text}");
    let length = line.length.min(line.bytes.len() - 1);
    if let Some(end) = line.bytes.get_mut(length) {
        *end = b'\n';
    }
    os::without_sigpipe(|| {
        // SAFETY: the pointer and the length are those of an array that lives until the call returns.
        _ = unsafe { libc::write(libc::STDERR_FILENO, line.bytes.as_ptr().cast(), length + 1) };
    });
}

struct Line {
    bytes: [u8; 400],
    length: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for byte in text.bytes() {
            let place = self.bytes.get_mut(self.length).ok_or(std::fmt::Error)?;
            *place = byte;
            self.length += 1;
        }
        Ok(())
    }
}
