//! Residency against its invariants, counted afresh after every step.

use super::*;
use crate::block::After;
use crate::pool::Pool;
use crate::pool::tests::Random;
use crate::units::PAGE;
use alloc::collections::VecDeque;

const BASE: u64 = 0x7000_0000_0000;

struct World {
    pool: Pool,
    residency: Residency,
    tick: u64,
}

impl World {
    fn new(order: Order, pages: u64, budget: u64) -> Self {
        let mut pool = Pool::new();
        pool.add_extent(BASE, pages * PAGE);
        let mut residency = Residency::new(order, budget);
        residency.grow(pool.page_numbers());
        Self {
            pool,
            residency,
            tick: 0,
        }
    }

    fn allocate(&mut self, pages: u64) -> Option<(u64, BlockId)> {
        let got = self.pool.allocate(pages * PAGE, None, 0, None).ok()?;
        self.residency.adopt(got.block, got.new?);
        Some((got.address, got.block))
    }

    fn free(&mut self, address: u64) {
        self.tick += 1;
        let freed = self.pool.free(address, After::Nothing).unwrap();
        self.residency.release(freed.gone.unwrap().0, self.tick);
    }

    fn use_now(&mut self, ids: &[BlockId]) -> Fetch {
        self.tick += 1;
        for &id in ids {
            self.residency.touch(id, self.tick);
        }
        let fetch = self.residency.fetch(ids);
        for &run in fetch.promote.iter().chain(&fetch.populate) {
            self.residency.arrived(run, true, |p| self.pool.owner(p));
        }
        fetch
    }

    fn leave(&mut self, most: u64, may_drop: bool, ended: u64) -> Leave {
        let leave = self
            .residency
            .leave(most, most, |_| may_drop, |t| t <= ended);
        let (runs, dropped) = match &leave {
            Leave::Drop(runs) => (runs, true),
            Leave::Evict(runs) => (runs, false),
            _ => return leave,
        };
        for &run in runs {
            self.residency
                .left(run, dropped, true, |p| self.pool.owner(p));
        }
        leave
    }

    fn check(&self) {
        let r = &self.residency;
        let (mut resident, mut missing, mut host, mut dead) = (0, 0, 0, 0);
        for (number, page) in (0_u64..).zip(&r.pages) {
            let owned = self.pool.owner(number).is_some();
            let here = page.place == Place::Device && !page.moving;
            resident += u64::from(page.place == Place::Device || page.moving);
            missing += u64::from(owned && !here);
            host += u64::from(owned && page.place == Place::Host);
            dead += u64::from(!owned && here);
        }
        assert_eq!(
            (r.resident, r.missing, r.host, r.dead.total()),
            (resident, missing, host, dead)
        );
        let mut listed = 0;
        let mut next = r.queue.oldest();
        while let Some(id) = next {
            let block = r.blocks[id.index()];
            assert!(block.here > 0);
            listed += 1;
            next = r.queue.after(id);
        }
        assert_eq!(listed, r.blocks.iter().filter(|b| b.here > 0).count());
    }
}

fn run(first: u64, pages: u64) -> Run {
    Run { first, pages }
}

#[test]
fn a_new_block_is_populated_and_an_evicted_one_promoted() {
    let mut w = World::new(Order::Used, 8, 4);
    let (_, a) = w.allocate(3).unwrap();
    assert_eq!(w.use_now(&[a]).populate, [run(0, 3)]);
    assert_eq!(w.leave(9, true, 0), Leave::Wait(1));
    assert_eq!(w.leave(9, true, 1), Leave::Evict([run(0, 3)].into()));
    assert_eq!((w.residency.host(), w.residency.missing()), (3, 3));
    assert_eq!(w.use_now(&[a]).promote, [run(0, 3)]);
    w.check();
}

#[test]
fn nothing_leaves_before_work_that_nobody_looked_at_has_ended() {
    let mut w = World::new(Order::Used, 8, 8);
    let (_, a) = w.allocate(1).unwrap();
    w.use_now(&[a]);
    w.residency.set_unwatched(7);
    assert_eq!(w.leave(1, true, 6), Leave::Wait(7));
    assert_eq!(w.leave(1, true, 7), Leave::Evict([run(0, 1)].into()));
}

#[test]
fn the_block_used_longest_ago_leaves_first() {
    let mut w = World::new(Order::Used, 8, 8);
    let ids: Vec<_> = (0..3).map(|_| w.allocate(1).unwrap().1).collect();
    w.use_now(&ids);
    w.use_now(&ids[..1]);
    assert_eq!(w.leave(1, true, 9), Leave::Evict([run(1, 1)].into()));
    w.residency.pin(ids[2]);
    assert_eq!(w.leave(1, true, 9), Leave::Evict([run(0, 1)].into()));
    assert_eq!(w.leave(1, true, 9), Leave::Nothing);
}

#[test]
fn by_migration_a_block_leaves_however_recently_it_was_used() {
    let mut w = World::new(Order::Migrated, 8, 8);
    let ids: Vec<_> = (0..2).map(|_| w.allocate(1).unwrap().1).collect();
    assert_eq!(w.residency.faulted(&ids), 2);
    w.residency.touch(ids[0], 5);
    assert_eq!(w.leave(1, true, 9), Leave::Evict([run(0, 1)].into()));
    w.check();
}

#[test]
fn dead_memory_is_dropped_first_but_not_while_work_from_before_its_free_runs() {
    let mut w = World::new(Order::Used, 8, 8);
    let (a, a_id) = w.allocate(2).unwrap();
    let (_, b_id) = w.allocate(2).unwrap();
    w.use_now(&[a_id, b_id]);
    w.free(a);
    assert_eq!(w.leave(9, true, 1), Leave::Evict([run(2, 2)].into()));
    assert_eq!(w.leave(9, true, 2), Leave::Drop([run(0, 2)].into()));
    assert_eq!((w.residency.resident(), w.residency.host()), (0, 2));
    w.check();
}

#[test]
fn a_driver_that_cannot_drop_has_dead_memory_copied_out_last() {
    let mut w = World::new(Order::Used, 8, 8);
    let (a, id) = w.allocate(2).unwrap();
    w.use_now(&[id]);
    w.free(a);
    assert_eq!(w.leave(9, false, 9), Leave::Evict([run(0, 2)].into()));
    assert_eq!(w.residency.host(), 0, "nobody's data");
    w.check();
}

#[test]
fn dead_memory_is_not_copied_out_while_work_from_before_its_free_runs() {
    let mut w = World::new(Order::Used, 8, 8);
    let (a, id) = w.allocate(1).unwrap();
    let (b, other) = w.allocate(1).unwrap();
    w.use_now(&[id, other]);
    w.free(a);
    w.free(b);
    assert_eq!(w.leave(9, false, 1), Leave::Wait(2));
    assert_eq!(w.leave(9, false, 2), Leave::Evict([run(0, 1)].into()));
    assert_eq!(w.leave(9, false, 2), Leave::Wait(3));
    w.check();
}

#[test]
fn memory_handed_on_in_a_streams_order_stays_until_its_last_owners_work_has_ended() {
    let mut w = World::new(Order::Used, 8, 8);
    let (a, id) = w.allocate(2).unwrap();
    w.use_now(&[id]);
    w.free(a);
    w.allocate(1).unwrap();
    assert_eq!(w.leave(9, false, 1), Leave::Wait(2));
    assert_eq!(w.leave(9, false, 2), Leave::Evict([run(0, 1)].into()));
    w.check();
}

#[test]
fn no_more_is_fetched_than_there_is_room_for() {
    let mut w = World::new(Order::Used, 8, 3);
    let (_, a) = w.allocate(5).unwrap();
    let fetch = w.use_now(&[a]);
    assert_eq!((fetch.populate, fetch.short), ([run(0, 3)].into(), 2));
    assert_eq!(w.residency.faulted(&[a]), 2);
    assert_eq!(w.residency.resident(), 5);
    w.check();
}

#[test]
fn a_move_that_fails_leaves_the_page_where_it_was() {
    let mut w = World::new(Order::Used, 8, 8);
    let (_, a) = w.allocate(2).unwrap();
    let fetch = w.residency.fetch(&[a]);
    w.residency
        .arrived(fetch.populate[0], false, |p| w.pool.owner(p));
    assert_eq!((w.residency.resident(), w.residency.missing()), (0, 2));
    w.use_now(&[a]);
    let Leave::Evict(runs) = w.residency.leave(9, 9, |_| true, |_| true) else {
        panic!("nothing leaves");
    };
    w.residency.left(runs[0], false, false, |p| w.pool.owner(p));
    assert!(w.residency.is_here(a));
    w.check();
}

/// Moves are planned, and end later, in any order, with allocations and frees between.
#[test]
fn random_moves_keep_every_count_right() {
    for seed in 0..150 {
        let mut random = Random(seed);
        let order = [Order::Used, Order::Migrated][usize::try_from(seed % 2).unwrap()];
        let mut w = World::new(order, 32, 12);
        let mut live: Vec<(u64, BlockId)> = Vec::new();
        let mut flying: VecDeque<(Run, Option<bool>)> = VecDeque::new();
        for _ in 0..500 {
            match random.below(6) {
                0 => live.extend(w.allocate(1 + random.below(5))),
                1 if !live.is_empty() => {
                    let at = usize::try_from(random.below(live.len() as u64)).unwrap();
                    w.free(live.swap_remove(at).0);
                }
                2 => {
                    let ids: Vec<_> = live
                        .iter()
                        .filter(|_| random.below(3) == 0)
                        .map(|l| l.1)
                        .collect();
                    w.tick += 1;
                    for &id in &ids {
                        w.residency.touch(id, w.tick);
                    }
                    if random.below(4) == 0 {
                        w.residency.faulted(&ids);
                    } else {
                        let before = w.residency.resident();
                        let fetch = w.residency.fetch(&ids);
                        assert!(w.residency.resident() <= before.max(w.residency.budget()));
                        flying.extend(fetch.promote.into_iter().map(|r| (r, None)));
                        flying.extend(fetch.populate.into_iter().map(|r| (r, None)));
                    }
                }
                3 => {
                    let can_drop = random.below(2) == 0;
                    let ended = w.tick - random.below(4).min(w.tick);
                    match w.residency.leave(
                        1 + random.below(6),
                        1 + random.below(6),
                        |_| can_drop,
                        |t| t <= ended,
                    ) {
                        Leave::Drop(runs) => {
                            let page = |n: u64| w.residency.pages[usize::try_from(n).unwrap()];
                            for n in runs.iter().flat_map(|r| r.numbers()) {
                                assert!(w.pool.owner(n).is_none() && page(n).freed <= ended);
                            }
                            flying.extend(runs.into_iter().map(|r| (r, Some(true))));
                        }
                        Leave::Evict(runs) => {
                            flying.extend(runs.into_iter().map(|r| (r, Some(false))))
                        }
                        Leave::Wait(tick) => assert!(tick > ended),
                        Leave::Nothing => {}
                    }
                }
                _ => {
                    if let Some((run, out)) = flying.pop_front() {
                        let ok = random.below(5) > 0;
                        let owner = |p| w.pool.owner(p);
                        match out {
                            None => w.residency.arrived(run, ok, owner),
                            Some(dropped) => w.residency.left(run, dropped, ok, owner),
                        }
                    }
                }
            }
            w.check();
        }
    }
}
