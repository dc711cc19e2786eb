//! Looking ahead, with an arena whose moves are made at once.

use super::*;
use crate::arena::{Arena, Terms};
use crate::block::After;
use crate::residency::{Fetch, Leave, Order};
use crate::units::PAGE;

const SIZE: u64 = 4;

/// A program over an arena, whose moves are made at once.
struct Program {
    arena: Arena,
    tick: u64,
    /// Pages that came before they were asked for, and after.
    ahead: u64,
    asked: u64,
    out: u64,
    dropped: u64,
}

impl Program {
    fn new(budget: u64) -> Self {
        let mut arena = Arena::new(Terms {
            order: Order::Used,
            looks_ahead: true,
            budget: budget * PAGE,
            limit: 1 << 40,
            physical: 1 << 40,
        });
        arena.add_extent(1 << 40, 4096 * PAGE);
        arena.watch(true);
        Self {
            arena,
            tick: 0,
            ahead: 0,
            asked: 0,
            out: 0,
            dropped: 0,
        }
    }

    fn allocate(&mut self) -> (u64, BlockId) {
        let grant = self.arena.allocate(SIZE * PAGE, None, 0).unwrap();
        for &run in &grant.populate {
            self.arena.arrived(run, true);
        }
        self.arena.populated(&grant);
        (grant.address, grant.block)
    }

    fn free(&mut self, address: u64) {
        self.tick += 1;
        self.arena.free(address, After::Nothing, self.tick).unwrap();
    }

    fn arrive(&mut self, fetch: &Fetch) -> u64 {
        let runs = fetch.promote.iter().chain(&fetch.populate);
        for &run in runs.clone() {
            self.arena.arrived(run, true);
        }
        fetch.promote.iter().map(|r| r.pages).sum()
    }

    fn make_room(&mut self, need: u64) -> bool {
        let leave = self.arena.next_out(need, 16, true, |_| true);
        let (runs, dropped) = match leave {
            Leave::Drop(runs) => (runs, true),
            Leave::Evict(runs) => (runs, false),
            Leave::Wait(_) | Leave::Nothing => return false,
        };
        for run in runs {
            self.arena.left(run, dropped, true);
            if dropped {
                self.dropped += run.pages;
            } else {
                self.out += run.pages;
            }
        }
        true
    }

    fn work(&mut self, function: u64, blocks: &[BlockId]) {
        self.tick += 1;
        self.arena.prepare(blocks, self.tick);
        self.arena.note_work(function, blocks, &[]);
        if let Some(outlook) = self.arena.begin_plan() {
            let plan = Arena::plan(&outlook);
            drop(self.arena.install(Some(plan)));
        }
        loop {
            let fetch = self.arena.fetch(blocks);
            self.asked += self.arrive(&fetch);
            if fetch.short == 0 {
                break;
            }
            assert!(
                self.make_room(fetch.short),
                "nothing leaves for {} pages",
                fetch.short
            );
        }
        self.tick += 1;
        self.arena.submitted(blocks, self.tick);
        while self.make_room(0) {}
        loop {
            let fetch = self.arena.next_in(16);
            if fetch.promote.is_empty() {
                break;
            }
            self.ahead += self.arrive(&fetch);
        }
        let residency = self.arena.residency();
        assert!(residency.resident() <= residency.budget());
    }

    fn plans(&self) -> (u64, u64) {
        self.arena.foresight().unwrap().plans()
    }
}

/// A training step: forward makes an activation in each layer, backward uses and frees them the other way round.
fn step(program: &mut Program, weights: &[BlockId], rotated: usize) {
    let mut activations = Vec::new();
    let extra = program.allocate();
    for (i, &weight) in weights.iter().enumerate() {
        let activation = program.allocate();
        program.work(10, &[weight, activation.1]);
        activations.push(activation);
        if i == rotated {
            // What is allocated in between moves everything else to other addresses.
            program.free(extra.0);
        }
    }
    for (&weight, activation) in weights.iter().zip(activations).rev() {
        program.work(20, &[weight, activation.1]);
        program.free(activation.0);
    }
    for &weight in weights {
        program.work(30, &[weight]);
    }
    if rotated >= weights.len() {
        program.free(extra.0);
    }
}

#[test]
fn a_training_has_nearly_all_of_its_memory_brought_ahead() {
    let mut program = Program::new(240);
    let weights: Vec<BlockId> = (0..40).map(|_| program.allocate().1).collect();
    for _ in 0..12 {
        step(&mut program, &weights, 3);
    }
    let (ahead, asked, out) = (program.ahead, program.asked, program.out);
    for _ in 0..10 {
        step(&mut program, &weights, 3);
    }
    let (ahead, asked, out) = (
        program.ahead - ahead,
        program.asked - asked,
        program.out - out,
    );
    // 40 weights and 41 activations of 4 pages, room for 240: 84 pages have to leave and come back.
    assert!(ahead > 9 * asked, "{ahead} ahead, {asked} asked for");
    assert!(out <= 10 * (84 + 64), "{out} in 10 steps");
    let (_, broken) = program.plans();
    assert!(broken <= 4, "{broken} plans broken");
}

#[test]
fn other_addresses_in_every_step_do_no_harm() {
    let mut program = Program::new(240);
    let weights: Vec<BlockId> = (0..40).map(|_| program.allocate().1).collect();
    for i in 0..12 {
        step(&mut program, &weights, i % 3);
    }
    let (ahead, asked) = (program.ahead, program.asked);
    for i in 0..12 {
        step(&mut program, &weights, i % 3);
    }
    let (ahead, asked) = (program.ahead - ahead, program.asked - asked);
    assert!(ahead > 5 * asked, "{ahead} ahead, {asked} asked for");
}

#[test]
fn a_program_that_does_something_else_drops_the_plan_and_goes_on() {
    let mut program = Program::new(100);
    let blocks: Vec<BlockId> = (0..40).map(|_| program.allocate().1).collect();
    for _ in 0..20 {
        for (function, block) in (50..).zip(&blocks) {
            program.work(function, &[*block]);
        }
    }
    assert!(program.arena.is_planned());
    let mut random = crate::pool::tests::Random(3);
    for _ in 0..400 {
        let block = usize::try_from(random.below(40)).unwrap();
        program.work(500 + random.below(400), &[blocks[block]]);
    }
    assert!(!program.arena.is_planned());
}

#[test]
fn blocks_that_are_freed_while_they_are_planned_for_are_left_alone() {
    let mut program = Program::new(100);
    let mut blocks: Vec<(u64, BlockId)> = (0..40).map(|_| program.allocate()).collect();
    for round in 0..60 {
        for (function, block) in (50..).zip(blocks.clone()) {
            program.work(function, &[block.1]);
        }
        if round % 3 == 2 {
            // Its number goes to another block.
            let at = round * 7 % 40;
            program.free(blocks[at].0);
            blocks[at] = program.allocate();
        }
    }
    assert_eq!(
        program.arena.residency().missing() + program.arena.residency().resident(),
        160
    );
}

#[test]
fn a_plan_made_of_an_outlook_that_is_out_of_date_is_not_put_in_place() {
    let mut foresight = Foresight::default();
    let block = |i| BlockId::new(i);
    let round = |foresight: &mut Foresight, from: u64| {
        for i in 0..40 {
            foresight.work(from + u64::from(i), &[block(i)], &[], |_| 4);
        }
    };
    for _ in 0..10 {
        round(&mut foresight, 50);
    }
    assert!(foresight.wants_plan());
    let outlook = foresight
        .begin_plan(100, |_| (4, 0), core::iter::empty())
        .unwrap();
    assert!(!foresight.wants_plan(), "one is being made");
    for i in 0..20 {
        foresight.work(900 + i, &[block(1)], &[], |_| 4);
    }
    assert!(
        foresight.install(Some(outlook.plan(2))).is_some(),
        "given back"
    );
    assert!(!foresight.is_planned());
}

#[test]
fn what_is_due_is_told_once() {
    let mut program = Program::new(100);
    let blocks: Vec<BlockId> = (0..40).map(|_| program.allocate().1).collect();
    let mut due = 0;
    for round in 0..30 {
        for (function, block) in (50..).zip(&blocks) {
            program.work(function, &[*block]);
            if round > 20 && program.arena.is_due() && !program.arena.is_due() {
                due += 1;
            }
        }
    }
    assert!((1..=9 * 40).contains(&due), "{due}");
}

#[test]
fn what_is_born_while_a_plan_is_made_has_its_place_in_it() {
    let mut foresight = Foresight::default();
    let weights: Vec<BlockId> = (0..20).map(BlockId::new).collect();
    let play = |foresight: &mut Foresight, round: u32, layer: u32| {
        // Another number in every round.
        let block = BlockId::new(100 + round * 20 + layer);
        foresight.born(block, 4);
        foresight.work(
            u64::from(layer),
            &[weights[layer as usize], block],
            &[],
            |_| 4,
        );
        block
    };
    let end = |foresight: &mut Foresight, block| {
        foresight.work(99, &[block], &[], |_| 4);
        foresight.died(block);
    };
    for round in 0..8 {
        let blocks: Vec<BlockId> = (0..20).map(|l| play(&mut foresight, round, l)).collect();
        blocks
            .into_iter()
            .rev()
            .for_each(|b| end(&mut foresight, b));
    }
    assert!(foresight.wants_plan());
    let outlook = foresight
        .begin_plan(60, |_| (4, 0), core::iter::empty())
        .unwrap();
    let blocks: Vec<BlockId> = (0..5).map(|l| play(&mut foresight, 8, l)).collect();
    assert!(foresight.install(Some(outlook.plan(4))).is_none());
    for block in blocks {
        assert_ne!(
            foresight.next_use(block),
            u64::MAX,
            "{block:?} is used again"
        );
    }
}

#[test]
fn a_block_that_has_got_the_number_of_a_planned_one_is_another() {
    let mut foresight = Foresight::default();
    let blocks: Vec<BlockId> = (0..40).map(BlockId::new).collect();
    for _ in 0..10 {
        for (function, &block) in (50..).zip(&blocks) {
            foresight.work(function, &[block], &[], |_| 4);
        }
    }
    let outlook = foresight
        .begin_plan(60, |_| (4, 0), core::iter::empty())
        .unwrap();
    let ready = outlook.plan(4);
    // One that is to leave within the next round.
    let mut leaving = ready.0.plan.leaving.iter();
    let slot = leaving.rfind(|l| l.after < Some(30)).unwrap().slot;
    let (planned, _) = ready.0.plan.slots[slot as usize].block.unwrap();
    drop(foresight.install(Some(ready)));
    assert_ne!(foresight.next_use(planned), u64::MAX);
    foresight.died(planned);
    foresight.born(planned, 4);
    assert!(
        foresight.is_planned(),
        "one more is no reason to drop the plan"
    );
    assert_eq!(foresight.next_use(planned), u64::MAX);
    let here = core::cell::RefCell::new([4; 40]);
    let mut gone = 0;
    for (function, &block) in (50..).zip(&blocks) {
        foresight.work(function, &[block], &[], |_| 4);
        while let Out::Go(block, keep) =
            foresight.next_out(|b| here.borrow()[b.index()], |_| Ok(()))
        {
            assert_ne!(block, planned);
            here.borrow_mut()[block.index()] = keep;
            gone += 1;
        }
    }
    assert!(gone > 20, "{gone}");
}
