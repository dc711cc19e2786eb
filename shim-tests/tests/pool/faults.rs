//! Every driver call that vshare makes may fail, at any time and with any code.

use crate::{Bench, Env};
use shim_tests::End;

/// The calls that the library makes itself, as its source has them, without the versions at the ends of their names.
fn calls() -> Vec<&'static str> {
    let source = include_str!("../../../src/vshare-preload/src/driver.rs");
    let names = source.split(" = c\"").skip(1);
    let names = names.filter_map(|rest| rest.split('"').next());
    let mut names: Vec<_> = names.map(|name| name.trim_end_matches("_v2")).collect();
    names.sort_unstable();
    names.dedup();
    assert!(names.len() > 30 && names.iter().all(|n| n.starts_with("cu")));
    names
}

/// Every second of them, for two tests that run side by side.
fn half(first: usize) -> Vec<&'static str> {
    calls().into_iter().skip(first).step_by(2).collect()
}

/// Once and for good with every code; in between with one or another.
const FAILURES: [(&str, &[&str]); 4] = [
    ("1", &["2", "1", "999", "700"]),
    ("2", &["2", "700"]),
    ("5", &["1", "999"]),
    ("2+", &["2", "1", "999", "700"]),
];

/// A failure of each kind.
const FEW: [(&str, &[&str]); 3] = [("1", &["999"]), ("5", &["1"]), ("2+", &["2"])];

/// The program itself checks contents, codes and what is held at the end.
fn fails(calls: &[&str], failures: &[(&str, &[&str])], env: Env<'_>) {
    let bench = Bench::new("faults");
    for call in calls {
        for (turn, codes) in failures {
            for code in *codes {
                // A stream that can never be waited for again makes every move wait in vain.
                if (*call, *turn) == ("cuStreamSynchronize", "2+") && *code != "2" {
                    continue;
                }
                let rule = format!("{call}:{turn}:{code}");
                let outcome = bench.shimmed(&[], &[env, &[("SIMCUDA_FAIL", &*rule)]].concat());
                assert_eq!(outcome.end, End::Code(0), "{rule} {env:?}: {outcome:?}");
            }
        }
    }
}

const LITTLE: Env<'_> = &[("VSHARE_BUDGET", "8MiB")];

#[test]
fn a_call_of_ours_that_fails_harms_nothing_b2_b6() {
    fails(&half(0), &FAILURES, LITTLE);
}

#[test]
fn another_call_of_ours_that_fails_harms_nothing_b2_b6() {
    fails(&half(1), &FAILURES, LITTLE);
}

#[test]
fn calls_that_fail_harm_nothing_under_the_demand_policy() {
    let demand = [("VSHARE_BUDGET", "8MiB"), ("VSHARE_POLICY", "demand")];
    let calls = ["cuMemAllocManaged", "cuMemPrefetchAsync", "cuEventQuery"];
    fails(&calls, &FEW, &demand);
    // Without marks every launch waits in vain: one such call is enough.
    fails(&["cuEventRecord"], &FEW[1..2], &demand);
}

#[test]
fn calls_that_fail_harm_nothing_in_device_memory() {
    let calls = ["cuMemAlloc", "cuEventRecord", "cuMemGetInfo"];
    fails(&calls, &FEW, &[("SIMCUDA_CONCURRENT_MANAGED", "0")]);
}

#[test]
fn without_failures_the_program_has_none_but_the_drivers() {
    let bench = Bench::new("faults");
    assert_eq!(bench.shimmed(&[], LITTLE).printed(), "0 failures\n");
}

/// The program makes none of these itself, and can do without: what vshare has dealt with is not told to it, then or later.
#[test]
fn a_failure_that_was_dealt_with_is_seen_by_no_later_call_b19() {
    let bench = Bench::new("faults");
    for call in [
        "cuMemPrefetchAsync",
        "cuMemDiscardBatchAsync",
        "cuEventRecord",
        "cuEventQuery",
        "cuStreamGetCtx",
        "cuStreamIsCapturing",
        "cuThreadExchangeStreamCaptureMode",
        "cuFuncGetParamInfo",
        "cuKernelGetParamInfo",
        "cuDeviceGetName",
        "cuDeviceGetUuid",
        "cuDriverGetVersion",
        "cuDeviceGetDefaultMemPool",
        "cuDeviceGetMemPool",
    ] {
        for turn in ["1", "2", "7"] {
            for code in ["2", "999"] {
                let rule = format!("{call}:{turn}:{code}");
                let env = [LITTLE, &[("SIMCUDA_FAIL", &*rule)]].concat();
                assert_eq!(bench.shimmed(&[], &env).printed(), "0 failures\n", "{rule}");
            }
        }
    }
}

/// Memory that comes in vain: the driver has none when an extent is asked for, and later it has.
#[test]
fn memory_that_the_driver_refuses_is_refused_and_had_when_there_is_some_b6() {
    let bench = Bench::new("limit");
    let env = [
        ("SIMCUDA_FAIL", "cuMemAllocManaged:2+:2"),
        ("VSHARE_LIMIT", "1GiB"),
        ("VSHARE_BUDGET", "16MiB"),
        ("SIMCUDA_VRAM", "300M"),
    ];
    // One extent of 512 MiB is all there is.
    let line = "512 MiB, then 2\n2 2 99\n2\n";
    assert_eq!(bench.shimmed(&[], &env).printed(), line.repeat(2));
}

#[test]
fn work_that_fails_ends_the_context_and_nothing_hangs() {
    Bench::new("life").agrees(&["broken", "1"]);
}
