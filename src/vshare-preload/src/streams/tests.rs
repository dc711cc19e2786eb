//! Streams as they come, work and go, with no driver: who waits for whom, and what is kept of them.

use super::*;
use crate::cuda::{CUstream, NullStream};
use std::sync::{Mutex, MutexGuard, PoisonError};

const CONTEXT: CUcontext = CUcontext(1000);

/// There is one solo stream in a process, so one test at a time may have one.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    // What has had work has a tick other than 0.
    process::tick();
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stream that a program has made.
fn stream(handle: usize) -> Key {
    Key::of(NullStream::Legacy, CUstream(0x1000 + handle))
}

/// One operation of a stream that need not wait for anything.
fn works(streams: &mut Streams, key: Key, tick: u64) {
    let enter = streams.note(key, tick);
    assert!(matches!(enter, Enter::Go | Enter::MarkOthers), "{tick}");
}

/// A stream that is the only one with work, and in whose order memory is used again.
fn reusing(streams: &mut Streams) -> Key {
    let solo = stream(0);
    works(streams, solo, 1);
    assert_eq!(streams.solo, Some(solo));
    streams.note_reuse();
    solo
}

/// What `make_barrier` does, when the driver has recorded the event.
fn record_barrier(streams: &mut Streams, event: usize) {
    assert_eq!(streams.barrier, Barrier::Making);
    streams.barrier = Barrier::Set(CUevent(event), CONTEXT);
}

#[test]
fn the_first_work_elsewhere_comes_behind_the_work_before_the_last_free() {
    let _alone = alone();
    let mut streams = Streams::new();
    let (solo, second) = (reusing(&mut streams), stream(1));
    let enter = streams.note(second, 2);
    assert!(matches!(enter, Enter::MakeBarrier(key, _) if key == solo));
    record_barrier(&mut streams, 7);
    let enter = streams.note(second, 2);
    assert!(matches!(enter, Enter::WaitFor(CUevent(7), 1)));
}

/// The second stream's thread has been told to wait and has not done so yet. Until then its stream
/// is empty, so it looks idle, and the first is soon alone again. The order that reuse relies on
/// is owed to the next stream all the same.
#[test]
fn a_stream_that_is_solo_again_still_owes_the_order_that_a_slow_thread_was_to_wait_for() {
    let _alone = alone();
    let mut streams = Streams::new();
    let (solo, second, third) = (reusing(&mut streams), stream(1), stream(2));
    streams.note(second, 2);
    record_barrier(&mut streams, 7);
    let told = streams.note(second, 2);
    assert!(matches!(told, Enter::WaitFor(..)));
    for tick in 3..200 {
        // A mark in the second stream has passed at once: there is nothing before it.
        streams.stream_ended(second, tick);
        works(&mut streams, solo, tick);
        if streams.solo.is_some() {
            break;
        }
    }
    assert_eq!(streams.solo, Some(solo));
    assert!(is_reuse_unmarked());
    let enter = streams.note(third, 200);
    assert!(matches!(enter, Enter::MakeBarrier(key, _) if key == solo));
}

#[test]
fn a_stream_that_is_solo_again_owes_nothing_when_nothing_was_used_again() {
    let _alone = alone();
    let mut streams = Streams::new();
    let (first, second) = (stream(0), stream(1));
    works(&mut streams, first, 1);
    works(&mut streams, second, 2);
    for tick in 3..200 {
        streams.stream_ended(second, tick);
        works(&mut streams, first, tick);
    }
    assert_eq!(streams.solo, Some(first));
    works(&mut streams, stream(2), 200);
}

/// A program with a stream for each request: every slot is a place in every arena.
#[test]
fn streams_that_come_and_go_have_each_others_slots() {
    let _alone = alone();
    let mut streams = Streams::new();
    for request in 0..1000 {
        let key = stream(request);
        works(&mut streams, key, 2 * request as u64 + 1);
        streams.slot(key);
        streams.stream_ended(key, 2 * request as u64 + 2);
        streams.line_or_new(key).gone = true;
        streams.set_solo(None);
        streams.forget_gone();
        assert!(streams.lines.is_empty(), "{request}");
    }
    assert!(streams.slots <= 2, "{} slots", streams.slots);
}

/// The same of a program with a context for each request, which destroys no stream itself.
#[test]
fn streams_that_end_with_their_context_leave_their_slots_to_others() {
    let _alone = alone();
    let mut streams = Streams::new();
    for request in 0..1000 {
        let key = stream(request);
        streams.line_or_new(key).context = CUcontext(1 + request);
        streams.slot(key);
        streams.context_gone(CUcontext(1 + request));
        assert!(streams.lines.is_empty(), "{request}");
    }
    assert!(streams.slots <= 2, "{} slots", streams.slots);
}

#[test]
fn a_destroyed_stream_is_kept_until_its_work_has_ended_and_its_slot_with_it() {
    let mut streams = Streams::new();
    let key = stream(0);
    let slot = streams.slot(key);
    streams.note_free(key, 5);
    streams.line_or_new(key).gone = true;
    streams.forget_gone();
    assert!(!streams.slot_has_ended(slot, 5));
    // The handle may be another stream's by now, in a slot of its own.
    assert_ne!(streams.slot(key), slot);
    for line in &mut streams.lines {
        line.end(5);
    }
    streams.forget_gone();
    assert!(streams.slot_has_ended(slot, 5));
    assert_eq!(streams.slot(stream(1)), slot);
}

/// Nobody says when a thread and its own default stream have gone.
#[test]
fn of_many_streams_only_those_with_work_are_kept() {
    let mut streams = Streams::new();
    for i in 0..=CROWD {
        let line = streams.line_or_new(stream(i));
        line.last = 5;
        line.ended = if i == 3 { 4 } else { 5 };
    }
    streams.forget_gone();
    assert_eq!(streams.lines.len(), 1);
    assert!(streams.knows(stream(3)));
}

/// The mark behind its last work could not be set, and its context was waited for instead.
#[test]
fn a_destroyed_stream_without_marks_is_forgotten_by_the_next_poll() {
    let key = stream(7000);
    {
        let mut state = process::state();
        let line = state.streams.line_or_new(key);
        line.end(u64::MAX);
        line.gone = true;
    }
    poll();
    let state = process::state();
    assert!(state.streams.lines.iter().all(|l| l.key != key));
}
