//! The thread that writes what is recorded.
//!
//! Started when the first arena is made, ended when the process ends by `exit`. A process that ends in another way
//! leaves a trace that ends in the middle of a record, and lacks at most what happened in its last moments.

use super::ON;
use super::file::{Output, Trouble};
use super::raw::{self, CAPACITY, Kind};
use super::times::{self, Time};
use crate::arenas::Owned;
use crate::clock::{Deadline, wait_until};
use crate::cuda::CUcontext;
use crate::lock::Lock;
use crate::{driver, guard, notice, os, process, report};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;
use vshare_core::trace::{Encoder, Head, Record, What};
use vshare_core::units::PAGE;

/// How long the writer sleeps.
const PAUSE: Duration = Duration::from_millis(10);

/// How long the end of the process waits for the writer; the writer, for the end of work whose time it does not
/// know; and for the lock, which a thread may have for ever that was interrupted by a handler that called `exit`.
const END_MS: u64 = 10_000;
const TIMES_MS: u64 = 1000;
const LOCK_MS: u64 = 300;

static THREAD: Lock<Option<Thread>> = Lock::new(None);
static STOPPING: AtomicBool = AtomicBool::new(false);
static DONE: AtomicBool = AtomicBool::new(false);

/// Whether this process is a forked child, whose parent's the recording is.
static FORGOTTEN: AtomicBool = AtomicBool::new(false);

/// Begins to record, if that is wanted: before there is any arena, once. Others wait meanwhile.
pub(crate) fn start(owned: &Owned) {
    static STARTED: OnceLock<()> = OnceLock::new();
    STARTED.get_or_init(|| {
        let Some(name) = &process::config().trace else {
            return;
        };
        let name = name.replace("%p", &std::process::id().to_string());
        if let Err(trouble) = try_to_start(owned, &name) {
            notice::say(format_args!(
                "VSHARE_TRACE: nothing is recorded: {trouble}: {name}"
            ));
        }
    });
}

fn try_to_start(owned: &Owned, name: &str) -> Result<(), Trouble> {
    let mut output = Output::open(name)?;
    let mut encoder = Encoder::start(output.bytes());
    let head = Record::Head(Head {
        page: PAGE,
        policy: process::config().policy.name().to_owned(),
        budget: owned.budget,
        device: driver::name(owned.device).unwrap_or_default(),
        link: [0; 4],
        start: report::now(),
    });
    encoder.record(&head, output.bytes());
    let mut spare = Vec::with_capacity(CAPACITY);
    process::state().recording.buffer.take(&mut spare);
    let writer = Writer {
        name: name.to_owned(),
        output,
        encoder,
        taken: Vec::with_capacity(CAPACITY),
        pending: Vec::new(),
    };
    let started = os::spawn_without_signals("vshare-trace", || guard::as_inside(|| writer.run()));
    let thread = started.map_err(|error| error.to_string())?.thread().clone();
    *THREAD.lock() = Some(thread);
    os::at_exit(finish);
    ON.store(true, Ordering::Relaxed);
    Ok(())
}

/// In a forked child.
pub(crate) fn forget() {
    FORGOTTEN.store(true, Ordering::Relaxed);
    ON.store(false, Ordering::Relaxed);
}

/// The process ends: what is left is written.
extern "C" fn finish() {
    if FORGOTTEN.load(Ordering::Relaxed) {
        return;
    }
    ON.store(false, Ordering::Relaxed);
    // SeqCst: pairs with the load in `write`.
    STOPPING.store(true, Ordering::SeqCst);
    wait_until(Deadline::after_ms(END_MS), || {
        if let Some(thread) = THREAD.try_lock() {
            thread.iter().for_each(Thread::unpark);
        }
        DONE.load(Ordering::SeqCst)
    });
}

/// What the thread has.
#[derive(Debug)]
struct Writer {
    name: String,
    output: Output,
    encoder: Encoder,
    /// The other buffer: see [`raw::Buffer::take`].
    taken: Vec<u64>,
    /// What is still to be made records of, because the time of its first piece of work is not known yet.
    pending: Vec<u64>,
}

impl Writer {
    fn run(mut self) {
        driver::leave_captures();
        // A defect here must not end the program's process.
        let written = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| self.write()));
        let trouble = match written {
            Ok(Ok(())) => None,
            Ok(Err(trouble)) => Some(trouble),
            Err(_) => {
                report::add(report::PANICS, 1);
                Some("a defect of vshare's".to_owned())
            }
        };
        ON.store(false, Ordering::Relaxed);
        if let Some(trouble) = trouble {
            let name = &self.name;
            notice::say(format_args!(
                "VSHARE_TRACE: the recording ends here, and is not whole: {trouble}: {name}"
            ));
        }
        self.output.leave();
        DONE.store(true, Ordering::SeqCst);
    }

    fn write(&mut self) -> Result<(), Trouble> {
        loop {
            // Before the last look: what was noted before the end began is seen by it.
            let stopping = STOPPING.load(Ordering::SeqCst);
            let tries = Deadline::after_ms(if stopping { LOCK_MS } else { 0 });
            let mut full = None;
            wait_until(tries, || {
                full = process::try_state().map(|mut s| s.recording.buffer.take(&mut self.taken));
                full.is_some()
            });
            if full.is_some() {
                self.pending.extend_from_slice(&self.taken);
            }
            let patience = Deadline::after_ms(TIMES_MS);
            while !self.encode(stopping && patience.has_passed()) && stopping {
                std::thread::sleep(PAUSE);
            }
            self.output.flush()?;
            match full {
                Some(true) => {
                    return Err("more has happened at once than there is room to note".to_owned());
                }
                None if stopping => {
                    return Err("the process ends in the middle of something".to_owned());
                }
                _ if stopping => return self.output.end(),
                _ => std::thread::park_timeout(PAUSE),
            }
        }
    }

    /// Makes records of what is pending. `false`: the time of some work is not known yet, and is waited for.
    fn encode(&mut self, impatient: bool) -> bool {
        let mut rest = &self.pending[..];
        let mut all = true;
        while let Some((kind, fields, after)) = raw::first(rest) {
            match record(kind, fields, impatient) {
                Made::Record(record) => self.encoder.record(&record, self.output.bytes()),
                Made::Nothing => {}
                Made::Later => {
                    all = false;
                    break;
                }
            }
            rest = after;
        }
        let done = self.pending.len() - rest.len();
        self.pending.drain(..done);
        all
    }
}

enum Made {
    Record(Record<'static>),
    /// It is no entry.
    Nothing,
    Later,
}

fn record(kind: Kind, fields: &[u64], impatient: bool) -> Made {
    let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    Made::Record(match (kind, fields) {
        (Kind::Alloc, &[block, pages, stream, when_ns]) => Record::Alloc {
            block: small(block),
            pages,
            stream: small(stream),
            when_ns,
        },
        (Kind::Free, &[block, stream, when_ns]) => Record::Free {
            block: small(block),
            stream: small(stream),
            when_ns,
        },
        (
            Kind::Work,
            &[
                what,
                function,
                signature,
                stream,
                when_ns,
                context,
                first,
                last,
                ref blocks @ ..,
            ],
        ) => {
            let context = CUcontext(usize::try_from(context).unwrap_or(0));
            let device_ns = match times::read(context, (first, last), when_ns) {
                Time::Known(time) => time,
                Time::NotYet if !impatient => return Made::Later,
                Time::NotYet | Time::Never => 0,
            };
            Record::Work {
                what: [What::Launch, What::Copy, What::Fill, What::Graph]
                    .into_iter()
                    .find(|&w| w as u64 == what)
                    .unwrap_or_default(),
                function: small(function),
                signature,
                stream: small(stream),
                when_ns,
                device_ns,
                pieces: blocks.iter().map(|&b| small(b)).collect(),
            }
        }
        (Kind::Function, &[number, length, ref words @ ..]) => {
            let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            bytes.truncate(usize::try_from(length).unwrap_or(0));
            Record::Function {
                id: small(number),
                name: String::from_utf8_lossy(&bytes).into_owned().into(),
            }
        }
        (Kind::Sync, &[when_ns]) => Record::Sync { when_ns },
        _ => return Made::Nothing,
    })
}
