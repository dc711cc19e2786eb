//! Threads that want memory at the same time all get it, whoever of them gets it from the driver.

use crate::Bench;

/// In device memory, where extents are no larger than they must be. The driver takes its time over each, so that the others wait for it:
/// the less they do, the less the test tells, but it passes.
#[test]
fn threads_that_have_waited_for_others_extents_get_their_own() {
    let env = [
        ("SIMCUDA_CONCURRENT_MANAGED", "0"),
        ("SIMCUDA_VRAM", "16G"),
        ("SIMCUDA_SLOW", "cuMemAlloc:5000"),
    ];
    let bench = Bench::new("extents");
    for _ in 0..3 {
        let outcome = bench.shimmed(&["many"], &env);
        assert_eq!(outcome.stdout, "48 of 48\n", "{outcome:?}");
    }
}

#[test]
fn a_driver_that_takes_three_seconds_over_an_extent_is_waited_for() {
    let env = [("SIMCUDA_SLOW", "cuMemAllocManaged:3000000")];
    let outcome = Bench::new("extents").shimmed(&["slow"], &env);
    assert_eq!(outcome.printed(), "0 0\n");
}

#[test]
fn a_reference_given_back_that_is_not_the_last_leaves_the_pool_in_use() {
    let env = [("SIMCUDA_SLOW", "cuMemPrefetchAsync:300000")];
    let outcome = Bench::new("extents").shimmed(&["release"], &env);
    assert_eq!(outcome.printed(), "0, 0 outside the pool\n");
}
