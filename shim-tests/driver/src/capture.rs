//! Stream capture: which streams take part, what was captured, and which calls end it.
//!
//! Calls come one after the other, so their order is an order of the graph: steps are kept as one list.

use crate::cuda::{Answer, CuError, Handle};
use crate::handles::lock;
use crate::journal::thread_id;
use crate::op::Op;
use crate::stream::Stream;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Global,
    ThreadLocal,
    Relaxed,
}

impl Mode {
    pub(crate) fn from_cuda(mode: i32) -> Result<Self, CuError> {
        match mode {
            0 => Ok(Self::Global),
            1 => Ok(Self::ThreadLocal),
            2 => Ok(Self::Relaxed),
            _ => Err(CuError::INVALID_VALUE),
        }
    }

    pub(crate) fn to_cuda(self) -> i32 {
        match self {
            Self::Global => 0,
            Self::ThreadLocal => 1,
            Self::Relaxed => 2,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Capture {
    pub(crate) id: u64,
    mode: Mode,
    thread: i32,
    origin: Handle,
    context: Handle,
    /// Whether the stream it began in is one that the legacy stream waits for.
    blocking: bool,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    steps: Vec<Op>,
    invalid: bool,
    members: HashMap<Handle, Member>,
}

/// One stream's part: how many steps it captured, and after how many of them another stream waited for it.
#[derive(Debug)]
struct Member {
    stream: Arc<Stream>,
    steps: usize,
    joined: Option<usize>,
}

static LIVE: Mutex<Vec<Arc<Capture>>> = Mutex::new(Vec::new());
/// How many are live, so that calls outside any capture need no lock.
static LIVE_COUNT: AtomicUsize = AtomicUsize::new(0);
thread_local! { static THREAD_MODE: Cell<Mode> = const { Cell::new(Mode::Global) }; }

pub(crate) fn exchange_thread_mode(mode: Mode) -> Mode {
    THREAD_MODE.replace(mode)
}

pub(crate) fn of(stream: &Stream) -> Option<Arc<Capture>> {
    if LIVE_COUNT.load(Ordering::Relaxed) == 0 {
        None
    } else {
        lock(&stream.capture).clone()
    }
}

fn live() -> Vec<Arc<Capture>> {
    if LIVE_COUNT.load(Ordering::Relaxed) == 0 {
        Vec::new()
    } else {
        lock(&LIVE).clone()
    }
}

/// A call that may not be made while a capture that forbids it is under way: it fails, and so does the capture.
pub(crate) fn unsafe_call() -> Answer {
    let (me, mine) = (thread_id(), THREAD_MODE.get());
    let forbids = |capture: &Capture| {
        let here = capture.thread == me && capture.mode != Mode::Relaxed;
        let anywhere = mine == Mode::Global && capture.mode == Mode::Global;
        mine != Mode::Relaxed && (here || anywhere)
    };
    end_those(forbids, CuError::CAPTURE_UNSUPPORTED)
}

/// Work in the legacy stream would make every blocking capture of the context depend on it.
pub(crate) fn legacy_work(context: Handle) -> Answer {
    end_those(
        |capture| capture.context == context && capture.blocking,
        CuError::CAPTURE_IMPLICIT,
    )
}

/// Whether the legacy stream may not be used now.
pub(crate) fn forbids_legacy(context: Handle) -> bool {
    live()
        .iter()
        .any(|capture| capture.context == context && capture.blocking)
}

/// Waiting for a whole context includes its captures, which never end by waiting.
pub(crate) fn context_wait(context: Handle) -> Answer {
    end_those(
        |capture| capture.context == context,
        CuError::CAPTURE_UNSUPPORTED,
    )
}

fn end_those(forbids: impl Fn(&Capture) -> bool, error: CuError) -> Answer {
    let mut answer = Ok(());
    for capture in live().iter().filter(|capture| forbids(capture)) {
        capture.invalidate();
        answer = Err(error);
    }
    answer
}

/// What may not be done to a capturing stream: fails, and ends the capture.
pub(crate) fn not_capturing(stream: &Stream) -> Answer {
    match of(stream) {
        Some(capture) => {
            capture.invalidate();
            Err(CuError::CAPTURE_UNSUPPORTED)
        }
        None => Ok(()),
    }
}

pub(crate) fn begin(stream: &Arc<Stream>, mode: Mode) -> Answer {
    static NEXT_ID: AtomicU64 = AtomicU64::new(1);
    if of(stream).is_some() {
        return Err(CuError(401));
    }
    let capture = Arc::new(Capture {
        id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
        mode,
        thread: thread_id(),
        origin: stream.handle,
        context: stream.context,
        blocking: stream.blocking(),
        inner: Mutex::default(),
    });
    capture.join(stream);
    let mut live = lock(&LIVE);
    live.push(capture);
    LIVE_COUNT.store(live.len(), Ordering::Relaxed);
    Ok(())
}

/// Ends the capture that began in this stream and returns its steps.
pub(crate) fn end(stream: &Stream) -> Result<Vec<Op>, CuError> {
    let capture = of(stream).ok_or(CuError(401))?;
    if capture.origin != stream.handle {
        capture.invalidate();
        return Err(CuError::CAPTURE_UNMATCHED);
    }
    if capture.mode != Mode::Relaxed && capture.thread != thread_id() {
        return Err(CuError::CAPTURE_WRONG_THREAD);
    }
    let inner = std::mem::take(&mut *lock(&capture.inner));
    for member in inner.members.values() {
        *lock(&member.stream.capture) = None;
    }
    let mut live = lock(&LIVE);
    live.retain(|other| other.id != capture.id);
    LIVE_COUNT.store(live.len(), Ordering::Relaxed);
    drop(live);
    let others = inner
        .members
        .values()
        .filter(|member| member.stream.handle != capture.origin);
    if inner.invalid {
        Err(CuError::CAPTURE_INVALIDATED)
    } else if others
        .into_iter()
        .any(|member| member.joined != Some(member.steps))
    {
        Err(CuError::CAPTURE_UNJOINED)
    } else {
        Ok(inner.steps)
    }
}

/// A stream goes: a capture that began in it ends, any other has lost a part.
pub(crate) fn stream_gone(stream: &Stream) {
    match of(stream) {
        Some(capture) if capture.origin == stream.handle => capture.end(),
        Some(capture) => capture.invalidate(),
        None => {}
    }
}

/// A context goes, with its streams.
pub(crate) fn context_gone(context: Handle) {
    for capture in live().iter().filter(|c| c.context == context) {
        capture.end();
    }
}

impl Capture {
    /// Lets its streams go; what it has captured is nobody's.
    fn end(&self) {
        for member in lock(&self.inner).members.values() {
            *lock(&member.stream.capture) = None;
        }
        let mut live = lock(&LIVE);
        live.retain(|other| other.id != self.id);
        LIVE_COUNT.store(live.len(), Ordering::Relaxed);
    }

    pub(crate) fn invalidate(&self) {
        lock(&self.inner).invalid = true;
    }

    /// `CUstreamCaptureStatus`
    pub(crate) fn status(&self) -> i32 {
        if lock(&self.inner).invalid { 2 } else { 1 }
    }

    /// Makes a stream part of the capture.
    pub(crate) fn join(self: &Arc<Self>, stream: &Arc<Stream>) {
        *lock(&stream.capture) = Some(Arc::clone(self));
        let member = Member {
            stream: Arc::clone(stream),
            steps: 0,
            joined: None,
        };
        lock(&self.inner).members.insert(stream.handle, member);
    }

    pub(crate) fn append(&self, stream: &Stream, op: Op) -> Answer {
        let mut inner = lock(&self.inner);
        if inner.invalid {
            return Err(CuError::CAPTURE_INVALIDATED);
        }
        if !op.capturable() {
            inner.invalid = true;
            return Err(CuError::CAPTURE_UNSUPPORTED);
        }
        inner.steps.push(op);
        if let Some(member) = inner.members.get_mut(&stream.handle) {
            member.steps += 1;
        }
        Ok(())
    }

    /// How many steps a stream has captured: what an event recorded now stands for.
    pub(crate) fn steps_of(&self, stream: Handle) -> usize {
        lock(&self.inner)
            .members
            .get(&stream)
            .map_or(0, |member| member.steps)
    }

    /// Another stream of the capture waits for this one as it was after `steps`.
    pub(crate) fn waited_for(&self, stream: Handle, steps: usize) {
        if let Some(member) = lock(&self.inner).members.get_mut(&stream) {
            member.joined = member.joined.max(Some(steps));
        }
    }
}

/// A live capture by id, for events recorded in it.
pub(crate) fn find(id: u64) -> Option<Arc<Capture>> {
    live().into_iter().find(|capture| capture.id == id)
}
