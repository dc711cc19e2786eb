//! Following a ring: each event once, in order, and what was missed is counted.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;

use vshare_shm::follow::{Entry, Follower};
use vshare_shm::layout::SLOTS;
use vshare_shm::reader::Segment;
use vshare_shm::{Record, Writer};

use crate::{Scratch, description};

const HEAD: u64 = 0x80;

/// Tickets of events, and counts of what was lost as negative numbers.
fn told(entries: &[Entry]) -> Vec<i64> {
    let told = entries.iter().map(|entry| match entry {
        Entry::Event(event) => i64::try_from(event.ticket).unwrap(),
        Entry::Lost(lost) => -i64::try_from(*lost).unwrap(),
    });
    told.collect()
}

fn push(writer: &Writer, count: u64) {
    for _ in 0..count {
        let record = Record::ContextLost {
            context: 0,
            bytes: 0,
            device: 0,
        };
        writer.record(0, record);
    }
}

fn file(writer: &Writer) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).open(writer.path()).unwrap()
}

fn head(file: &File) -> u64 {
    let mut word = [0; 8];
    file.read_exact_at(&mut word, HEAD).unwrap();
    u64::from_ne_bytes(word)
}

fn set_head(file: &File, head: u64) {
    file.write_all_at(&head.to_ne_bytes(), HEAD).unwrap();
}

#[test]
fn each_event_is_told_once_and_in_order() {
    let scratch = Scratch::new("follow");
    let writer = Writer::create(&description(&scratch.0)).unwrap();
    let segment = Segment::open(writer.path()).unwrap();
    let mut follower = Follower::new();
    assert_eq!(told(&follower.look(&segment)), [0i64; 0]);
    push(&writer, 2);
    assert_eq!(told(&follower.look(&segment)), [0, 1]);
    assert_eq!(told(&follower.look(&segment)), [0i64; 0]);
    push(&writer, 1);
    assert_eq!(told(&follower.look(&segment)), [2]);
}

#[test]
fn a_reader_that_was_lapped_says_by_how_much() {
    let scratch = Scratch::new("follow-lapped");
    let writer = Writer::create(&description(&scratch.0)).unwrap();
    let segment = Segment::open(writer.path()).unwrap();
    let mut follower = Follower::new();
    push(&writer, 3);
    follower.look(&segment);
    let slots = SLOTS as u64;
    push(&writer, slots + 5);
    let entries = follower.look(&segment);
    assert_eq!(told(&entries[..2]), [-5, 8]);
    assert_eq!(entries.len(), SLOTS + 1);
    // One that comes late to a ring that has turned is told what it has missed, too.
    let entries = Follower::new().look(&segment);
    assert_eq!(told(&entries[..2]), [-8, 8]);
}

#[test]
fn an_event_that_is_being_written_is_awaited_once_then_given_up() {
    let scratch = Scratch::new("follow-pending");
    let writer = Writer::create(&description(&scratch.0)).unwrap();
    let segment = Segment::open(writer.path()).unwrap();
    let file = file(&writer);
    push(&writer, 1);
    set_head(&file, head(&file) + 2); // two writers have begun, and been held up
    push(&writer, 1);
    let mut follower = Follower::new();
    assert_eq!(told(&follower.look(&segment)), [0]);
    assert_eq!(told(&follower.look(&segment)), [-1]);
    assert_eq!(told(&follower.look(&segment)), [-1, 3]);
    // Who looks only once is told what is there.
    set_head(&file, head(&file) + 1);
    assert_eq!(told(&Follower::new().glance(&segment)), [0, -2, 3]);
    // After the owner's end nobody is waited for.
    assert_eq!(told(&Follower::new().rest(&segment)), [0, -2, 3, -1]);
}

#[test]
fn a_head_that_jumps_about_is_followed_without_harm() {
    let scratch = Scratch::new("follow-hostile");
    let writer = Writer::create(&description(&scratch.0)).unwrap();
    let segment = Segment::open(writer.path()).unwrap();
    let file = file(&writer);
    push(&writer, 1);
    let mut follower = Follower::new();
    for jump in [u64::MAX, 0, 1 << 63, 5, u64::MAX - 1, 7, u64::MAX] {
        set_head(&file, jump);
        follower.look(&segment);
        assert!(follower.glance(&segment).len() <= SLOTS + 1);
        assert!(follower.rest(&segment).len() <= SLOTS + 1);
    }
}
