//! `vshare ps`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::{NOBODY, Scratch, set_word, skip, stderr, stdout, vshare, write};

fn list(scratch: &Scratch) -> Vec<Value> {
    let said = stdout(&vshare(&["ps", "--json", "--directory", scratch.text()]));
    serde_json::from_str(&said).unwrap()
}

#[test]
fn no_process_is_said_and_is_no_failure() {
    let scratch = Scratch::new("ps-none");
    let output = vshare(&["ps", "--directory", scratch.text()]);
    assert_eq!(stdout(&output), "");
    assert!(stderr(&output).contains("no process has run under vshare"));
    assert_eq!(list(&scratch), [Value::Null; 0]);
    let missing = scratch.0.join("missing");
    let output = vshare(&["ps", "--directory", missing.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_line_says_who_holds_what_and_whether_he_lives() {
    let scratch = Scratch::new("ps-lines");
    let writer = write(&scratch.0, 0);
    let bytes = fs::read(writer.path()).unwrap();
    scratch.forge(&bytes, NOBODY, 7);
    let mut exited = bytes.clone();
    set_word(&mut exited, 0x10, 2);
    scratch.forge(&exited, NOBODY + 1, 8);
    // A pid that was given out again: not the process that this segment is of.
    scratch.forge(&bytes, writer.pid(), 9);

    let text = stdout(&vshare(&["ps", "--directory", scratch.text()]));
    let mut lines = text.lines();
    let head: Vec<_> = lines.next().unwrap().split_whitespace().collect();
    let expected = [
        "PID", "USER", "STATE", "DEVICE", "LIVE", "RESIDENT", "BUDGET", "HOST", "MOVED", "COMMAND",
    ];
    assert_eq!(head, expected);
    for line in lines {
        for part in [
            "1.2 GiB",
            "768.0 MiB",
            "1.0 GiB",
            "512.0 MiB",
            "16.0 MiB",
            " 0 ",
        ] {
            assert!(line.contains(part), "no {part:?} in {line}");
        }
    }
    let listed = list(&scratch);
    let of = |pid: u32, start: u64| {
        let found = listed
            .iter()
            .find(|p| p["pid"] == pid && p["start_time"] == start);
        found.unwrap_or_else(|| panic!("no {pid} in {listed:?}"))
    };
    let own = &listed[0];
    assert_eq!(own["alive"], true, "the living first: {listed:?}");
    assert_eq!(
        (&own["pid"], &own["state"]),
        (&writer.pid().into(), &"live".into())
    );
    assert_eq!(own["moved_bytes"], 16 << 20);
    assert_eq!(own["device"]["name"], "NVIDIA H200");
    let me = Command::new("id").arg("-un").output().unwrap();
    assert_eq!(own["user"], stdout(&me).trim());
    assert!(own["command"].as_str().unwrap().contains("cli-"), "{own}");
    for (pid, start, state) in [
        (NOBODY, 7, "dead"),
        (NOBODY + 1, 8, "exited"),
        (writer.pid(), 9, "dead"),
    ] {
        assert_eq!(
            (&of(pid, start)["state"], &of(pid, start)["alive"]),
            (&state.into(), &false.into())
        );
    }
}

#[test]
fn pruning_takes_the_dead_and_leaves_the_living() {
    let scratch = Scratch::new("ps-prune");
    let writer = write(&scratch.0, 0);
    let bytes = fs::read(writer.path()).unwrap();
    scratch.forge(&bytes, NOBODY, 7);
    fs::write(scratch.0.join("vshare-0-4194306-1"), "no segment").unwrap();
    fs::write(scratch.0.join("somebody else's"), "").unwrap();
    let output = vshare(&["ps", "--prune", "--json", "--directory", scratch.text()]);
    let said: Vec<Value> = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(said[0]["alive"], true);
    assert!(stderr(&output).contains("removed 2 segments"), "{output:?}");
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 2);
    let output = vshare(&["ps", "--prune", "--directory", scratch.text()]);
    assert!(stderr(&output).contains("removed 0 segments"), "{output:?}");
}

#[test]
fn what_is_no_segment_is_named_and_the_others_are_listed() {
    let scratch = Scratch::new("ps-bad");
    write(&scratch.0, 0);
    fs::write(scratch.0.join("vshare-0-4194306-1"), "no segment").unwrap();
    let output = vshare(&["ps", "--directory", scratch.text()]);
    assert_eq!(stdout(&output).lines().count(), 2);
    let said = stderr(&output);
    assert!(said.contains("vshare-0-4194306-1: 10 bytes long"), "{said}");
}

#[test]
fn another_users_process_is_listed_without_what_is_private() {
    let scratch = Scratch::new("ps-foreign");
    write(&scratch.0, 0);
    // Where another user can run it: what the build made may lie in a private place. Copied by another process, because a file
    // that this one has open for writing, if only in a child of another thread's, cannot be run.
    let program = scratch.0.join("vshare");
    let copied = Command::new("cp")
        .arg(env!("CARGO_BIN_EXE_vshare"))
        .arg(&program)
        .status();
    assert!(copied.unwrap().success());
    fs::set_permissions(&scratch.0, fs::Permissions::from_mode(0o755)).unwrap();
    let as_nobody = |program: &Path, args: &[&str]| {
        Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(program)
            .args(args)
            .output()
    };
    if !as_nobody(Path::new("true"), &[]).is_ok_and(|output| output.status.success()) {
        skip("not root, or no setpriv: no other user to ask as");
        return;
    }
    let output = &as_nobody(&program, &["ps", "--json", "--directory", scratch.text()]).unwrap();
    let said: Vec<Value> = serde_json::from_str(&stdout(output)).unwrap();
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(
        (&said[0]["readable"], &said[0]["alive"]),
        (&false.into(), &true.into())
    );
    assert_eq!(said[0].get("command"), None);
    assert_eq!(stderr(output), "");
}
