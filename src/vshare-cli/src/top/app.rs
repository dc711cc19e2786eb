//! What `vshare top` knows and what keys do to it. Draws nothing, asks nothing.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyModifiers};
use vshare_shm::process::{Identity, Liveness};
use vshare_shm::reader::Segment;

use super::page::Page;
use crate::snapshot::Snapshot;

/// So many looks are remembered.
pub(super) const HISTORY: usize = 240;

/// What happened between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rates {
    /// Bytes per second.
    pub(super) to_gpu: u64,
    pub(super) to_host: u64,
    /// Of the time, in percent; several threads may wait at once.
    pub(super) stalled: u64,
}

impl Rates {
    fn between(before: &Snapshot, after: &Snapshot, elapsed: Duration) -> Self {
        let grown = |name| after.value(name).saturating_sub(before.value(name));
        let elapsed = elapsed.as_nanos().max(1);
        let per = |amount: u64, unit: u128| {
            u64::try_from(u128::from(amount) * unit / elapsed).unwrap_or(u64::MAX)
        };
        Self {
            to_gpu: per(grown("promoted_bytes"), 1_000_000_000),
            to_host: per(grown("evicted_bytes"), 1_000_000_000),
            stalled: per(grown("stall_nanoseconds"), 100),
        }
    }
}

/// A process, and how it got here.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) now: Snapshot,
    pub(super) history: VecDeque<Rates>,
}

impl Process {
    /// The last rates.
    pub(super) fn rates(&self) -> Rates {
        self.history.back().copied().unwrap_or_default()
    }
}

/// What lines are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    #[default]
    Resident,
    Host,
    Link,
    Stall,
    Pid,
    Command,
}

impl Sort {
    const ALL: [Self; 6] = [
        Self::Resident,
        Self::Host,
        Self::Link,
        Self::Stall,
        Self::Pid,
        Self::Command,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Resident => "GPU memory",
            Self::Host => "host memory",
            Self::Link => "transfers",
            Self::Stall => "waits",
            Self::Pid => "pid",
            Self::Command => "command",
        }
    }

    fn next(self) -> Self {
        let place = Self::ALL.iter().position(|sort| *sort == self).unwrap_or(0);
        let next = Self::ALL.get((place + 1) % Self::ALL.len());
        next.copied().unwrap_or_default()
    }

    /// The order of the lines: the largest first, names and numbers by their own order.
    fn compare(self, a: &Process, b: &Process) -> Ordering {
        let value = |name| b.now.value(name).cmp(&a.now.value(name));
        let (ra, rb) = (a.rates(), b.rates());
        match self {
            Self::Resident => value("resident_bytes"),
            Self::Host => value("host_bytes"),
            Self::Link => {
                let both = |rates: Rates| rates.to_gpu.saturating_add(rates.to_host);
                both(rb).cmp(&both(ra))
            }
            Self::Stall => rb.stalled.cmp(&ra.stalled),
            Self::Pid => Ordering::Equal,
            Self::Command => a.now.command.cmp(&b.now.command),
        }
        .then(a.now.owner.pid.cmp(&b.now.owner.pid))
        .then(a.now.owner.start_time.cmp(&b.now.owner.start_time))
    }
}

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Continue,
    Quit,
}

/// Everything.
#[derive(Debug, Default)]
pub(super) struct App {
    processes: Vec<Process>,
    pub(super) unreadable: usize,
    pub(super) sort: Sort,
    pub(super) reversed: bool,
    pub(super) filter: String,
    /// The filter is being typed.
    pub(super) typing: bool,
    /// The dead are shown, too.
    pub(super) with_dead: bool,
    pub(super) help: bool,
    selected: Option<Identity>,
    pub(super) page: Option<Page>,
}

impl App {
    /// Takes in a new look, so much later than the last.
    pub(super) fn update<'a>(
        &mut self,
        segments: impl Iterator<Item = (Snapshot, &'a Segment)>,
        unreadable: usize,
        elapsed: Duration,
    ) {
        self.unreadable = unreadable;
        let mut before = std::mem::take(&mut self.processes);
        for (now, segment) in segments {
            if let Some(page) = self.page.as_mut().filter(|page| page.owner == now.owner) {
                page.look(segment, now.liveness);
            }
            let known = before.iter().position(|p| p.now.owner == now.owner);
            let process = match known.map(|place| before.swap_remove(place)) {
                Some(mut process) => {
                    let rates = Rates::between(&process.now, &now, elapsed);
                    process.history.push_back(rates);
                    if process.history.len() > HISTORY {
                        process.history.pop_front();
                    }
                    Process { now, ..process }
                }
                None => Process {
                    now,
                    history: VecDeque::new(),
                },
            };
            self.processes.push(process);
        }
    }

    /// The lines, filtered and in their order.
    pub(super) fn lines(&self) -> Vec<&Process> {
        let wanted = self.filter.to_lowercase();
        let matches = |process: &&Process| {
            let now = &process.now;
            (self.with_dead || now.liveness != Liveness::Dead)
                && (wanted.is_empty()
                    || now.command.to_lowercase().contains(&wanted)
                    || now.owner.pid.to_string().contains(&wanted))
        };
        let mut lines: Vec<_> = self.processes.iter().filter(matches).collect();
        lines.sort_by(|a, b| self.sort.compare(a, b));
        if self.reversed {
            lines.reverse();
        }
        lines
    }

    /// How many there are, dead ones too, whatever the filter.
    pub(super) fn count(&self) -> usize {
        self.processes.len()
    }

    /// Which line is selected: the selected process's, else the first.
    pub(super) fn selected(&self) -> usize {
        let place = |owner| self.lines().iter().position(|p| p.now.owner == owner);
        self.selected.and_then(place).unwrap_or(0)
    }

    /// The process that the open page is about, while it has a segment.
    pub(super) fn on_page(&self) -> Option<&Process> {
        let page = self.page.as_ref()?;
        self.processes.iter().find(|p| p.now.owner == page.owner)
    }

    /// A key has been pressed.
    pub(super) fn key(&mut self, code: KeyCode, modifiers: KeyModifiers) -> Flow {
        if code == KeyCode::Char('c') && modifiers.contains(KeyModifiers::CONTROL) {
            return Flow::Quit;
        }
        if self.typing {
            self.type_filter(code);
            return Flow::Continue;
        }
        if self.help {
            self.help = false;
            return Flow::Continue;
        }
        if self.page.is_some() {
            match code {
                KeyCode::Char('q') => return Flow::Quit,
                KeyCode::Esc | KeyCode::Enter | KeyCode::Backspace | KeyCode::Left => {
                    self.page = None
                }
                KeyCode::Char('?' | 'h') => self.help = true,
                _ => {}
            }
            return Flow::Continue;
        }
        match code {
            KeyCode::Char('q') => return Flow::Quit,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Char('d') => self.with_dead = !self.with_dead,
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Up | KeyCode::Char('k') => self.select(-1),
            KeyCode::Down | KeyCode::Char('j') => self.select(1),
            KeyCode::PageUp => self.select(-10),
            KeyCode::PageDown => self.select(10),
            KeyCode::Home => self.select(isize::MIN),
            KeyCode::End => self.select(isize::MAX),
            KeyCode::Enter | KeyCode::Right => self.open(),
            _ => {}
        }
        Flow::Continue
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => _ = self.filter.pop(),
            KeyCode::Char(c) if !c.is_control() && self.filter.len() < 100 => self.filter.push(c),
            _ => {}
        }
    }

    fn select(&mut self, by: isize) {
        let lines = self.lines();
        let last = lines.len().saturating_sub(1);
        let place = self.selected().saturating_add_signed(by).min(last);
        self.selected = lines.get(place).map(|process| process.now.owner);
    }

    fn open(&mut self) {
        let owner = self.lines().get(self.selected()).map(|p| p.now.owner);
        self.selected = owner;
        self.page = owner.map(Page::new);
    }
}

#[cfg(test)]
impl App {
    /// The same without segments, which tests have none of.
    pub(super) fn update_only(&mut self, snapshots: Vec<Snapshot>, elapsed: Duration) {
        let mut before = std::mem::take(&mut self.processes);
        for now in snapshots {
            let known = before.iter().position(|p| p.now.owner == now.owner);
            let mut history = known.map_or_else(VecDeque::new, |place| {
                let process = before.swap_remove(place);
                let mut history = process.history;
                history.push_back(Rates::between(&process.now, &now, elapsed));
                history
            });
            history.truncate(HISTORY);
            self.processes.push(Process { now, history });
        }
    }
}
