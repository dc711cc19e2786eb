//! Which streams have work, how far each has come, and the order between them that reuse needs.
//!
//! **Solo.** As long as all work goes to one stream, freed memory may be used again at once: the
//! new owner's work comes after the old one's in that stream. No events, no waiting memory, and a
//! launch costs one comparison. That ends with the first work in another stream of the device, which
//! is made to wait (on the device) for the solo stream's work from before the last free: an event is
//! recorded before the first work after each free, so that nobody waits for work that may in turn be
//! waiting for them.
//!
//! **Many.** After that a block that is freed waits until the streams have passed the free, which
//! is known from *marks*: events recorded now and then behind the program's work. When one stream
//! has had all the work for a while and the others are idle, it is solo again.
//!
//! Ticks count operations and frees, process-wide. A mark takes the last tick given out before it is
//! recorded. What takes a tick after work was submitted (a free, the note that the work is out) is so
//! covered by every mark with a tick not before its own.

mod key;
mod marks;
mod order;

pub(crate) use key::Key;
pub(crate) use marks::{after, lacks_marks, mark, mark_if_due, mark_others, poll};
pub(crate) use order::{
    destroying, enter, know, leave_for_capture, mark_if_ending, mark_reuse, submitted, synchronize,
};

use crate::cuda::{CUcontext, CUevent};
use crate::{captures, process};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use vshare_core::block::Slot;

/// [`Key::word`] of the solo stream; 0: there is none.
static SOLO: AtomicU64 = AtomicU64::new(0);

/// Whether `key` is the solo stream.
pub(crate) fn is_solo(key: Key) -> bool {
    let word = key.word();
    word != 0 && SOLO.load(Ordering::Relaxed) == word
}

/// Whether something was freed for use at once since the solo stream's reuse event was recorded.
static REUSE_UNMARKED: AtomicBool = AtomicBool::new(false);

/// Whether the solo stream's next work must have an event before it: see [`order::mark_reuse`].
pub(crate) fn is_reuse_unmarked() -> bool {
    REUSE_UNMARKED.load(Ordering::Relaxed)
}

/// Whether there is a solo stream.
pub(crate) fn any_solo() -> bool {
    SOLO.load(Ordering::Relaxed) != 0
}

/// Operations in a row after which a stream may become solo again.
const STREAK: u32 = 64;

/// Lines above which those without work are forgotten.
const CROWD: usize = 64;

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
    /// Destroyed, or its thread has ended: no further work.
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
    /// The event recorded in the solo stream before its first work after the last free.
    reuse: Option<(CUevent, CUcontext)>,
    /// A stream that was solo and whose order reuse relied on: other streams' next work must wait
    /// for it, and no barrier has been made yet.
    owed: Option<Key>,
    /// Barriers' events, for use again when several later ones have taken their place.
    retired: VecDeque<(CUcontext, CUevent)>,
    barrier: Barrier,
    barriers: u64,
    streak: (Option<Key>, u32),
    /// Slots that have been given out, and those whose stream has gone and whose work has ended.
    slots: u32,
    unused_slots: Vec<Slot>,
    unused_events: Vec<(CUcontext, CUevent)>,
}

impl Streams {
    pub(crate) const fn new() -> Self {
        Self {
            lines: Vec::new(),
            solo: None,
            reused: false,
            reuse: None,
            owed: None,
            retired: VecDeque::new(),
            barrier: Barrier::None,
            barriers: 0,
            streak: (None, 0),
            slots: 0,
            unused_slots: Vec::new(),
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
            let slot = self.unused_slots.pop().unwrap_or_else(|| {
                self.slots += 1;
                Slot(self.slots)
            });
            self.lines.push(Line {
                key,
                slot,
                context: key.context,
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

    /// Whether no stream has had work yet; one may be known already.
    pub(crate) fn are_none(&self) -> bool {
        self.solo.is_none() && self.lines.iter().all(|l| l.last == 0)
    }

    /// Memory was freed for use at once.
    pub(crate) fn note_reuse(&mut self) {
        self.reused = true;
        REUSE_UNMARKED.store(true, Ordering::Relaxed);
    }

    /// The event to record in the solo stream before its next work, if there was a free since the last
    /// was; `Some(None)`: a new one.
    fn take_reuse(&mut self, key: Key) -> Option<(CUcontext, Option<CUevent>)> {
        if self.solo != Some(key) || !REUSE_UNMARKED.swap(false, Ordering::Relaxed) {
            return None;
        }
        let context = self.line(key)?.context;
        // Taken away while it is being recorded anew: until then it means an earlier place.
        let event = self.reuse.take().filter(|r| r.1 == context).map(|r| r.0);
        Some((context, event))
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

    /// Whether any stream of a context is known.
    pub(crate) fn has_any_in(&self, context: CUcontext) -> bool {
        self.lines.iter().any(|l| l.context == context)
    }

    /// Whether a stream is known.
    fn knows(&self, key: Key) -> bool {
        self.lines.iter().any(|l| l.key == key && !l.gone)
    }

    /// Forgets lines of streams that are no more, once their work has ended; and when there are many
    /// lines, all whose work has ended.
    fn forget_gone(&mut self) {
        let crowded = self.lines.len() > CROWD;
        let (solo, owed) = (self.solo, self.owed);
        let slots = &mut self.unused_slots;
        self.lines.retain(|l| {
            let needed = l.pins > 0 || solo == Some(l.key) || owed == Some(l.key);
            let ended = l.marks.is_empty() && l.is_idle();
            let forget = (l.gone || crowded) && ended && !needed;
            if forget {
                // What waits in the slot has been passed: it may go to whoever has the slot next.
                slots.push(l.slot);
            }
            !forget
        });
    }

    /// A context has died, with its streams and events.
    pub(crate) fn context_gone(&mut self, context: CUcontext) {
        let slots = &mut self.unused_slots;
        self.lines.retain(|l| {
            let stays = l.context != context;
            if !stays {
                slots.push(l.slot);
            }
            stays
        });
        for line in &mut self.lines {
            line.awaited.retain(|a| a.0 != context);
        }
        self.unused_events.retain(|e| e.0 != context);
        self.retired.retain(|e| e.0 != context);
        self.reuse = self.reuse.filter(|r| r.1 != context);
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
        if self.are_none() && key.word() != 0 && !captures::any_soon() {
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
            if let Some(enter) = self.begin_barrier(solo) {
                return enter;
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

    /// Work in other streams must come behind the solo stream's from before the last free.
    fn begin_barrier(&mut self, solo: Key) -> Option<Enter> {
        let barriers = self.barriers + 1;
        let line = self.line(solo)?;
        // It need not wait for itself.
        line.barrier = barriers;
        let context = line.context;
        let reuse = self.reuse.take().filter(|r| r.1 == context);
        self.retire_barrier();
        self.barriers = barriers;
        if let (Some((event, context)), false) = (reuse, is_reuse_unmarked()) {
            self.barrier = Barrier::Set(event, context);
            return None;
        }
        if let Some(line) = self.line(solo) {
            line.pins += 1;
        }
        self.barrier = Barrier::Making;
        // The barrier will be behind everything.
        REUSE_UNMARKED.store(false, Ordering::Relaxed);
        Some(Enter::MakeBarrier(solo, context))
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
            && !captures::any_soon()
            && self.lines.iter().all(|l| l.key == key || l.is_idle())
        {
            // A thread that has been told to wait for the barrier may not have done so yet.
            self.reused |= self.barrier != Barrier::None;
            REUSE_UNMARKED.store(self.reused, Ordering::Relaxed);
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

#[cfg(test)]
mod tests;
