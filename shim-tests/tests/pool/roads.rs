//! The roads on which memory moves: the UVM kernel module's own calls where they do what they should, and libcuda's.

use crate::published::segment_of;
use crate::{Bench, Counters, Env, MIB, contents, reuse};
use shim_tests::End;

/// Four times as much as this is in use.
const LITTLE: Env<'static> = &[("VSHARE_BUDGET", "12MiB")];

/// Twice as much is: so much that what is freed has not left by then.
const MORE: Env<'static> = &[("VSHARE_BUDGET", "24MiB")];

/// The module is there. Should it not be used, a line says so.
const DIRECT: Env<'static> = &[("SIMCUDA_UVM", "1"), ("VSHARE_ROAD", "direct")];

const RIGHT: &str = "every block held what was written to it\n";

/// Moves that the module has made.
fn direct(counters: &Counters) -> u64 {
    counters.of("uvm_promotes") + counters.of("uvm_evicts")
}

/// Moves that libcuda was asked for.
fn by_libcuda(counters: &Counters) -> u64 {
    counters.of("cuMemPrefetchAsync") + counters.of("cuMemPrefetchAsync_v2")
}

/// What a trial takes.
const TRIAL_PROMOTES: u64 = 4;
const TRIAL_EVICTS: u64 = 1;

fn work(what: &str, env: Env<'_>) -> Counters {
    work_within(LITTLE, what, env)
}

fn work_within(budget: Env<'_>, what: &str, env: Env<'_>) -> Counters {
    let env = [budget, env].concat();
    let (printed, counters) = Bench::new("roads").counted(&[what, "1"], &env);
    assert_eq!(printed, RIGHT, "{env:?}");
    counters
}

#[test]
fn memory_moves_by_the_modules_calls_alone_and_nothing_waits_in_a_stream() {
    let bench = Bench::new("pressure");
    for (work, named) in contents::WORK {
        let native = bench.native(&[work, "48"], &[]);
        let env = [LITTLE, DIRECT].concat();
        let (printed, counters) = bench.counted(&[work, "48"], &env);
        assert_eq!(printed, native.printed(), "{work}");
        assert!(counters.of("uvm_promotes") > TRIAL_PROMOTES, "{work}");
        assert!(counters.of("uvm_evicts") > TRIAL_EVICTS, "{work}");
        for counter in [
            "cuMemPrefetchAsync",
            "cuMemPrefetchAsync_v2",
            "cuMemDiscardBatchAsync",
            "cuStreamWaitEvent",
            "driver_evictions",
            "uvm_strays",
        ] {
            assert_eq!(counters.of(counter), 0, "{work} {counter}");
        }
        // Nothing is mapped for the host that leaves.
        let unmapped = counters.of("uvm_unmapped");
        assert_eq!(unmapped, counters.of("uvm_evicts"), "{work}");
        if named {
            assert_eq!(counters.of("faults"), 0, "{work}");
            assert!(counters.of("managed_resident_peak") <= 12 * MIB, "{work}");
        }
    }
}

#[test]
fn dead_memory_is_dropped_by_the_modules_calls() {
    let counters = work_within(MORE, "leave", DIRECT);
    assert!(counters.of("uvm_discards") > 2);
    assert_eq!(counters.of("cuMemDiscardBatchAsync"), 0);
    assert_eq!(by_libcuda(&counters), 0);
}

#[test]
fn what_moves_directly_is_counted() {
    let bench = Bench::new("roads");
    let segment = segment_of(&bench, &["leave", "1"], &[LITTLE, DIRECT].concat());
    assert!(segment.value("direct_moves") > Some(0));
    for counter in ["road_fallbacks", "fallbacks", "driver_failures"] {
        assert_eq!(segment.value(counter), Some(0), "{counter}");
    }
}

/// Descriptors that cannot move anything come first; one refuses.
#[test]
fn a_descriptor_that_cannot_move_memory_is_passed_over() {
    let counters = work("leave", DIRECT);
    assert_eq!(counters.of("uvm_refusals"), 1);
    assert!(direct(&counters) > TRIAL_PROMOTES + TRIAL_EVICTS);
}

#[test]
fn every_devices_memory_moves_to_it() {
    let bench = Bench::new("roads");
    let env = [LITTLE, DIRECT, &[("SIMCUDA_DEVICES", "3")]].concat();
    let (printed, counters) = bench.counted(&["leave", "3"], &env);
    assert_eq!(printed, RIGHT);
    assert_eq!(counters.of("faults"), 0);
    assert_eq!(by_libcuda(&counters), 0);
    assert!(direct(&counters) > 3 * (TRIAL_PROMOTES + TRIAL_EVICTS));
}

#[test]
fn two_contexts_of_one_device_move_directly() {
    let bench = Bench::new("pair");
    let env = [DIRECT, &[("VSHARE_BUDGET", "48MiB")]].concat();
    let (printed, counters) = bench.counted(&["1", "100"], &env);
    assert_eq!(printed, RIGHT);
    assert_eq!(by_libcuda(&counters), 0);
    assert_eq!(counters.of("faults"), 0);
}

#[test]
fn libcudas_road_is_taken_where_it_is_asked_for_and_where_there_is_no_other() {
    for env in [
        &[("SIMCUDA_UVM", "1"), ("VSHARE_ROAD", "libcuda")],
        &[("SIMCUDA_UVM", "0"), ("VSHARE_ROAD", "libcuda")],
        &[("SIMCUDA_UVM", "0"), ("VSHARE_ROAD", "auto")],
    ] {
        let counters = work("leave", env);
        assert!(by_libcuda(&counters) > 0, "{env:?}");
        assert_eq!(
            direct(&counters) + counters.of("uvm_refusals"),
            0,
            "{env:?}"
        );
    }
}

/// The line that says so comes only where the direct road was asked for by name.
fn has_no_direct_road(env: Env<'_>, why: &str) -> Counters {
    let counters = work("leave", env);
    assert!(by_libcuda(&counters) > 0, "{env:?}");
    let bench = Bench::new("roads");
    let asked = [LITTLE, env, &[("VSHARE_ROAD", "direct")]].concat();
    let outcome = bench.shimmed(&["leave", "1"], &asked);
    assert_eq!((outcome.end, &*outcome.stdout), (End::Code(0), RIGHT));
    assert_eq!(outcome.stderr.lines().count(), 1, "{env:?}: {outcome:?}");
    let line = &outcome.stderr;
    assert!(line.starts_with("vshare: VSHARE_ROAD=direct "), "{line}");
    assert!(line.contains(why), "{line}");
    counters
}

#[test]
fn without_the_module_libcudas_road_is_taken_and_one_line_says_so_if_asked() {
    has_no_direct_road(&[], "no descriptor");
}

#[test]
fn a_module_that_loses_what_it_moves_is_found_out_before_it_moves_anything() {
    let counters = has_no_direct_road(&[("SIMCUDA_UVM", "lies")], "came back changed");
    assert_eq!(counters.of("uvm_evicts"), TRIAL_EVICTS);
    assert_eq!(counters.of("uvm_promotes"), TRIAL_PROMOTES);
}

/// The first call is on the descriptor that refuses of itself, the second on the right one; then come the trial's.
#[test]
fn a_module_that_fails_its_trial_moves_nothing_else() {
    for call in 2..=6 {
        for (name, code, why) in [
            ("UVM_MIGRATE", 0x51, "answered 0x51"),
            ("ioctl", 25, "errno 25"),
        ] {
            let rule = format!("{name}:{call}:{code}");
            let env = [("SIMCUDA_UVM", "1"), ("SIMCUDA_FAIL", &*rule)];
            let counters = has_no_direct_road(&env, why);
            assert!(direct(&counters) <= TRIAL_PROMOTES + TRIAL_EVICTS, "{rule}");
        }
    }
}

/// Only what leaves may be unmapped for the host.
#[test]
fn a_move_that_could_not_be_mapped_counts_as_made_only_if_it_was_to_the_host() {
    let rule = |call: u32| format!("UVM_MIGRATE:{call}:29");
    let env = |rule| [DIRECT[0], DIRECT[1], ("SIMCUDA_FAIL", rule)];
    assert_eq!(by_libcuda(&work("leave", &env(&rule(4)))), 0);
    let failing = rule(5);
    let env = [DIRECT[0], ("SIMCUDA_FAIL", &*failing)];
    has_no_direct_road(&env, "answered 0x1d");
}

#[test]
fn a_driver_call_that_fails_in_the_trial_leaves_libcudas_road() {
    // The first time it is asked for the UUID it is to be published.
    for (call, turn) in [
        ("cuMemcpyHtoDAsync", 1),
        ("cuMemcpyDtoHAsync", 1),
        ("cuDeviceGetUuid", 2),
    ] {
        let rule = format!("{call}:{turn}:999");
        let env = [("SIMCUDA_UVM", "1"), ("SIMCUDA_FAIL", &*rule)];
        has_no_direct_road(&env, &format!("{call} answered 999"));
    }
}

/// Calls of the module's after its trial, when it has begun to move for the program.
const LATER: [u32; 4] = [7, 8, 20, 41];

#[test]
fn a_module_that_fails_later_is_given_up_and_what_it_left_is_done() {
    for later in LATER {
        for failure in [
            format!("UVM_MIGRATE:{later}+:64"),
            format!("UVM_MIGRATE:{later}:86"),
            // The trial's two discards count here, too.
            format!("ioctl:{}:9", later + 2),
            format!("ioctl:{}:22", later + 2),
        ] {
            let env = [DIRECT[0], DIRECT[1], ("SIMCUDA_FAIL", &*failure)];
            let counters = work("leave", &env);
            assert!(by_libcuda(&counters) > 0, "{failure}");
            // Another thread may be within a call.
            let made = direct(&counters) + counters.of("uvm_refusals");
            assert!(made <= u64::from(later) + 1, "{failure}: {made}");
            assert_eq!(counters.of("faults"), 0, "{failure}");
        }
    }
}

#[test]
fn a_module_that_was_given_up_is_counted_once() {
    let bench = Bench::new("roads");
    let env = [LITTLE, DIRECT, &[("SIMCUDA_FAIL", "UVM_MIGRATE:20:64")]].concat();
    let segment = segment_of(&bench, &["leave", "1"], &env);
    for counter in ["road_fallbacks", "fallbacks", "driver_failures"] {
        assert_eq!(segment.value(counter), Some(1), "{counter}");
    }
    assert!(segment.value("direct_moves") > Some(0));
}

#[test]
fn a_call_that_a_signal_interrupts_is_made_again() {
    for call in [2, 4, 9, 20] {
        let rule = format!("ioctl:{call}:4");
        let env = [DIRECT[0], DIRECT[1], ("SIMCUDA_FAIL", &*rule)];
        assert_eq!(by_libcuda(&work("leave", &env)), 0, "{rule}");
    }
}

#[test]
fn a_module_that_cannot_discard_moves_all_the_same() {
    // One that does not know the call, and one that refuses it.
    let older = [DIRECT[0], DIRECT[1], ("SIMCUDA_DRIVER", "12080")];
    let refuses = [DIRECT[0], DIRECT[1], ("SIMCUDA_FAIL", "UVM_DISCARD:1+:86")];
    let second = [DIRECT[0], DIRECT[1], ("SIMCUDA_FAIL", "UVM_DISCARD:2+:86")];
    for (env, libcuda_can) in [(older, false), (refuses, true), (second, true)] {
        let counters = work_within(MORE, "leave", &env);
        assert_eq!(by_libcuda(&counters), 0, "{env:?}");
        assert!(direct(&counters) > TRIAL_PROMOTES + TRIAL_EVICTS, "{env:?}");
        let others = counters.of("discard_calls") - counters.of("uvm_discards");
        assert_eq!(others > 0, libcuda_can, "{env:?}");
        // The trial's pages have left all the same.
        assert!(counters.of("managed_resident_peak") <= 24 * MIB, "{env:?}");
    }
}

/// Where its two pages cannot be discarded, they are sent to the host; the program's view of the extent is open again by then.
#[test]
fn a_trial_leaves_no_page_on_the_device_and_nothing_protected() {
    const ROOM: Env<'_> = &[("VSHARE_BUDGET", "700MiB")];
    let counters = work_within(ROOM, "leave", DIRECT);
    assert_eq!(counters.of("uvm_evicts"), TRIAL_EVICTS);
    assert_eq!(counters.of("uvm_discards"), 2);
    let refuses = [DIRECT[0], DIRECT[1], ("SIMCUDA_FAIL", "UVM_DISCARD:1+:86")];
    let counters = work_within(ROOM, "leave", &refuses);
    assert_eq!(counters.of("uvm_evicts"), TRIAL_EVICTS + 1);
    assert_eq!(counters.of("uvm_unmapped"), TRIAL_EVICTS);
}

#[test]
fn a_discard_that_fails_later_is_done_by_libcuda() {
    let env = [DIRECT[0], DIRECT[1], ("SIMCUDA_FAIL", "UVM_DISCARD:4:64")];
    let counters = work_within(MORE, "leave", &env);
    assert!(counters.of("cuMemDiscardBatchAsync") > 0);
    assert_eq!(counters.of("uvm_discards"), 3);
    assert!(by_libcuda(&counters) > 0);
}

/// Whatever is behind the number now, it is asked for nothing that it would take for something else.
#[test]
fn a_program_that_closes_the_descriptor_or_puts_another_in_its_place_runs_on() {
    for what in ["close", "replace"] {
        let counters = work(what, DIRECT);
        assert!(direct(&counters) > TRIAL_PROMOTES + TRIAL_EVICTS, "{what}");
        assert!(by_libcuda(&counters) > 0, "{what}");
        assert_eq!(counters.of("uvm_strays"), 0, "{what}");
        assert_eq!(counters.of("faults"), 0, "{what}");
    }
}

#[test]
fn nothing_is_tried_while_a_capture_is_going_on() {
    let bench = Bench::new("first");
    let native = bench.native(&["2", "plain"], &[]);
    let (printed, counters) = bench.counted(&["2", "plain"], DIRECT);
    assert_eq!(printed, native.printed());
    assert_eq!(direct(&counters) + counters.of("uvm_refusals"), 0);
}

#[test]
fn a_module_that_fails_harms_nothing() {
    let bench = Bench::new("faults");
    for call in ["UVM_MIGRATE", "UVM_DISCARD", "ioctl"] {
        for turn in ["1", "2", "3", "4", "5", "6", "7", "12", "3+", "7+"] {
            let rule = format!("{call}:{turn}:64");
            let env = [
                ("VSHARE_BUDGET", "8MiB"),
                ("SIMCUDA_UVM", "1"),
                ("SIMCUDA_FAIL", &*rule),
            ];
            assert_eq!(bench.shimmed(&[], &env).printed(), "0 failures\n", "{rule}");
        }
    }
}

#[test]
fn memory_that_work_in_flight_uses_is_neither_dropped_nor_given_away() {
    let bench = Bench::new("reuse");
    for streams in reuse::CROWDED {
        let held = [
            ("SIMCUDA_HOLD_KERNEL", "spin_us"),
            ("VSHARE_BUDGET", "6MiB"),
        ];
        let outcome = bench.shimmed(&[streams], &[DIRECT, &held].concat());
        assert_eq!(outcome.printed(), "nothing was disturbed\n", "{streams}");
    }
}

#[test]
fn storms_disturb_nothing() {
    let bench = Bench::new("storm");
    for streams in ["one", "two", "legacy", "shared", "ptsz"] {
        for policy in ["lru", "demand"] {
            let args = ["31", "4", "1500", streams, "4096", "24"];
            let env = [("VSHARE_BUDGET", "24MiB"), ("VSHARE_POLICY", policy)];
            let (printed, counters) = bench.counted(&args, &[DIRECT, &env].concat());
            assert_eq!(printed, RIGHT, "{args:?} {policy}");
            assert_eq!(by_libcuda(&counters), 0, "{args:?} {policy}");
            // The driver's own policy copies what is dead like anything else.
            let dropped = counters.of("uvm_discards") > 2;
            assert_eq!(dropped, policy == "lru", "{args:?}");
        }
    }
}
