//! The threads that carry out moves: some for each direction, and one that plans.
//!
//! Started when there is something to move for the first time, which is after CUDA is in use. Through libcuda
//! more than one for a direction moves no faster; past it, four of them fill the link.

use crate::clock::{Deadline, wait_until};
use crate::cuda::CUcontext;
use crate::lock::Lock;
use crate::visits::Visit;
use crate::{driver, guard, mover, os, process, report, road};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Thread;
use vshare_core::arena::Arena;
use vshare_core::block::Run;
use vshare_core::foresight::Outlook;

/// Something to be done. A move keeps its context from ending until it is made: the next one may have the same
/// handle, and other memory in these pages.
#[derive(Debug)]
pub(crate) enum Job {
    /// These pages are to be copied to the host.
    Out(Arc<Visit>, Run),
    /// These pages, which nobody will read, are to be given up.
    Drop(Arc<Visit>, Run),
    /// These pages are to be brought to the device: with their data, or without.
    In(Arc<Visit>, Run, bool),
    /// A plan is to be made.
    Plan(CUcontext, Box<Outlook>),
}

/// Whether somebody waits for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    Awaited,
    Ahead,
}

/// Threads that do the same kind of work.
#[derive(Debug)]
pub(crate) struct Crew {
    name: &'static str,
    /// Those that somebody waits for come first.
    jobs: Lock<VecDeque<(Job, Urgency)>>,
    threads: Lock<Vec<Thread>>,
    started: AtomicBool,
    working: AtomicUsize,
}

/// Those that copy to the host, those that bring to the device, and the one that plans.
pub(crate) static OUT: Crew = Crew::new("vshare-out");
pub(crate) static IN: Crew = Crew::new("vshare-in");
pub(crate) static PLAN: Crew = Crew::new("vshare-plan");

static STOPPING: AtomicBool = AtomicBool::new(false);

/// Whether this process is a forked child, which has no such threads.
static FORGOTTEN: AtomicBool = AtomicBool::new(false);

/// Looks for work before a thread goes to sleep: waking it takes longer than a small move.
const LOOKS: u32 = 4000;

impl Crew {
    const fn new(name: &'static str) -> Self {
        Self {
            name,
            jobs: Lock::new(VecDeque::new()),
            threads: Lock::new(Vec::new()),
            started: AtomicBool::new(false),
            working: AtomicUsize::new(0),
        }
    }

    /// Starts up to `count` threads, if there are none yet. Returns whether there are any.
    pub(crate) fn start(&'static self, count: usize) -> bool {
        if is_over() {
            return false;
        }
        if !self.started.swap(true, Ordering::SeqCst) {
            let mut threads = Vec::new();
            for _ in 0..count {
                let started = os::spawn_without_signals(self.name, || {
                    guard::as_inside(|| self.work());
                });
                threads.extend(started.ok().map(|t| t.thread().clone()));
            }
            *self.threads.lock() = threads;
        }
        // Another thread may be starting them.
        !self.threads.lock().is_empty()
    }

    /// How many more jobs it can begin soon.
    pub(crate) fn capacity(&self) -> usize {
        let threads = self.threads.lock().len();
        let busy = self.jobs.lock().len() + self.working.load(Ordering::SeqCst);
        // One each beyond what is under way, so that none waits for the next.
        (threads * 2).saturating_sub(busy)
    }

    /// Gives it jobs, to be done before all others if somebody waits for them.
    pub(crate) fn push(&self, jobs: Vec<Job>, urgency: Urgency) {
        {
            let mut queue = self.jobs.lock();
            let jobs = jobs.into_iter().map(|job| (job, urgency));
            match urgency {
                Urgency::Awaited => jobs.rev().for_each(|job| queue.push_front(job)),
                Urgency::Ahead => queue.extend(jobs),
            }
        }
        self.threads.lock().iter().for_each(Thread::unpark);
    }

    /// Does one job that somebody waits for in the calling thread, if there is one.
    pub(crate) fn help(&self) -> bool {
        self.do_one(|urgency| urgency == Urgency::Awaited)
    }

    fn do_one(&self, which: impl Fn(Urgency) -> bool) -> bool {
        let job = {
            let mut queue = self.jobs.lock();
            let next = queue.front().is_some_and(|&(_, urgency)| which(urgency));
            let job = next.then(|| queue.pop_front()).flatten();
            if job.is_some() {
                self.working.fetch_add(1, Ordering::SeqCst);
            }
            job
        };
        let Some((job, _)) = job else {
            return false;
        };
        if STOPPING.load(Ordering::SeqCst) {
            // Nobody waits for this: the thread that ends the process may hold the lock that it takes.
            self.working.fetch_sub(1, Ordering::SeqCst);
            give_back(&job);
            return true;
        }
        // A defect here must not end the program's process.
        if std::panic::catch_unwind(|| carry_out(job)).is_err() {
            report::add(report::PANICS, 1);
        }
        self.working.fetch_sub(1, Ordering::SeqCst);
        mover::wake();
        true
    }

    fn work(&self) {
        driver::leave_captures();
        let mut looks = 0;
        loop {
            if self.do_one(|_| true) {
                looks = 0;
            } else if looks < LOOKS {
                looks += 1;
                std::hint::spin_loop();
            } else {
                std::thread::park();
                looks = 0;
            }
        }
    }
}

fn carry_out(job: Job) {
    match job {
        Job::Out(visit, run) => {
            // The arena lies where it lies as long as the context does not end.
            let _protected = mover::Protected::new(visit.context());
            road::evict(&visit, run);
        }
        Job::Drop(visit, run) => {
            road::drop_pages(&visit, run);
        }
        Job::In(visit, run, with_data) => {
            road::bring_run(&visit, run, with_data, road::Until::Made);
        }
        Job::Plan(context, outlook) => {
            let plan = std::panic::catch_unwind(|| Arena::plan(&outlook)).ok();
            report::add(report::PANICS, u64::from(plan.is_none()));
            let mut state = process::state();
            let old = match state.arenas.of(context) {
                Some(owned) => owned.arena.install(plan),
                None => plan,
            };
            // Without the lock: there is much to give back.
            drop(state);
            drop(old);
        }
    }
}

/// The process ends, and this will not be done: whoever waits for it must not wait in vain.
fn give_back(job: &Job) {
    match job {
        Job::Out(visit, run) => road::left(visit.context(), *run, false, false),
        Job::Drop(visit, run) => road::left(visit.context(), *run, true, false),
        Job::In(visit, run, _) => road::not_brought(visit.context(), *run),
        Job::Plan(..) => {}
    }
}

/// Whether there will be no more threads of ours.
pub(crate) fn is_over() -> bool {
    FORGOTTEN.load(Ordering::Relaxed) || STOPPING.load(Ordering::SeqCst)
}

/// In a forked child.
pub(crate) fn forget() {
    FORGOTTEN.store(true, Ordering::Relaxed);
}

/// The process ends: no move may be under way when the driver is torn down. Returns whether there are any threads
/// of ours to wait for: a forked child has none.
pub(crate) fn stop() -> bool {
    STOPPING.store(true, Ordering::SeqCst);
    if FORGOTTEN.load(Ordering::Relaxed) {
        return false;
    }
    wait_until(Deadline::after_ms(2000), || {
        [&OUT, &IN]
            .iter()
            .all(|crew| crew.working.load(Ordering::SeqCst) == 0)
    });
    true
}
