//! Memory holds what was written to it, wherever it lay meanwhile, and stays within the budget.

use crate::{Bench, MIB};

/// How work names its memory, and whether all of it is named, so that none need fault.
pub(crate) const WORK: [(&str, bool); 8] = [
    ("kernels", true),
    ("copies", true),
    ("interior", true),
    ("struct", true),
    ("extra", true),
    ("two", true),
    ("hidden", false),
    ("huge", false),
];

/// Runs the same work natively and with a half and a quarter of what it needs.
fn half_and_quarter(policy: &str) {
    let bench = Bench::new("pressure");
    for (work, named) in WORK {
        let native = bench.native(&[work, "48"], &[]);
        for (budget, mib) in [("24MiB", 24), ("12MiB", 12)] {
            let env = [("VSHARE_POLICY", policy), ("VSHARE_BUDGET", budget)];
            let (printed, counters) = bench.counted(&[work, "48"], &env);
            assert_eq!(printed, native.printed(), "{work} {env:?}");
            assert_eq!(counters.of("driver_evictions"), 0, "{work} {env:?}");
            if named {
                let peak = counters.of("managed_resident_peak");
                assert!(peak <= mib * MIB, "{work} {env:?}: {peak}");
            }
            if named && policy == "lru" {
                assert_eq!(counters.of("faults"), 0, "{work} {env:?}");
            }
        }
    }
}

#[test]
fn results_are_the_same_with_a_half_and_a_quarter_of_the_memory() {
    half_and_quarter("lru");
}

#[test]
fn results_are_the_same_when_launches_fault_their_data_in() {
    half_and_quarter("demand");
}

#[test]
fn with_room_nothing_faults_and_nothing_leaves() {
    let bench = Bench::new("pressure");
    for (work, _) in WORK {
        let native = bench.native(&[work, "48"], &[]);
        let (printed, counters) = bench.counted(&[work, "48"], &[]);
        assert_eq!(printed, native.printed(), "{work}");
        for counter in ["faults", "evict_calls", "driver_evictions"] {
            assert_eq!(counters.of(counter), 0, "{work} {counter}");
        }
    }
}

/// A driver of 11.0 names no parameters and orders no allocations: it is slower there, not wrong.
#[test]
fn old_drivers_serve_too_and_get_the_prefetch_they_know_a14_a15() {
    let bench = Bench::new("pressure");
    let native = bench.native(&["kernels", "48"], &[]);
    for (driver, old) in [
        ("11000", true),
        ("11050", true),
        ("12040", false),
        ("13000", false),
    ] {
        for policy in ["lru", "demand"] {
            let env = [
                ("SIMCUDA_DRIVER", driver),
                ("VSHARE_POLICY", policy),
                ("VSHARE_BUDGET", "24MiB"),
            ];
            let (printed, counters) = bench.counted(&["kernels", "48"], &env);
            assert_eq!(printed, native.printed(), "{env:?}");
            assert_eq!(counters.of("driver_evictions"), 0, "{env:?}");
            assert_eq!(counters.of("cuMemPrefetchAsync") > 0, old, "{env:?}");
            assert!(counters.of("evicted_bytes") > 0, "{env:?}");
        }
    }
}

#[test]
fn one_page_is_budget_enough() {
    let bench = Bench::new("pressure");
    let native = bench.native(&["extra", "12"], &[]);
    for budget in ["2MiB", "3MiB"] {
        for policy in ["lru", "demand"] {
            let env = [("VSHARE_BUDGET", budget), ("VSHARE_POLICY", policy)];
            let (printed, _) = bench.counted(&["extra", "12"], &env);
            assert_eq!(printed, native.printed(), "{env:?}");
        }
    }
}
