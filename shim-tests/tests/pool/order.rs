//! What happens when a stream is no longer the only one with work: nothing that the program could tell.

use crate::{Bench, Env};

const HELD: Env<'static> = &[("SIMCUDA_HOLD_KERNEL", "spin_us")];

fn agrees(how: &str, env: Env<'_>) {
    Bench::new("order").agrees_in(&[how], env);
}

/// Natively no kernel of one stream waits for one of another that the program has not ordered before it.
#[test]
fn a_kernel_that_waits_for_another_streams_work_does_not_wait_for_ever() {
    agrees("beside", HELD);
}

#[test]
fn work_beside_a_captured_stream_runs_at_once_and_is_no_part_of_the_graph() {
    agrees("captured", &[]);
}

#[test]
fn destroying_a_stream_does_not_wait_for_its_work() {
    agrees("destroyed", HELD);
}

/// The limit is less than what is allocated and freed in all: memory freed since must be found free.
#[test]
fn a_context_without_memory_can_end_with_work_in_it() {
    agrees("ended", &[("VSHARE_LIMIT", "32MiB")]);
}
