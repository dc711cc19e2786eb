//! Results, codes and reports: as the driver's own would be.

use crate::{Bench, Env, PLACES};

#[test]
fn what_may_not_be_freed_is_refused_as_by_the_driver_and_nothing_is_lost_b4_b9() {
    Bench::new("frees").agrees(&[]);
}

/// As an H200 with CUDA 13.0 has it (`scripts/bench/probe.c`); the simulated driver refuses.
#[test]
fn a_free_needs_no_current_context() {
    let bench = Bench::new("frees");
    assert_eq!(bench.shimmed(&["without"], &[]).printed(), "0 freed\n");
}

#[test]
fn odd_absent_and_absurd_sizes_are_answered_as_by_the_driver_b2() {
    Bench::new("sizes").agrees(&[]);
}

#[test]
fn a_block_is_described_as_the_drivers_own_would_be_c3_c4() {
    Bench::new("queries").agrees(&[]);
}

#[test]
fn what_is_free_follows_what_is_allocated_and_null_is_not_asked_for_b1_b15() {
    Bench::new("info").agrees(&[]);
}

#[test]
fn the_total_is_the_limit_or_the_device_whichever_is_less_b8_b11() {
    let bench = Bench::new("info");
    for (vram, limit, says) in [
        ("600M", "300MiB", "all: total 300 free 300"),
        ("600M", "50%", "all: total 300 free 300"),
        ("600M", "9GiB", "all: total 600 free 600"),
        ("400M", "380MiB", "all: total 380 free 380"),
    ] {
        // A budget below what any context takes is no reason to fail.
        for budget in ["1MiB", "100MiB"] {
            let env = [
                ("SIMCUDA_VRAM", vram),
                ("VSHARE_LIMIT", limit),
                ("VSHARE_BUDGET", budget),
            ];
            let outcome = bench.shimmed(&["all"], &env);
            assert_eq!(outcome.stdout.lines().last(), Some(says), "{env:?}");
        }
    }
}

/// Without a limit the total is the device's own, however little of it the budget is and however much the host has.
#[test]
fn without_a_limit_the_total_is_the_devices_own_b12() {
    let bench = Bench::new("info");
    for vram in ["400M", "600M"] {
        let env = [("SIMCUDA_VRAM", vram)];
        let native = bench.native(&["all"], &env);
        for place in PLACES {
            let outcome = bench.shimmed(&["all"], &[&env, place].concat());
            assert_eq!(outcome.stdout, native.stdout, "{vram} {place:?}");
        }
    }
}

#[test]
fn functions_of_cuda_13_and_old_ones_get_their_own_arguments_a14() {
    let bench = Bench::new("newest");
    let native = bench.native(&[], &[]);
    assert!(native.printed().contains("host: -1 -1\n"), "{native:?}");
    // Where there is managed memory to prefetch.
    for place in &PLACES[..3] {
        assert_eq!(bench.shimmed(&[], place), native, "{place:?}");
    }
}

#[test]
fn pools_hold_what_was_taken_from_them_and_exported_ones_are_the_drivers_b3_c20() {
    Bench::new("async").agrees(&[]);
}

/// What work in flight does to host memory, see `pool_host.c`.
const TO_HOST: [&str; 17] = [
    "kernel",
    "two",
    "interior",
    "extra",
    "copy",
    "registered",
    "registered-copy",
    "managed",
    "function",
    "graph",
    "after-sync",
    "other-sync",
    "freed-before",
    "before-first",
    "other-context",
    "other-free",
    "while-waiting",
];

/// Frees before the one that counts: with none, and after so many that it pays to look closer.
const FREES: [&str; 2] = ["0", "80"];

#[test]
fn a_free_has_waited_for_what_the_host_can_see() {
    let bench = Bench::new("host");
    for how in TO_HOST {
        let native = bench.native(&[how], &[]);
        assert_eq!(native.printed(), "flag 1\n", "{how}");
        for frees in FREES {
            for place in PLACES {
                let outcome = bench.shimmed(&[how, frees], place);
                assert_eq!(
                    outcome.stdout, native.stdout,
                    "{how} {frees} {place:?}: {outcome:?}"
                );
            }
        }
        let always = bench.shimmed(&[how], &[("VSHARE_FREE_WAIT", "always")]);
        assert_eq!(always.printed(), "flag 1\n", "{how}");
    }
    let never = bench.shimmed(&["kernel"], &[("VSHARE_FREE_WAIT", "never")]);
    assert_eq!(never.printed(), "flag 0\n");
}

#[test]
fn a_free_waits_for_nothing_else_unless_told_to() {
    let bench = Bench::new("host");
    let held = ("SIMCUDA_HOLD_KERNEL", "spin_us");
    // Not ready, when the free has returned.
    for env in [
        &[held] as Env<'_>,
        &[held, ("VSHARE_BUDGET", "8MiB")],
        &[held, ("VSHARE_FREE_WAIT", "never")],
    ] {
        assert_eq!(bench.shimmed(&["none"], env).printed(), "600\n", "{env:?}");
        for how in ["unseen", "read"] {
            let outcome = bench.shimmed(&[how, "80"], env);
            assert_eq!(outcome.printed(), "600\n", "{how} {env:?}");
        }
    }
    let always = bench.shimmed(&["none"], &[("VSHARE_FREE_WAIT", "always")]);
    assert_eq!(always.printed(), "0\n");
}

#[test]
fn managed_memory_of_the_programs_own_is_left_alone_b18_c28() {
    let bench = Bench::new("managed");
    for env in [&[] as Env<'_>, &[("VSHARE_BUDGET", "6MiB")]] {
        assert_eq!(bench.shimmed(&[], env), bench.native(&[], &[]), "{env:?}");
    }
    for code in ["2", "999"] {
        let fail = format!("cuMemAllocManaged:1+:{code}");
        let env = [("SIMCUDA_FAIL", &*fail)];
        let native = bench.native(&["refused"], &env);
        let shimmed = bench.shimmed(&["refused"], &env);
        assert_eq!(shimmed, native);
    }
}
