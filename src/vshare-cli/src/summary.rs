//! What a segment says but its events, as text and as JSON.

use std::fmt::Write;
use std::path::Path;

use serde_json::{Map, Value, json};
use vshare_core::units::Human;
use vshare_shm::directory;
use vshare_shm::process::Identity;
use vshare_shm::reader::Segment;

use crate::say;
use crate::segments::state;
use crate::text::{self, Nanoseconds, printable, table, uuid, with_unit};

/// Says on stderr what the programs of one `vshare run --stats` did.
pub(crate) fn after_run(run: u64, child: Option<Identity>, as_json: bool) {
    let found = directory::list(Path::new(directory::DEFAULT)).unwrap_or_default();
    let mut segments: Vec<_> = found
        .iter()
        .filter_map(|found| Segment::open(&found.path).ok())
        .filter(|segment| segment.run() == run || Some(segment.owner()) == child)
        .collect();
    segments.sort_by_key(Segment::created_ns);
    if as_json {
        let processes: Vec<_> = segments.iter().map(to_json).collect();
        eprint_line(&text::json(&json!({ "processes": processes })));
    } else if segments.is_empty() {
        say(
            "nothing to report: the program has not used CUDA, vshare was not loaded into it, \
             or VSHARE_DISABLE or VSHARE_TELEMETRY turned it off",
        );
    } else {
        for segment in &segments {
            eprint_line(summary(segment).trim_end());
        }
    }
}

fn eprint_line(text: &str) {
    use std::io::Write as _;
    _ = writeln!(std::io::stderr(), "{text}"); // nowhere left to complain to
}

/// The few numbers that tell how a run went.
fn summary(segment: &Segment) -> String {
    let value = |name| segment.value(name).unwrap_or(0);
    let bytes = |name| Human(value(name));
    let limit = match value("limit_bytes") {
        0 => String::new(),
        limit => format!(", limit {}", Human(limit)),
    };
    let mut text = format!(
        "vshare: {} (pid {}{})\n",
        printable(&segment.command()),
        segment.owner().pid,
        segment
            .device()
            .map(|device| format!(", {}", printable(&device.name)))
            .unwrap_or_default()
    );
    for (what, said) in [
        (
            "allocated at most",
            format!("{}{limit}", bytes("peak_live_bytes")),
        ),
        (
            "resident at most",
            format!(
                "{} of a budget of {}",
                bytes("peak_resident_bytes"),
                bytes("budget_bytes")
            ),
        ),
        (
            "moved in",
            format!(
                "{} in {} moves",
                bytes("promoted_bytes"),
                value("promotions")
            ),
        ),
        (
            "moved out",
            format!("{} in {} moves", bytes("evicted_bytes"), value("evictions")),
        ),
        (
            "waited for moves",
            format!(
                "{}, {} times",
                Nanoseconds(value("stall_nanoseconds")),
                value("stalls")
            ),
        ),
        (
            "over the budget",
            format!("{} pieces of work", value("over_budget_launches")),
        ),
        (
            "refused",
            format!(
                "{} over the limit, {} by the driver",
                value("oom_limit"),
                value("oom_driver")
            ),
        ),
        (
            "trouble",
            format!(
                "{} failed driver calls, {} fallbacks, {} defects caught",
                value("driver_failures"),
                value("fallbacks"),
                value("panics")
            ),
        ),
    ] {
        _ = writeln!(text, "  {what:<18} {said}"); // a String takes all
    }
    text
}

/// Everything a segment says but its events.
pub(crate) fn to_json(segment: &Segment) -> Value {
    let counters: Map<_, _> = segment
        .counters()
        .into_iter()
        .map(|counter| (counter.name, counter.value.into()))
        .collect();
    json!({
        "pid": segment.owner().pid,
        "start_time": segment.owner().start_time,
        "uid": segment.uid(),
        "state": state(segment),
        "command": segment.command(),
        "created_ns": segment.created_ns(),
        "library": segment.library(),
        "policy": segment.policy(),
        "driver_version": segment.driver_version(),
        "device": segment.device().map(|device| json!({
            "ordinal": device.ordinal,
            "name": device.name,
            "uuid": uuid(device.uuid),
        })),
        "counters": counters,
    })
}

/// Everything a segment says but its events, for a person.
pub(crate) fn full(segment: &Segment) -> String {
    let driver = segment.driver_version();
    let device = segment.device();
    let mut text = String::new();
    for (what, said) in [
        ("command", printable(&segment.command())),
        ("pid", segment.owner().pid.to_string()),
        ("state", state(segment).to_owned()),
        ("policy", printable(&segment.policy())),
        ("library", printable(&segment.library())),
        (
            "driver",
            match driver {
                0 => "not known yet".to_owned(),
                version => format!("CUDA {}.{}", version / 1000, version % 1000 / 10),
            },
        ),
        (
            "device",
            device.map_or_else(
                || "not known yet".to_owned(),
                |device| {
                    format!(
                        "{} {} ({})",
                        device.ordinal,
                        printable(&device.name),
                        uuid(device.uuid)
                    )
                },
            ),
        ),
    ] {
        _ = writeln!(text, "{what:<9} {said}"); // a String takes all
    }
    text.push('\n');
    let rows: Vec<_> = segment
        .counters()
        .into_iter()
        .map(|counter| {
            [
                printable(&counter.name),
                with_unit(counter.value, &counter.unit),
                printable(&counter.help),
            ]
        })
        .collect();
    text + &table(&["COUNTER", "VALUE", "MEANING"], &rows)
}

/// One line per segment.
pub(crate) fn overview(segments: &[Segment]) -> String {
    let rows: Vec<_> = segments
        .iter()
        .map(|segment| {
            let bytes = |name| Human(segment.value(name).unwrap_or(0)).to_string();
            [
                segment.owner().pid.to_string(),
                state(segment).to_owned(),
                bytes("live_bytes"),
                bytes("resident_bytes"),
                bytes("budget_bytes"),
                bytes("promoted_bytes"),
                bytes("evicted_bytes"),
                printable(&segment.command()),
            ]
        })
        .collect();
    table(
        &[
            "PID",
            "STATE",
            "LIVE",
            "RESIDENT",
            "BUDGET",
            "MOVED IN",
            "MOVED OUT",
            "COMMAND",
        ],
        &rows,
    )
}
