//! `vshare` and the Python reader over segments that these tests write themselves.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot start has failed"
)]

mod doctor;
mod hostile;
mod log;
mod metrics;
mod ps;
mod python;
mod report;
mod shells;
mod stats;
mod top;
mod trace;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use vshare_shm::layout::State;
use vshare_shm::{Description, Writer, counters};

/// A process id above what the kernel gives: nobody's.
const NOBODY: u32 = 4_194_305;

/// Says that the calling test, or one case of it, was left out, and why. The test runner cannot be told from within a test, so
/// `scripts/test` counts these lines: as skipped, not as passed.
fn skip(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // Not by `eprintln`, which the runner keeps to itself when a test passes. The runner may be within a line.
    let line = format!("\nskipped: {test}: {why}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

/// Runs `vshare` with `args` to its end.
fn vshare(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vshare"));
    command
        .args(args)
        .env_remove("VSHARE_RUN")
        .output()
        .unwrap()
}

/// What it wrote; it has succeeded.
fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A directory of the test's own, gone when the test has passed or failed.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("cli-test-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn text(&self) -> &str {
        self.0.to_str().unwrap()
    }

    /// A copy of `segment` under its own name, as a process `pid` would have left it that started at `start`.
    fn forge(&self, segment: &[u8], pid: u32, start: u64) -> PathBuf {
        let mut bytes = segment.to_vec();
        set_word(&mut bytes, 0x18, pid.into());
        set_word(&mut bytes, 0x20, start);
        let uid = word(&bytes, 0x28);
        let path = self.0.join(format!("vshare-{uid}-{pid}-{start}"));
        fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn set_word(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
}

/// A segment of the first version.
fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../vshare-shm/tests/golden/1.0.segment")
}

/// This process's segment, with something in it.
fn write(directory: &Path, run: u64) -> Writer {
    let writer = Writer::create(&Description {
        directory,
        created_ns: 5,
        library: "9.8.7",
        policy: "lru",
        run,
    });
    let writer = writer.unwrap();
    writer.counter(counters::LIVE_BYTES).set(5 << 28);
    writer.counter(counters::PEAK_LIVE_BYTES).set(3 << 29);
    writer.counter(counters::RESIDENT_BYTES).set(3 << 28);
    writer.counter(counters::HOST_BYTES).set(1 << 29);
    writer.counter(counters::BUDGET_BYTES).set(1 << 30);
    writer.counter(counters::PROMOTED_BYTES).add(7 << 20);
    writer.counter(counters::EVICTED_BYTES).add(9 << 20);
    writer.counter(counters::PROMOTIONS).add(3);
    writer
        .counter(counters::STALL_NANOSECONDS)
        .add(1_500_000_000);
    writer.set_driver_version(13_010);
    writer.set_device(0, "NVIDIA H200", [0xab; 16]);
    writer.set_state(State::Live);
    writer
}
