//! `vshare sim` over generated and recorded traces, and over files that are none.
#![expect(clippy::unwrap_used, reason = "a test that cannot start has failed")]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

const MIB: u64 = 1 << 20;

fn sim(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vshare"));
    command.arg("sim").args(args).output().unwrap()
}

fn json(args: &[&str]) -> Value {
    let output = sim(&[args, &["--json"]].concat());
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What is said when a call fails with this code.
fn refused(code: i32, args: &[&str]) -> String {
    let output = sim(args);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn number(value: &Value, path: &str) -> u64 {
    value.pointer(path).unwrap().as_u64().unwrap()
}

/// A file of the test's own, gone when the test has passed or failed.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str, bytes: &[u8]) -> Self {
        let name = format!("cli-sim-{test}-{}.vshtrace", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, bytes).unwrap();
        Self(path)
    }

    fn text(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        _ = fs::remove_file(&self.0);
    }
}

fn recorded(name: &str) -> String {
    format!(
        "{}/../../shim-tests/traces/{name}.vshtrace",
        env!("CARGO_MANIFEST_DIR")
    )
}

#[test]
fn a_recorded_training_cannot_move_less_than_was_measured_to_be_enough() {
    // Measured at a budget of 3276 MiB with a planner that knew the step: 3078 MiB in, 3080 out, in 141 ms.
    let sheets = json(&[&recorded("gpt-exact"), "--budget", "3212MiB"]);
    assert_eq!(number(&sheets, "/0/works_per_step"), 908);
    let bound = sheets.pointer("/0/budgets/0/bound").unwrap();
    let (into, out) = (number(bound, "/in_bytes"), number(bound, "/out_bytes"));
    assert!((2900 * MIB..=3080 * MIB).contains(&into), "{into}");
    assert!((2900 * MIB..=3080 * MIB).contains(&out), "{out}");
    let time = number(bound, "/time_per_step_ns");
    assert!((115_000_000..141_000_000).contains(&time), "{time}");
    // A training moves out and then in: with the best plan the link is never idle for want of room.
    let sum = number(bound, "/sum_ns");
    assert!(
        time >= number(bound, "/least_ns") && time < sum * 102 / 100,
        "{time} {sum}"
    );
    for policy in sheets
        .pointer("/0/budgets/0/policies")
        .unwrap()
        .as_array()
        .unwrap()
    {
        assert!(number(policy, "/time_ns") > time, "{policy}");
        assert!(
            number(policy, "/peak_resident_bytes") <= 3212 * MIB,
            "{policy}"
        );
    }
}

#[test]
fn every_pattern_is_replayed_under_every_policy() {
    for pattern in [
        "scan",
        "training",
        "zipf",
        "decode",
        "phases",
        "ragged",
        "accumulation",
    ] {
        let sheets = json(&["--generate", pattern, "--budget", "50%"]);
        let policies = sheets.pointer("/0/budgets/0/policies").unwrap();
        let policies = policies.as_array().unwrap();
        assert_eq!(policies.len(), 4, "{pattern}");
        for policy in policies {
            let moves = number(policy, "/in_bytes") + number(policy, "/remote_bytes");
            assert!(moves > 0, "{pattern}: {policy}");
        }
    }
}

#[test]
fn a_pattern_is_the_same_each_time_and_its_file_gives_the_same_figures() {
    let file = Scratch::new("out", b"");
    for seed in ["1", "2"] {
        let args = ["--generate", "zipf", "--seed", seed, "--out", file.text()];
        assert!(sim(&args).status.success());
        let of_file = json(&[file.text(), "--policy", "lru", "--budget", "67%"]);
        let generated = json(&[
            "--generate",
            "zipf",
            "--seed",
            seed,
            "--policy",
            "lru",
            "--budget",
            "67%",
        ]);
        assert_eq!(
            of_file.pointer("/0/budgets"),
            generated.pointer("/0/budgets")
        );
    }
    let other = json(&[
        "--generate",
        "zipf",
        "--seed",
        "3",
        "--policy",
        "lru",
        "--budget",
        "67%",
    ]);
    let last = json(&[file.text(), "--policy", "lru", "--budget", "67%"]);
    assert_ne!(other.pointer("/0/budgets"), last.pointer("/0/budgets"));
}

#[test]
fn a_faster_link_takes_less_time() {
    let time = |link| {
        let sheets = json(&[
            "--generate",
            "scan",
            "--policy",
            "lru",
            "--budget",
            "50%",
            "--link",
            link,
        ]);
        (
            number(&sheets, "/0/budgets/0/policies/0/time_ns"),
            number(&sheets, "/0/budgets/0/bound/time_ns"),
        )
    };
    let (slow, fast) = (time("10,10,5,5"), time("400,400,400,400"));
    assert!(
        slow.0 > 2 * fast.0 && slow.1 > 2 * fast.1,
        "{slow:?} {fast:?}"
    );
}

#[test]
fn a_trace_that_was_cut_off_is_used_up_to_there_and_said_to_be() {
    let whole = fs::read(recorded("gpt-exact")).unwrap();
    let cut = Scratch::new("cut", whole.get(..whole.len() - 2).unwrap());
    let output = sim(&[cut.text(), "--policy", "lru", "--budget", "50%"]);
    assert!(output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("ends in the middle of the record"), "{said}");
    assert!(said.contains(cut.text()), "{said}");
}

#[test]
fn what_is_no_trace_is_said_to_be_none() {
    for (name, bytes, words) in [
        ("empty", &b""[..], "not a trace"),
        ("other", b"\x7fELF and so on", "not a trace"),
        ("older", b"vshtrace\x00\x00", "older"),
        ("newer", b"vshtrace\x07\x00", "newer"),
        ("headless", b"vshtrace\x01\x00\x07\x01\x00", "at byte 10"),
        ("short", b"vshtrace", "middle of a record"),
    ] {
        let file = Scratch::new(name, bytes);
        let said = refused(1, &[file.text()]);
        assert!(said.contains(words) && said.contains(file.text()), "{said}");
    }
    let said = refused(1, &["/nowhere/at.all"]);
    assert!(said.contains("cannot read /nowhere/at.all"), "{said}");
    let said = refused(1, &["/"]);
    assert!(said.contains("cannot read /"), "{said}");
}

#[test]
fn budgets_that_mean_nothing_are_refused() {
    for (budget, words) in [
        ("0", "zero"),
        ("-1", "number"),
        ("101%", "large"),
        ("many", "number"),
        ("1MiB", "less than one page"),
        ("0.01%", "less than one page"),
        ("1TiB", "never has more than"),
    ] {
        let said = refused(2, &["--generate", "scan", "--budget", budget]);
        assert!(said.contains(words), "{budget}: {said}");
    }
}

#[test]
fn wrong_usage_is_refused() {
    for args in [
        &[][..],
        &["--generate", "nothing"],
        &["--generate", "scan", "--policy", "best"],
        &["--generate", "scan", "--link", "1,2,3"],
        &["--generate", "scan", "--link", "1,2,3,x"],
        &["--generate", "scan", "--link", "0,1,1,1"],
        &["--generate", "scan", "--skip", "100%"],
        &["--generate", "scan", "--workers", "0"],
        &["--generate", "scan", "trace"],
        &["--out", "file", "trace"],
        &["--seed", "2", "trace"],
    ] {
        refused(2, args);
    }
    let said = refused(1, &["--generate", "scan", "--out", "/nowhere/at.all"]);
    assert!(said.contains("cannot write /nowhere/at.all"), "{said}");
}
