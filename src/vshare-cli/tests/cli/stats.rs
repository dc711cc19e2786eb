//! `vshare stats` and `vshare run --stats`.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use vshare_shm::{counters, directory};

use crate::{Scratch, stderr, stdout, vshare, write};

#[test]
fn no_segment_is_said_and_is_no_failure() {
    let scratch = Scratch::new("none");
    let output = vshare(&["stats", "--directory", scratch.text()]);
    assert_eq!(stdout(&output), "");
    assert!(stderr(&output).contains("no process has run under vshare"));
    let output = vshare(&["stats", "--json", "--directory", scratch.text()]);
    assert_eq!(stdout(&output), "[]\n");
}

#[test]
fn a_directory_that_is_not_there_or_holds_nothing_that_can_be_read_is_a_failure() {
    let scratch = Scratch::new("wrong");
    let missing = scratch.0.join("missing");
    let output = vshare(&["stats", "--directory", missing.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no directory"), "{output:?}");
    fs::write(scratch.0.join("vshare-0-4000000-1"), "x").unwrap();
    let output = vshare(&["stats", "--directory", scratch.text()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("none of the 1"), "{output:?}");
}

#[test]
fn a_segment_is_shown_by_pid_by_path_and_in_the_list() {
    let scratch = Scratch::new("one");
    let writer = write(&scratch.0, 0);
    let pid = writer.pid().to_string();
    let path = writer.path().to_str().unwrap();
    for which in [&*pid, path] {
        let text = stdout(&vshare(&["stats", "--directory", scratch.text(), which]));
        for part in [
            "NVIDIA H200",
            "CUDA 13.1",
            "9.8.7",
            "live",
            "peak_live_bytes",
            "1.5 GiB",
            "1.5 s",
            "most that was live at one time",
        ] {
            assert!(text.contains(part), "no {part:?} in {text}");
        }
        for row in counters::TABLE {
            assert!(
                text.contains(row.name) && text.contains(row.help),
                "{}",
                row.name
            );
        }
        let json = stdout(&vshare(&[
            "stats",
            "--json",
            "--directory",
            scratch.text(),
            which,
        ]));
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["counters"]["promoted_bytes"], 7 << 20);
        assert_eq!(
            json["device"]["uuid"],
            "GPU-abababab-abab-abab-abab-abababababab"
        );
        assert_eq!(json["state"], "live");
    }
    let list = stdout(&vshare(&["stats", "--directory", scratch.text()]));
    assert_eq!(list.lines().count(), 2, "{list}");
    assert!(list.lines().nth(1).unwrap().starts_with(&*pid), "{list}");
}

#[test]
fn what_cannot_be_read_is_named_with_its_reason() {
    let scratch = Scratch::new("bad");
    let writer = write(&scratch.0, 0);
    let own = writer.path().to_owned();
    let mut bytes = fs::read(&own).unwrap();
    bytes[2] = 9; // the major version's low byte
    let newer = scratch.0.join("vshare-0-4000000-1");
    fs::write(&newer, &bytes).unwrap();
    let short = scratch.0.join("short");
    fs::write(&short, "x").unwrap();
    for (which, reason) in [
        ("4000000", "format 9.0, and this reader knows 1.0"),
        (newer.to_str().unwrap(), "format 9.0"),
        (short.to_str().unwrap(), "1 bytes long"),
        ("1", "has no segment"),
        ("nonsense", "neither a process's number"),
    ] {
        let output = vshare(&["stats", "--directory", scratch.text(), which]);
        assert_eq!(output.status.code(), Some(1));
        let said = stderr(&output);
        assert!(
            said.contains(reason) && said.contains(which) && said.lines().count() == 1,
            "{said}"
        );
    }
    // In the list it is mentioned and the others are shown.
    let output = vshare(&["stats", "--directory", scratch.text()]);
    assert_eq!(stdout(&output).lines().count(), 2);
    assert!(stderr(&output).contains("format 9.0"));
}

#[test]
fn a_reader_that_stops_listening_is_no_failure() {
    let scratch = Scratch::new("pipe");
    write(&scratch.0, 0);
    let script = "\"$0\" stats --directory \"$1\" | true; \"$0\" stats --directory \"$1\" >/dev/full; echo $?";
    let output = Command::new("bash")
        .args([
            "-o",
            "pipefail",
            "-c",
            script,
            env!("CARGO_BIN_EXE_vshare"),
            scratch.text(),
        ])
        .output()
        .unwrap();
    assert_eq!(stdout(&output), "1\n");
    assert_eq!(stderr(&output).lines().count(), 1);
    assert!(stderr(&output).contains("cannot write to stdout"));
}

/// Run by the test below, through `vshare run`, in the place of a program that uses CUDA.
#[test]
#[ignore = "run by another test, under vshare"]
fn stands_in_for_a_program() {
    let run = std::env::var("VSHARE_RUN").unwrap().parse().unwrap();
    write(Path::new(directory::DEFAULT), run);
}

#[test]
fn a_watched_run_reports_what_its_programs_held_and_moved() {
    let test = std::env::current_exe().unwrap();
    // Not the child itself, but one that it starts; and preloading the C library changes nothing.
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let library = maps
        .split_whitespace()
        .find(|word| word.ends_with("libc.so.6"))
        .unwrap();
    let script =
        "\"$0\" --quiet --exact stats::stands_in_for_a_program --ignored >/dev/null; exit 7";
    for json in [false, true] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vshare"));
        command.args(["run", "--library", library, "--stats"]);
        if json {
            command.arg("--json");
        }
        let output = command
            .args(["sh", "-c", script])
            .arg(&test)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(7), "{output:?}");
        let said = stderr(&output);
        let pid = if json {
            let said: Value = serde_json::from_str(&said).unwrap();
            let processes = said["processes"].as_array().unwrap();
            assert_eq!(processes.len(), 1, "{said}");
            assert_eq!(processes[0]["counters"]["peak_live_bytes"], 3u64 << 29);
            processes[0]["pid"].as_u64().unwrap().to_string()
        } else {
            for part in [
                "NVIDIA H200",
                "1.5 GiB",
                "budget of 1.0 GiB",
                "7.0 MiB in 3 moves",
                "1.5 s",
            ] {
                assert!(said.contains(part), "no {part:?} in {said}");
            }
            said.split_once("(pid ")
                .unwrap()
                .1
                .split_once(',')
                .unwrap()
                .0
                .to_owned()
        };
        let found = directory::list(Path::new(directory::DEFAULT)).unwrap();
        let found = found
            .iter()
            .find(|found| found.owner.pid.to_string() == pid);
        fs::remove_file(&found.unwrap().path).unwrap();
    }
}
