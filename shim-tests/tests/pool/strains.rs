//! Odd moments: what the program sees is what it would see natively.

use crate::{Bench, Env, MIB};

fn agrees(how: &str, env: Env<'_>, shim: Env<'_>) {
    let bench = Bench::new("strains");
    let native = bench.native(&[how], env);
    let outcome = bench.shimmed(&[how], &[env, shim].concat());
    assert_eq!(outcome.printed(), native.printed(), "{how} {shim:?}");
}

const HELD: (&str, &str) = ("SIMCUDA_HOLD_KERNEL", "spin_us");

#[test]
fn a_stream_does_not_become_solo_while_a_capture_begins() {
    let slow = ("SIMCUDA_SLOW", "cuStreamBeginCapture:300000");
    agrees("solo", &[HELD, slow], &[]);
}

#[test]
fn a_wait_that_fails_during_a_capture_is_made_again() {
    agrees(
        "wait",
        &[HELD],
        &[("SIMCUDA_FAIL", "cuStreamWaitEvent:1:999")],
    );
}

#[test]
fn frees_and_allocations_beside_an_end_that_is_refused_are_served() {
    agrees("refused", &[("SIMCUDA_SLOW", "cuCtxDestroy:1000")], &[]);
}

#[test]
fn a_primary_context_that_comes_again_has_no_memory_of_the_first_even_if_asking_for_it_fails() {
    agrees("again", &[], &[]);
    for call in 1..5 {
        let fail = format!("cuDevicePrimaryCtxGetState:{call}:999");
        agrees("again", &[], &[("SIMCUDA_FAIL", &fail)]);
    }
}

#[test]
fn memory_in_the_order_of_another_devices_stream_or_from_its_pool_is_on_that_device() {
    agrees("device", &[("SIMCUDA_DEVICES", "2")], &[]);
}

/// Natively no allocation waits for a kernel: here the kernel waits for the allocation.
#[test]
fn an_allocation_does_not_wait_for_work_submitted_after_the_free_it_needs() {
    agrees("beside", &[HELD], &[("VSHARE_LIMIT", "128MiB")]);
}

/// Cancelling unwinds the thread: not through frames of the library's, which would end the process.
#[test]
fn a_thread_can_be_cancelled_at_any_moment() {
    agrees(
        "cancelled",
        &[("SIMCUDA_VRAM", "16G")],
        &[("VSHARE_BUDGET", "8MiB")],
    );
}

/// The first context holds all of it when the second comes. What runs over it meanwhile is little, and counted.
#[test]
fn a_second_context_does_not_bring_the_device_far_over_the_budget() {
    let bench = Bench::new("strains");
    let (printed, counters) = bench.counted(&["shared"], &[("VSHARE_BUDGET", "16MiB")]);
    assert_eq!(printed, "shared\n");
    let peak = counters.of("managed_resident_peak");
    assert!(peak <= 20 * MIB, "{peak}");
}

/// A program that waited for the other's patience would not end in time.
#[test]
fn neither_the_end_of_a_context_nor_those_who_use_it_wait_out_each_others_patience() {
    agrees("reference", &[HELD], &[]);
    agrees("ends", &[HELD], &[]);
}

#[test]
fn a_thread_that_works_at_its_very_end_makes_nobody_wait() {
    agrees("threads", &[], &[("VSHARE_BUDGET", "16MiB")]);
}
