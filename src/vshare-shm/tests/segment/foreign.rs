//! Root reads other users' segments, and they cannot harm it.

use std::os::unix::fs::chown;

use vshare_shm::follow::{Entry, Follower};
use vshare_shm::reader::{OpenError, Segment};
use vshare_shm::{Writer, counters};

use crate::{EVENTS, Scratch, check_contents, description, fill, skip};

/// Another user's segment, that its writer here goes on to write to; `None` if we are not root.
fn another_users(scratch: &Scratch) -> Option<(Writer, Segment)> {
    let writer = Writer::create(&description(&scratch.0)).unwrap();
    fill(&writer);
    if chown(writer.path(), Some(4242), None).is_err() {
        skip("not root: no file of another user's");
        return None;
    }
    let segment = Segment::open(writer.path()).unwrap();
    Some((writer, segment))
}

#[test]
fn root_sees_what_another_user_writes_when_it_looks_again() {
    let scratch = Scratch::new("foreign-read");
    let Some((writer, segment)) = another_users(&scratch) else {
        return;
    };
    check_contents(&segment);
    let mut follower = Follower::new();
    assert_eq!(follower.look(&segment).len(), EVENTS.len() + 1);
    writer.counter(counters::FREES).add(3);
    writer.record(7, EVENTS[0]);
    assert_eq!(segment.value("frees"), Some(0), "a copy");
    let entries = follower.look(&segment);
    assert!(matches!(&entries[..], [Entry::Event(event)] if event.record == EVENTS[0]));
    segment.refresh().unwrap();
    assert_eq!(segment.value("frees"), Some(3));
}

#[test]
fn a_file_that_its_owner_makes_shorter_is_an_error_and_no_signal() {
    let scratch = Scratch::new("foreign-short");
    let Some((writer, segment)) = another_users(&scratch) else {
        return;
    };
    let file = std::fs::File::options()
        .write(true)
        .open(writer.path())
        .unwrap();
    file.set_len(100).unwrap();
    check_contents(&segment);
    assert!(matches!(
        segment.refresh(),
        Err(OpenError::Truncated { found: 100 })
    ));
    check_contents(&segment);
    Follower::new().look(&segment);
}

#[test]
fn records_are_whole_in_a_copy_too() {
    let scratch = Scratch::new("foreign-whole");
    let Some((writer, segment)) = another_users(&scratch) else {
        return;
    };
    let writing = std::sync::atomic::AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..200_000u64 {
                let record = vshare_shm::Record::Sampled {
                    live: i,
                    resident: i,
                    host: i,
                    budget: i,
                };
                writer.record(i, record);
            }
            writing.store(false, std::sync::atomic::Ordering::Relaxed);
        });
        let mut seen = 0;
        while writing.load(std::sync::atomic::Ordering::Relaxed) || seen == 0 {
            segment.refresh().unwrap();
            for event in segment.events() {
                if let vshare_shm::Record::Sampled {
                    live,
                    resident,
                    host,
                    budget,
                } = event.record
                {
                    assert_eq!([live; 4], [event.time_ns, resident, host, budget], "torn");
                    seen += 1;
                }
            }
        }
    });
}
