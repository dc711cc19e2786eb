//! Contexts and processes that end while vshare is in the middle of something.

use crate::published::segment_of_all;
use crate::{Bench, Env};

/// The budget is one that the mover makes room in ahead of need: see `pool_ends.c`.
fn ends_afterwards(how: &str, held: &str) {
    let env: Env<'_> = &[("VSHARE_BUDGET", "16MiB"), ("SIMCUDA_HOLD_CALL", held)];
    let outcome = Bench::new("ends").shimmed(&[how], env);
    assert_eq!(outcome.printed(), "the context ended afterwards\n");
}

#[test]
fn a_context_does_not_end_while_the_mover_makes_it_its_own() {
    ends_afterwards("moving", "cuCtxPushCurrent");
}

/// Where the arena lay there may be memory of the program's a moment later.
#[test]
fn a_context_does_not_end_between_looking_where_its_memory_lies_and_protecting_that() {
    ends_afterwards("protecting", "");
}

#[test]
fn a_context_does_not_end_while_a_free_in_another_is_about_to_mark_its_work() {
    ends_afterwards("marking", "cuCtxPushCurrent");
}

#[test]
fn a_context_does_not_end_while_work_in_another_is_about_to_be_put_behind_its_own() {
    ends_afterwards("ordering", "cuCtxPushCurrent");
}

/// Its number, its addresses and its pages' numbers are those of the one that comes after it.
#[test]
fn a_move_that_is_queued_when_its_context_ends_is_not_made_in_the_next_one() {
    let bench = Bench::new("queued");
    let env: Env<'_> = &[
        ("VSHARE_BUDGET", "16MiB"),
        ("VSHARE_POLICY", "lru"),
        ("SIMCUDA_DEVICES", "2"),
    ];
    let (segment, outcome) = segment_of_all(&bench, &["ends"], env);
    assert!(
        outcome.stderr.ends_with("what came again is whole\n"),
        "{outcome:?}"
    );
    assert_eq!(segment.value("panics"), Some(0));
}

/// A handler of the program's runs at any moment, so in the middle of our bookkeeping, too. What is done at exit must not wait
/// for what this thread was doing.
fn quits(how: &str) {
    let bench = Bench::new("quits");
    assert_eq!(bench.native(&[how], &[]).printed(), "0 ended\n");
    let outcome = bench.shimmed(&[how], &[("VSHARE_TELEMETRY", "1")]);
    let number = outcome.printed().split(' ').next().unwrap();
    assert!(number.parse::<u32>().unwrap() > 30, "{outcome:?}");
}

#[test]
fn a_signal_handler_can_end_the_process_at_any_moment() {
    quits("exit");
}

#[test]
fn a_child_forked_by_a_signal_handler_at_any_moment_can_end() {
    quits("fork");
}
