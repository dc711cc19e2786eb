//! Contexts, threads, streams and processes begin and end, with memory, work and moves under way.

use crate::Bench;
use shim_tests::End;

#[test]
fn contexts_end_with_what_they_hold_and_others_come_c14() {
    Bench::new("life").agrees(&["own", "16"]);
}

#[test]
fn a_primary_context_is_reset_and_used_again_c14() {
    Bench::new("life").agrees(&["reset", "16"]);
}

#[test]
fn a_primary_context_ends_with_its_last_reference_and_not_before_c14() {
    Bench::new("life").agrees(&["release", "16"]);
}

#[test]
fn two_contexts_of_one_device_share_its_budget_and_nothing_else() {
    Bench::new("life").agrees(&["two", "4"]);
}

#[test]
fn two_devices_are_served_each_by_its_own() {
    Bench::new("life").agrees_in(&["devices", "4"], &[("SIMCUDA_DEVICES", "2")]);
}

#[test]
fn threads_come_and_go_with_work_in_their_default_streams() {
    Bench::new("life").agrees(&["threads", "8"]);
}

#[test]
fn streams_come_and_go_with_work_in_them() {
    Bench::new("life").agrees(&["streams", "12"]);
}

#[test]
fn a_stream_for_each_request_costs_no_more_with_every_request() {
    Bench::new("life").agrees(&["requests", "100"]);
}

#[test]
fn a_fork_before_cuda_is_used_makes_two_programs() {
    Bench::new("fork").agrees(&["before"]);
}

/// Twenty MiB of blocks: without evictions they would all stay, or the driver would have to find room.
#[test]
fn a_child_of_a_fork_before_cuda_is_used_keeps_to_its_budget() {
    let outcome = Bench::new("fork").shimmed(&["room"], &[("VSHARE_BUDGET", "8MiB")]);
    assert_eq!(outcome.printed(), "evicts 1, resident 8 MiB\nchild 7\n");
}

#[test]
fn after_a_fork_the_child_gets_the_drivers_answers_and_the_parent_goes_on() {
    Bench::new("fork").agrees(&["after"]);
}

#[test]
fn other_programs_are_started_while_memory_moves() {
    Bench::new("fork").agrees(&["exec"]);
}

/// A child has none of the threads that the parent waits for at its end.
#[test]
fn a_child_forked_while_pages_move_waits_for_nobody_when_it_ends() {
    let env = [
        ("VSHARE_BUDGET", "8MiB"),
        ("SIMCUDA_HOLD_CALL", "cuCtxPushCurrent"),
    ];
    let outcome = Bench::new("fork").shimmed(&["moving"], &env);
    assert_eq!(outcome.printed(), "child 7\ndone\n");
}

#[test]
fn forks_in_the_middle_of_everything_hang_nobody() {
    Bench::new("fork").agrees(&["many"]);
}

#[test]
fn a_process_ends_in_the_middle_of_moves_as_it_was_told_to() {
    let bench = Bench::new("exit");
    for (how, end) in [
        ("return", End::Code(6)),
        ("exit", End::Code(3)),
        ("_exit", End::Code(5)),
        ("abort", End::Signal(6)),
        ("kill", End::Signal(9)),
        ("thread", End::Code(4)),
        ("late", End::Code(6)),
        ("destroyed", End::Code(6)),
    ] {
        let native = bench.native(&[how], &[]);
        assert_eq!(native.end, end, "{how}");
        for policy in ["lru", "demand"] {
            for _ in 0..3 {
                let env = [("VSHARE_BUDGET", "8MiB"), ("VSHARE_POLICY", policy)];
                assert_eq!(bench.shimmed(&[how], &env), native, "{how} {policy}");
            }
        }
    }
}
