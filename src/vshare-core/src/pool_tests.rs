//! The pool against a naive model.

use super::*;
use alloc::vec;

/// A small generator of numbers (xorshift64*), seeded, so that a failure repeats.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        let mut x = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0 = x;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % end
    }
}

const BASE: u64 = 0x7000_0000_0000;

fn pool(pages: u64) -> Pool {
    let mut pool = Pool::new();
    pool.add_extent(BASE, pages * PAGE);
    pool
}

#[test]
fn large_blocks_own_their_pages_and_small_ones_share() {
    let mut pool = pool(16);
    let large = pool.allocate(PAGE + 1, None, 0, None).unwrap();
    assert_eq!(large.address % PAGE, 0);
    assert_eq!(large.new.map(|r| r.pages), Some(2));
    let one = pool.allocate(1, None, 0, None).unwrap();
    let two = pool.allocate(700, None, 0, None).unwrap();
    assert_eq!(one.block, two.block);
    assert_eq!(two.address - one.address, ALIGN);
    assert!(one.new.is_some() && two.new.is_none());
}

#[test]
fn the_same_requests_get_the_same_addresses_every_round() {
    let mut pool = pool(64);
    let sizes = [PAGE * 3, 100, PAGE, 5000, PAGE * 2 + 5, 600_000];
    let mut first = Vec::new();
    for round in 0..4 {
        let got: Vec<_> = sizes
            .iter()
            .map(|&s| pool.allocate(s, None, 0, None).unwrap().address)
            .collect();
        if round == 0 {
            first.clone_from(&got);
        }
        assert_eq!(got, first);
        for address in got {
            pool.free(address, After::Nothing).unwrap();
        }
    }
}

#[test]
fn memory_that_waits_is_used_again_only_by_its_own_slot_or_after_its_fence() {
    let mut pool = pool(4);
    let a = pool.allocate(4 * PAGE, None, 0, None).unwrap();
    let (s1, s2) = (Slot(1), Slot(2));
    pool.free(a.address, After::Work(s1)).unwrap();
    assert!(pool.allocate(PAGE, None, 0, None).is_err());
    assert!(pool.allocate(PAGE, Some(s2), 0, None).is_err());
    let b = pool.allocate(PAGE, Some(s1), 0, None).unwrap();
    assert_eq!(b.address, a.address);
    assert!(pool.close(s1));
    pool.free(b.address, After::Work(s1)).unwrap();
    assert!(
        !pool.close(s1),
        "the open generation waits for the closed one"
    );
    assert!(pool.passed(s1).is_empty());
    // Three pages passed; the one freed after the generation closed did not.
    assert_eq!(pool.waits(s1), (false, true));
    assert!(pool.allocate(3 * PAGE, None, 0, None).is_ok());
    assert!(pool.allocate(PAGE, None, 0, None).is_err());
    pool.all_passed();
    assert!(pool.allocate(PAGE, None, 0, None).is_ok());
}

#[test]
fn an_interior_a_freed_and_a_foreign_address_are_told_apart() {
    let mut pool = pool(8);
    let large = pool.allocate(2 * PAGE, None, 0, None).unwrap().address;
    let small = pool.allocate(2000, None, 0, None).unwrap().address;
    for (address, error) in [
        (large + 512, FreeError::NoBlock),
        (large + PAGE, FreeError::NoBlock),
        (small + 512, FreeError::NoBlock),
        (small + 1, FreeError::NoBlock),
        (small + 4096, FreeError::NoBlock),
        (BASE - 1, FreeError::Foreign),
        (BASE + 8 * PAGE, FreeError::Foreign),
        (0, FreeError::Foreign),
        (u64::MAX, FreeError::Foreign),
    ] {
        assert_eq!(
            pool.free(address, After::Nothing),
            Err(error),
            "{address:x}"
        );
    }
    for address in [large, small] {
        pool.free(address, After::Nothing).unwrap();
        assert_eq!(pool.free(address, After::Nothing), Err(FreeError::NoBlock));
    }
}

#[test]
fn an_address_query_answers_for_the_allocation_and_not_for_what_lies_behind_it() {
    let mut pool = pool(8);
    let large = pool.allocate(PAGE + 7, None, 11, None).unwrap().address;
    let small = pool.allocate(100, None, 22, None).unwrap().address;
    let known = pool.known_at(large + PAGE + 6).unwrap();
    assert_eq!(
        (known.address, known.bytes, known.tag),
        (large, PAGE + 7, 11)
    );
    assert_eq!(pool.known_at(large + PAGE + 7), None);
    assert_eq!(pool.known_at(small + 99).unwrap().tag, 22);
    assert_eq!(pool.known_at(small + 100), None);
}

#[test]
fn one_empty_chunk_is_kept_and_a_second_given_up() {
    let mut pool = pool(64);
    let per_chunk = CHUNK_PAGES * 2;
    let blocks: Vec<_> = (0..2 * per_chunk + 1)
        .map(|_| pool.allocate(SMALL - 1, None, 0, None).unwrap())
        .collect();
    let gone = blocks
        .iter()
        .filter(|b| pool.free(b.address, After::Nothing).unwrap().gone.is_some())
        .count();
    assert_eq!(gone, 2);
    assert!(pool.allocate(1, None, 0, None).unwrap().new.is_none());
}

#[test]
fn extents_that_touch_are_still_two() {
    let mut pool = Pool::new();
    let a = pool.add_extent(BASE + 5, 3 * PAGE);
    assert_eq!(a.pages, 2, "whole pages only");
    pool.add_extent(BASE + 3 * PAGE, 2 * PAGE);
    assert_eq!(
        pool.allocate(3 * PAGE, None, 0, None),
        Err(NoRoom { pages: 3 })
    );
    let block = pool.allocate(2 * PAGE, None, 0, None).unwrap();
    assert_eq!(
        pool.block_at(block.address + 2 * PAGE - 1),
        Some(block.block)
    );
    assert_eq!(pool.page_at(pool.address_of(0).unwrap()), Some(0));
}

#[derive(Clone, Copy, PartialEq)]
enum Byte {
    Free,
    Live,
    /// In this slot; whether its generation is closed.
    Waits(Slot, bool),
}

/// Every allocation and free is replayed on a table of units; anything handed out must be free
/// there, or wait in the slot that asks.
#[test]
fn random_programs_never_get_memory_that_is_live_or_waits_for_another() {
    const PAGES: u64 = 24;
    for seed in 0..120 {
        let mut random = Random(seed);
        let mut pool = pool(PAGES);
        let mut model = vec![Byte::Free; usize::try_from(PAGES * PAGE / ALIGN).unwrap()];
        let mut live: Vec<(u64, u64)> = Vec::new();
        let span = |address: u64, bytes: u64| {
            let first = usize::try_from((address - BASE) / ALIGN).unwrap();
            let whole = if bytes < SMALL { ALIGN } else { PAGE };
            first..first + usize::try_from(bytes.next_multiple_of(whole) / ALIGN).unwrap()
        };
        for _ in 0..400 {
            let slot = Slot(u32::try_from(random.below(3)).unwrap());
            match random.below(8) {
                0..=3 => {
                    let bytes = 1 + match random.below(3) {
                        0 => random.below(3000),
                        1 => random.below(SMALL),
                        _ => random.below(6 * PAGE),
                    };
                    let by = (slot != Slot::ALL).then_some(slot);
                    if let Ok(got) = pool.allocate(bytes, by, 0, None) {
                        assert_eq!(got.address % if bytes < SMALL { ALIGN } else { PAGE }, 0);
                        for unit in &mut model[span(got.address, bytes)] {
                            let own = matches!(*unit, Byte::Waits(s, _) if by == Some(s));
                            assert!(*unit == Byte::Free || own, "seed {seed}");
                            *unit = Byte::Live;
                        }
                        live.push((got.address, bytes));
                    }
                }
                4..=5 if !live.is_empty() => {
                    let (address, bytes) =
                        live.swap_remove(usize::try_from(random.below(live.len() as u64)).unwrap());
                    let after = match random.below(2) {
                        0 => After::Nothing,
                        _ => After::Work(slot),
                    };
                    assert_eq!(pool.free(address, after).unwrap().bytes, bytes);
                    let state = match after {
                        After::Nothing => Byte::Free,
                        After::Work(_) => Byte::Waits(slot, false),
                    };
                    model[span(address, bytes)].fill(state);
                }
                6 => {
                    if pool.close(slot) {
                        turn(
                            &mut model,
                            Byte::Waits(slot, false),
                            Byte::Waits(slot, true),
                        );
                    }
                }
                _ => {
                    pool.passed(slot);
                    turn(&mut model, Byte::Waits(slot, true), Byte::Free);
                }
            }
        }
        for (address, bytes) in live {
            assert_eq!(pool.free(address, After::Nothing).unwrap().bytes, bytes);
        }
        pool.all_passed();
        pool.all_passed();
        let free = (0..)
            .take_while(|_| pool.allocate(PAGE, None, 0, None).is_ok())
            .count();
        assert!(free as u64 >= PAGES - CHUNK_PAGES, "seed {seed}: leaks");
    }
}

fn turn(model: &mut [Byte], from: Byte, to: Byte) {
    for unit in model.iter_mut().filter(|u| **u == from) {
        *unit = to;
    }
}
