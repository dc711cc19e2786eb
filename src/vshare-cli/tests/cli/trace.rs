//! `vshare trace`, as those read it who show traces.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::process::{Command, Stdio};

use serde_json::Value;
use vshare_shm::record::{Cause, Class};
use vshare_shm::{Record, Writer};

use crate::{NOBODY, Scratch, skip, stderr, stdout, vshare, write};

const MS: u64 = 1_000_000;

/// Moves in both directions of which some overlap, waits, and trouble.
pub(crate) fn fill(writer: &Writer) {
    let (address, device) = (0x7f00_0000_0000, 0);
    let (bytes, nanoseconds) = (32 << 20, 2 * MS);
    for i in 0..20 {
        let time = 10 * MS + i * MS;
        writer.record(
            time,
            Record::Allocated {
                address,
                bytes,
                class: Class::Managed,
                stream: 0,
            },
        );
        writer.record(
            time + MS,
            Record::Evicted {
                address,
                bytes,
                nanoseconds,
                device,
            },
        );
        writer.record(
            time + MS / 2,
            Record::Promoted {
                address,
                bytes: bytes / 2,
                nanoseconds: MS,
                device,
            },
        );
        writer.record(
            time + MS,
            Record::Stalled {
                nanoseconds: MS / 2,
                bytes,
                launch: i,
                device,
            },
        );
    }
    writer.record(
        40 * MS,
        Record::Refused {
            bytes,
            cause: Cause::Limit,
            live: 1,
            limit: 2,
        },
    );
}

fn trace(scratch: &Scratch, more: &[&str]) -> Value {
    let mut args = vec!["trace", "-o", "-", "--directory", scratch.text()];
    args.extend(more);
    serde_json::from_str(&stdout(&vshare(&args))).unwrap()
}

#[test]
fn slices_counters_and_names_are_where_viewers_look_for_them() {
    let scratch = Scratch::new("trace");
    let writer = write(&scratch.0, 0);
    fill(&writer);
    let trace = trace(&scratch, &[]);
    let events = trace["traceEvents"].as_array().unwrap();
    let mut names = HashMap::new();
    let mut ends: HashMap<u64, f64> = HashMap::new();
    let mut moved: HashMap<String, u64> = HashMap::new();
    for event in events {
        assert_eq!(event["pid"], writer.pid());
        let tid = event["tid"].as_u64().unwrap_or(0);
        match event["ph"].as_str().unwrap() {
            "M" if event["name"] == "thread_name" => {
                let name = event["args"]["name"].as_str().unwrap().to_owned();
                assert_eq!(names.insert(tid, name), None, "named twice");
            }
            "M" => assert!(
                event["args"]["name"]
                    .as_str()
                    .unwrap()
                    .starts_with("vshare: ")
            ),
            "C" => assert!(event["args"]["bytes"].is_u64()),
            "i" => assert_eq!(event["name"], "refused"),
            "X" => {
                let (start, length) = (
                    event["ts"].as_f64().unwrap(),
                    event["dur"].as_f64().unwrap(),
                );
                let end = ends.entry(tid).or_default();
                assert!(start >= *end, "slices of one track overlap: {event}");
                *end = start + length;
                *moved.entry(names[&tid].clone()).or_default() +=
                    event["args"]["bytes"].as_u64().unwrap();
            }
            other => panic!("{other}"),
        }
    }
    // Each eviction overlaps the one before it: they need two tracks.
    assert_eq!(
        moved["to host from GPU 0"] + moved["to host from GPU 0 (2)"],
        20 * (32 << 20)
    );
    assert_eq!(moved["to GPU 0"], 20 * (16 << 20));
    assert!(moved.contains_key("program waits for moves"));
    let counters = events.iter().filter(|event| event["ph"] == "C");
    assert!(counters.count() > 80);
    assert_eq!(trace["otherData"]["lost_events"], 0);
}

#[test]
fn a_process_is_recorded_for_a_time_or_to_its_end() {
    let scratch = Scratch::new("trace-follow");
    let writer = write(&scratch.0, 0);
    fill(&writer);
    let bytes = fs::read(writer.path()).unwrap();
    fs::remove_file(writer.path()).unwrap();
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let owner = vshare_shm::process::Identity::of(child.id()).unwrap();
    scratch.forge(&bytes, owner.pid, owner.start_time);
    let followed = trace(&scratch, &["--seconds", "1"]);
    let samples = |trace: &Value| {
        let events = trace["traceEvents"].as_array().unwrap();
        events
            .iter()
            .filter(|event| event["name"] == "memory on the GPU")
            .count()
    };
    assert!(samples(&followed) >= 2);
    let out = scratch.0.join("out.json");
    let recorder = Command::new(env!("CARGO_BIN_EXE_vshare"))
        .args([
            "trace",
            "-f",
            "-o",
            out.to_str().unwrap(),
            "--directory",
            scratch.text(),
        ])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdin.take());
    child.wait().unwrap();
    let recorder = recorder.wait_with_output().unwrap();
    assert!(recorder.status.success(), "{recorder:?}");
    let said = stderr(&recorder);
    assert!(
        said.contains("81 events") && said.contains("0 were lost"),
        "{said}"
    );
    let written: Value = serde_json::from_str(&fs::read_to_string(out).unwrap()).unwrap();
    assert_eq!(written["traceEvents"][0]["ph"], "M");
}

#[test]
fn an_interrupt_ends_the_recording_and_not_what_is_made_of_it() {
    let scratch = Scratch::new("trace-interrupt");
    let writer = write(&scratch.0, 0);
    fill(&writer);
    // It is ready when it blocks the signal, which /proc tells.
    let out = scratch.0.join("out.json");
    let recorder = Command::new(env!("CARGO_BIN_EXE_vshare"))
        .args([
            "trace",
            "-f",
            "-o",
            out.to_str().unwrap(),
            "--directory",
            scratch.text(),
        ])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", recorder.id());
    let blocks = |line: &str| {
        let mask = line.strip_prefix("SigBlk:").unwrap_or("0").trim();
        u64::from_str_radix(mask, 16).unwrap() & 2 != 0
    };
    while !fs::read_to_string(&status).unwrap().lines().any(blocks) {
        std::thread::yield_now();
    }
    let kill = Command::new("kill")
        .args(["-INT", &recorder.id().to_string()])
        .status();
    assert!(kill.unwrap().success());
    let recorder = recorder.wait_with_output().unwrap();
    assert_eq!(recorder.status.code(), Some(0), "{recorder:?}");
    assert!(fs::read_to_string(out).unwrap().ends_with("}\n"));
}

#[test]
fn where_it_cannot_be_written_nothing_is_spoilt() {
    let scratch = Scratch::new("trace-out");
    let writer = write(&scratch.0, 0);
    let pid = writer.pid().to_string();
    for out in ["/nonexistent/x.json", scratch.text()] {
        let output = vshare(&["trace", &pid, "-o", out, "--directory", scratch.text()]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(
            stderr(&output).contains(&format!("cannot write {out}")),
            "{output:?}"
        );
    }
    // What is no file is written to, and stays what it is.
    let pipe = scratch.0.join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let reader = Command::new("cat")
        .arg(&pipe)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    stdout(&vshare(&[
        "trace",
        &pid,
        "-o",
        pipe.to_str().unwrap(),
        "--directory",
        scratch.text(),
    ]));
    let read = reader.wait_with_output().unwrap().stdout;
    assert!(String::from_utf8(read).unwrap().ends_with("}\n"));
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    for args in [
        &["trace"][..],
        &["trace", "-o", "x", "--seconds", "0"],
        &["trace", "-o", "x", "-f", "--seconds", "1"],
    ] {
        assert_eq!(vshare(args).status.code(), Some(2));
    }
}

#[test]
fn perfettos_own_processor_reads_it() {
    let Some(processor) = ["trace_processor_shell", "trace_processor"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok())
    else {
        skip("no trace_processor_shell: Perfetto itself has not read a trace");
        return;
    };
    let scratch = Scratch::new("trace-perfetto");
    let writer = write(&scratch.0, 0);
    fill(&writer);
    scratch.forge(&fs::read(writer.path()).unwrap(), NOBODY, 1);
    let out = scratch.0.join("out.json");
    let out = out.to_str().unwrap();
    stdout(&vshare(&[
        "trace",
        &NOBODY.to_string(),
        "-o",
        out,
        "--directory",
        scratch.text(),
    ]));
    let query = scratch.0.join("query.sql");
    fs::write(
        &query,
        "select count(*), sum(dur) from slice where category = 'move';",
    )
    .unwrap();
    let output = Command::new(processor)
        .args(["-q", query.to_str().unwrap(), out])
        .output()
        .unwrap();
    let said = stdout(&output);
    assert!(said.contains("40,60000000"), "{output:?}");
}
