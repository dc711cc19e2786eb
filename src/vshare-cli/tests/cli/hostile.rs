//! Segments that hold anything at all, and old ones, through every command.

use std::fs;
use std::path::Path;

use crate::{Scratch, golden, stderr, stdout, vshare, write};

/// A small generator, so that a failure is the same one again.
pub(crate) struct Random(pub(crate) u64);

impl Random {
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
    let words = bytes.len() as u64 / 8;
    let all = round.is_multiple_of(3);
    for hit in 0..if all { words } else { 40 } {
        let word = match random.next() % 4 {
            0 => u64::MAX,
            1 => random.next() % 2000,
            _ => random.next(),
        };
        let at = if all { hit } else { random.next() % words };
        let at = usize::try_from(at).unwrap() * 8;
        bytes[at..at + 8].copy_from_slice(&word.to_ne_bytes());
    }
    bytes[..8].copy_from_slice(&good[..8]);
    bytes
}

/// Every command that reads segments: its arguments, where DIR, a FILE in it and an OUT elsewhere are to be put in.
const READERS: [&[&str]; 12] = [
    &["ps", "--directory", "DIR"],
    &["ps", "--json", "--directory", "DIR"],
    &["stats", "--directory", "DIR"],
    &["stats", "--json", "--directory", "DIR"],
    &["stats", "FILE"],
    &["log", "FILE"],
    &["log", "--json", "FILE"],
    &["log", "-f", "FILE"],
    &["trace", "FILE", "-o", "-"],
    &["report", "FILE", "-o", "-"],
    &["trace", "FILE", "--seconds", "1", "-o", "OUT"],
    &["metrics", "--textfile", "OUT", "--directory", "DIR"],
];

fn read_by_all(directory: &Path, file: &Path, check: impl Fn(&[&str], &std::process::Output)) {
    let elsewhere = Scratch::new(&format!(
        "out-of-{}",
        directory.file_name().unwrap().display()
    ));
    let out = elsewhere.0.join("out");
    for reader in READERS {
        _ = fs::remove_file(&out);
        let args: Vec<_> = reader
            .iter()
            .map(|word| match *word {
                "DIR" => directory.to_str().unwrap(),
                "FILE" => file.to_str().unwrap(),
                "OUT" => out.to_str().unwrap(),
                word => word,
            })
            .collect();
        let mut output = vshare(&args);
        // What went into a file is to be looked at like what was printed.
        output.stdout.extend(fs::read(&out).unwrap_or_default());
        check(reader, &output);
    }
}

/// What each reader must say of a segment of the first version, for good.
#[test]
fn a_segment_of_version_1_0_is_read_by_every_command() {
    let scratch = Scratch::new("all-golden");
    let path = scratch.forge(&fs::read(golden()).unwrap(), 4_194_305, 1);
    read_by_all(&scratch.0, &path, |reader, output| {
        let said = stdout(output);
        let part = match reader[0] {
            "ps" | "stats" => "writes_the_golden_file",
            "log" => "cuMemPrefetchAsync",
            "report" => "NVIDIA H200",
            "metrics" => "vshare_stalls_total{pid=\"4194305\"",
            _ => "traceEvents",
        };
        assert!(said.contains(part), "{reader:?}: no {part} in {said}");
    });
}

#[test]
fn whatever_files_hold_every_command_ends_well_or_says_why() {
    let scratch = Scratch::new("all-any");
    let writer = write(&scratch.0, 0);
    let good = fs::read(writer.path()).unwrap();
    fs::remove_file(writer.path()).unwrap();
    let mut random = Random(0x2468_ace0_1357_9bdf);
    let path = scratch.0.join("vshare-0-4194305-1");
    for round in 0..30 {
        let mut bytes = mutate(&good, &mut random, round);
        // One whose owner lives would be followed for ever.
        bytes[0x18..0x20].copy_from_slice(&4_194_305u64.to_ne_bytes());
        bytes[0x30..0x38].fill(0);
        match round % 5 {
            0 => bytes.truncate(usize::try_from(random.next() % 0x10000).unwrap()),
            1 => bytes[usize::try_from(random.next() % 8).unwrap()] ^= 0x55,
            _ => {}
        }
        fs::write(&path, bytes).unwrap();
        read_by_all(&scratch.0, &path, |reader, output| {
            let said = stderr(output);
            assert!(
                matches!(output.status.code(), Some(0 | 1)),
                "{reader:?}: {output:?}"
            );
            assert!(
                output.status.success() || said.starts_with("vshare: "),
                "{reader:?}: {said}"
            );
            assert!(!said.contains("panicked"), "{reader:?}: {said}");
        });
    }
}
