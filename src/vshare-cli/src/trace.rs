//! `vshare trace`: a recording for Perfetto and Chrome, in the JSON that both read.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde_json::{Value, json};
use vshare_core::units::Human;
use vshare_shm::Record;

use crate::recording::{Recording, Request};
use crate::text::{self, Utc, printable};
use crate::timeline::{self, Slice, Way};
use crate::{Failure, events, say};

pub(crate) fn trace(request: &Request) -> Result<ExitCode, Failure> {
    let recording = request.record()?;
    let text = text::json(&of(&recording)) + "\n";
    request.put(&text, |file| {
        say(format_args!(
            "{} events of process {} in {file}; {} were lost; open it in Perfetto (ui.perfetto.dev) or chrome://tracing",
            recording.events.len(),
            recording.last.owner.pid,
            recording.lost
        ));
    })
}

/// Lanes for the three kinds of slice lie this far apart.
const LANES: usize = 1000;

pub(crate) fn of(recording: &Recording) -> Value {
    let pid = recording.last.owner.pid;
    let mut all = vec![metadata(
        pid,
        0,
        "process_name",
        &format!("vshare: {}", printable(&recording.last.command)),
    )];
    counters(recording, pid, &mut all);
    let groups = [
        ("to GPU", timeline::moves(&recording.events, Way::ToGpu)),
        (
            "to host from GPU",
            timeline::moves(&recording.events, Way::ToHost),
        ),
        (
            "program waits for moves",
            timeline::stalls(&recording.events),
        ),
    ];
    for (group, (name, slices)) in groups.into_iter().enumerate() {
        let is_move = group < 2;
        add_slices(pid, 1 + group * LANES, name, is_move, slices, &mut all);
    }
    let others = 1 + 3 * LANES;
    all.push(metadata(pid, others, "thread_name", "other events"));
    for event in &recording.events {
        if let Record::Refused { .. }
        | Record::Failed { .. }
        | Record::ContextLost { .. }
        | Record::Unknown { .. } = event.record
        {
            all.push(json!({
                "ph": "i", "s": "t", "pid": pid, "tid": others, "ts": micros(event.time_ns),
                "name": event.record.kind().1,
                "args": { "what": events::words(&event.record) },
            }));
        }
    }
    json!({
        "displayTimeUnit": "ms",
        "otherData": {
            "made_by": concat!("vshare ", env!("CARGO_PKG_VERSION")),
            "time_0": Utc(recording.created_ns).to_string(),
            "command": printable(&recording.last.command),
            "lost_events": recording.lost,
        },
        "traceEvents": all,
    })
}

fn metadata(pid: u32, tid: usize, what: &str, name: &str) -> Value {
    json!({ "ph": "M", "pid": pid, "tid": tid, "name": what, "args": { "name": name } })
}

fn counters(recording: &Recording, pid: u32, all: &mut Vec<Value>) {
    let (samples, _) = timeline::memory(recording);
    for sample in samples {
        for (name, value) in [
            ("memory in use", sample.live),
            ("memory on the GPU", sample.resident),
            ("memory in the host", sample.host),
            ("budget", sample.budget),
        ] {
            all.push(json!({
                "ph": "C", "pid": pid, "ts": micros(sample.time_ns), "name": name, "args": { "bytes": value },
            }));
        }
    }
}

fn add_slices(
    pid: u32,
    first: usize,
    name: &str,
    is_move: bool,
    slices: Vec<Slice>,
    all: &mut Vec<Value>,
) {
    // Devices of their own lanes: a GPU's link is its own.
    let mut by_device: BTreeMap<u64, Vec<Slice>> = BTreeMap::new();
    for slice in slices {
        by_device.entry(slice.device).or_default().push(slice);
    }
    let mut tid = first;
    for (device, slices) in by_device {
        let title = match is_move {
            true => format!("{name} {device}"),
            false => name.to_owned(),
        };
        let mut named = 0;
        for (lane, slice) in timeline::lanes(&slices) {
            while named <= lane {
                named += 1;
                let title = match named {
                    1 => title.clone(),
                    more => format!("{title} ({more})"),
                };
                all.push(metadata(pid, tid + named - 1, "thread_name", &title));
            }
            all.push(json!({
                "ph": "X", "pid": pid, "tid": tid + lane,
                "ts": micros(slice.start_ns), "dur": micros(slice.nanoseconds),
                "name": Human(slice.bytes).to_string(),
                "cat": if is_move { "move" } else { "wait" },
                "args": { "bytes": slice.bytes, "device": slice.device },
            }));
        }
        tid += named;
    }
}

/// The unit of both viewers.
#[expect(
    clippy::cast_precision_loss,
    reason = "a double is what the format has"
)]
fn micros(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1000.0
}
