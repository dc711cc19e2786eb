//! Which streams have work, how far each has come, and the order between them that reuse needs.
//!
//! **Solo.** As long as all work goes to one stream, freed memory may be used again at once: the
//! new owner's work comes after the old one's in that stream. No events, no waiting memory, and a
//! launch costs one comparison. That ends with the first work in another stream, which is made to
//! wait (on the device, by an event) for the solo stream if anything was freed meanwhile.
//!
//! **Many.** After that a block that is freed waits until the streams have passed the free, which
//! is known from *marks*: events recorded now and then behind the program's work. When one stream
//! has had all the work for a while and the others are idle, it is solo again.
//!
//! Ticks count operations and frees, process-wide. A mark takes the last tick given out before it is
//! recorded. What takes a tick after work was submitted (a free, the note that the work is out) is so
//! covered by every mark with a tick not before its own.

use crate::clock::{Deadline, wait_until};
use crate::cuda::{CUcontext, CUevent, CUstream, NullStream};
use crate::driver::{self, Answer};
use crate::process;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use vshare_core::pool::Slot;

/// A stream, told apart from all others. Default streams are one per context, or per thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    handle: CUstream,
    context: CUcontext,
    thread: usize,
}

impl Key {
    /// The stream that a handle means in an entry point.
    pub(crate) fn of(null_stream: NullStream, stream: CUstream) -> Self {
        let handle = match (stream, null_stream) {
            (CUstream::NULL, NullStream::Legacy) => CUstream::LEGACY,
            (CUstream::NULL, NullStream::PerThread) => CUstream::PER_THREAD,
            _ => stream,
        };
        let context = if handle.0 <= CUstream::PER_THREAD.0 {
            driver::current_context().unwrap_or(CUcontext::NULL)
        } else {
            CUcontext::NULL
        };
        let thread = if handle == CUstream::PER_THREAD {
            this_thread()
        } else {
            0
        };
        Self {
            handle,
            context,
            thread,
        }
    }

    /// The handle by which any entry point means this stream.
    pub(crate) const fn handle(self) -> CUstream {
        self.handle
    }

    /// Whether threads other than the one that uses it can name it.
    fn is_shared(self) -> bool {
        self.thread == 0 || self.thread == this_thread()
    }

    /// A number other than 0 for each stream that may be solo.
    fn word(self) -> u64 {
        if self.thread != 0 {
            0
        } else if self.handle == CUstream::LEGACY {
            self.context.0 as u64 | 1 << 63
        } else {
            self.handle.0 as u64
        }
    }
}

/// A number for each thread there ever was: an address would come again after the thread's end.
fn this_thread() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<usize> = const { Cell::new(0) };
    }
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(THREADS.fetch_add(1, Ordering::Relaxed) + 1);
        }
        number.get()
    })
}

/// [`Key::word`] of the solo stream; 0: there is none.
static SOLO: AtomicU64 = AtomicU64::new(0);

/// Whether `key` is the solo stream.
pub(crate) fn is_solo(key: Key) -> bool {
    let word = key.word();
    word != 0 && SOLO.load(Ordering::Relaxed) == word
}

/// Whether there is a solo stream.
pub(crate) fn any_solo() -> bool {
    SOLO.load(Ordering::Relaxed) != 0
}

/// Operations and bytes between two marks.
const MARK_OPERATIONS: u32 = 16;
const MARK_BYTES: u64 = 32 << 20;

/// Marks kept for one stream: beyond that, work is marked more coarsely.
const MARKS: usize = 256;

/// Operations in a row after which a stream may become solo again.
const STREAK: u32 = 64;

/// Barriers' events that are kept from use.
const RETIRED: usize = 8;

/// A mark: work up to `tick` has ended when `event` has passed.
#[derive(Clone, Copy, Debug)]
struct Mark {
    tick: u64,
    event: CUevent,
}

/// One stream.
#[derive(Debug)]
struct Line {
    key: Key,
    slot: Slot,
    /// The context its events belong to.
    context: CUcontext,
    /// The tick of its last operation.
    last: u64,
    /// All its work up to this tick has ended.
    ended: u64,
    /// The tick of its last mark.
    marked: u64,
    marks: VecDeque<Mark>,
    operations: u32,
    bytes: u64,
    /// The last barrier it waited for; a new line has waited for none, not even an earlier one.
    barrier: u64,
    /// Moves to the device, of each context, that its work comes behind.
    awaited: Vec<(CUcontext, u64)>,
    /// Threads that are about to name it to the driver.
    pins: u32,
    /// Destroyed: no further work.
    gone: bool,
}

impl Line {
    const fn is_idle(&self) -> bool {
        self.last <= self.ended
    }

    const fn is_marked(&self) -> bool {
        self.last <= self.marked
    }

    fn end(&mut self, tick: u64) {
        self.ended = self.ended.max(tick);
        self.marked = self.marked.max(tick);
    }
}

/// What work in every stream but one must wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Barrier {
    None,
    /// A thread is recording it.
    Making,
    /// Recorded; the number tells it from earlier ones.
    Set(CUevent, CUcontext),
}

/// All streams.
#[derive(Debug)]
pub(crate) struct Streams {
    lines: Vec<Line>,
    solo: Option<Key>,
    /// Whether memory has been freed, for use at once, since the solo stream was last waited for.
    reused: bool,
    /// A stream that was solo and whose order reuse relied on: other streams' next work must wait
    /// for it, and no barrier has been made yet.
    owed: Option<Key>,
    /// Barriers' events, for use again when several later ones have taken their place.
    retired: VecDeque<(CUcontext, CUevent)>,
    barrier: Barrier,
    barriers: u64,
    streak: (Option<Key>, u32),
    /// Slots that have been given out.
    slots: u32,
    unused_events: Vec<(CUcontext, CUevent)>,
}

impl Streams {
    pub(crate) const fn new() -> Self {
        Self {
            lines: Vec::new(),
            solo: None,
            reused: false,
            owed: None,
            retired: VecDeque::new(),
            barrier: Barrier::None,
            barriers: 0,
            streak: (None, 0),
            slots: 0,
            unused_events: Vec::new(),
        }
    }

    fn line(&mut self, key: Key) -> Option<&mut Line> {
        self.lines.iter_mut().find(|l| l.key == key && !l.gone)
    }

    /// The line of a stream, new if need be.
    fn line_or_new(&mut self, key: Key) -> &mut Line {
        let found = self.lines.iter().position(|l| l.key == key && !l.gone);
        let at = found.unwrap_or_else(|| {
            self.slots += 1;
            let context = if key.context == CUcontext::NULL {
                driver::current_context().unwrap_or(CUcontext::NULL)
            } else {
                key.context
            };
            self.lines.push(Line {
                key,
                slot: Slot(self.slots),
                context,
                last: 0,
                ended: 0,
                marked: 0,
                marks: VecDeque::new(),
                operations: 0,
                bytes: 0,
                barrier: 0,
                awaited: Vec::new(),
                pins: 0,
                gone: false,
            });
            self.lines.len() - 1
        });
        #[expect(clippy::indexing_slicing, reason = "found or pushed above")]
        &mut self.lines[at]
    }

    /// The slot in which a stream frees, and from which it may take at once.
    pub(crate) fn slot(&mut self, key: Key) -> Slot {
        self.line_or_new(key).slot
    }

    /// How many of a context's moves to the device a stream's work comes behind.
    pub(crate) fn awaited(&mut self, key: Key, context: CUcontext) -> u64 {
        let line = self.line_or_new(key);
        let found = line.awaited.iter().find(|a| a.0 == context);
        found.map_or(0, |a| a.1)
    }

    /// A stream's work comes behind so many of a context's moves now.
    pub(crate) fn set_awaited(&mut self, key: Key, context: CUcontext, moves: u64) {
        let line = self.line_or_new(key);
        match line.awaited.iter_mut().find(|a| a.0 == context) {
            Some(awaited) => awaited.1 = awaited.1.max(moves),
            None => line.awaited.push((context, moves)),
        }
    }

    /// A stream frees at `tick`: only a mark set behind that tells that the free has been passed. The
    /// stream may have had no work of its own, but wait for that of another.
    pub(crate) fn note_free(&mut self, key: Key, tick: u64) {
        let line = self.line_or_new(key);
        line.last = line.last.max(tick);
    }

    /// Whether all work up to `tick` has ended, in all streams.
    pub(crate) fn have_ended(&self, tick: u64) -> bool {
        self.lines.iter().all(|l| self.has_ended(l, tick))
    }

    /// Whether all work up to `tick` has ended in the stream of a slot.
    pub(crate) fn slot_has_ended(&self, slot: Slot, tick: u64) -> bool {
        if slot == Slot::ALL {
            return self.have_ended(tick);
        }
        self.lines
            .iter()
            .filter(|l| l.slot == slot)
            .all(|l| self.has_ended(l, tick))
    }

    /// A solo stream's operations are not noted one by one: it may always have more.
    fn has_ended(&self, line: &Line, tick: u64) -> bool {
        line.ended >= tick || (line.is_idle() && self.solo != Some(line.key))
    }

    /// Whether a stream is the only one that has had work.
    pub(crate) fn is_only(&self, key: Key) -> bool {
        self.lines.iter().all(|l| l.key == key)
    }

    /// Whether every mark in a stream has been passed.
    pub(crate) fn has_passed_its_marks(&mut self, key: Key) -> bool {
        self.line(key).is_none_or(|l| l.marks.is_empty())
    }

    /// Whether no work has been submitted yet.
    pub(crate) fn are_none(&self) -> bool {
        self.lines.is_empty()
    }

    /// Memory was freed for use at once.
    pub(crate) fn note_reuse(&mut self) {
        self.reused = true;
    }

    /// All work of a context submitted up to `tick` has ended.
    pub(crate) fn context_ended(&mut self, context: CUcontext, tick: u64) {
        for line in self.lines.iter_mut().filter(|l| l.context == context) {
            line.end(tick);
        }
        if process::now() == tick && self.lines.iter().all(|l| l.context == context) {
            self.reused = false;
            self.owed = None;
        }
    }

    /// All work of a stream submitted up to `tick` has ended.
    pub(crate) fn stream_ended(&mut self, key: Key, tick: u64) {
        if let Some(line) = self.line(key) {
            line.end(tick);
        }
        if self.solo == Some(key) && process::now() == tick {
            self.reused = false;
        }
    }

    /// A context has died, with its streams and events.
    pub(crate) fn context_gone(&mut self, context: CUcontext) {
        self.lines.retain(|l| l.context != context);
        for line in &mut self.lines {
            line.awaited.retain(|a| a.0 != context);
        }
        self.unused_events.retain(|e| e.0 != context);
        self.retired.retain(|e| e.0 != context);
        if self
            .owed
            .is_some_and(|s| self.lines.iter().all(|l| l.key != s))
        {
            self.owed = None;
        }
        if matches!(self.barrier, Barrier::Set(_, c) if c == context) {
            self.barrier = Barrier::None;
        }
        if self.lines.is_empty() {
            self.set_solo(None);
            self.reused = false;
        } else if self
            .solo
            .is_some_and(|s| self.lines.iter().all(|l| l.key != s))
        {
            self.set_solo(None);
        }
    }

    fn set_solo(&mut self, key: Option<Key>) {
        self.solo = key;
        SOLO.store(key.map_or(0, Key::word), Ordering::Relaxed);
    }

    fn take_event(&mut self, context: CUcontext) -> Option<CUevent> {
        let at = self.unused_events.iter().position(|e| e.0 == context)?;
        Some(self.unused_events.swap_remove(at).1)
    }

    /// Takes note of an operation that is not in the solo stream. Returns what to do before it.
    fn note(&mut self, key: Key, tick: u64) -> Enter {
        if self.lines.is_empty() && key.word() != 0 {
            self.line_or_new(key);
            self.set_solo(Some(key));
            return Enter::Go;
        }
        if let Some(solo) = self.solo
            && solo != key
        {
            self.leave_solo(solo);
        }
        if let Some(solo) = self.owed
            && solo != key
        {
            self.owed = None;
            let barriers = self.barriers + 1;
            if let Some(line) = self.line(solo) {
                line.pins += 1;
                // It need not wait for itself.
                line.barrier = barriers;
                let context = line.context;
                self.retire_barrier();
                self.barriers = barriers;
                self.barrier = Barrier::Making;
                return Enter::MakeBarrier(solo, context);
            }
        }
        let (barrier, barriers) = (self.barrier, self.barriers);
        let line = self.line_or_new(key);
        line.last = line.last.max(tick);
        if line.barrier < barriers {
            match barrier {
                Barrier::None => {}
                Barrier::Making => return Enter::Again,
                Barrier::Set(event, _) => return Enter::WaitFor(event, barriers),
            }
        }
        self.count_streak(key)
    }

    fn leave_solo(&mut self, solo: Key) {
        self.set_solo(None);
        if core::mem::take(&mut self.reused) {
            self.owed = Some(solo);
        }
        self.streak = (None, 0);
        if let Some(line) = self.line(solo) {
            line.last = process::now();
        }
    }

    /// Forgets the barrier. A thread may be about to wait for its event, which must mean it a while.
    fn retire_barrier(&mut self) {
        if let Barrier::Set(event, context) = self.barrier {
            self.retired.push_back((context, event));
        }
        self.barrier = Barrier::None;
        if self.retired.len() > RETIRED
            && let Some(old) = self.retired.pop_front()
        {
            self.unused_events.push(old);
        }
    }

    fn count_streak(&mut self, key: Key) -> Enter {
        if self.streak.0 != Some(key) {
            self.streak = (Some(key), 0);
        }
        self.streak.1 = self.streak.1.wrapping_add(1);
        if self.streak.1.is_multiple_of(STREAK / 2) {
            return Enter::MarkOthers;
        }
        if self.streak.1 > STREAK
            && key.word() != 0
            && self.owed.is_none()
            && self.barrier != Barrier::Making
            && self.lines.iter().all(|l| l.key == key || l.is_idle())
        {
            self.retire_barrier();
            self.set_solo(Some(key));
        }
        Enter::Go
    }
}

enum Enter {
    Go,
    /// Another thread is recording the barrier.
    Again,
    /// The stream must wait for this event, the barrier of this number.
    WaitFor(CUevent, u64),
    /// An event must be recorded in this stream, which was solo, for all others to wait for.
    MakeBarrier(Key, CUcontext),
    /// Marks should be set in all other streams.
    MarkOthers,
}

/// Takes note of an operation in `key`, which is not the solo stream, before it is submitted, and
/// puts it behind whatever it must come after.
pub(crate) fn enter(key: Key, tick: u64) {
    for _ in 0..10_000 {
        let what = process::state().streams.note(key, tick);
        match what {
            Enter::Go => return,
            Enter::Again => std::thread::yield_now(),
            Enter::WaitFor(event, barrier) => {
                let waits = driver::wait_for(key.handle(), event);
                if driver::noted("cuStreamWaitEvent", 0, waits).is_err() {
                    wait_for_everything();
                }
                // Only now: another thread with work for this stream had to wait for it, too.
                if let Some(line) = process::state().streams.line(key) {
                    line.barrier = line.barrier.max(barrier);
                }
            }
            Enter::MakeBarrier(solo, context) => make_barrier(solo, context),
            Enter::MarkOthers => {
                mark_others(Some(key));
                poll();
                return;
            }
        }
    }
    // Another thread is taking too long over the barrier.
    wait_for_everything();
}

/// The order between streams cannot be made on the device: make it by waiting.
fn wait_for_everything() {
    let contexts: Vec<CUcontext> = {
        let state = process::state();
        state.streams.lines.iter().map(|l| l.context).collect()
    };
    for (i, context) in contexts.iter().enumerate() {
        if !contexts.iter().take(i).any(|c| c == context) {
            synchronize(*context);
        }
    }
}

fn make_barrier(solo: Key, context: CUcontext) {
    let event = driver::noted("cuEventRecord", 0, record_in(solo, context));
    let mut state = process::state();
    state.streams.barrier = event.map_or(Barrier::None, |e| Barrier::Set(e, context));
    if let Some(line) = state.streams.line(solo) {
        line.pins = line.pins.saturating_sub(1);
    }
    drop(state);
    if event.is_err() {
        wait_for_everything();
    }
}

/// Records an event behind what is now in a stream.
fn record_in(key: Key, context: CUcontext) -> Answer<CUevent> {
    let unused = process::state().streams.take_event(context);
    driver::outside_captures(|| {
        driver::in_context(context, || {
            let event = match unused {
                Some(event) => event,
                None => driver::new_event()?,
            };
            let recorded = driver::record(event, key.handle());
            if let Err(code) = recorded {
                process::state()
                    .streams
                    .unused_events
                    .push((context, event));
                return Err(code);
            }
            Ok(event)
        })
    })
}

/// An operation has been submitted to `key`, which is not the solo stream (any more). Its tick from
/// before is too early to tell its end by: a mark set between the two would not cover it.
pub(crate) fn submitted(key: Key) {
    let tick = process::tick();
    let mut state = process::state();
    let streams = &mut state.streams;
    if let Some(solo) = streams.solo
        && solo != key
    {
        streams.leave_solo(solo);
    }
    let line = streams.line_or_new(key);
    line.last = line.last.max(tick);
}

/// After an operation that named `bytes` of memory: sets a mark if enough has come together.
pub(crate) fn after(key: Key, bytes: u64) {
    let due = {
        let mut state = process::state();
        let line = state.streams.line_or_new(key);
        line.operations += 1;
        line.bytes += bytes;
        (line.operations >= MARK_OPERATIONS || line.bytes >= MARK_BYTES) && line.marks.len() < MARKS
    };
    if due {
        mark(key);
    }
}

/// Sets a mark in a stream that the calling thread is using.
pub(crate) fn mark(key: Key) {
    let (context, tick) = {
        let mut state = process::state();
        let tick = process::now();
        let line = state.streams.line_or_new(key);
        line.operations = 0;
        line.bytes = 0;
        (line.context, tick)
    };
    let recorded = record_in(key, context);
    set_mark(key, context, tick, recorded);
}

fn set_mark(key: Key, context: CUcontext, tick: u64, recorded: Answer<CUevent>) {
    let Ok(event) = recorded else {
        return;
    };
    let mut state = process::state();
    match state.streams.line(key) {
        Some(line) if line.context == context => {
            line.marked = line.marked.max(tick);
            line.marks.push_back(Mark { tick, event });
        }
        _ => state.streams.unused_events.push((context, event)),
    }
}

/// Sets marks in all streams that have work without one, as far as this thread can name them.
pub(crate) fn mark_others(but: Option<Key>) {
    let targets: Vec<(Key, CUcontext, u64)> = {
        let mut state = process::state();
        let tick = process::now();
        state
            .streams
            .lines
            .iter_mut()
            .filter(|l| Some(l.key) != but && !l.gone && !l.is_marked() && l.key.is_shared())
            .map(|line| {
                line.pins += 1;
                (line.key, line.context, tick)
            })
            .collect()
    };
    for (key, context, tick) in targets {
        let capturing = driver::is_capturing(key.handle());
        if !capturing {
            let recorded = record_in(key, context);
            set_mark(key, context, tick, recorded);
        }
        if let Some(line) = process::state().streams.line(key) {
            line.pins = line.pins.saturating_sub(1);
        }
    }
}

/// Whether work without a mark stands in the way of knowing that `tick` has been passed.
pub(crate) fn lacks_marks(tick: u64) -> bool {
    let state = process::state();
    let streams = &state.streams;
    streams
        .lines
        .iter()
        .any(|l| !streams.has_ended(l, tick) && l.marked < tick && !l.is_marked())
}

/// Asks the driver which marks have been passed.
pub(crate) fn poll() {
    let fronts: Vec<(Key, Mark, CUcontext)> = {
        let state = process::state();
        state
            .streams
            .lines
            .iter()
            .flat_map(|l| l.marks.iter().take(8).map(|m| (l.key, *m, l.context)))
            .collect()
    };
    if fronts.is_empty() {
        return;
    }
    let mut passed = Vec::new();
    driver::outside_captures(|| {
        let mut blocked: Option<Key> = None;
        for (key, mark, context) in fronts {
            if blocked == Some(key) {
                continue;
            }
            if driver::has_passed(mark.event) {
                passed.push((key, mark, context));
            } else {
                blocked = Some(key);
            }
        }
    });
    let mut state = process::state();
    let streams = &mut state.streams;
    for (key, mark, context) in passed {
        let Some(line) = streams.lines.iter_mut().find(|l| {
            l.key == key
                && l.context == context
                && l.marks
                    .front()
                    .is_some_and(|m| m.tick == mark.tick && m.event == mark.event)
        }) else {
            continue;
        };
        line.marks.pop_front();
        line.end(mark.tick);
        streams.unused_events.push((context, mark.event));
    }
    streams
        .lines
        .retain(|l| !(l.gone && l.marks.is_empty() && l.is_idle()));
}

/// A stream is about to be destroyed: its last work is marked, and no thread of ours names it any
/// more afterwards.
pub(crate) fn destroying(key: Key) {
    let (context, order_ends) = {
        let mut state = process::state();
        let streams = &mut state.streams;
        let was_solo = streams.solo == Some(key);
        if was_solo {
            streams.leave_solo(key);
        }
        let order_ends = streams.owed == Some(key);
        let Some(line) = streams.line(key) else {
            return;
        };
        (line.context, order_ends)
    };
    // Others may be about to record in it, for a moment.
    wait_until(Deadline::after_ms(100), || {
        let mut state = process::state();
        state.streams.line(key).is_none_or(|l| l.pins == 0)
    });
    let tick = process::now();
    let recorded = record_in(key, context);
    set_mark(key, context, tick, recorded);
    if order_ends || recorded.is_err() {
        // The order that made reuse safe goes with the stream, or its end cannot be marked: wait.
        synchronize(context);
    }
    let mut state = process::state();
    if state.streams.owed == Some(key) {
        state.streams.owed = None;
    }
    if let Some(line) = state.streams.line(key) {
        line.gone = true;
    }
}

/// Waits for all work of a context, and takes note.
pub(crate) fn synchronize(context: CUcontext) -> bool {
    let tick = process::now();
    let waited = driver::outside_captures(|| driver::in_context(context, driver::synchronize));
    let ok = driver::noted("cuCtxSynchronize", 0, waited).is_ok();
    if ok {
        let mut state = process::state();
        state.streams.context_ended(context, tick);
        state.host.ended(context, tick);
    }
    ok
}
