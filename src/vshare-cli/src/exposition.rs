//! Segments as Prometheus reads them: names with units, one family per counter, one series per process.
//!
//! Counters describe themselves, so a newer library's are exported too; whatever a hostile segment calls
//! its counters, the text stays well-formed.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, prometheus_text, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use vshare_shm::process::{Identity, Liveness};
use vshare_shm::reader::Reading;

use crate::Failure;
use crate::snapshot::{Snapshot, user_name};
use crate::text::{printable, uuid};

/// Which of Prometheus's two text formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus's own, version 0.0.4.
    Plain,
}

impl Format {
    /// As HTTP names it.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Plain => prometheus_text::CONTENT_TYPE,
        }
    }
}

/// The text for what `snapshots` say; `unreadable` is how many segments could not be read.
pub(crate) fn render(
    snapshots: Vec<Snapshot>,
    unreadable: usize,
    format: Format,
) -> Result<String, Failure> {
    let mut registry = Registry::with_prefix("vshare");
    registry.register_collector(Box::new(Processes {
        snapshots: distinct(snapshots),
        unreadable,
    }));
    let mut said = String::new();
    match format {
        Format::OpenMetrics => text::encode(&mut said, &registry),
        Format::Plain => prometheus_text::encode(&mut said, &registry),
    }
    .map_err(|_| Failure::new("cannot write the metrics as text"))?;
    Ok(said)
}

/// Each process once: two files may say that they are of the same, and a series may be told once.
fn distinct(snapshots: Vec<Snapshot>) -> Vec<Snapshot> {
    let mut seen: HashSet<Identity> = HashSet::new();
    snapshots
        .into_iter()
        .filter(|snapshot| seen.insert(snapshot.owner))
        .collect()
}

#[derive(Debug)]
struct Processes {
    snapshots: Vec<Snapshot>,
    unreadable: usize,
}

type Labels = Vec<(&'static str, String)>;

/// How a counter is exported.
#[derive(Clone, Debug, PartialEq)]
struct Shape {
    help: String,
    unit: Option<Unit>,
    is_gauge: bool,
}

impl Collector for Processes {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_info(&mut encoder)?;
        let families = self.families();
        for (name, (shape, series)) in &families {
            let kind = match shape.is_gauge {
                true => MetricType::Gauge,
                false => MetricType::Counter,
            };
            let mut family =
                encoder.encode_descriptor(name, &shape.help, shape.unit.as_ref(), kind)?;
            for (labels, value) in series {
                let mut one = family.encode_family(labels)?;
                let seconds = shape.unit == Some(Unit::Seconds);
                match (seconds, shape.is_gauge) {
                    (true, true) => one.encode_gauge(&in_seconds(*value))?,
                    (false, true) => {
                        one.encode_gauge(&i64::try_from(*value).unwrap_or(i64::MAX))?
                    }
                    (true, false) => {
                        one.encode_counter::<Labels, _, u64>(&in_seconds(*value), None)?;
                    }
                    (false, false) => one.encode_counter::<Labels, _, u64>(value, None)?,
                }
            }
        }
        Ok(())
    }
}

impl Processes {
    fn encode_info(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Segments of this user that cannot be read.";
        encoder
            .encode_descriptor("unreadable_segments", help, None, MetricType::Gauge)?
            .encode_gauge(&i64::try_from(self.unreadable).unwrap_or(i64::MAX))?;
        if self.snapshots.is_empty() {
            return Ok(());
        }
        let help = "1 while the process lives, 0 after its end; not there if that cannot be told.";
        let mut family =
            encoder.encode_descriptor("process_alive", help, None, MetricType::Gauge)?;
        for snapshot in &self.snapshots {
            let alive: i64 = match snapshot.liveness {
                Liveness::Alive => 1,
                Liveness::Dead => 0,
                Liveness::Unknown => continue,
            };
            family.encode_family(&who(snapshot))?.encode_gauge(&alive)?;
        }
        let help = "Who the process is; always 1.";
        let mut family =
            encoder.encode_descriptor("process_info", help, None, MetricType::Gauge)?;
        for snapshot in &self.snapshots {
            family
                .encode_family(&all_about(snapshot))?
                .encode_gauge(&1i64)?;
        }
        Ok(())
    }

    /// All series, by the name of their family.
    fn families(&self) -> BTreeMap<String, (Shape, Vec<(Labels, u64)>)> {
        let mut families: BTreeMap<String, (Shape, Vec<(Labels, u64)>)> = BTreeMap::new();
        for snapshot in &self.snapshots {
            let mut told = HashSet::new();
            for reading in &snapshot.counters {
                let Some((name, shape)) = shape(reading) else {
                    continue;
                };
                // What a dead process held is held no longer.
                let gone = shape.is_gauge && snapshot.liveness == Liveness::Dead;
                if gone || !told.insert(name.clone()) {
                    continue;
                }
                let (agreed, series) = families
                    .entry(name)
                    .or_insert_with(|| (shape.clone(), Vec::new()));
                // Versions may word the help differently. A family has one type.
                if (agreed.is_gauge, &agreed.unit) == (shape.is_gauge, &shape.unit) {
                    series.push((who(snapshot), reading.value));
                }
            }
        }
        families
    }
}

/// Tells one process from all others, those before and after it with the same number too.
fn who(snapshot: &Snapshot) -> Labels {
    vec![
        ("pid", snapshot.owner.pid.to_string()),
        ("start_time", snapshot.owner.start_time.to_string()),
    ]
}

fn all_about(snapshot: &Snapshot) -> Labels {
    let mut labels = who(snapshot);
    let (gpu, gpu_uuid) = match &snapshot.device {
        Some(device) => (printable(&device.name), uuid(device.uuid)),
        None => (String::new(), String::new()),
    };
    labels.extend([
        ("user", user_name(snapshot.uid)),
        ("command", printable(&snapshot.command)),
        ("policy", printable(&snapshot.policy)),
        ("library", printable(&snapshot.library)),
        ("gpu", gpu),
        ("gpu_uuid", gpu_uuid),
    ]);
    labels
}

/// The family of a counter; `None` if it cannot be exported under the name that it has.
fn shape(reading: &Reading) -> Option<(String, Shape)> {
    // Words that end a series' name, or ours.
    const RESERVED: [&str; 6] = ["total", "created", "bucket", "count", "sum", "info"];
    let name = &*reading.name;
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let first = name.bytes().next()?;
    if !first.is_ascii_lowercase() || !name.bytes().all(plain) {
        return None;
    }
    let (name, unit) = match &*reading.unit {
        "bytes" => (name.strip_suffix("_bytes")?, Some(Unit::Bytes)),
        "nanoseconds" => (name.strip_suffix("_nanoseconds")?, Some(Unit::Seconds)),
        _ => (name, None),
    };
    let end = name.rsplit('_').next()?;
    let units = ["bytes", "seconds"];
    if RESERVED.contains(&end)
        || units.contains(&end)
        || name.starts_with("process_")
        || name == "unreadable_segments"
    {
        return None;
    }
    let help = printable(&reading.help).replace(['\\', '"'], "'");
    let shape = Shape {
        help: format!("{help}."),
        unit,
        is_gauge: reading.is_gauge,
    };
    Some((name.to_owned(), shape))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a double is what Prometheus keeps"
)]
fn in_seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(name: &str, unit: &str, is_gauge: bool, value: u64) -> Reading {
        Reading {
            name: name.to_owned(),
            unit: unit.to_owned(),
            help: "a \\ \"b\"\nc".to_owned(),
            is_gauge,
            value,
        }
    }

    fn process(pid: u32, liveness: Liveness, counters: Vec<Reading>) -> Snapshot {
        Snapshot {
            owner: Identity { pid, start_time: 5 },
            uid: u64::MAX,
            command: "a\"b\\c\nd".to_owned(),
            policy: String::new(),
            library: String::new(),
            device: None,
            liveness,
            said: None,
            counters,
        }
    }

    fn lines(snapshots: Vec<Snapshot>, format: Format) -> Vec<String> {
        let said = render(snapshots, 0, format).unwrap();
        said.lines().map(str::to_owned).collect()
    }

    #[test]
    fn units_and_types_stand_in_the_names() {
        let counters = vec![
            reading("live_bytes", "bytes", true, 7),
            reading("stall_nanoseconds", "nanoseconds", false, 1_500_000_000),
            reading("stalls", "count", false, u64::MAX),
        ];
        let said = lines(
            vec![process(1, Liveness::Alive, counters.clone())],
            Format::Plain,
        );
        for line in [
            "vshare_live_bytes{pid=\"1\",start_time=\"5\"} 7",
            "vshare_stall_seconds_total{pid=\"1\",start_time=\"5\"} 1.5",
            "vshare_stalls_total{pid=\"1\",start_time=\"5\"} 18446744073709551615",
            "# TYPE vshare_stalls_total counter",
            "# HELP vshare_live_bytes a ' 'b'?c.",
            "vshare_process_alive{pid=\"1\",start_time=\"5\"} 1",
        ] {
            assert!(said.contains(&line.to_owned()), "no {line} in {said:#?}");
        }
        let said = lines(
            vec![process(1, Liveness::Alive, counters)],
            Format::OpenMetrics,
        );
        for line in [
            "# TYPE vshare_stall_seconds counter",
            "# UNIT vshare_stall_seconds seconds",
            "# EOF",
        ] {
            assert!(said.contains(&line.to_owned()), "no {line} in {said:#?}");
        }
    }

    #[test]
    fn what_a_dead_process_held_is_not_told_and_what_it_did_is() {
        let counters = vec![
            reading("live_bytes", "bytes", true, 7),
            reading("stalls", "count", false, 3),
        ];
        let said = lines(vec![process(1, Liveness::Dead, counters)], Format::Plain).join("\n");
        assert!(!said.contains("live_bytes"), "{said}");
        assert!(
            said.contains("vshare_stalls_total{pid=\"1\",start_time=\"5\"} 3"),
            "{said}"
        );
        assert!(
            said.contains("vshare_process_alive{pid=\"1\",start_time=\"5\"} 0"),
            "{said}"
        );
    }

    #[test]
    fn names_that_would_break_the_text_are_left_out_and_series_are_told_once() {
        let names = [
            "",
            "9a",
            "a b",
            "a{",
            "é",
            "A",
            "x_total",
            "x_info",
            "process_alive",
            "x_bytes",
            "a\n",
        ];
        let mut counters: Vec<_> = names.map(|name| reading(name, "count", false, 1)).into();
        counters.push(reading("bytes", "bytes", false, 1));
        counters.push(reading("good", "count", false, 1));
        counters.push(reading("good", "count", true, 2));
        let twice = vec![
            process(1, Liveness::Alive, counters.clone()),
            process(1, Liveness::Alive, counters),
            process(2, Liveness::Alive, vec![reading("good", "count", true, 3)]),
        ];
        let said = lines(twice, Format::Plain);
        let values: Vec<_> = said
            .iter()
            .filter(|line| !line.starts_with('#') && !line.contains("process_"))
            .collect();
        assert_eq!(
            values,
            [
                "vshare_unreadable_segments 0",
                "vshare_good_total{pid=\"1\",start_time=\"5\"} 1"
            ]
        );
    }
}
