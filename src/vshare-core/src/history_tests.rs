//! The history finds its place, keeps it, and finds it again.

use super::*;

/// Plays a program given as a list of (function, blocks); pages are always 4.
fn play(history: &mut History, works: &[(u64, &[u32])]) {
    for (function, blocks) in works {
        let blocks: Vec<BlockId> = blocks.iter().map(|&b| BlockId::new(b)).collect();
        history.work(*function, &blocks, &[], |_| 4);
    }
}

/// The function that is expected next.
fn expected(history: &History, functions: &[u64]) -> Option<u64> {
    let at = history.cursor()?;
    functions.get(usize::try_from(at - 1).ok()?).copied()
}

/// One pass over `layers` layers of three launches each; every layer has a weight of its own.
fn pass(layers: u32, first: u64) -> Vec<(u64, Vec<u32>)> {
    (0..layers)
        .flat_map(|layer| (0..3).map(move |i| (first + i, alloc::vec![layer])))
        .collect()
}

#[test]
fn a_loop_is_foreseen_after_it_has_been_seen_once() {
    let mut history = History::new();
    let one: Vec<(u64, Vec<u32>)> = (0..20).map(|i| (100 + i, alloc::vec![0, 1])).collect();
    for _ in 0..4 {
        for (function, blocks) in &one {
            play(&mut history, &[(*function, blocks)]);
        }
    }
    assert_eq!(history.lag(), Some(20));
    assert!(history.is_trusted());
}

#[test]
fn layers_that_do_the_same_are_told_apart() {
    let mut history = History::new();
    let forward = pass(12, 10);
    let backward: Vec<_> = pass(12, 20).into_iter().rev().collect();
    for _ in 0..5 {
        for (function, blocks) in forward.iter().chain(&backward) {
            play(&mut history, &[(*function, blocks)]);
        }
    }
    assert_eq!(history.lag(), Some(72), "the whole pass, not a layer");
    assert!(history.is_trusted());
}

#[test]
fn the_optimizer_step_around_micro_batches_is_found() {
    let mut history = History::new();
    let micro = pass(10, 10);
    let optimizer: Vec<_> = (0..10).map(|b| (90, alloc::vec![b, 50 + b])).collect();
    let mut functions = Vec::new();
    let mut wrong = 0;
    for step in 0..6 {
        for part in [&micro, &micro, &micro, &micro, &optimizer] {
            for (function, blocks) in part {
                if step >= 3 && expected(&history, &functions) != Some(*function) {
                    wrong += 1;
                }
                play(&mut history, &[(*function, blocks)]);
                functions.push(*function);
            }
        }
    }
    assert_eq!(history.lag(), Some(4 * 30 + 10));
    assert_eq!(wrong, 0, "nothing comes unexpected from the fourth step on");
}

#[test]
fn an_evaluation_now_and_then_is_found_again() {
    let mut history = History::new();
    let train = pass(30, 10);
    let evaluate = pass(30, 70);
    let mut functions = Vec::new();
    let mut late = Vec::new();
    for step in 0..30 {
        let part = if step % 5 == 4 { &evaluate } else { &train };
        let mut wrong = 0;
        for (function, blocks) in part {
            wrong += u32::from(expected(&history, &functions) != Some(*function));
            play(&mut history, &[(*function, blocks)]);
            functions.push(*function);
        }
        if step >= 15 {
            late.push(wrong);
        }
    }
    assert!(
        late.iter().all(|&w| w <= 8),
        "lost for more than a moment: {late:?}"
    );
}

#[test]
fn an_operation_more_or_less_does_not_lose_the_place() {
    let mut history = History::new();
    let one: Vec<(u64, Vec<u32>)> = (0..40).map(|i| (100 + i, alloc::vec![0])).collect();
    let mut epoch = 0;
    for round in 0..9_u64 {
        for (i, (function, blocks)) in one.iter().enumerate() {
            if round == 5 && i == 11 {
                play(&mut history, &[(7777, &[3])]);
            }
            if round == 6 && i == 23 {
                continue;
            }
            if round == 7 && i == 9 {
                play(&mut history, &[(8888, &[5])]);
                continue;
            }
            play(&mut history, &[(*function, blocks)]);
        }
        if round == 4 {
            assert!(history.is_trusted());
            epoch = history.place().0;
        }
    }
    play(&mut history, &[(100, &[0]), (101, &[0])]);
    assert_eq!(history.place().0, epoch, "it has never been lost");
    let at = history.cursor().unwrap();
    let (_, uses) = history.op(at).unwrap();
    assert_eq!(uses.len(), 1);
}

#[test]
fn allocations_correspond_by_their_place_not_their_address() {
    let mut history = History::new();
    for step in 0..6_u32 {
        for layer in 0..20_u32 {
            // Another number every time.
            history.born(
                BlockId::new(100 + (step * 7 + layer) % 40),
                u64::from(layer) + 2,
            );
            history.work(
                5,
                &[BlockId::new(100 + (step * 7 + layer) % 40)],
                &[],
                |_| 0,
            );
        }
        for layer in (0..20_u32).rev() {
            let block = BlockId::new(100 + (step * 7 + layer) % 40);
            history.work(6, &[block], &[], |_| 0);
            history.died(block);
        }
    }
    assert_eq!(history.lag(), Some(80));
    // The next is a birth; its predecessor's instance leads to what was born there this time.
    let (kind, ids) = history.op(history.cursor().unwrap()).unwrap();
    assert_eq!(kind, Kind::Born);
    let then = ids[0];
    assert!(!history.instance(then).unwrap().lives());
    let older = history.last() + 1 - 160;
    let before = history.op(older).unwrap().1[0];
    assert_eq!(history.successor(before, 80), Some(then));
}

#[test]
fn leftovers_in_tables_do_not_confuse() {
    let mut history = History::new();
    for round in 0..40_u32 {
        for i in 0..10 {
            let leftover = [BlockId::new(200 + (round * 13 + i) % 50)];
            history.work(u64::from(i), &[BlockId::new(i)], &leftover, |_| 1);
        }
    }
    assert!(history.is_trusted());
    assert_eq!(history.lag(), Some(10));
}

#[test]
fn random_work_is_not_trusted() {
    let mut history = History::new();
    let mut random = crate::pool::tests::Random(5);
    for _ in 0..5000 {
        let block = BlockId::new(u32::try_from(random.below(100)).unwrap());
        history.work(random.below(6), &[block], &[], |_| 1);
        assert!(!history.is_trusted());
    }
}

#[test]
fn the_older_half_is_forgotten_and_the_place_is_kept() {
    let mut history = History::new();
    let rounds = OPERATIONS / 100 * 3;
    for _ in 0..rounds {
        for i in 0..100_u32 {
            history.work(u64::from(i), &[BlockId::new(i)], &[], |_| 1);
        }
    }
    assert!(history.ops.len() <= OPERATIONS);
    assert_eq!(history.lag(), Some(100));
    assert!(history.op(1).is_none());
}

#[test]
fn instances_of_blocks_long_dead_are_used_again() {
    let mut history = History::new();
    for _ in 0..OPERATIONS {
        history.born(BlockId::new(3), 2);
        history.died(BlockId::new(3));
    }
    assert!(history.instances() <= OPERATIONS);
}
