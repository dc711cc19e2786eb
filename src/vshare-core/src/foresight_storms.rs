//! Looking ahead, with programs that repeat themselves and then do something else.

use super::*;
use crate::arena::{Arena, Terms};
use crate::block::{After, Run};
use crate::pool::tests::Random;
use crate::residency::{Leave, Order};
use crate::units::PAGE;

const BASE: u64 = 0x7000_0000_0000;
const EXTENT: u64 = 96;

fn arena(budget: u64) -> Arena {
    let mut arena = Arena::new(Terms {
        order: Order::Used,
        looks_ahead: true,
        budget: budget * PAGE,
        limit: 1 << 50,
        physical: 1 << 50,
    });
    arena.add_extent(BASE, EXTENT * PAGE);
    arena.watch(true);
    arena
}

/// What a program does over and over: each number says what is done to which of its memory.
struct Program {
    arena: Arena,
    held: Vec<Option<u64>>,
    tick: u64,
    moves: Vec<(Run, Move)>,
    peak: u64,
    plans: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    In,
    Out,
    Drop,
}

impl Program {
    fn new(budget: u64) -> Self {
        Self {
            arena: arena(budget),
            held: alloc::vec![None; 24],
            tick: 0,
            moves: Vec::new(),
            peak: 0,
            plans: 0,
        }
    }

    fn toggle(&mut self, place: usize, bytes: u64) {
        self.tick += 1;
        match self.held[place].take() {
            Some(address) => {
                self.arena.free(address, After::Nothing, self.tick).unwrap();
            }
            None => {
                let Ok(grant) = self.arena.allocate(bytes, None, 0) else {
                    return;
                };
                for &run in &grant.populate {
                    self.arena.arrived(run, true);
                }
                self.arena.populated(&grant);
                self.held[place] = Some(grant.address);
            }
        }
    }

    fn work(&mut self, function: u64, places: &[usize]) {
        self.tick += 1;
        let mut blocks = Vec::new();
        for address in places.iter().filter_map(|&p| self.held[p]) {
            let block = self.arena.pool().block_at(address).unwrap();
            if !blocks.contains(&block) {
                blocks.push(block);
            }
        }
        let sure = blocks.len() / 2;
        self.arena.prepare(&blocks, self.tick);
        self.arena
            .note_work(function, &blocks[..sure], &blocks[sure..]);
        let fetch = self.arena.fetch(&blocks);
        for &run in fetch.promote.iter().chain(&fetch.populate) {
            self.arena.arrived(run, true);
        }
        self.arena.submitted(&blocks, self.tick);
    }

    /// As the mover does, with moves that take a while.
    fn look_ahead(&mut self, random: &mut Random) {
        self.arena.is_due();
        let before = self.tick - random.below(3).min(self.tick);
        match self
            .arena
            .next_out(random.below(8), 4, random.below(2) == 0, |t| t <= before)
        {
            Leave::Drop(runs) => self.moves.extend(runs.into_iter().map(|r| (r, Move::Drop))),
            Leave::Evict(runs) => self.moves.extend(runs.into_iter().map(|r| (r, Move::Out))),
            Leave::Wait(_) | Leave::Nothing => {}
        }
        let fetch = self.arena.next_in(4);
        self.moves
            .extend(fetch.promote.into_iter().map(|r| (r, Move::In)));
        while self.moves.len() > 4 || (!self.moves.is_empty() && random.below(3) == 0) {
            let at = usize::try_from(random.below(self.moves.len() as u64)).unwrap();
            let (run, what) = self.moves.swap_remove(at);
            let ok = random.below(16) > 0;
            match what {
                Move::In => self.arena.arrived(run, ok),
                Move::Out | Move::Drop => self.arena.left(run, what == Move::Drop, ok),
            }
        }
        if let Some(outlook) = self.arena.begin_plan() {
            let plan = (random.below(8) > 0).then(|| Arena::plan(&outlook));
            self.arena.install(plan);
            self.plans += 1;
        }
        self.peak = self.peak.max(self.arena.residency().resident());
    }
}

/// Small memory comes and goes in chunks whose sizes differ and whose numbers are used again.
#[test]
fn programs_that_repeat_themselves_and_then_do_not_keep_to_the_budget() {
    for seed in 0..24 {
        let mut random = Random(seed);
        let budget = [0, 1, 5, 24, 60][usize::try_from(random.below(5)).unwrap()];
        let mut program = Program::new(budget);
        for _ in 0..4 {
            let length = 8 + random.below(90);
            let period: Vec<[u64; 4]> = (0..length)
                .map(|_| {
                    [
                        random.below(3),
                        random.below(24),
                        random.below(24),
                        random.below(9),
                    ]
                })
                .collect();
            for _ in 0..6 {
                for &[what, one, two, size] in &period {
                    let (one, two) = (usize::try_from(one).unwrap(), usize::try_from(two).unwrap());
                    let bytes = [100, 700 << 10, 900 << 10, 1, 1, 2, 3, 7, 40]
                        [usize::try_from(size).unwrap()];
                    let bytes = if bytes < 100 { bytes * PAGE } else { bytes };
                    match what {
                        0 => program.toggle(one, bytes),
                        _ => program.work(size, &[one, two, (one + two) % 24]),
                    }
                    program.look_ahead(&mut random);
                }
            }
        }
        assert!(
            program.peak <= budget,
            "seed {seed}: {} of {budget}",
            program.peak
        );
        assert!(program.plans > 0, "seed {seed}");
    }
}

/// The room in a chunk's place may be another's, of another size, when its number is used again.
#[test]
fn a_chunk_of_another_size_under_the_number_of_one_that_has_gone_is_planned_with_its_own_size() {
    let mut program = Program::new(16);
    let large = program
        .arena
        .allocate((EXTENT - 3) * PAGE, None, 0)
        .unwrap();
    // Three pages are left: chunks of one.
    for place in 0..3 {
        program.toggle(place, 1000 << 10);
        program.toggle(place + 3, 1000 << 10);
    }
    for _ in 0..4 {
        program.work(1, &[0, 1, 2]);
    }
    for place in 0..6 {
        program.toggle(place, 0);
    }
    program
        .arena
        .free(large.address, After::Nothing, program.tick)
        .unwrap();
    for place in 0..24 {
        program.toggle(place, 1000 << 10);
    }
    for _ in 0..40 {
        program.work(1, &[0, 8, 16, 23]);
    }
    let outlook = program.arena.begin_plan().unwrap();
    for part in &outlook.forecast.parts {
        assert!(part.here + part.host <= part.pages, "{part:?}");
    }
    program.arena.install(Some(Arena::plan(&outlook)));
}

/// Else it would be asked for again with every operation, in vain.
#[test]
fn no_plan_is_wanted_for_a_stretch_that_is_too_long_to_be_planned_for() {
    let mut foresight = Foresight::default();
    let mut long = 0;
    for at in 0..12_000 {
        let block = BlockId::new(u32::try_from(at % 2500 / 4).unwrap());
        foresight.work(1000 + at % 2500, &[block], &[], |_| 1);
        long += u64::from(foresight.history().lag().is_some_and(|lag| lag > 2048));
        if foresight.wants_plan() {
            assert!(
                foresight
                    .begin_plan(100, |_| (1, 0), core::iter::empty())
                    .is_some(),
                "{at}"
            );
            foresight.install(None);
        }
    }
    assert!(long > 0);
}

/// The arena may be another's, or have begun to look ahead anew, by the time the plan is made.
#[test]
fn a_plan_that_was_made_for_another_is_not_put_in_place() {
    let played = |works: u64| {
        let mut foresight = Foresight::default();
        for at in 0..works {
            foresight.work(at % 10, &[BlockId::new(0)], &[], |_| 1);
        }
        foresight
    };
    let mut old = played(5000);
    let outlook = old
        .begin_plan(100, |_| (1, 0), core::iter::empty())
        .unwrap();
    let mut new = played(40);
    assert_eq!(new.history().place().0, outlook.epoch);
    assert!(new.install(Some(outlook.plan(0))).is_some());
    assert!(!new.is_planned());
}
