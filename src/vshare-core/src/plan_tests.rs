//! Plans move what they must, in time, and no more.

use super::*;
use crate::forecast::{Part, Step};

fn part(pages: u64, here: u64, host: u64) -> Part {
    Part {
        block: Some((BlockId::new(0), 1)),
        pages,
        here,
        host,
        born_within: false,
        successor: None,
    }
}

/// Work only, each on the parts of these numbers.
fn works(parts: Vec<Part>, budget: u64, uses: &[&[u32]]) -> Forecast {
    let mut forecast = Forecast {
        parts,
        budget,
        ..Forecast::default()
    };
    for step in uses {
        forecast.uses.extend_from_slice(step);
        forecast.steps.push(Step {
            kind: Kind::Work,
            end: u32::try_from(forecast.uses.len()).unwrap(),
        });
    }
    forecast
}

#[test]
fn nothing_moves_when_everything_fits() {
    let forecast = works(alloc::vec![part(4, 4, 0); 3], 12, &[&[0], &[1], &[2]]);
    let plan = Plan::new(&forecast, 0);
    assert_eq!((plan.pages_in, plan.pages_out), (0, 0));
    assert!(plan.leaving.is_empty() && plan.coming.is_empty());
}

#[test]
fn of_a_cyclic_scan_only_what_does_not_fit_moves() {
    // 10 blocks of 4 pages, room for 30: at least 10 pages must come in each round.
    let parts: Vec<Part> = (0..10)
        .map(|i| if i < 7 { part(4, 4, 0) } else { part(4, 0, 4) })
        .collect();
    let steps: Vec<[u32; 1]> = (0..10).map(|i| [i]).collect();
    let steps: Vec<&[u32]> = steps.iter().map(|s| s.as_slice()).collect();
    let plan = Plan::new(&works(parts, 30, &steps), 0);
    let rounds = u64::from(plan.span) / 10;
    assert!(rounds > 50);
    // Ten lacking pages of forty, a little more because the scan wraps.
    assert!(
        plan.pages_in <= rounds * 14,
        "{} in {rounds} rounds",
        plan.pages_in
    );
    assert!(plan.pages_in >= rounds * 10);
}

#[test]
fn what_is_needed_furthest_away_leaves_and_comes_back_before_its_use() {
    // 0 is used at the beginning and the end; 1 and 2 alternate between; room for two.
    let parts = alloc::vec![part(4, 4, 0), part(4, 4, 0), part(4, 0, 4)];
    let mut steps: Vec<&[u32]> = alloc::vec![&[0]];
    for _ in 0..600 {
        steps.push(&[1]);
        steps.push(&[2]);
    }
    let plan = Plan::new(&works(parts, 8, &steps), 0);
    let first = plan.leaving[0];
    assert_eq!(
        (first.slot, first.keep, first.after, first.due),
        (0, 0, Some(0), 2)
    );
    let back: Vec<&Coming> = plan.coming.iter().filter(|c| c.slot == 0).collect();
    assert!(back.is_empty(), "the plan ends before its next use");
    assert_eq!(plan.coming.iter().filter(|c| c.need > 2).count(), 0);
}

#[test]
fn what_comes_back_may_come_as_soon_as_there_is_room() {
    // A block of 4 leaves for one of 8 that dies at step 3; then nothing wants the room until step 1000.
    let mut forecast = works(alloc::vec![part(4, 4, 0), part(2, 2, 0)], 10, &[&[0]]);
    forecast.parts.push(Part {
        block: None,
        born_within: true,
        ..part(8, 0, 0)
    });
    let mut step = |kind, number| {
        forecast.uses.push(number);
        forecast.steps.push(Step {
            kind,
            end: u32::try_from(forecast.uses.len()).unwrap(),
        });
    };
    step(Kind::Born, 2);
    step(Kind::Work, 2);
    step(Kind::Died, 2);
    for _ in 0..1500 {
        step(Kind::Work, 1);
    }
    step(Kind::Work, 0);
    let plan = Plan::new(&forecast, 0);
    assert_eq!((plan.pages_in, plan.pages_out), (4, 4));
    let coming = plan.coming[0];
    assert_eq!((coming.slot, coming.have, coming.need), (0, 4, 1504));
    assert_eq!(coming.from, 3, "as soon as the large block is dead");
    assert_eq!(plan.births, [(1, 3)]);
}

#[test]
fn a_block_that_dies_soon_leaves_rather_than_one_that_is_needed_a_little_later() {
    // At step 1, room is wanted. 0 dies (unused) at step 4, 1 is used at step 6: one copy against two.
    let mut forecast = works(
        alloc::vec![part(4, 4, 0), part(4, 4, 0), part(4, 0, 4), part(1, 1, 0)],
        8,
        &[&[3], &[2], &[3], &[3]],
    );
    forecast.budget = 9;
    forecast.uses.push(0);
    let end = u32::try_from(forecast.uses.len()).unwrap();
    forecast.steps.push(Step {
        kind: Kind::Died,
        end,
    });
    forecast.uses.extend([3, 1]);
    forecast.steps.push(Step {
        kind: Kind::Work,
        end: end + 1,
    });
    forecast.steps.push(Step {
        kind: Kind::Work,
        end: end + 2,
    });
    let plan = Plan::new(&forecast, 0);
    assert_eq!(plan.leaving[0].slot, 0);
}

#[test]
fn work_that_needs_more_than_the_budget_is_planned_as_far_as_it_goes() {
    let forecast = works(
        alloc::vec![part(10, 0, 10), part(10, 0, 10)],
        12,
        &[&[0, 1]],
    );
    let plan = Plan::new(&forecast, 0);
    assert!(plan.pages_in >= 12);
}

#[test]
fn idle_blocks_leave_first() {
    let mut forecast = works(alloc::vec![part(4, 4, 0), part(4, 0, 4)], 8, &[&[0], &[1]]);
    forecast.add_idle(BlockId::new(9), 3, 4, 4);
    let plan = Plan::new(&forecast, 0);
    assert_eq!(
        plan.slots[plan.leaving[0].slot as usize].block,
        Some((BlockId::new(9), 3))
    );
    assert_eq!(plan.leaving[0].after, None, "at once");
    assert_eq!(plan.pages_out, 4);
}
