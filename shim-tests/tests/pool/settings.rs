//! The variables: what is absurd is said in one line, and the program's own output is untouched.

use crate::Bench;

const SIZES: [&str; 14] = [
    "",
    " ",
    "abc",
    "-5",
    "0",
    "0m",
    "0%",
    "101%",
    "1x",
    "GiB",
    "nan%",
    "99999999999999999999",
    "1 2",
    "1e9",
];
const WORDS: [&str; 6] = ["", " ", "maybe", "2", "-1", "lru,demand"];

#[test]
fn a_bad_value_gives_one_line_that_names_variable_value_and_what_is_used_b10() {
    let bench = Bench::new("info");
    let native = bench.native(&[], &[]);
    for (name, values, used) in [
        ("VSHARE_BUDGET", &SIZES[..], "free on the device"),
        ("VSHARE_LIMIT", &SIZES, "the budget and what the host has"),
        ("VSHARE_POLICY", &WORDS, "lru"),
        ("VSHARE_FREE_WAIT", &WORDS, "auto"),
        ("VSHARE_ROAD", &WORDS, "auto"),
        ("VSHARE_DISABLE", &WORDS, "vshare is on"),
        ("VSHARE_TRACE_TIMES", &WORDS, "without the device's times"),
        ("VSHARE_TRACE", &[""], "nothing is recorded"),
    ] {
        for value in values {
            let outcome = bench.shimmed(&[], &[(name, value)]);
            assert_eq!(outcome.end, native.end, "{name}={value:?}");
            assert_eq!(outcome.stdout, native.stdout, "{name}={value:?}");
            let [line] = *outcome.stderr.lines().collect::<Vec<_>>() else {
                panic!("{name}={value:?}: {outcome:?}");
            };
            let says = format!("vshare: {name}='{value}'");
            assert!(line.starts_with(&says) && line.contains(used), "{line}");
        }
    }
}

#[test]
fn several_bad_values_give_a_line_each_and_a_fork_repeats_none() {
    let bench = Bench::new("fork");
    let env = [("VSHARE_BUDGET", "x"), ("VSHARE_LIMIT", "y")];
    let outcome = bench.shimmed(&["exec"], &env);
    assert_eq!(outcome.stdout, "done\n");
    assert_eq!(outcome.stderr.lines().count(), 2, "{outcome:?}");
}

#[test]
fn what_is_no_text_is_said_without_being_repeated_raw() {
    use std::os::unix::ffi::OsStrExt;
    let bench = Bench::new("info");
    let native = bench.native(&[], &[]);
    let raw = std::ffi::OsStr::from_bytes(b"\xff\x1b[31m\n5");
    let run = bench.run(&[], &[]).env("VSHARE_BUDGET", raw);
    let outcome = run.preload(&[&shim_tests::shim()]).go();
    assert_eq!(outcome.stdout, native.stdout);
    assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:?}");
    assert!(!outcome.stderr.contains('\u{1b}'), "{outcome:?}");
}

/// A write to such a pipe ends a program that has not prepared for it; this one would not have written.
#[test]
fn a_line_that_nobody_reads_does_not_end_the_program() {
    let bench = Bench::new("info");
    let native = bench.native(&[], &[]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let run = bench.run(&[], &[("VSHARE_BUDGET", "x")]).stderr(writer);
    assert_eq!(run.preload(&[&shim_tests::shim()]).go(), native);
}

/// More than there is, or less than a page: what is used is said.
#[test]
fn more_than_there_is_and_less_than_a_page_are_said_in_one_line() {
    let bench = Bench::new("info");
    let native = bench.native(&[], &[]);
    for (name, value) in [
        ("VSHARE_BUDGET", "100%"),
        ("VSHARE_BUDGET", "4GiB"),
        ("VSHARE_BUDGET", "8388607T"),
        ("VSHARE_BUDGET", "1"),
        ("VSHARE_LIMIT", "900000GiB"),
    ] {
        let outcome = bench.shimmed(&[], &[(name, value)]);
        assert_eq!(outcome.stdout, native.stdout, "{name}={value}");
        let [line] = *outcome.stderr.lines().collect::<Vec<_>>() else {
            panic!("{name}={value}: {outcome:?}");
        };
        assert!(line.contains(name) && line.contains("using"), "{line}");
    }
}

#[test]
fn good_values_are_taken_without_a_word() {
    let bench = Bench::new("info");
    for (name, value) in [
        ("VSHARE_BUDGET", "64MiB"),
        ("VSHARE_BUDGET", " 10% "),
        ("VSHARE_BUDGET", "0.5Gi"),
        ("VSHARE_LIMIT", "900MB"),
        ("VSHARE_POLICY", "Demand"),
        ("VSHARE_FREE_WAIT", "never"),
        ("VSHARE_ROAD", "Libcuda"),
        ("VSHARE_DISABLE", "no"),
    ] {
        bench.shimmed(&[], &[(name, value)]).printed();
    }
}

/// Another start, another budget: nothing of the first is left (D5).
#[test]
fn a_new_budget_holds_from_the_next_start_d5() {
    let bench = Bench::new("pressure");
    for mib in [24, 12, 24] {
        let budget = format!("{mib}MiB");
        let (_, counters) = bench.counted(&["extra", "48"], &[("VSHARE_BUDGET", &budget)]);
        let peak = counters.of("managed_resident_peak");
        assert!(
            peak <= mib * crate::MIB && peak > (mib - 8) * crate::MIB,
            "{mib}: {peak}"
        );
    }
}
