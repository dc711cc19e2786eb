//! `vshare log`: what happened in a process, as long as its ring remembers, and what happens from now on.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use vshare_shm::follow::{Entry, Follower};
use vshare_shm::reader::Segment;

use crate::segments::{Place, goes_on, state};
use crate::text::{self, Utc};
use crate::{Failure, Listener, events, print_on, say};

/// How often a ring is looked at: it holds 960 events, and a look costs microseconds.
const INTERVAL_MS: u16 = 50;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// A process, or a segment's file [default: the only process under vshare]
    #[arg(value_name = "PID|PATH")]
    which: Option<PathBuf>,
    /// Go on with what happens, until the process ends
    #[arg(short, long)]
    follow: bool,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

pub(crate) fn log(options: &Options) -> Result<ExitCode, Failure> {
    let segment = options.place.choose(options.which.as_deref())?;
    let mut follower = Follower::new();
    loop {
        // Asked before the look: whatever the process wrote until its end is then seen by it.
        let alive = goes_on(&segment);
        let entries = match (alive, options.follow) {
            (true, true) => follower.look(&segment),
            (true, false) => follower.glance(&segment),
            (false, _) => follower.rest(&segment),
        };
        let text = entries
            .iter()
            .map(|entry| line(entry, &segment, options.json))
            .collect::<String>();
        let gone = print_on(&text)? == Listener::Gone;
        if gone || !options.follow || !alive {
            break;
        }
        if crate::pause(INTERVAL_MS) == Listener::Gone {
            break;
        }
    }
    if options.follow && !options.json && !goes_on(&segment) {
        say(format_args!(
            "process {} is {}",
            segment.owner().pid,
            state(&segment)
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn line(entry: &Entry, segment: &Segment, as_json: bool) -> String {
    let created_ns = segment.created_ns();
    let mut line = match (entry, as_json) {
        (Entry::Event(event), true) => text::json(&events::to_json(event, created_ns)),
        (Entry::Lost(lost), true) => json!({ "lost": lost }).to_string(),
        (Entry::Event(event), false) => {
            let time = Utc(created_ns.saturating_add(event.time_ns));
            format!("{time}  {}", events::words(&event.record))
        }
        (Entry::Lost(1), false) => "(1 event was lost)".to_owned(),
        (Entry::Lost(lost), false) => format!("({lost} events were lost)"),
    };
    _ = writeln!(line); // a String takes all
    line
}
