//! Captures are not disturbed, and graphs run right when their memory has left meanwhile.

use crate::published::segment_of_all;
use crate::{Bench, Env, MIB};

fn agrees(how: &str) {
    Bench::new("capture").agrees(&[how]);
}

#[test]
fn a_graph_runs_right_when_its_memory_has_left() {
    agrees("replay");
}

#[test]
fn pressure_during_a_capture_leaves_the_capture_alone() {
    agrees("pressure");
}

#[test]
fn a_capture_of_a_blocking_stream_is_not_ended_and_nothing_waits_in_it_c15_c17() {
    agrees("blocking");
}

#[test]
fn memory_that_a_capture_takes_is_the_drivers_c19() {
    agrees("own-memory");
}

#[test]
fn memory_that_a_capture_takes_from_the_programs_pool_is_the_drivers_c19() {
    agrees("own-pool");
}

#[test]
fn a_graph_cannot_free_what_no_graph_has_taken() {
    agrees("free-in-order");
}

#[test]
fn a_free_during_a_capture_answers_as_the_driver_would_c31() {
    agrees("free");
}

#[test]
fn a_capture_goes_on_when_another_stream_is_told_to_end_its_own() {
    agrees("not-capturing");
}

#[test]
fn a_capture_goes_on_when_a_thread_that_may_not_end_it_tries_to() {
    agrees("wrong-thread");
}

#[test]
fn a_capture_that_went_with_its_stream_is_over() {
    agrees("stream-gone");
}

#[test]
fn a_capture_that_went_with_its_context_is_over() {
    agrees("context-gone");
}

#[test]
fn memory_freed_under_a_running_graph_disturbs_nothing() {
    let bench = Bench::new("capture");
    let native = bench.native(&["freed-under"], &[]);
    for budget in ["700MiB", "6MiB"] {
        let env = [
            ("VSHARE_BUDGET", budget),
            ("SIMCUDA_HOLD_KERNEL", "spin_us"),
        ];
        assert_eq!(bench.shimmed(&["freed-under"], &env), native, "{env:?}");
    }
}

#[test]
fn an_allocation_during_a_capture_answers_as_the_driver_would_c31() {
    agrees("alloc");
}

/// What vshare makes when memory is first asked for has no place in a capture, and does not end it.
#[test]
fn the_first_memory_of_all_may_be_asked_for_during_a_capture_c15_c17() {
    let bench = Bench::new("first");
    for mode in ["0", "1", "2"] {
        for what in ["info", "total", "free"] {
            bench.agrees(&[mode, what]);
        }
    }
    for what in ["plain", "pitched", "beside"] {
        bench.agrees(&["2", what]);
    }
}

/// As `an_allocation_during_a_capture_answers_as_the_driver_would_c31`, where there has been none before.
#[test]
fn the_first_allocation_of_all_is_refused_in_a_capture_that_forbids_it_c31() {
    let bench = Bench::new("first");
    for mode in ["0", "1"] {
        for what in ["plain", "pitched"] {
            bench.agrees(&[mode, what]);
        }
    }
}

/// Half of what the program holds, by either road.
const HALF: [Env<'static>; 2] = [
    &[("VSHARE_BUDGET", "24MiB")],
    &[("VSHARE_BUDGET", "24MiB"), ("SIMCUDA_UVM", "1")],
];

/// The graph's memory is there when it is launched, and no more than the budget at any time.
fn is_fetched(args: &[&str]) {
    let bench = Bench::new("graph");
    let native = bench.native(args, &[]);
    for env in HALF {
        let (printed, counters) = bench.counted(args, env);
        assert_eq!(printed, native.printed(), "{args:?} {env:?}");
        // On the direct road a block is now and then left to be faulted in, why is not known yet; without fetching there are
        // more faults than launches.
        let faults = counters.of("faults");
        assert!(faults <= 8, "{args:?} {env:?}: {faults}");
        let peak = counters.of("managed_resident_peak");
        assert!(peak <= (24 + 2 * faults) * MIB, "{args:?} {env:?}: {peak}");
        assert!(counters.of("evicted_bytes") > 0, "{args:?} {env:?}");
    }
    bench.agrees(args);
}

#[test]
fn what_a_graph_names_is_fetched_before_each_launch() {
    is_fetched(&["replay"]);
}

#[test]
fn what_a_graph_names_is_known_by_whatever_call_it_was_made_executable() {
    for call in ["1", "2", "3", "4"] {
        is_fetched(&["replay", call]);
    }
}

#[test]
fn kernels_of_a_graph_are_read_in_whatever_form_they_have_their_parameters() {
    is_fetched(&["forms"]);
}

#[test]
fn what_graphs_within_a_graph_name_is_fetched_as_they_are_and_as_they_become() {
    is_fetched(&["children"]);
}

/// What a node named before is not: all that it ever named is more than the budget.
#[test]
fn what_a_kernel_is_changed_to_name_is_fetched_and_what_it_named_is_not() {
    is_fetched(&["set"]);
}

#[test]
fn what_copies_and_fills_of_a_graph_name_is_fetched_as_they_are_and_as_they_become() {
    is_fetched(&["copies"]);
}

#[test]
fn what_an_updated_graph_names_is_fetched_and_what_it_named_is_not() {
    is_fetched(&["updates"]);
}

#[test]
fn freed_memory_that_a_graph_names_is_nothing_and_what_lies_there_is_left_alone() {
    is_fetched(&["stale"]);
}

#[test]
fn nothing_is_fetched_for_a_graph_that_has_been_destroyed() {
    let bench = Bench::new("graph");
    for env in HALF {
        assert_eq!(bench.shimmed(&["destroyed"], env).printed(), "1\n");
    }
}

#[test]
fn memory_that_a_graph_reaches_through_memory_is_faulted_in_and_right() {
    let bench = Bench::new("graph");
    let native = bench.native(&["hidden"], &[]);
    for env in HALF {
        assert_eq!(bench.shimmed(&["hidden"], env), native, "{env:?}");
    }
}

#[test]
fn a_graph_that_names_more_than_the_budget_is_right_and_counted() {
    let bench = Bench::new("graph");
    let native = bench.native(&["larger"], &[]);
    for env in HALF {
        let (segment, outcome) = segment_of_all(&bench, &["larger"], env);
        // Its standard output is the process's number there.
        assert_eq!(outcome.stderr, native.stdout, "{env:?}");
        let over = segment.value("over_budget_launches").unwrap();
        assert!(over > 0, "{env:?}: {over}");
    }
}

/// Graphs that cannot be read are launched all the same.
#[test]
fn calls_that_read_graphs_may_fail_and_cost_only_time() {
    let bench = Bench::new("graph");
    for how in ["replay", "children", "copies"] {
        let native = bench.native(&[how], &[]);
        for call in [
            "cuGraphGetNodes",
            "cuGraphNodeGetType",
            "cuGraphChildGraphNodeGetGraph",
            "cuGraphKernelNodeGetParams",
            "cuGraphMemcpyNodeGetParams",
            "cuGraphMemsetNodeGetParams",
        ] {
            for code in ["801", "999"] {
                let rule = format!("{call}:1+:{code}");
                let env = [HALF[0], &[("SIMCUDA_FAIL", &*rule)]].concat();
                assert_eq!(bench.shimmed(&[how], &env), native, "{how} {rule}");
            }
        }
    }
}
