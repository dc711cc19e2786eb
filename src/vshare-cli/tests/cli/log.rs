//! `vshare log`.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;
use vshare_shm::record::Class;
use vshare_shm::{Record, Writer};

use crate::{NOBODY, Scratch, stderr, stdout, vshare, write};

fn allocate(writer: &Writer, at: u64) {
    let record = Record::Allocated {
        address: at,
        bytes: 2 << 20,
        class: Class::Managed,
        stream: 0,
    };
    writer.record(1_000_000, record);
}

#[test]
fn events_are_told_with_their_time_and_what_was_lost() {
    let scratch = Scratch::new("log-text");
    let writer = write(&scratch.0, 0);
    allocate(&writer, 0x1000);
    let pid = writer.pid().to_string();
    let text = stdout(&vshare(&["log", "--directory", scratch.text(), &pid]));
    assert_eq!(
        text,
        "1970-01-01T00:00:00.001000Z  allocated 2.0 MiB at 0x1000\n"
    );
    for at in 0..962 {
        allocate(&writer, at);
    }
    // The only process need not be named.
    let text = stdout(&vshare(&["log", "--directory", scratch.text()]));
    assert_eq!(text.lines().next(), Some("(3 events were lost)"));
    assert_eq!(text.lines().count(), 961);
    let text = stdout(&vshare(&["log", "--json", "--directory", scratch.text()]));
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["lost"], 3);
    assert_eq!(lines[1]["ticket"], 3);
    assert_eq!(lines[960]["address"], 961);
    assert_eq!(lines[960]["event"], "allocated");
    assert_eq!(lines[960]["bytes"], 2 << 20);
}

#[test]
fn which_process_is_meant_must_be_clear() {
    let scratch = Scratch::new("log-which");
    let log = |args: &[&str]| {
        let mut all = vec!["log", "--directory", scratch.text()];
        all.extend(args);
        vshare(&all)
    };
    let output = log(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no process has run under vshare"));
    let writer = write(&scratch.0, 0);
    let bytes = fs::read(writer.path()).unwrap();
    fs::remove_file(writer.path()).unwrap();
    scratch.forge(&bytes, NOBODY, 1);
    scratch.forge(&bytes, NOBODY + 1, 1);
    let output = log(&[]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains("name one of 4194305, 4194306"), "{said}");
    assert_eq!(stdout(&log(&["4194306"])), "");
    // Of several, a live one is meant.
    let writer = write(&scratch.0, 0);
    allocate(&writer, 1);
    assert_eq!(stdout(&log(&[])).lines().count(), 1);
    for (which, reason) in [
        ("1", "process 1 has no segment"),
        ("x", "neither a process"),
    ] {
        let output = log(&[which]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(reason), "{output:?}");
    }
}

/// A process that lives until it is told to end, and a segment that says it is its.
fn stranger(scratch: &Scratch, segment: &[u8]) -> (Child, std::path::PathBuf) {
    let child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let owner = vshare_shm::process::Identity::of(child.id()).unwrap();
    let path = scratch.forge(segment, owner.pid, owner.start_time);
    (child, path)
}

fn follow(path: &Path) -> (Child, BufReader<ChildStdout>) {
    let mut log = Command::new(env!("CARGO_BIN_EXE_vshare"))
        .args(["log", "-f", path.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(log.stdout.take().unwrap());
    (log, out)
}

fn next(out: &mut impl BufRead) -> String {
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    line
}

#[test]
fn a_process_is_followed_until_it_ends() {
    let scratch = Scratch::new("log-follow");
    let writer = write(&scratch.0, 0);
    allocate(&writer, 0x1000);
    allocate(&writer, 0x2000);
    allocate(&writer, 0x3000);
    let mut bytes = fs::read(writer.path()).unwrap();
    crate::set_word(&mut bytes, 0x80, 1); // the second and third are not there yet
    let (mut child, path) = stranger(&scratch, &bytes);
    let (log, mut out) = follow(&path);
    assert!(next(&mut out).contains("at 0x1000"));
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&2u64.to_ne_bytes(), 0x80).unwrap();
    assert!(next(&mut out).contains("at 0x2000"));
    file.write_all_at(&3u64.to_ne_bytes(), 0x80).unwrap();
    drop(child.stdin.take());
    child.wait().unwrap();
    assert!(next(&mut out).contains("at 0x3000"));
    assert_eq!(next(&mut out), "");
    let ended = log.wait_with_output().unwrap();
    assert!(ended.status.success());
    let said = stderr(&ended);
    assert!(
        said.contains(&format!("process {} is dead", child.id())),
        "{said}"
    );
}

#[test]
fn a_process_that_cannot_be_seen_is_followed_until_it_says_that_it_ends() {
    let scratch = Scratch::new("log-unseen");
    let writer = write(&scratch.0, 0);
    allocate(&writer, 0x1000);
    let mut bytes = fs::read(writer.path()).unwrap();
    crate::set_word(&mut bytes, 0x30, 7); // another pid namespace
    let path = scratch.forge(&bytes, 1, 1);
    let (log, mut out) = follow(&path);
    assert!(next(&mut out).contains("at 0x1000"));
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&2u64.to_ne_bytes(), 0x10).unwrap();
    assert_eq!(next(&mut out), "");
    assert!(log.wait_with_output().unwrap().status.success());
}

#[test]
fn following_ends_when_nobody_listens() {
    let scratch = Scratch::new("log-deaf");
    let writer = write(&scratch.0, 0);
    allocate(&writer, 0x1000);
    // Its process lives: it is this one.
    let (mut log, mut out) = follow(writer.path());
    assert!(next(&mut out).contains("at 0x1000"));
    drop(out);
    assert!(log.wait().unwrap().success());
}
