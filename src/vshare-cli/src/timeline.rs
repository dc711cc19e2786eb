//! A recording in the order of time: how memory lay, and what moved when.

use vshare_shm::Record;
use vshare_shm::reader::Event;

use crate::recording::{Recording, Sample};

/// What memory over time rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Basis {
    /// It was looked at, or the library said it.
    Sampled,
    /// The same from this moment on; before, it was worked out.
    SampledFrom(u64),
    /// It was worked out backwards from how it stands, by allocations, frees and moves.
    Estimated,
}

/// Which way bytes went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    ToGpu,
    ToHost,
}

/// Bytes that moved, or a wait of the program's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) start_ns: u64,
    pub(crate) nanoseconds: u64,
    pub(crate) bytes: u64,
    pub(crate) device: u64,
}

/// How memory stood over time, in the order of time.
pub(crate) fn memory(recording: &Recording) -> (Vec<Sample>, Basis) {
    let events = &recording.events;
    if let [first, _, ..] = recording.samples.as_slice() {
        let earlier = events.partition_point(|event| event.time_ns < first.time_ns);
        let mut samples = backwards(*first, events.get(..earlier).unwrap_or_default());
        let basis = match samples.len() {
            1 => Basis::Sampled,
            _ => Basis::SampledFrom(first.time_ns),
        };
        samples.extend(recording.samples.iter().skip(1));
        return (samples, basis);
    }
    let value = |name| recording.last.value(name);
    let last = Sample {
        time_ns: recording.end_ns(),
        live: value("live_bytes"),
        resident: value("resident_bytes"),
        host: value("host_bytes"),
        budget: value("budget_bytes"),
    };
    (backwards(last, events), Basis::Estimated)
}

/// How memory stood at `events` if it stood so after them.
fn backwards(mut now: Sample, events: &[Event]) -> Vec<Sample> {
    let mut samples = vec![now];
    for event in events.iter().rev() {
        let (live, host) = before(&event.record, now.live, now.host);
        if (live, host) != (now.live, now.host) {
            now.time_ns = event.time_ns;
            // As it stood until then.
            samples.push(now);
            (now.live, now.host) = (live, host.min(live));
            now.resident = live - now.host;
            samples.push(now);
        }
    }
    samples.reverse();
    samples
}

/// What was live, and what lay in host memory, before an event.
fn before(record: &Record, live: u64, host: u64) -> (u64, u64) {
    match *record {
        Record::Allocated { bytes, .. } => (live.saturating_sub(bytes), host),
        Record::Freed { bytes, .. } => (live.saturating_add(bytes), host),
        Record::Promoted { bytes, .. } => (live, host.saturating_add(bytes)),
        Record::Evicted { bytes, .. } => (live, host.saturating_sub(bytes)),
        _ => (live, host),
    }
}

/// All moves one way, by their start.
pub(crate) fn moves(events: &[Event], way: Way) -> Vec<Slice> {
    sorted(events.iter().filter_map(|event| match (event.record, way) {
        (
            Record::Promoted {
                bytes,
                nanoseconds,
                device,
                ..
            },
            Way::ToGpu,
        )
        | (
            Record::Evicted {
                bytes,
                nanoseconds,
                device,
                ..
            },
            Way::ToHost,
        ) => Some(slice(event.time_ns, nanoseconds, bytes, device)),
        _ => None,
    }))
}

/// All waits of the program for moves, by their start.
pub(crate) fn stalls(events: &[Event]) -> Vec<Slice> {
    sorted(events.iter().filter_map(|event| match event.record {
        Record::Stalled {
            nanoseconds,
            bytes,
            device,
            ..
        } => Some(slice(event.time_ns, nanoseconds, bytes, device)),
        _ => None,
    }))
}

/// Events are written when what they tell has ended.
fn slice(end_ns: u64, nanoseconds: u64, bytes: u64, device: u64) -> Slice {
    let nanoseconds = nanoseconds.min(end_ns);
    Slice {
        start_ns: end_ns - nanoseconds,
        nanoseconds,
        bytes,
        device,
    }
}

fn sorted(slices: impl Iterator<Item = Slice>) -> Vec<Slice> {
    let mut slices: Vec<_> = slices.collect();
    slices.sort_by_key(|slice| (slice.start_ns, slice.nanoseconds));
    slices
}

/// Puts slices into lanes in which none overlaps another: (lane, slice). They come by their start.
pub(crate) fn lanes(slices: &[Slice]) -> Vec<(usize, Slice)> {
    let mut ends: Vec<u64> = Vec::new();
    let mut placed = Vec::with_capacity(slices.len());
    for slice in slices {
        let end = slice.start_ns.saturating_add(slice.nanoseconds);
        let lane = match ends
            .iter_mut()
            .enumerate()
            .find(|(_, e)| **e <= slice.start_ns)
        {
            Some((lane, free)) => {
                *free = end;
                lane
            }
            None => {
                ends.push(end);
                ends.len() - 1
            }
        };
        placed.push((lane, *slice));
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Snapshot;
    use vshare_shm::process::{Identity, Liveness};
    use vshare_shm::reader::Reading;
    use vshare_shm::record::Class;

    fn recording(gauges: &[(&str, u64)], records: &[(u64, Record)]) -> Recording {
        let counters = gauges.iter().map(|(name, value)| Reading {
            name: (*name).to_owned(),
            unit: "bytes".to_owned(),
            help: String::new(),
            is_gauge: true,
            value: *value,
        });
        Recording {
            last: Snapshot {
                owner: Identity {
                    pid: 1,
                    start_time: 1,
                },
                uid: 0,
                command: String::new(),
                policy: String::new(),
                library: String::new(),
                device: None,
                liveness: Liveness::Dead,
                said: None,
                counters: counters.collect(),
            },
            created_ns: 0,
            events: (0..)
                .zip(records)
                .map(|(ticket, (time_ns, record))| Event {
                    ticket,
                    time_ns: *time_ns,
                    record: *record,
                })
                .collect(),
            lost: 0,
            samples: Vec::new(),
        }
    }

    fn allocated(bytes: u64) -> Record {
        Record::Allocated {
            address: 0,
            bytes,
            class: Class::Managed,
            stream: 0,
        }
    }

    fn moved(bytes: u64, way: Way) -> Record {
        let (address, nanoseconds, device) = (0, 10, 0);
        match way {
            Way::ToGpu => Record::Promoted {
                address,
                bytes,
                nanoseconds,
                device,
            },
            Way::ToHost => Record::Evicted {
                address,
                bytes,
                nanoseconds,
                device,
            },
        }
    }

    #[test]
    fn memory_is_worked_out_backwards_from_how_it_stands() {
        let gauges = [
            ("live_bytes", 100),
            ("resident_bytes", 70),
            ("host_bytes", 30),
        ];
        let records = [
            (1, allocated(60)),
            (2, allocated(40)),
            (3, moved(50, Way::ToHost)),
            (4, moved(20, Way::ToGpu)),
        ];
        let (samples, basis) = memory(&recording(&gauges, &records));
        assert_eq!(basis, Basis::Estimated);
        let told: Vec<_> = samples
            .iter()
            .map(|s| (s.time_ns, s.live, s.host, s.resident))
            .collect();
        let expected = [
            (1, 0, 0, 0),
            (1, 60, 0, 60),
            (2, 60, 0, 60),
            (2, 100, 0, 100),
            (3, 100, 0, 100),
            (3, 100, 50, 50),
            (4, 100, 50, 50),
            (4, 100, 30, 70),
            (4, 100, 30, 70),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn what_was_before_the_first_look_is_worked_out_from_it() {
        let records = [
            (1, allocated(60)),
            (2, moved(20, Way::ToHost)),
            (9, allocated(5)),
        ];
        let mut recording = recording(&[], &records);
        let sample = |time_ns, live, resident, host| Sample {
            time_ns,
            live,
            resident,
            host,
            budget: 0,
        };
        recording.samples = vec![sample(5, 60, 40, 20), sample(10, 65, 45, 20)];
        let (samples, basis) = memory(&recording);
        assert_eq!(basis, Basis::SampledFrom(5));
        let expected = [
            sample(1, 0, 0, 0),
            sample(1, 60, 60, 0),
            sample(2, 60, 60, 0),
            sample(2, 60, 40, 20),
            sample(5, 60, 40, 20),
            sample(10, 65, 45, 20),
        ];
        assert_eq!(samples, expected);
        recording.events.clear();
        assert_eq!(memory(&recording).1, Basis::Sampled);
    }

    #[test]
    fn numbers_that_cannot_be_are_worked_with_all_the_same() {
        let gauges = [("live_bytes", 5), ("host_bytes", u64::MAX)];
        let records = [
            (0, allocated(u64::MAX)),
            (u64::MAX >> 8, moved(u64::MAX, Way::ToGpu)),
            (3, moved(u64::MAX, Way::ToHost)),
        ];
        let (samples, _) = memory(&recording(&gauges, &records));
        assert!(
            samples
                .iter()
                .skip(1)
                .all(|s| s.host <= s.live || s.host == u64::MAX)
        );
    }

    #[test]
    fn slices_that_overlap_lie_in_different_lanes() {
        let slices =
            [(0, 10), (5, 10), (10, 5), (15, 0), (15, 1)].map(|(start_ns, nanoseconds)| Slice {
                start_ns,
                nanoseconds,
                bytes: 0,
                device: 0,
            });
        let lanes: Vec<_> = lanes(&slices).into_iter().map(|(lane, _)| lane).collect();
        assert_eq!(lanes, [0, 1, 0, 0, 0]);
    }

    #[test]
    fn a_slice_ends_when_its_event_was_written_and_never_begins_before_time() {
        let recording = recording(
            &[],
            &[(5, moved(1, Way::ToHost)), (100, moved(2, Way::ToHost))],
        );
        let slices = moves(&recording.events, Way::ToHost);
        let told: Vec<_> = slices
            .iter()
            .map(|s| (s.start_ns, s.nanoseconds, s.bytes))
            .collect();
        assert_eq!(told, [(0, 5, 1), (90, 10, 2)]);
        assert_eq!(moves(&recording.events, Way::ToGpu), []);
    }
}
