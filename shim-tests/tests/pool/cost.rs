//! What vshare adds to a call, measured beside the driver alone. The bound is wide: an unoptimised build on a busy machine keeps to it.

use crate::Bench;

/// Nanoseconds that a call may take more than natively.
const MOST: u64 = 60_000;

#[test]
fn a_call_costs_little_more_than_the_drivers_d23() {
    let bench = Bench::new("cost");
    let costs = |text: &str| -> Vec<(String, u64)> {
        let words = text.lines().filter_map(|line| line.split_once(' '));
        words
            .map(|(name, cost)| (name.to_owned(), cost.parse().unwrap()))
            .collect()
    };
    let native = costs(bench.native(&[], &[]).printed());
    assert_eq!(native.len(), 9);
    for env in [
        &[][..],
        &[("VSHARE_TELEMETRY", "1")],
        &[("VSHARE_BUDGET", "8MiB")],
    ] {
        let shimmed = costs(bench.shimmed(&[], env).printed());
        for ((name, without), (_, with)) in native.iter().zip(shimmed) {
            assert!(
                with < without + MOST,
                "{name} {env:?}: {with} ns, natively {without}"
            );
        }
    }
}
