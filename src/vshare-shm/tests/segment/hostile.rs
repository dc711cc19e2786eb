//! Files that are no segments, places where none can be made, and writers that die.

use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use vshare_shm::directory::{self, Keep};
use vshare_shm::follow::Follower;
use vshare_shm::layout::SIZE;
use vshare_shm::process::Liveness;
use vshare_shm::reader::{OpenError, Segment};
use vshare_shm::{Writer, counters};

use crate::{EVENTS, Scratch, description, fill, skip};

#[test]
fn where_none_can_be_made_nothing_is_left() {
    let scratch = Scratch::new("refused");
    let nowhere = scratch.0.join("missing");
    Writer::create(&description(&nowhere)).unwrap_err();
    let file = scratch.0.join("file");
    fs::write(&file, "").unwrap();
    Writer::create(&description(&file)).unwrap_err();
    fs::remove_file(&file).unwrap();
    // The name is taken by something that is not ours to replace.
    let path = Writer::create(&description(&scratch.0))
        .unwrap()
        .path()
        .to_owned();
    fs::remove_file(&path).unwrap();
    symlink("/dev/null", &path).unwrap();
    Writer::create(&description(&scratch.0)).unwrap_err();
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    Writer::create(&description(&scratch.0)).unwrap_err();
    assert_eq!(scratch.files().len(), 1);
}

/// D6: read-only, or another user's file. Both mean something only where root can arrange them.
#[test]
fn a_foreign_file_is_neither_replaced_nor_followed() {
    let scratch = Scratch::new("foreign");
    let path = Writer::create(&description(&scratch.0))
        .unwrap()
        .path()
        .to_owned();
    if std::os::unix::fs::chown(&path, Some(4242), None).is_err() {
        skip("not root: no file of another user's");
        return;
    }
    Writer::create(&description(&scratch.0)).unwrap_err();
    assert_eq!(scratch.files().len(), 1);
}

/// Runs the ignored test `name` of this file in a shell that has first run `setup`.
/// Whether it has passed.
fn in_shell(setup: &str, name: &str, directory: &Path) -> bool {
    Command::new("unshare")
        .args(["--mount", "sh", "-c"])
        .arg(format!("{setup} && exec \"$0\" --exact {name} --ignored"))
        .arg(std::env::current_exe().unwrap())
        .env("SHM_TEST_DIRECTORY", directory)
        .status()
        .is_ok_and(|status| status.success())
}

#[test]
#[ignore = "run by others, in a shell"]
fn cannot_create() {
    let directory = PathBuf::from(std::env::var_os("SHM_TEST_DIRECTORY").unwrap());
    Writer::create(&description(&directory)).unwrap_err();
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
}

#[test]
#[ignore = "run by others, in a shell"]
fn cannot_open_another_file() {
    let directory = PathBuf::from(std::env::var_os("SHM_TEST_DIRECTORY").unwrap());
    let mut held = Vec::new();
    while let Ok(file) = fs::File::open("/dev/null") {
        held.push(file);
        Writer::create(&description(&directory))
            .map(|w| fs::remove_file(w.path()).unwrap())
            .ok();
    }
    let error = Writer::create(&description(&directory)).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(24), "EMFILE");
    drop(held);
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
}

/// D7, and a file-size limit, past which the kernel would end the program by SIGXFSZ.
#[test]
fn a_full_or_limited_file_system_costs_the_program_nothing() {
    let scratch = Scratch::new("full");
    if !in_shell("true", "no_test_of_this_name", &scratch.0) {
        skip("no unshare, or not root");
        return;
    }
    for setup in [
        "mount -t tmpfs -o size=32k none \"$SHM_TEST_DIRECTORY\"",
        "mount -t tmpfs -o ro none \"$SHM_TEST_DIRECTORY\"",
        "mount -t tmpfs -o nr_inodes=1 none \"$SHM_TEST_DIRECTORY\"",
        "ulimit -f 32",
    ] {
        assert!(
            in_shell(setup, "hostile::cannot_create", &scratch.0),
            "{setup}"
        );
    }
    let opens_another = "hostile::cannot_open_another_file";
    assert!(in_shell("ulimit -n 40", opens_another, &scratch.0));
}

#[test]
fn whatever_is_no_segment_is_refused_by_its_reason() {
    let scratch = Scratch::new("open");
    let path = scratch.0.join("x");
    assert!(matches!(Segment::open(&path), Err(OpenError::Io(_))));
    assert!(matches!(
        Segment::open(&scratch.0),
        Err(OpenError::NotAFile)
    ));
    symlink("/dev/zero", &path).unwrap();
    assert!(matches!(Segment::open(&path), Err(OpenError::Io(_))));
    fs::remove_file(&path).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(&path)
            .status()
            .unwrap()
            .success()
    );
    assert!(matches!(Segment::open(&path), Err(OpenError::NotAFile)));
    fs::remove_file(&path).unwrap();

    fs::write(&path, vec![0; SIZE]).unwrap();
    assert!(matches!(Segment::open(&path), Err(OpenError::NotASegment)));
    let writer = Writer::create(&description(&scratch.0)).unwrap();
    let good = fs::read(writer.path()).unwrap();
    for length in [0, 1, 8, SIZE - 1] {
        fs::write(&path, &good[..length]).unwrap();
        let found = length as u64;
        assert!(
            matches!(Segment::open(&path), Err(OpenError::Truncated { found: f }) if f == found)
        );
    }
    for (major, minor, known) in [
        (1u64, 0u64, true),
        (1, 9, true),
        (2, 3, false),
        (0, 1, false),
    ] {
        let mut bytes = good.clone();
        let word = 0x5653_4852_u64 << 32 | major << 16 | minor;
        bytes[..8].copy_from_slice(&word.to_ne_bytes());
        bytes.extend([0; 100]); // a newer one may be longer
        fs::write(&path, bytes).unwrap();
        match Segment::open(&path) {
            Ok(_) => assert!(known),
            Err(error) => {
                assert!(!known);
                let text = error.to_string();
                assert!(
                    text.contains(&format!("{major}.{minor}")) && text.contains("1.0"),
                    "{text}"
                );
            }
        }
    }
}

/// A small generator, so that a failure is the same one again.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// `good` with some of its words turned over, in every third round all of them; it still begins as a segment.
pub(crate) fn mutate(good: &[u8], random: &mut Random, round: u32) -> Vec<u8> {
    let mut bytes = good.to_vec();
    let hits = if round.is_multiple_of(3) {
        SIZE / 8
    } else {
        40
    };
    for hit in 0..hits {
        let word = match random.next() % 4 {
            0 => u64::MAX,
            1 => random.next() % 2000,
            _ => random.next(),
        };
        let at = if hits == 40 {
            1 + random.below(SIZE / 8 - 1)
        } else {
            hit
        };
        bytes[at * 8..at * 8 + 8].copy_from_slice(&word.to_ne_bytes());
    }
    bytes[..8].copy_from_slice(&good[..8]);
    bytes
}

fn read_everything(segment: &Segment) {
    let mut follower = Follower::new();
    follower.look(segment);
    follower.glance(segment);
    follower.rest(segment);
    segment.counters();
    segment.events();
    segment.command();
    segment.library();
    segment.policy();
    segment.device();
    segment.state();
    segment.owner();
    segment.liveness();
    segment.value("live_bytes");
    _ = format!("{segment:?}");
}

#[test]
fn any_bytes_at_all_can_be_read() {
    let scratch = Scratch::new("garbage");
    let writer = Writer::create(&description(&scratch.0)).unwrap();
    fill(&writer);
    let good = fs::read(writer.path()).unwrap();
    let path = scratch.0.join("x");
    let mut random = Random(0x1234_5678_9abc_def1);
    for round in 0..4000 {
        let bytes = mutate(&good, &mut random, round);
        fs::write(&path, bytes).unwrap();
        read_everything(&Segment::open(&path).unwrap());
    }
}

#[test]
fn a_reader_stands_a_file_that_changes_under_it() {
    let scratch = Scratch::new("changing");
    let writer = Writer::create(&description(&scratch.0)).unwrap();
    let path = writer.path().to_owned();
    let file = fs::File::options().write(true).open(&path).unwrap();
    let segment = Segment::open(&path).unwrap();
    std::thread::scope(|scope| {
        let vandal = scope.spawn(|| {
            let mut random = Random(0xfeed_beef_1234_5677);
            for _ in 0..20_000 {
                let at = random.next() % (SIZE as u64 - 8);
                file.write_at(&random.next().to_ne_bytes(), at).unwrap();
            }
        });
        while !vandal.is_finished() {
            read_everything(&segment);
            writer.record(1, EVENTS[0]);
            writer.counter(counters::FREES).add(1);
        }
    });
}

#[test]
#[ignore = "run by others, and killed"]
fn writes_until_killed() {
    let directory = PathBuf::from(std::env::var_os("SHM_TEST_DIRECTORY").unwrap());
    loop {
        let writer = Writer::create(&description(&directory)).unwrap();
        fill(&writer);
    }
}

/// D2: whatever the moment, a reader and the next process go on.
#[test]
fn a_writer_killed_at_any_moment_is_in_nobodys_way() {
    let scratch = Scratch::new("killed");
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..40 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "hostile::writes_until_killed", "--ignored"])
            .env("SHM_TEST_DIRECTORY", &scratch.0)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let mut found = Vec::new();
        while found.is_empty() {
            found = directory::list(&scratch.0).unwrap();
        }
        for _ in 0..random.below(20_000) {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let segment = Segment::open(&found[0].path).unwrap();
        read_everything(&segment);
        assert_eq!(segment.liveness(), Liveness::Dead);
        let keep = Keep {
            age: Duration::ZERO,
            most: 0,
        };
        directory::prune(&scratch.0, keep).unwrap();
        directory::prune(&scratch.0, keep).unwrap();
        assert_eq!(scratch.files(), [""; 0]);
    }
}
