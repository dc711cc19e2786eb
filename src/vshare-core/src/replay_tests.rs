//! Replays against what can be worked out by hand, and against the bound.

use super::*;
use crate::bound;
use crate::policies::{Demand, Lru, ZeroCopy};
use crate::pool::tests::Random;
use crate::trace::{Encoder, Head, Record, What};

struct Writer {
    bytes: Vec<u8>,
    encoder: Encoder,
}

impl Writer {
    fn new() -> Self {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::start(&mut bytes);
        let head = Head {
            page: PAGE,
            ..Head::default()
        };
        encoder.record(&Record::Head(head), &mut bytes);
        Self { bytes, encoder }
    }

    fn alloc(&mut self, block: u32, pages: u64) {
        let record = Record::Alloc {
            block,
            pages,
            stream: 0,
            when_ns: 0,
        };
        self.encoder.record(&record, &mut self.bytes);
    }

    fn free(&mut self, block: u32) {
        let record = Record::Free {
            block,
            stream: 0,
            when_ns: 0,
        };
        self.encoder.record(&record, &mut self.bytes);
    }

    fn work(&mut self, signature: u64, pieces: &[u32], device_ns: u64) {
        let record = Record::Work {
            what: What::Launch,
            function: 0,
            signature,
            stream: 0,
            when_ns: 0,
            device_ns,
            pieces: pieces.into(),
        };
        self.encoder.record(&record, &mut self.bytes);
    }

    fn trace(&self) -> Trace {
        Trace::read(&self.bytes).unwrap()
    }
}

/// Passes over blocks of eight pages.
fn scan(blocks: u32, passes: u32) -> Trace {
    let mut writer = Writer::new();
    (0..blocks).for_each(|b| writer.alloc(b, 8));
    for _ in 0..passes {
        (0..blocks).for_each(|b| writer.work(b.into(), &[b], 50_000));
    }
    writer.trace()
}

fn all(trace: &Trace) -> Window {
    Window {
        first: 0,
        ..trace.window(0)
    }
}

fn run(trace: &Trace, budget: u64, policy: &mut dyn Policy) -> Outcome {
    replay(trace, budget, &all(trace), &Link::default(), policy)
}

#[test]
fn what_fits_takes_the_time_of_the_work() {
    let trace = scan(10, 20);
    for policy in [&mut Lru as &mut dyn Policy, &mut Demand, &mut ZeroCopy] {
        let outcome = run(&trace, 80, policy);
        assert_eq!(outcome.moved(), 0);
        assert_eq!(outcome.populated, 80 * PAGE);
        // The work of 10 ms, and what the host needs before the first.
        assert!(
            (10_000_000..11_500_000).contains(&outcome.time),
            "{outcome:?}"
        );
        assert_eq!((outcome.peak, outcome.over), (80 * PAGE, 0));
    }
}

#[test]
fn a_scan_under_lru_moves_everything_in_each_pass() {
    let trace = scan(20, 10);
    let outcome = run(&trace, 120, &mut Lru);
    // 160 pages in each pass but the first; in that one, what left before anything had used it.
    let first = outcome.bytes_in - 9 * 160 * PAGE;
    assert!(first <= 120 * PAGE, "{outcome:?}");
    assert!(outcome.bytes_out >= outcome.bytes_in);
    assert!(outcome.peak <= 120 * PAGE);
    assert!(outcome.stalls > 0 && outcome.stalled > 0);
}

#[test]
fn remote_work_moves_nothing_and_uses_what_found_no_room_where_it_is() {
    let trace = scan(20, 10);
    let outcome = run(&trace, 120, &mut ZeroCopy);
    assert_eq!((outcome.bytes_in, outcome.bytes_out), (0, 0));
    assert_eq!(outcome.remote, 10 * 40 * PAGE);
}

#[test]
fn freed_memory_is_dropped_or_used_again_and_never_copied() {
    let mut writer = Writer::new();
    for round in 0..30_u32 {
        writer.alloc(0, 40);
        writer.alloc(1, 24 + u64::from(round % 3));
        writer.work(1, &[0], 1000);
        writer.work(2, &[0, 1], 1000);
        writer.free(0);
        writer.work(3, &[1], 1000);
        writer.free(1);
    }
    let outcome = run(&writer.trace(), 80, &mut Lru);
    assert_eq!((outcome.bytes_in, outcome.bytes_out), (0, 0));
}

#[test]
fn one_piece_of_work_that_needs_more_than_the_budget_runs_over_it() {
    let mut writer = Writer::new();
    writer.alloc(0, 40);
    writer.alloc(1, 40);
    for _ in 0..5 {
        writer.work(1, &[0, 1], 1000);
    }
    for policy in [&mut Lru as &mut dyn Policy, &mut Demand] {
        let outcome = run(&writer.trace(), 50, policy);
        assert!(outcome.over > 0, "{outcome:?}");
    }
}

#[test]
fn no_policy_moves_less_than_the_bound_or_keeps_more_than_the_budget() {
    let mut random = Random(21);
    for _ in 0..60 {
        let mut writer = Writer::new();
        let mut there = Vec::new();
        for number in 0..120 {
            if there.len() < 3 || (random.below(5) == 0 && there.len() < 12) {
                writer.alloc(number, 1 + random.below(30));
                there.push(number);
            } else if random.below(8) == 0 {
                let at = usize::try_from(random.below(there.len() as u64)).unwrap();
                writer.free(there.swap_remove(at));
            }
            let at = usize::try_from(random.below(there.len() as u64)).unwrap();
            let pieces = [there[at], there[(at + 1) % there.len()]];
            writer.work(number.into(), &pieces, random.below(100_000));
        }
        let trace = writer.trace();
        let window = all(&trace);
        let budget = 60 + random.below(40);
        let (least_in, least_out) = bound::plan(&trace, budget, &window).bytes(0);
        for policy in [&mut Lru as &mut dyn Policy, &mut Demand] {
            let outcome = run(&trace, budget, policy);
            assert!(outcome.bytes_in >= least_in, "{outcome:?}");
            assert!(outcome.bytes_out >= least_out, "{outcome:?}");
            assert_eq!(outcome.over, 0, "{outcome:?}");
            assert!(outcome.peak <= budget * PAGE, "{outcome:?}");
        }
    }
}

#[test]
fn warm_up_does_not_count() {
    let trace = scan(20, 10);
    let window = trace.window(40);
    assert_eq!((window.period, window.steps), (Some(20), 6));
    let link = Link::default();
    let outcome = replay(&trace, 120, &window, &link, &mut Lru);
    // Every pass brings in all of it.
    assert_eq!(outcome.bytes_in, 6 * 160 * PAGE);
    assert_eq!(outcome.populated, 0);
    let whole = run(&trace, 120, &mut Lru);
    assert!(outcome.time * 10 < whole.time * 7 && outcome.stalls * 10 < whole.stalls * 7);
    let (least_in, least_out) = bound::plan(&trace, 120, &window).bytes(window.first);
    assert_eq!((least_in, least_out), (6 * 40 * PAGE, 6 * 40 * PAGE));
}

#[test]
fn both_directions_at_once_go_at_the_rates_for_both() {
    let trace = scan(20, 10);
    let outcome = run(&trace, 120, &mut Lru);
    let slow = whole(float(outcome.bytes_in) / 33.0);
    assert!(
        (slow * 9 / 10..slow * 12 / 10).contains(&outcome.time),
        "{outcome:?} {slow}"
    );
    let link = Link {
        both_in: 50.0,
        both_out: 50.0,
        ..Link::default()
    };
    let fast = replay(&trace, 120, &all(&trace), &link, &mut Lru);
    assert!(fast.time * 5 < outcome.time * 4, "{fast:?}");
}

#[test]
fn each_move_costs_its_call() {
    let trace = scan(20, 10);
    let link = Link {
        call_ns: 3e6,
        ..Link::default()
    };
    let outcome = replay(&trace, 120, &all(&trace), &link, &mut Lru);
    // One block at a time is waited for.
    assert!(outcome.time >= 9 * 20 * 3_000_000, "{outcome:?}");
}

#[test]
fn a_host_that_waits_for_its_work_does_not_run_ahead() {
    let mut writer = Writer::new();
    writer.alloc(0, 1);
    for _ in 0..100 {
        writer.work(1, &[0], 50_000);
        let sync = Record::Sync { when_ns: 0 };
        writer.encoder.record(&sync, &mut writer.bytes);
    }
    let mut policy = Watched::default();
    run(&writer.trace(), 1, &mut policy);
    assert_eq!(policy.ahead, 1);
    let mut policy = Watched::default();
    run(&scan(10, 20), 80, &mut policy);
    assert!(policy.ahead > 100, "{}", policy.ahead);
}

/// Looks whether what leaves is still in use, or what is dropped belongs to anybody.
#[derive(Default)]
struct Watched {
    flying: VecDeque<(usize, Vec<BlockId>)>,
    left: u64,
    /// Most work that was submitted and had not ended.
    ahead: usize,
}

impl Policy for Watched {
    fn name(&self) -> &'static str {
        "watched"
    }

    fn submitted(&mut self, arena: &mut Arena, work: Submitted<'_>) {
        for &block in work.blocks {
            assert!(arena.residency().is_here(block), "work without its memory");
        }
        self.flying.push_back((work.number, work.blocks.to_vec()));
        self.ahead = self.ahead.max(self.flying.len());
    }

    fn ended(&mut self, _: &mut Arena, number: usize) {
        assert_eq!(self.flying.pop_front().unwrap().0, number);
    }

    fn leave(&mut self, arena: &mut Arena, need: u64, ended: &dyn Fn(u64) -> bool) -> Leave {
        let leave = arena.leave(need, 16, true, ended);
        if let Leave::Evict(runs) = &leave {
            for page in runs.iter().flat_map(|run| run.numbers()) {
                let owner = arena.pool().owner(page).unwrap();
                let used = self
                    .flying
                    .iter()
                    .any(|(_, blocks)| blocks.contains(&owner));
                assert!(!used, "a page leaves that is in use");
                self.left += 1;
            }
        }
        leave
    }
}

#[test]
fn work_has_its_memory_until_it_has_ended() {
    let mut writer = Writer::new();
    let mut random = Random(8);
    (0..20).for_each(|b| writer.alloc(b, 3 + u64::from(b)));
    for number in 0..600 {
        let pieces = [0; 2].map(|_| u32::try_from(random.below(20)).unwrap());
        writer.work(number, &pieces, random.below(500_000));
    }
    let mut policy = Watched::default();
    let outcome = run(&writer.trace(), 100, &mut policy);
    assert!(policy.left > 1000, "{outcome:?}");
}
