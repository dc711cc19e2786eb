//! What happened in a process over some time: its events, and how its memory stood.
//!
//! A ring alone remembers 960 events, which a busy process writes in moments. Who wants more follows it.

use std::path::{Display, Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use vshare_shm::Record;
use vshare_shm::follow::{Entry, Follower};
use vshare_shm::process::Liveness;
use vshare_shm::reader::{Event, Segment};

use crate::interrupt::Interrupt;
use crate::segments::{Place, goes_on};
use crate::snapshot::Snapshot;
use crate::{Failure, print, say, write_whole};

/// How often a process is looked at while it is followed.
const INTERVAL: Duration = Duration::from_millis(20);

/// So many events are kept; what is made of them takes a thousand bytes each.
const MOST_EVENTS: usize = 500_000;

/// How long to record.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Span {
    /// Record for so many seconds (Ctrl-C ends it) [default: what the ring remembers]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,
    /// Record until the process ends (Ctrl-C ends it)
    #[arg(short, long, conflicts_with = "seconds")]
    follow: bool,
}

/// Which process a file is to tell of, for how long, and where it goes.
#[derive(Debug, clap::Args)]
pub(crate) struct Request {
    /// A process, or a segment's file [default: the only process under vshare]
    #[arg(value_name = "PID|PATH")]
    which: Option<PathBuf>,
    /// Where to put it; - for stdout
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    span: Span,
    #[command(flatten)]
    place: Place,
}

impl Request {
    /// Records what is asked for.
    pub(crate) fn record(&self) -> Result<Recording, Failure> {
        let segment = self.place.choose(self.which.as_deref())?;
        Recording::take(&segment, &self.span)
    }

    /// Puts what was made of it where it goes. `said` tells of a file.
    pub(crate) fn put(
        &self,
        text: &str,
        said: impl FnOnce(Display<'_>),
    ) -> Result<ExitCode, Failure> {
        if self.output == Path::new("-") {
            print(text)?;
        } else {
            write_whole(&self.output, text)?;
            said(self.output.display());
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// How memory stood at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Since the segment was made.
    pub(crate) time_ns: u64,
    pub(crate) live: u64,
    pub(crate) resident: u64,
    pub(crate) host: u64,
    pub(crate) budget: u64,
}

/// A process, and what it did.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    /// How it stood at the end.
    pub(crate) last: Snapshot,
    pub(crate) created_ns: u64,
    pub(crate) events: Vec<Event>,
    /// Events that were overwritten before they could be read.
    pub(crate) lost: u64,
    pub(crate) samples: Vec<Sample>,
}

impl Recording {
    /// Records `segment`'s process for as long as `span` says.
    pub(crate) fn take(segment: &Segment, span: &Span) -> Result<Self, Failure> {
        let mut follower = Follower::new();
        let mut recording = Self {
            last: Snapshot::of(segment),
            created_ns: segment.created_ns(),
            events: Vec::new(),
            lost: 0,
            samples: Vec::new(),
        };
        if span.follow || span.seconds.is_some() {
            recording.follow(segment, span, &mut follower)?;
        }
        // Asked before the look: whatever the process wrote until its end is then seen by it.
        recording.last = Snapshot::of(segment);
        let rest = match recording.last.liveness {
            Liveness::Dead => follower.rest(segment),
            _ => follower.glance(segment),
        };
        recording.add(rest);
        recording.sample(segment);
        recording.events.sort_by_key(|event| event.time_ns);
        recording.samples.sort_by_key(|sample| sample.time_ns);
        Ok(recording)
    }

    /// When the last thing happened that it knows of, since the segment was made.
    pub(crate) fn end_ns(&self) -> u64 {
        let event = self.events.last().map_or(0, |event| event.time_ns);
        let sample = self.samples.last().map_or(0, |sample| sample.time_ns);
        event.max(sample)
    }

    fn follow(
        &mut self,
        segment: &Segment,
        span: &Span,
        follower: &mut Follower,
    ) -> Result<(), Failure> {
        let interrupted = Interrupt::new()?;
        let start = Instant::now();
        let limit = span.seconds.map_or(Duration::MAX, Duration::from_secs);
        while goes_on(segment) && start.elapsed() < limit {
            self.add(follower.look(segment));
            self.sample(segment);
            if self.events.len() >= MOST_EVENTS {
                say(format_args!(
                    "stopped after {} s: there have been {MOST_EVENTS} events",
                    start.elapsed().as_secs()
                ));
                break;
            }
            if interrupted.within(INTERVAL) {
                break;
            }
        }
        Ok(())
    }

    fn add(&mut self, entries: Vec<Entry>) {
        for entry in entries {
            match entry {
                Entry::Lost(lost) => self.lost = self.lost.saturating_add(lost),
                Entry::Event(event) => {
                    if let Record::Sampled {
                        live,
                        resident,
                        host,
                        budget,
                    } = event.record
                    {
                        self.samples.push(Sample {
                            time_ns: event.time_ns,
                            live,
                            resident,
                            host,
                            budget,
                        });
                    }
                    self.events.push(event);
                }
            }
        }
    }

    /// Notes how memory stands now; of a process that has ended, when it did its last is not known.
    fn sample(&mut self, segment: &Segment) {
        let snapshot = Snapshot::of(segment);
        if snapshot.liveness == Liveness::Dead {
            return;
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = since.map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX));
        self.samples.push(Sample {
            time_ns: now.saturating_sub(self.created_ns),
            live: snapshot.value("live_bytes"),
            resident: snapshot.value("resident_bytes"),
            host: snapshot.value("host_bytes"),
            budget: snapshot.value("budget_bytes"),
        });
    }
}
