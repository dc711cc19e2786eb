//! What is published in shared memory: of every process its own, and without it the program runs as well.

use crate::Bench;
use shim_tests::{Outcome, Run, artifact, shim};
use std::path::Path;
use vshare_shm::directory::{self, Found};
use vshare_shm::reader::Segment;

const PUBLISHED: crate::Env<'_> = &[("VSHARE_TELEMETRY", "1"), ("VSHARE_BUDGET", "8MiB")];

/// A number of a process, as `vshare stats --json` has it.
fn number(json: &str, name: &str) -> u64 {
    let (_, rest) = json.split_once(&format!("\"{name}\": ")).unwrap();
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
    digits.unwrap().parse().unwrap()
}

/// Runs a program: its process id, and what came of it. Its standard output goes where its standard error goes.
fn run(bench: &Bench, args: &[&str], env: crate::Env<'_>) -> (String, Outcome) {
    let mut words = vec![
        "-c",
        "\"$0\" \"$@\" >&2 & wait $!; echo $!",
        bench.program.to_str().unwrap(),
    ];
    words.extend(args);
    let mut run = Run::new("sh").args(words).libraries(bench.dir.path());
    for (name, value) in [PUBLISHED, env].concat() {
        run = run.env(name, value);
    }
    let outcome = run.preload(&[&shim()]).go();
    (outcome.stdout.trim().to_owned(), outcome)
}

/// Runs a program and reads what it left.
fn left(program: &str, args: &[&str], env: crate::Env<'_>) -> String {
    let (pid, outcome) = run(&Bench::new(program), args, env);
    let stats = Run::new(artifact("vshare"))
        .args(["stats", &pid, "--json"])
        .go();
    assert!(!stats.stdout.is_empty(), "{outcome:?} {stats:?}");
    stats.stdout
}

/// Runs a program, and what it left as other readers see it, with what came of it.
pub(crate) fn segment_of_all(
    bench: &Bench,
    args: &[&str],
    env: crate::Env<'_>,
) -> (Segment, Outcome) {
    let (pid, outcome) = run(bench, args, env);
    let found = directory::list(Path::new(directory::DEFAULT)).unwrap();
    let own = |found: &Found| found.owner.pid.to_string() == pid;
    let newest = found
        .into_iter()
        .filter(own)
        .max_by_key(|f| f.owner.start_time);
    let segment = newest.and_then(|found| Segment::open(&found.path).ok());
    assert!(segment.is_some(), "{outcome:?}");
    (segment.unwrap(), outcome)
}

/// As [`segment_of_all`], without what came of it.
pub(crate) fn segment_of(bench: &Bench, args: &[&str], env: crate::Env<'_>) -> Segment {
    segment_of_all(bench, args, env).0
}

#[test]
fn what_was_held_has_been_given_back_and_what_moved_is_counted_b9() {
    let json = left("pressure", &["extra", "24"], &[]);
    assert!(json.contains("exited"), "{json}");
    assert_eq!(number(&json, "live_bytes"), 2 * 4096, "{json}");
    assert_eq!(number(&json, "budget_bytes"), 8 << 20);
    assert_eq!(number(&json, "driver_failures"), 0);
    assert_eq!(number(&json, "panics"), 0);
    assert!(number(&json, "peak_resident_bytes") <= 8 << 20);
    assert!(number(&json, "evicted_bytes") > 0);
}

/// What a killed process has published is what anybody would have read while it lived.
#[test]
fn what_is_held_can_be_read_also_when_everything_fits() {
    let room = [("VSHARE_BUDGET", "700MiB")];
    let json = left("exit", &["kill"], &room);
    assert!(json.contains("dead"), "{json}");
    assert_eq!(number(&json, "budget_bytes"), 700 << 20, "{json}");
    for name in [
        "limit_bytes",
        "resident_bytes",
        "peak_resident_bytes",
        "arena_bytes",
    ] {
        assert!(number(&json, name) > 0, "{name}: {json}");
    }
    assert!(
        number(&json, "resident_bytes") >= number(&json, "live_bytes"),
        "{json}"
    );
}

#[test]
fn what_was_held_at_most_outlives_the_context_that_held_it() {
    let json = left("life", &["release", "1"], &[("VSHARE_BUDGET", "700MiB")]);
    assert_eq!(number(&json, "budget_bytes"), 700 << 20, "{json}");
    assert_eq!(number(&json, "resident_bytes"), 0, "{json}");
    for name in ["limit_bytes", "peak_live_bytes", "peak_resident_bytes"] {
        assert!(number(&json, name) > 0, "{name}: {json}");
    }
}

/// A small allocation takes little of the limit, and nothing of what the limit leaves for large ones.
#[test]
fn a_small_limit_is_had_to_the_last_page_and_what_is_above_it_is_refused_by_the_limit() {
    let limit = [("VSHARE_LIMIT", "32MiB"), ("VSHARE_BUDGET", "700MiB")];
    let bench = Bench::new("limit");
    let line = "30 MiB, then 2\n2 2 99\n2\n";
    assert_eq!(bench.shimmed(&["100"], &limit).printed(), line.repeat(2));
    let json = left("limit", &["100"], &limit);
    assert_eq!(number(&json, "oom_driver"), 0, "{json}");
    assert_eq!(number(&json, "oom_limit"), 8, "{json}");
}

/// A launch that waited in vain would have its data faulted in, over the budget.
#[test]
fn two_contexts_that_want_room_at_the_same_time_get_it_in_turn() {
    let bench = Bench::new("pair");
    for seed in ["1", "2", "3"] {
        let args = [seed, "60"];
        let (segment, outcome) = segment_of_all(&bench, &args, &[("VSHARE_BUDGET", "48MiB")]);
        assert!(outcome.stderr.contains("every block held"), "{outcome:?}");
        assert!(segment.value("stalls") > Some(0), "{seed}");
        assert_eq!(segment.value("over_budget_launches"), Some(0), "{seed}");
    }
}

#[test]
fn failures_are_counted_and_counters_return_b6() {
    let fail = [("SIMCUDA_FAIL", "cuMemPrefetchAsync:3+:2")];
    let json = left("faults", &[], &fail);
    assert!(number(&json, "driver_failures") > 0, "{json}");
    assert_eq!(number(&json, "live_bytes"), 0, "{json}");
    assert_eq!(number(&json, "panics"), 0, "{json}");
}

/// The second process is seen as well as the first, and a killed one is seen to be dead.
#[test]
fn every_process_is_seen_and_a_dead_one_is_seen_to_be_dead_d1_d11() {
    for (how, state) in [
        ("exit", "exited"),
        ("kill", "dead"),
        ("_exit", "exited"),
        ("exit", "exited"),
    ] {
        let json = left("exit", &[how], &[]);
        assert_eq!(number(&json, "budget_bytes"), 8 << 20, "{json}");
        let says_so = json.contains(state) || json.contains("dead");
        assert!(says_so && !json.contains("\"alive\""), "{how}: {json}");
    }
}

/// Runs the program where shared memory is as `prepare` leaves it, if this machine lets us.
fn with_shared_memory(prepare: &str) {
    let bench = Bench::new("pressure");
    let native = bench.native(&["extra", "24"], &[]);
    let can = Run::new("unshare").args(["-m", "true"]).go().end == shim_tests::End::Code(0);
    if !can {
        shim_tests::skip("no unshare, or not root");
        return;
    }
    let shim = shim();
    let command = format!(
        "{prepare}; LD_PRELOAD={} exec {} extra 24",
        shim.display(),
        bench.program.display()
    );
    let mut run = Run::new("unshare").args(["-m", "sh", "-c", &*command]);
    for (name, value) in PUBLISHED {
        run = run.env(name, value);
    }
    let outcome = run.libraries(bench.dir.path()).go();
    assert_eq!(outcome.stdout, native.stdout, "{prepare}: {outcome:?}");
    assert_eq!(outcome.end, native.end, "{prepare}: {outcome:?}");
    assert!(
        outcome.stderr.lines().count() <= 1,
        "{prepare}: {outcome:?}"
    );
}

#[test]
fn without_shared_memory_nothing_is_published_and_the_program_runs_d6_d7() {
    for prepare in [
        "mount -t tmpfs -o ro none /dev/shm",
        "mount -t tmpfs -o size=4k none /dev/shm",
        "mount -t tmpfs -o nr_inodes=1 none /dev/shm",
        "mount --bind /proc /dev/shm",
        "mount --bind /dev/null /dev/null; mount -t tmpfs none /dev; mkdir /dev/none",
        "ulimit -n 16",
    ] {
        with_shared_memory(prepare);
    }
}

#[test]
fn a_user_who_may_not_write_there_runs_the_program_as_well_d6() {
    let bench = Bench::new("info");
    let native = bench.native(&[], &[]);
    let can = Run::new("setpriv")
        .args(["--reuid", "65534", "--clear-groups", "true"])
        .go();
    if can.end != shim_tests::End::Code(0) || !Path::new("/dev/shm").is_dir() {
        shim_tests::skip("no setpriv, not root, or no /dev/shm");
        return;
    }
    let command = format!(
        "mount -t tmpfs -o mode=755 none /dev/shm; LD_PRELOAD={} exec setpriv --reuid 65534 --clear-groups {}",
        shim().display(),
        bench.program.display()
    );
    let run = Run::new("unshare").args(["-m", "sh", "-c", &*command]);
    let outcome = run
        .libraries(bench.dir.path())
        .env("VSHARE_TELEMETRY", "1")
        .go();
    if outcome.stderr.contains("unshare") {
        shim_tests::skip("unshare is not allowed");
        return;
    }
    assert_eq!(outcome.stdout, native.stdout, "{outcome:?}");
    assert_eq!(outcome.end, native.end, "{outcome:?}");
}
