//! Contexts end and come again, several devices are used side by side: what is known of one is not taken for the other.

use crate::{Bench, Env};

const HELD: Env<'static> = &[("SIMCUDA_HOLD_KERNEL", "spin_us")];

/// A free that waited would find the kernel ended: 0, not 600.
#[test]
fn no_free_waits_for_host_functions_of_a_context_that_has_ended() {
    let bench = Bench::new("contexts");
    for how in ["destroy", "release", "reset"] {
        let outcome = bench.shimmed(&["called", how], HELD);
        assert_eq!(outcome.printed(), "600\n", "{how}");
    }
}

/// Blind frees as well as those that know which contexts have work on host memory in flight.
#[test]
fn a_free_does_not_wait_for_another_devices_work() {
    let env = [
        ("SIMCUDA_DEVICES", "2"),
        ("SIMCUDA_HOLD_KERNEL", "flag_host"),
    ];
    let bench = Bench::new("contexts");
    for frees in ["0", "80"] {
        let args = ["devices", frees];
        let native = bench.native(&args, &env);
        assert_eq!(native.printed(), "600 0\n1\n");
        bench.agrees_in(&args, &env);
    }
}

#[test]
fn a_stream_is_its_own_contexts_whichever_was_current_when_it_was_first_used() {
    let bench = Bench::new("contexts");
    let devices = ("SIMCUDA_DEVICES", "2");
    assert_eq!(bench.native(&["stream"], &[devices]).printed(), "1\n");
    let env = [devices, HELD[0]];
    assert_eq!(bench.shimmed(&["stream"], &env).printed(), "1\n");
}

/// Reading on would end the program: its array of parameters ends where its memory does.
#[test]
fn a_function_that_has_gone_tells_nothing_of_the_one_that_has_its_handle() {
    let bench = Bench::new("contexts");
    for how in ["release", "reset", "destroy", "unload"] {
        let args = ["functions", how];
        assert_eq!(bench.native(&args, &[]).printed(), "launched\n");
        let outcome = bench.shimmed(&args, &[("VSHARE_BUDGET", "6MiB")]);
        assert_eq!(outcome.printed(), "launched\n", "{how}");
    }
}
