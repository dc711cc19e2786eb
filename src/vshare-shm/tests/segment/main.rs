//! Writes and reads whole segments through the file system, good ones and hostile ones.
#![cfg(not(loom))]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot start has failed"
)]

mod follow;
mod foreign;
mod header;
mod hostile;
mod prune;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use vshare_shm::counters::{self, TABLE};
use vshare_shm::layout::{SIZE, SLOTS, State};
use vshare_shm::process::{Identity, Liveness};
use vshare_shm::reader::Segment;
use vshare_shm::record::{Cause, Class};
use vshare_shm::{CallName, Description, Record, Writer};

/// Says that the calling test, or one case of it, was left out, and why. The test runner cannot be told from within a test, so
/// `scripts/test` counts these lines: as skipped, not as passed.
fn skip(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // Not by `eprintln`, which the runner keeps to itself when a test passes. The runner may be within a line.
    let line = format!("\nskipped: {test}: {why}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

/// A directory of the test's own, gone when the test has passed or failed.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("shm-test-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn files(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

fn description(directory: &Path) -> Description<'_> {
    Description {
        directory,
        created_ns: 1_790_000_000_123_456_789,
        library: "0.1.0",
        policy: "lru",
        run: 77,
    }
}

const EVENTS: [Record; 8] = [
    Record::Allocated {
        address: 0x7f00_0000_0000,
        bytes: 1 << 21,
        class: Class::Managed,
        stream: 0,
    },
    Record::Freed {
        address: 0x7f00_0000_0000,
        bytes: 1 << 21,
        class: Class::Device,
        stream: 9,
    },
    Record::Refused {
        bytes: 1 << 40,
        cause: Cause::Limit,
        live: 3,
        limit: 4,
    },
    Record::Promoted {
        address: 0x7f00_0020_0000,
        bytes: 5,
        nanoseconds: 6,
        device: 0,
    },
    Record::Evicted {
        address: 0x7f00_0020_0000,
        bytes: 7,
        nanoseconds: 8,
        device: 1,
    },
    Record::Stalled {
        nanoseconds: 11,
        bytes: 12,
        launch: 13,
        device: 0,
    },
    Record::ContextLost {
        context: 0xc0ffee,
        bytes: 14,
        device: 0,
    },
    Record::Unknown {
        kind: 200,
        words: [1, 2, 3, 4],
    },
];

/// Writes what `check_contents` expects, a different value in each counter.
fn fill(writer: &Writer) {
    writer.counter(counters::LIVE_BYTES).add(10);
    writer.counter(counters::LIVE_BYTES).sub(4);
    writer.counter(counters::PEAK_LIVE_BYTES).max(10);
    writer.counter(counters::PEAK_LIVE_BYTES).max(9);
    writer.counter(counters::BUDGET_BYTES).set(80 << 30);
    writer.counter(counters::HOST_BYTES).sub(1); // as a free that overtook its allocation
    writer.counter(counters::STALL_NANOSECONDS).add(u64::MAX);
    writer.set_driver_version(13_000);
    writer.set_device(2, "NVIDIA H200", *b"0123456789abcdef");
    writer.set_state(State::Live);
    for (time, record) in (100..).zip(EVENTS) {
        writer.record(time, record);
    }
    let call = CallName::new("cuMemPrefetchAsync_v2");
    let (code, device, bytes) = (719, 1, 4096);
    writer.record(
        200,
        Record::Failed {
            call,
            code,
            device,
            bytes,
        },
    );
}

fn check_contents(segment: &Segment) {
    assert_eq!(segment.created_ns(), 1_790_000_000_123_456_789);
    assert_eq!(segment.library(), "0.1.0");
    assert_eq!(segment.policy(), "lru");
    assert_eq!(segment.run(), 77);
    assert_eq!(segment.driver_version(), 13_000);
    assert_eq!(segment.state(), Some(State::Live));
    let device = segment.device().unwrap();
    assert_eq!((device.ordinal, &*device.name), (2, "NVIDIA H200"));
    assert_eq!(device.uuid, *b"0123456789abcdef");
    for (name, value) in [
        ("live_bytes", 6),
        ("peak_live_bytes", 10),
        ("budget_bytes", 80 << 30),
        ("host_bytes", 0),
        ("stall_nanoseconds", u64::MAX),
        ("panics", 0),
    ] {
        assert_eq!(segment.value(name), Some(value), "{name}");
    }
    assert_eq!(segment.value("no such counter"), None);
    let events = segment.events();
    for ((i, event), record) in (0..).zip(&events).zip(EVENTS) {
        assert_eq!(
            (event.ticket, event.time_ns, event.record),
            (i, 100 + i, record)
        );
    }
    let Record::Failed {
        call,
        code,
        device,
        bytes,
    } = events[8].record
    else {
        panic!("{:?}", events[8]);
    };
    assert_eq!((code, device, bytes), (719, 1, 4096));
    assert_eq!(call.text(), "cuMemPrefetchAsync");
}

#[test]
fn what_is_written_is_read_and_describes_itself() {
    let scratch = Scratch::new("roundtrip");
    let writer = Writer::create(&description(&scratch.0)).unwrap();
    fill(&writer);
    let segment = Segment::open(writer.path()).unwrap();
    check_contents(&segment);
    assert_eq!(segment.owner(), Identity::own().unwrap());
    assert_eq!(segment.liveness(), Liveness::Alive);
    assert!(
        segment.command().contains("segment"),
        "{}",
        segment.command()
    );
    let read = segment.counters();
    assert_eq!(read.len(), TABLE.len());
    for (reading, row) in read.iter().zip(TABLE) {
        let texts = (&*reading.name, &*reading.unit, &*reading.help);
        assert_eq!(texts, (row.name, row.unit.text(), row.help));
    }
}

#[test]
fn a_segment_is_private_whole_and_alone() {
    let scratch = Scratch::new("file");
    let writer = Writer::create(&description(&scratch.0)).unwrap();
    let metadata = fs::metadata(writer.path()).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o7777, 0o600);
    assert_eq!(metadata.len(), SIZE as u64);
    assert_eq!(scratch.files().len(), 1, "no temporary name is left");
    assert_eq!(writer.pid(), std::process::id());
    drop(writer);
    assert_eq!(scratch.files().len(), 1, "it outlives its writer");
}

#[test]
fn a_process_that_has_become_another_program_starts_anew() {
    let scratch = Scratch::new("exec");
    let before = Writer::create(&description(&scratch.0)).unwrap();
    before.counter(counters::FREES).add(5);
    let after = Writer::create(&description(&scratch.0)).unwrap();
    assert_eq!(after.counter(counters::FREES).get(), 0);
    before.counter(counters::FREES).add(1);
    let segment = Segment::open(after.path()).unwrap();
    assert_eq!(segment.value("frees"), Some(0));
    assert_eq!(scratch.files().len(), 1);
}

#[test]
fn the_ring_keeps_the_newest() {
    let scratch = Scratch::new("ring");
    let writer = Writer::create(&description(&scratch.0)).unwrap();
    let written = SLOTS as u64 * 3 + 7;
    for i in 0..written {
        writer.record(
            i,
            Record::ContextLost {
                context: i,
                bytes: 0,
                device: 0,
            },
        );
    }
    let events = Segment::open(writer.path()).unwrap().events();
    assert_eq!(events.len(), SLOTS);
    assert_eq!(events[0].ticket, written - SLOTS as u64);
    assert_eq!(events[SLOTS - 1].time_ns, written - 1);
    assert_eq!(writer.counter(counters::RECORDS_DROPPED).get(), 0);
}

fn golden(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{version}.segment"))
}

/// Each released version's file stays readable for good. It is written once, by
/// `cargo test -p vshare-shm -- --ignored writes_the_golden_file`, and never again.
#[test]
fn a_segment_of_version_1_0_is_still_read() {
    // A copy of our own: whose checkout it is does not matter.
    let scratch = Scratch::new("old");
    let path = scratch.0.join("1.0");
    fs::write(&path, fs::read(golden("1.0")).unwrap()).unwrap();
    let segment = Segment::open(&path).unwrap();
    check_contents(&segment);
    assert_eq!(
        segment.counters()[0].help,
        "held by the program now, served by vshare"
    );
    assert!(segment.command().contains("writes_the_golden_file"));
}

#[test]
#[ignore = "writes into the source tree"]
fn writes_the_golden_file() {
    let scratch = Scratch::new("golden");
    let writer = Writer::create(&description(&scratch.0)).unwrap();
    fill(&writer);
    assert!(!golden("1.0").exists(), "a golden file is written once");
    fs::write(golden("1.0"), fs::read(writer.path()).unwrap()).unwrap();
}
