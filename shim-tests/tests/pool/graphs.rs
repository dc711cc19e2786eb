//! Captures are not disturbed, and graphs run right when their memory has left meanwhile.

use crate::Bench;

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
