//! `vshare ps`: the processes that run or have run under vshare, one line each.

use std::collections::HashMap;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;
use vshare_core::units::Human;
use vshare_shm::directory::{self, Found, Keep};
use vshare_shm::process::Liveness;

use crate::segments::{Place, cannot_read, is_others, state_of};
use crate::snapshot::{Snapshot, is_alive, user_name};
use crate::text::{json, printable, table, uuid};
use crate::{Failure, print, say};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// First remove what dead processes of this user left behind
    #[arg(long)]
    prune: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

/// A line: a process whose segment can be read, or what its file's name tells.
#[derive(Debug)]
enum Line {
    Read(Snapshot),
    NotOurs(Found),
}

impl Line {
    fn liveness(&self) -> Liveness {
        match self {
            Self::Read(snapshot) => snapshot.liveness,
            Self::NotOurs(found) => found.owner.liveness(),
        }
    }
}

pub(crate) fn ps(options: &Options) -> Result<ExitCode, Failure> {
    if options.prune {
        prune(&options.place)?;
    }
    let lines = lines(&options.place)?;
    let mut users = Users::default();
    if options.json {
        let list: Value = lines.iter().map(|line| to_json(line, &mut users)).collect();
        print(&(json(&format_args!("{list:#}")) + "\n"))?;
    } else if lines.is_empty() {
        say(options.place.nobody());
    } else {
        print(&to_text(&lines, &mut users))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn prune(place: &Place) -> Result<(), Failure> {
    const NONE: Keep = Keep {
        age: Duration::ZERO,
        most: 0,
    };
    let directory = place.directory()?;
    let removed = directory::prune(directory, NONE)
        .map_err(|error| Failure::new(format!("cannot list {}: {error}", directory.display())))?;
    let noun = if removed == 1 { "segment" } else { "segments" };
    say(format_args!("removed {removed} {noun} of dead processes"));
    Ok(())
}

/// All lines, those of the living first.
fn lines(place: &Place) -> Result<Vec<Line>, Failure> {
    let mut lines = Vec::new();
    for seen in place.survey()? {
        match seen.segment {
            Ok(segment) => lines.push(Line::Read(Snapshot::of(&segment))),
            Err(error) if is_others(&error) => lines.push(Line::NotOurs(seen.found)),
            Err(error) => say(cannot_read(&seen.found.path, &error).message),
        }
    }
    lines.sort_by_key(|line| line.liveness() == Liveness::Dead);
    Ok(lines)
}

/// Users' names, each looked up once.
#[derive(Default)]
struct Users(HashMap<u64, String>);

impl Users {
    fn name(&mut self, uid: u64) -> String {
        self.0
            .entry(uid)
            .or_insert_with(|| printable(&user_name(uid)))
            .clone()
    }
}

fn to_text(lines: &[Line], users: &mut Users) -> String {
    let rows: Vec<_> = lines.iter().map(|line| row(line, users)).collect();
    table(
        &[
            "PID", "USER", "STATE", "DEVICE", "LIVE", "RESIDENT", "BUDGET", "HOST", "MOVED",
            "COMMAND",
        ],
        &rows,
    )
}

fn row(line: &Line, users: &mut Users) -> [String; 10] {
    match line {
        Line::Read(snapshot) => {
            let bytes = |name| Human(snapshot.value(name)).to_string();
            [
                snapshot.owner.pid.to_string(),
                users.name(snapshot.uid),
                snapshot.state().to_owned(),
                snapshot
                    .device
                    .as_ref()
                    .map_or_else(|| "-".to_owned(), |device| device.ordinal.to_string()),
                bytes("live_bytes"),
                bytes("resident_bytes"),
                bytes("budget_bytes"),
                bytes("host_bytes"),
                Human(snapshot.moved()).to_string(),
                printable(&snapshot.command),
            ]
        }
        Line::NotOurs(found) => {
            let unknown = || "-".to_owned();
            [
                found.owner.pid.to_string(),
                users.name(found.uid.into()),
                state_of(found.owner.liveness(), None).to_owned(),
                unknown(),
                unknown(),
                unknown(),
                unknown(),
                unknown(),
                unknown(),
                "(another user's: only they and root may read it)".to_owned(),
            ]
        }
    }
}

fn to_json(line: &Line, users: &mut Users) -> Value {
    match line {
        Line::Read(snapshot) => serde_json::json!({
            "pid": snapshot.owner.pid,
            "start_time": snapshot.owner.start_time,
            "uid": snapshot.uid,
            "user": users.name(snapshot.uid),
            "state": snapshot.state(),
            "alive": is_alive(snapshot.liveness),
            "readable": true,
            "device": snapshot.device.as_ref().map(|device| serde_json::json!({
                "ordinal": device.ordinal,
                "name": device.name,
                "uuid": uuid(device.uuid),
            })),
            "live_bytes": snapshot.value("live_bytes"),
            "resident_bytes": snapshot.value("resident_bytes"),
            "budget_bytes": snapshot.value("budget_bytes"),
            "host_bytes": snapshot.value("host_bytes"),
            "moved_bytes": snapshot.moved(),
            "command": snapshot.command,
        }),
        Line::NotOurs(found) => serde_json::json!({
            "pid": found.owner.pid,
            "start_time": found.owner.start_time,
            "uid": found.uid,
            "user": users.name(found.uid.into()),
            "state": state_of(found.owner.liveness(), None),
            "alive": is_alive(found.owner.liveness()),
            "readable": false,
        }),
    }
}

/// The text for these processes, for tests.
#[cfg(test)]
pub(crate) fn table_of(snapshots: Vec<Snapshot>) -> [String; 2] {
    let lines: Vec<_> = snapshots.into_iter().map(Line::Read).collect();
    let mut users = Users::default();
    let json: Vec<_> = lines
        .iter()
        .map(|line| json(&to_json(line, &mut users)))
        .collect();
    [to_text(&lines, &mut users), json.concat()]
}
