//! `VSHARE_TRACE`: what the program does with memory, recorded for `vshare sim`.
//!
//! The program's threads append to a buffer under the state's lock, in the order in which things happen; a thread
//! of ours makes records of that and writes them. A file that does not end in the middle of a record is whole.

mod file;
mod functions;
mod raw;
mod times;
mod writer;

pub(crate) use functions::forget as forget_functions;
pub(crate) use times::context_gone as events_gone;
pub(crate) use writer::{forget, start};

use crate::arenas::{Arenas, Owned};
use crate::cuda::{CUcontext, CUresult};
use crate::streams::Key;
use crate::touches::Touches;
use crate::{clock, process};
use raw::{Buffer, Kind};
use std::sync::atomic::{AtomicBool, Ordering};
use times::Begun;
use vshare_core::block::{BlockId, Change};
use vshare_core::trace::What;

/// Whether what happens is recorded.
static ON: AtomicBool = AtomicBool::new(false);

/// See [`ON`].
pub(crate) fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Contexts, and streams, that are told apart. A block's number has its context's in its top byte.
const CONTEXTS: usize = 256;
const STREAMS: usize = 1024;

/// What the program's threads note, under the state's lock.
#[derive(Debug)]
pub(crate) struct Recording {
    buffer: Buffer,
    /// Contexts whose blocks are recorded, by their numbers. `None`: it has ended.
    contexts: Vec<Option<CUcontext>>,
    /// Streams, whose numbers are one more than their places.
    streams: Vec<Key>,
}

impl Recording {
    pub(crate) const fn new() -> Self {
        Self {
            buffer: Buffer::new(),
            contexts: Vec::new(),
            streams: Vec::new(),
        }
    }

    /// A context's arena is new: its blocks are recorded from now on.
    pub(crate) fn begin_arena(&mut self, owned: &mut Owned) {
        if !is_on() {
            return;
        }
        if let Some(place) = self.contexts.iter_mut().find(|c| c.is_none()) {
            *place = Some(owned.context);
        } else if self.contexts.len() < CONTEXTS {
            self.contexts.push(Some(owned.context));
        } else {
            return self.buffer.overflow();
        }
        owned.arena.keep_changes();
    }

    /// Notes what has become of an arena's blocks.
    pub(crate) fn changes(&mut self, owned: &mut Owned, order: Option<Key>) {
        let Some(number) = self.number_of(owned.context) else {
            return;
        };
        let mut when = None;
        for change in owned.arena.changes() {
            if !is_on() {
                continue;
            }
            let stream = order.map_or(0, |key| self.stream(key));
            let when = *when.get_or_insert_with(clock::nanoseconds);
            match change {
                Change::Born(block, pages) => {
                    let block = name(number, block);
                    self.buffer.push(Kind::Alloc, &[block, pages, stream, when]);
                }
                Change::Gone(block) => {
                    self.buffer
                        .push(Kind::Free, &[name(number, block), stream, when]);
                }
            }
        }
    }

    /// A context has ended, and its blocks with it.
    pub(crate) fn context_gone(&mut self, context: CUcontext, arena: Option<&Owned>) {
        let Some(number) = self.number_of(context) else {
            return;
        };
        if is_on() {
            let when = clock::nanoseconds();
            for block in arena.iter().flat_map(|o| o.arena.pool().blocks()) {
                self.buffer
                    .push(Kind::Free, &[name(number, block), 0, when]);
            }
        }
        if let Some(place) = self.contexts.iter_mut().find(|c| **c == Some(context)) {
            *place = None;
        }
    }

    /// The program has waited for all work.
    pub(crate) fn sync(&mut self) {
        if is_on() {
            self.buffer.push(Kind::Sync, &[clock::nanoseconds()]);
        }
    }

    fn number_of(&self, context: CUcontext) -> Option<u64> {
        let at = self.contexts.iter().position(|&c| c == Some(context))?;
        Some(at as u64)
    }

    /// A stream's number; 0 is for what is in no stream's order. Those beyond the first have one together.
    fn stream(&mut self, key: Key) -> u64 {
        let found = self.streams.iter().position(|&k| k == key);
        let at = found.unwrap_or(self.streams.len());
        if found.is_none() && at < STREAMS {
            self.streams.push(key);
        }
        at as u64 + 1
    }

    fn work(&mut self, arenas: &Arenas, work: &Work, key: Key, addresses: &[u64]) {
        let stream = self.stream(key);
        let head = [
            work.what as u64,
            work.function.into(),
            work.signature,
            stream,
            work.begun.when,
            work.context.0 as u64,
            work.events.0,
            work.events.1,
        ];
        let Self {
            buffer, contexts, ..
        } = self;
        let numbers = (0..).zip(contexts.iter());
        let known = |context| numbers.clone().find(|(_, c)| **c == Some(context));
        let blocks = arenas.iter().filter_map(|owned| {
            let (number, _) = known(owned.context)?;
            let pool = owned.arena.pool();
            let blocks = addresses
                .iter()
                .filter_map(|&address| pool.block_at(address));
            Some(blocks.map(move |block| name(number, block)))
        });
        buffer.push_list(Kind::Work, &head, addresses.len(), blocks.flatten());
    }
}

/// A piece of work, but for what it names.
#[derive(Debug)]
struct Work {
    what: What,
    function: u32,
    signature: u64,
    begun: Begun,
    /// The context of its events, and the events; null without.
    context: CUcontext,
    events: (u64, u64),
}

/// A block's number in the recording. There is no machine for 2^24 blocks.
const fn name(context: u64, block: BlockId) -> u64 {
    context << 24 | (block.index() as u64 & 0xff_ffff)
}

/// Work is about to be submitted to a stream.
pub(crate) fn before(key: Key) -> Begun {
    if !is_on() {
        return Begun::default();
    }
    times::begin(key)
}

/// Work has been submitted that names these addresses. What the driver has refused does not happen.
pub(crate) fn after(
    begun: Begun,
    result: CUresult,
    touches: Touches<'_>,
    key: Key,
    addresses: &[u64],
) {
    if !is_on() {
        return;
    }
    let (what, function) = match touches {
        Touches::Nothing | Touches::Copy { .. } => (What::Copy, None),
        Touches::Fill { .. } => (What::Fill, None),
        Touches::Kernel { function, .. } => (What::Launch, Some(function)),
        Touches::Graph(_) => (What::Graph, None),
        Touches::Unknown => (What::Launch, None),
        // Nothing for the device.
        Touches::Host => return times::give_up(begun),
    };
    if result != CUresult::SUCCESS {
        return times::give_up(begun);
    }
    let (context, events) = times::end(&begun, key);
    let (function, fresh) = function.map_or((0, None), functions::number);
    let work = Work {
        what,
        function,
        signature: touches.signature(),
        begun,
        context,
        events,
    };
    let mut guard = process::state();
    let state = &mut *guard;
    if let Some(text) = fresh {
        state
            .recording
            .buffer
            .push_text(Kind::Function, function.into(), &text);
    }
    state.recording.work(&state.arenas, &work, key, addresses);
}
