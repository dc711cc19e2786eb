//! The bound against all that could be done, tried out on tiny traces.

use super::*;
use crate::link::Link;
use crate::pool::tests::Random;
use crate::trace::{Encoder, Head, Record, What};
use alloc::collections::BTreeMap;

/// A trace of allocations (block, pages), frees and work.
#[derive(Clone, Debug)]
enum Step {
    Alloc(u32, u64),
    Free(u32),
    Work(Vec<u32>, u64),
}

fn trace(steps: &[Step]) -> Trace {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::start(&mut bytes);
    let head = Head {
        page: PAGE,
        ..Head::default()
    };
    encoder.record(&Record::Head(head), &mut bytes);
    for (number, step) in steps.iter().enumerate() {
        let record = match step {
            &Step::Alloc(block, pages) => Record::Alloc {
                block,
                pages,
                stream: 0,
                when_ns: 0,
            },
            &Step::Free(block) => Record::Free {
                block,
                stream: 0,
                when_ns: 0,
            },
            Step::Work(pieces, ns) => Record::Work {
                what: What::Launch,
                function: 0,
                // No two alike: no steps.
                signature: number as u64,
                stream: 0,
                when_ns: 0,
                device_ns: *ns,
                pieces: pieces.as_slice().into(),
            },
        };
        encoder.record(&record, &mut bytes);
    }
    Trace::read(&bytes).unwrap()
}

fn whole(trace: &Trace) -> Window {
    Window {
        first: 0,
        ..trace.window(0)
    }
}

/// Pages in and out of the plan.
fn moved(trace: &Trace, budget: u64) -> (u64, u64) {
    let (into, out) = plan(trace, budget, &whole(trace)).bytes(0);
    (into / PAGE, out / PAGE)
}

fn cyclic(blocks: u32, passes: usize) -> Vec<Step> {
    let mut steps: Vec<_> = (0..blocks).map(|b| Step::Alloc(b, 1)).collect();
    for _ in 0..passes {
        steps.extend((0..blocks).map(|b| Step::Work([b].into(), 1000)));
    }
    steps
}

fn random_steps(random: &mut Random) -> Vec<Step> {
    let mut there: Vec<u32> = Vec::new();
    let mut steps = Vec::new();
    let mut next = 0;
    let mut frees = 0;
    while steps.len() < 16 {
        match random.below(8) {
            0..3 if there.len() < 4 => {
                steps.push(Step::Alloc(next, 1 + random.below(2)));
                there.push(next);
                next += 1;
            }
            3 if frees < 2 && !there.is_empty() => {
                let at = usize::try_from(random.below(there.len() as u64)).unwrap();
                steps.push(Step::Free(there.swap_remove(at)));
                frees += 1;
            }
            4.. if !there.is_empty() => {
                let mut pieces = there.clone();
                while pieces.len() > 2 {
                    let at = usize::try_from(random.below(pieces.len() as u64)).unwrap();
                    pieces.swap_remove(at);
                }
                steps.push(Step::Work(pieces, 1000));
            }
            _ => {}
        }
    }
    steps
}

/// The fewest pages in that any choice of what leaves can do with: every resident set is tried.
fn fewest_in(trace: &Trace, budget: usize) -> Option<u64> {
    // Pages as (block, number); states are sets of pages that are in, with the fewest pages that came in.
    type Set = Vec<(usize, u64)>;
    let mut states: BTreeMap<Set, u64> = BTreeMap::from([(Set::new(), 0)]);
    let mut used = vec![false; trace.blocks().len()];
    for &event in trace.events() {
        let mut next: BTreeMap<Set, u64> = BTreeMap::new();
        for (set, cost) in states {
            match event {
                Event::Free(block) => {
                    let rest: Set = set.into_iter().filter(|p| p.0 != block).collect();
                    let entry = next.entry(rest).or_insert(cost);
                    *entry = cost.min(*entry);
                }
                Event::Work(work) => {
                    let pieces = trace.pieces(&trace.works()[work]);
                    let wanted: Set = pieces
                        .iter()
                        .flat_map(|&b| (0..trace.pages(b)).map(move |i| (b, i)))
                        .collect();
                    let missing = wanted.iter().filter(|p| !set.contains(p) && used[p.0]);
                    let cost = cost + missing.count() as u64;
                    let others: Set = set
                        .iter()
                        .copied()
                        .filter(|p| !wanted.contains(p))
                        .collect();
                    let room = budget.checked_sub(wanted.len())?;
                    for choice in 0..1_u32 << others.len() {
                        if choice.count_ones() as usize > room {
                            continue;
                        }
                        let mut now: Set = wanted.clone();
                        let kept = (0..others.len()).filter(|i| choice >> i & 1 == 1);
                        now.extend(kept.map(|i| others[i]));
                        now.sort_unstable();
                        let entry = next.entry(now).or_insert(cost);
                        *entry = cost.min(*entry);
                    }
                }
                Event::Alloc(_) | Event::Sync => {
                    next.insert(set, cost);
                }
            }
        }
        if let Event::Work(work) = event {
            trace
                .pieces(&trace.works()[work])
                .iter()
                .for_each(|&b| used[b] = true);
        }
        states = next;
    }
    states.into_values().min()
}

#[test]
fn nothing_that_could_be_done_moves_less() {
    let mut random = Random(5);
    let (mut compared, mut moving) = (0, 0);
    for _ in 0..400 {
        let trace = trace(&random_steps(&mut random));
        for budget in 2..6 {
            let Some(fewest) = fewest_in(&trace, budget) else {
                continue;
            };
            let (into, out) = moved(&trace, budget as u64);
            assert_eq!(into, fewest, "{trace:?} with {budget}");
            // What comes back has left.
            assert_eq!(out, into, "{trace:?} with {budget}");
            compared += 1;
            moving += u32::from(fewest > 0);
        }
    }
    assert!(compared > 500 && moving > 100, "{compared} {moving}");
}

#[test]
fn a_cyclic_scan_moves_what_does_not_fit_once_a_pass() {
    let trace = trace(&cyclic(10, 20));
    // Each pass but the first brings in W - B at least, and now and then not one more.
    let (into, _) = moved(&trace, 8);
    assert!((2 * 19..=3 * 19).contains(&into), "{into}");
    assert_eq!(moved(&trace, 10), (0, 0));
}

#[test]
fn freed_data_costs_nothing() {
    let mut steps = Vec::new();
    for block in 0..50 {
        steps.extend([
            Step::Alloc(block, 3),
            Step::Work([block].into(), 1),
            Step::Free(block),
        ]);
    }
    assert_eq!(moved(&trace(&steps), 3), (0, 0));
}

#[test]
fn what_one_piece_of_work_lacks_room_for_is_streamed_each_time() {
    let steps = [
        Step::Alloc(0, 6),
        Step::Alloc(1, 4),
        Step::Work([0, 1].into(), 1),
        Step::Work([0, 1].into(), 1),
        Step::Work([0, 1].into(), 1),
    ];
    let trace = trace(&steps);
    // Ten pages, room for seven: three in and three out between each two.
    assert_eq!(moved(&trace, 7), (6, 6));
    let ideal = crate::ideal::time(&trace, 7, &whole(&trace), &Link::default());
    assert!(ideal.time >= ideal.sum, "{ideal:?}");
}

#[test]
fn the_least_time_is_that_of_the_work_where_all_fits_and_that_of_the_link_where_it_does_not() {
    let scan = trace(&cyclic(100, 10));
    let time = |budget| crate::ideal::time(&scan, budget, &whole(&scan), &Link::default());
    let fits = time(100);
    assert_eq!((fits.time, fits.compute), (1_000_000, 1_000_000));
    let tight = time(50);
    assert!(
        tight.least <= tight.time && tight.time > 10 * tight.compute,
        "{tight:?}"
    );
    // In and out overlap at the rate for both.
    let slow = 50 * PAGE * 9 * 10 / 33 / 10;
    assert!(tight.time < slow * 3 / 2, "{tight:?} {slow}");
}

#[test]
fn random_plans_can_be_carried_out() {
    let mut random = Random(9);
    for _ in 0..300 {
        let trace = trace(&random_steps(&mut random));
        for budget in 1..6 {
            let ideal = crate::ideal::time(&trace, budget, &whole(&trace), &Link::default());
            assert!(ideal.time >= ideal.least, "{trace:?} {budget} {ideal:?}");
        }
    }
}

#[test]
fn what_is_streamed_is_what_is_wanted_last() {
    for (first, second) in [(0, 1), (1, 0)] {
        let steps = [
            Step::Alloc(0, 4),
            Step::Alloc(1, 4),
            Step::Work([0, 1].into(), 1),
            Step::Work([first].into(), 1),
            Step::Work([second].into(), 1),
        ];
        // Two of eight pages do not fit: those of the one that comes second leave, and come back once.
        assert_eq!(moved(&trace(&steps), 6), (2, 2));
    }
}
