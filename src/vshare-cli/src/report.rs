//! Segments as text and as JSON.

use std::fmt::Write;
use std::path::Path;

use serde_json::{Map, Value, json};
use vshare_core::units::Human;
use vshare_shm::directory;
use vshare_shm::layout::State;
use vshare_shm::process::{Identity, Liveness};
use vshare_shm::reader::Segment;

use crate::say;

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
        eprint_line(&json!({ "processes": processes }).to_string());
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

/// How the owner is, by what it says and by what we see.
fn state(segment: &Segment) -> &'static str {
    match (segment.liveness(), segment.state()) {
        (Liveness::Dead, Some(State::Exited)) => "exited",
        (Liveness::Dead, _) => "dead",
        (Liveness::Unknown, _) => "unknown",
        (Liveness::Alive, Some(State::Starting)) => "starting",
        (Liveness::Alive, Some(State::Exited)) => "exiting",
        (Liveness::Alive, _) => "live",
    }
}

/// As nvidia-smi writes it.
fn uuid(bytes: [u8; 16]) -> String {
    let mut text = "GPU".to_owned();
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 0 | 4 | 6 | 8 | 10) {
            text.push('-');
        }
        _ = write!(text, "{byte:02x}"); // a String takes all
    }
    text
}

fn with_unit(value: u64, unit: &str) -> String {
    match unit {
        "bytes" => Human(value).to_string(),
        "nanoseconds" => Nanoseconds(value).to_string(),
        "count" => value.to_string(),
        other => format!("{value} {}", printable(other)),
    }
}

/// A time for a person.
struct Nanoseconds(u64);

impl std::fmt::Display for Nanoseconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (unit, name) = match self.0 {
            0..1_000 => return write!(f, "{} ns", self.0),
            1_000..1_000_000 => (1_000, "us"),
            1_000_000..1_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        write!(f, "{}.{} {name}", self.0 / unit, self.0 % unit * 10 / unit)
    }
}

/// A table whose last column is as wide as it likes.
fn table<const N: usize>(head: &[&str; N], rows: &[[String; N]]) -> String {
    let mut widths = head.map(str::len);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    let lines = std::iter::once(head.map(str::to_owned)).chain(rows.iter().cloned());
    for line in lines {
        let mut padded = String::new();
        for (cell, width) in line.iter().zip(widths) {
            _ = write!(padded, "{cell:<width$}  "); // a String takes all
        }
        text.push_str(padded.trim_end());
        text.push('\n');
    }
    text
}

/// What a terminal may be shown: a segment's texts come from outside.
fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_for_people() {
        for (nanoseconds, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_500, "1.5 us"),
            (2_000_000, "2.0 ms"),
            (61_250_000_000, "61.2 s"),
        ] {
            assert_eq!(Nanoseconds(nanoseconds).to_string(), text);
        }
    }

    #[test]
    fn columns_line_up_and_lines_have_no_blanks_at_their_end() {
        let rows = [
            ["1".to_owned(), "long cell".to_owned()],
            ["22".to_owned(), String::new()],
        ];
        assert_eq!(table(&["A", "B"], &rows), "A   B\n1   long cell\n22\n");
    }

    #[test]
    fn a_uuid_is_written_as_nvidia_smi_does() {
        let bytes = std::array::from_fn(|i| u8::try_from(i).unwrap());
        assert_eq!(uuid(bytes), "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
    }

    #[test]
    fn a_segment_cannot_steer_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\nc"), "a?[2Jb?c");
    }
}
