//! Freed memory is handed out again only when nothing that was submitted before can still touch it.

use crate::Bench;

/// What the program does with its streams, see `pool_reuse.c`.
const STREAMS: [&str; 18] = [
    "one-then-another",
    "one-then-known",
    "one-again",
    "two",
    "third",
    "legacy-then-other",
    "other-then-legacy",
    "per-thread",
    "thread-gone",
    "destroyed",
    "freed-then-destroyed",
    "async",
    "event",
    "event-idle",
    "legacy-idle",
    "blocking-idle",
    "small",
    "copies",
];

/// Those that are tried with hardly any room too, where each launch waits for work that is held.
pub(crate) const CROWDED: [&str; 6] = [
    "one-then-another",
    "third",
    "per-thread",
    "async",
    "event-idle",
    "small",
];

fn disturbs_nothing(bench: &Bench, streams: &str, budget: &str) {
    // The last free before a stream goes may wait for its work, as the driver's would.
    let held = match streams {
        "freed-then-destroyed" => "none",
        _ => "spin_us",
    };
    let env = [("VSHARE_BUDGET", budget), ("SIMCUDA_HOLD_KERNEL", held)];
    let outcome = bench.shimmed(&[streams], &env);
    assert_eq!(
        outcome.stdout, "nothing was disturbed\n",
        "{streams} {env:?}: {outcome:?}"
    );
}

#[test]
fn memory_that_work_in_flight_uses_is_given_to_no_other_stream() {
    let bench = Bench::new("reuse");
    for streams in STREAMS {
        let native = bench.native(&[streams], &[]);
        assert_eq!(native.printed(), "nothing was disturbed\n");
        disturbs_nothing(&bench, streams, "700MiB");
    }
}

#[test]
fn nor_is_it_dropped_or_given_away_when_there_is_hardly_any_room() {
    let bench = Bench::new("reuse");
    for streams in CROWDED {
        disturbs_nothing(&bench, streams, "6MiB");
    }
}

#[test]
fn work_of_threads_that_have_ended_does_not_keep_memory_for_ever() {
    let bench = Bench::new("threads");
    let outcome = bench.shimmed(&[], &[("VSHARE_BUDGET", "700MiB")]);
    assert_eq!(outcome.printed(), "used again\n");
}

/// A free that waits does so for its own context's work. What is left of another's still counts.
#[test]
fn memory_that_another_contexts_work_reads_is_given_to_nobody_by_a_free_that_waited() {
    let bench = Bench::new("reuse");
    for wait in ["always", "auto", "never"] {
        let env = [
            ("SIMCUDA_HOLD_KERNEL", "spin_us"),
            ("VSHARE_FREE_WAIT", wait),
        ];
        let outcome = bench.shimmed(&["other-context"], &env);
        assert_eq!(outcome.printed(), "nothing was disturbed\n", "{wait}");
    }
}

/// Several threads with random sizes; what each block held is checked while the next owner may be
/// at work already. Seeds are fixed, what the threads make of them is not.
fn storm(streams: &str, budget: &str, seeds: std::ops::Range<u32>, operations: &str) {
    let bench = Bench::new("storm");
    for seed in seeds {
        let seed = seed.to_string();
        let args = [&*seed, "4", operations, streams, "4096", "24"];
        let env = [("VSHARE_BUDGET", budget)];
        let outcome = bench.shimmed(&args, &env);
        let right = "every block held what was written to it\n";
        assert_eq!(outcome.printed(), right, "{args:?} {env:?}");
    }
}

#[test]
fn a_storm_in_one_stream_disturbs_nothing() {
    storm("one", "700MiB", 0..4, "1500");
    storm("one", "24MiB", 0..4, "1500");
}

#[test]
fn a_storm_in_two_streams_for_each_thread_disturbs_nothing() {
    storm("two", "700MiB", 0..12, "1500");
    storm("two", "24MiB", 0..4, "1500");
}

#[test]
fn a_storm_in_the_legacy_stream_and_others_disturbs_nothing() {
    storm("legacy", "700MiB", 0..8, "1500");
    storm("legacy", "24MiB", 0..3, "1500");
    storm("blocking", "700MiB", 0..4, "1500");
    storm("blocking", "24MiB", 0..3, "1500");
}

#[test]
fn a_storm_in_shared_streams_disturbs_nothing() {
    storm("shared", "700MiB", 0..12, "1500");
    storm("shared", "24MiB", 0..4, "1500");
}

#[test]
fn a_storm_in_per_thread_default_streams_disturbs_nothing() {
    storm("ptsz", "700MiB", 0..12, "1500");
    storm("ptsz", "24MiB", 0..4, "1500");
}

#[test]
fn a_soak_of_twenty_thousand_operations_disturbs_nothing() {
    storm("two", "24MiB", 90..91, "5000");
}

#[test]
fn a_storm_under_the_demand_policy_disturbs_nothing() {
    let bench = Bench::new("storm");
    for streams in ["two", "ptsz"] {
        let args = ["201", "4", "1500", streams, "4096", "24"];
        let env = [("VSHARE_BUDGET", "24MiB"), ("VSHARE_POLICY", "demand")];
        bench.shimmed(&args, &env).printed();
    }
}

/// A waiting free stays right: it only takes longer.
#[test]
fn a_storm_disturbs_nothing_however_frees_wait() {
    let bench = Bench::new("storm");
    for wait in ["always", "never"] {
        let args = ["5", "4", "800", "two", "4096", "24"];
        let env = [("VSHARE_FREE_WAIT", wait), ("VSHARE_BUDGET", "24MiB")];
        bench.shimmed(&args, &env).printed();
    }
}

/// In device memory there is no more than there is: what waits to be free must be found in time, also when another thread is faster and
/// takes what the wait for all work has set free.
#[test]
fn a_storm_in_device_memory_disturbs_nothing() {
    let bench = Bench::new("storm");
    for seed in ["6", "7", "8", "9", "10", "11"] {
        for streams in ["two", "ptsz"] {
            let args = [seed, "4", "1500", streams, "4096", "24"];
            let env = [
                ("SIMCUDA_CONCURRENT_MANAGED", "0"),
                ("SIMCUDA_VRAM", "224M"),
            ];
            let outcome = bench.shimmed(&args, &env);
            assert_eq!(
                outcome.stdout, "every block held what was written to it\n",
                "{args:?}: {outcome:?}"
            );
        }
    }
}

/// A program whose launches all name their memory stays within the budget with many threads, too:
/// four launches of at most two blocks each fit.
#[test]
fn several_threads_together_stay_within_the_budget() {
    const BUDGET: u64 = 64 * crate::MIB;
    let bench = Bench::new("storm");
    for streams in ["one", "two", "shared"] {
        let args = ["7", "4", "1500", streams, "4096", "24"];
        let (_, counters) = bench.counted(&args, &[("VSHARE_BUDGET", "64MiB")]);
        assert_eq!(counters.of("driver_evictions"), 0, "{streams}");
        let peak = counters.of("managed_resident_peak");
        assert!(peak > BUDGET / 2, "{streams}: {peak}");
        assert!(peak <= BUDGET, "{streams}: {peak}");
    }
}
