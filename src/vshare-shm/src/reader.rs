//! The reading side: any process of the same user, while the owner lives and after.

use std::fmt;
use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use crate::counters::Kind;
use crate::layout::{Layout, MAGIC, MAJOR, MINOR, RowWords, SIZE, State};
use crate::process::{self, Identity, Liveness};
use crate::record::Record;
use crate::ring::{Read, Ring, Slot};
use crate::segment::{self, Mapping};
use crate::sync::{Ordering, fence};
use crate::text;

/// Why a file could not be read as a segment.
#[derive(Debug)]
pub enum OpenError {
    /// It could not be opened or mapped.
    Io(io::Error),
    /// It is a directory, a pipe or the like.
    NotAFile,
    /// Another user made it, and readers are told to trust their own only.
    Foreign {
        /// The user it belongs to.
        owner: u32,
    },
    /// It is shorter than a segment.
    Truncated {
        /// Its length.
        found: u64,
    },
    /// It does not begin as a segment does.
    NotASegment,
    /// It is a segment of a format that this reader does not know.
    Version {
        /// The file's major and minor version.
        found: (u16, u16),
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::NotAFile => write!(f, "not a regular file"),
            Self::Foreign { owner } => write!(
                f,
                "belongs to user {owner}; only that user and root may read it"
            ),
            Self::Truncated { found } => write!(f, "{found} bytes long, a segment has {SIZE}"),
            Self::NotASegment => write!(f, "not a vshare segment"),
            Self::Version {
                found: (major, minor),
            } => write!(
                f,
                "written in format {major}.{minor}, and this reader knows {MAJOR}.{MINOR}: use the `vshare` that came with the library",
            ),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

/// One counter, as the segment describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Its name.
    pub name: String,
    /// Its unit: "count", "bytes", "nanoseconds" or a newer one.
    pub unit: String,
    /// What it means.
    pub help: String,
    /// Whether it goes up and down; else it only grows.
    pub is_gauge: bool,
    /// Its value now.
    pub value: u64,
}

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// As the driver numbers it in the owner's process.
    pub ordinal: u64,
    /// As the driver names it.
    pub name: String,
    /// The driver's 16 bytes.
    pub uuid: [u8; 16],
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its number, counted from the segment's start.
    pub ticket: u64,
    /// Nanoseconds since the segment was made.
    pub time_ns: u64,
    /// What happened.
    pub record: Record,
}

/// A segment: our own user's, mapped read-only, or as root a copy of another's.
///
/// Who owns a file can make it shorter at any time, and whoever then reads a mapping of it gets a
/// signal that ends him. A user may do that to himself, but not to root, who watches for all.
#[derive(Debug)]
pub struct Segment {
    mapping: Mapping,
    /// What `mapping` is a copy of.
    source: Option<File>,
}

impl Segment {
    /// Opens `path`, which may be anything.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let file = segment::open(path).map_err(OpenError::Io)?;
        let metadata = file.metadata().map_err(OpenError::Io)?;
        if !metadata.is_file() {
            return Err(OpenError::NotAFile);
        }
        let user = segment::user();
        let foreign = metadata.uid() != user;
        if foreign && user != 0 {
            return Err(OpenError::Foreign {
                owner: metadata.uid(),
            });
        }
        if metadata.len() < SIZE as u64 {
            return Err(OpenError::Truncated {
                found: metadata.len(),
            });
        }
        let (mapping, source) = match foreign {
            true => (segment::blank(), Some(file)),
            false => (segment::view(&file), None),
        };
        let segment = Self {
            mapping: mapping.map_err(OpenError::Io)?,
            source,
        };
        segment.refresh()?;
        check(segment.layout())?;
        Ok(segment)
    }

    /// Brings a copy up to date; a mapping is so by itself. On `Err` it stays as it was.
    pub fn refresh(&self) -> Result<(), OpenError> {
        let Some(source) = &self.source else {
            return Ok(());
        };
        let first = read(source)?;
        let second = read(source)?;
        take_in(&self.mapping, &first, &second);
        Ok(())
    }

    /// The owner.
    pub fn owner(&self) -> Identity {
        let layout = self.layout();
        Identity {
            // A pid that is none belongs to nobody alive.
            pid: u32::try_from(load(&layout.pid)).unwrap_or(u32::MAX),
            start_time: load(&layout.start_time),
        }
    }

    /// Whether the owner lives.
    pub fn liveness(&self) -> Liveness {
        let theirs = load(&self.layout().pid_namespace);
        let ours = process::pid_namespace();
        if theirs != 0 && ours != 0 && theirs != ours {
            return Liveness::Unknown;
        }
        self.owner().liveness()
    }

    /// The owner's effective user.
    pub fn uid(&self) -> u64 {
        load(&self.layout().uid)
    }

    /// The `VSHARE_RUN` it was started under; 0: none.
    pub fn run(&self) -> u64 {
        load(&self.layout().run)
    }

    /// When it was made, in nanoseconds since 1970.
    pub fn created_ns(&self) -> u64 {
        load(&self.layout().created_ns)
    }

    /// How far the owner says it is; `None` for a state that a newer library wrote.
    pub fn state(&self) -> Option<State> {
        State::from_word(load(&self.layout().state))
    }

    /// The driver's version, as cuDriverGetVersion gives it; 0: not known yet.
    pub fn driver_version(&self) -> u64 {
        load(&self.layout().driver_version)
    }

    /// The library's version.
    pub fn library(&self) -> String {
        lossy(self.layout().library.read())
    }

    /// The policy's name.
    pub fn policy(&self) -> String {
        lossy(self.layout().policy.read())
    }

    /// The start of the owner's command line, blank between arguments.
    pub fn command(&self) -> String {
        let mut bytes = self.layout().command.read();
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        for byte in &mut bytes {
            if *byte == 0 {
                *byte = b' ';
            }
        }
        lossy(bytes)
    }

    /// The GPU, once the owner has said which.
    pub fn device(&self) -> Option<Device> {
        let layout = self.layout();
        let ordinal = load(&layout.device).checked_sub(1)?;
        // Acquire fence: pairs with the release in `Writer::set_device`.
        fence(Ordering::Acquire);
        let mut uuid = [0; 16];
        for (to, from) in uuid.iter_mut().zip(text::load(&layout.device_uuid)) {
            *to = from;
        }
        Some(Device {
            ordinal,
            name: lossy(layout.device_name.read()),
            uuid,
        })
    }

    /// All counters, in the segment's order.
    pub fn counters(&self) -> Vec<Reading> {
        let layout = self.layout();
        let used = usize::try_from(load(&layout.counters)).unwrap_or(usize::MAX);
        let words = layout.rows.iter().zip(&layout.values).take(used);
        words
            .map(|(row, value)| Reading {
                name: text::load_padded(&row.name),
                unit: text::load_padded(&row.unit),
                help: text::load_padded(&row.help),
                is_gauge: is_gauge(row),
                value: clamp(is_gauge(row), load(value)),
            })
            .collect()
    }

    /// The value of the counter called `name`; `None` if the library that wrote this had none.
    pub fn value(&self, name: &str) -> Option<u64> {
        let mut counters = self.counters().into_iter();
        counters.find(|c| c.name == name).map(|c| c.value)
    }

    /// The events still in the ring, oldest first. Those overwritten or being written are left
    /// out, which shows as a gap in the tickets. [`crate::follow`] tells how many.
    pub fn events(&self) -> Vec<Event> {
        self.held().filter_map(|t| self.event(t).ok()).collect()
    }

    /// The tickets that the ring may still hold, oldest first.
    pub(crate) fn held(&self) -> std::ops::Range<u64> {
        self.ring().map_or(0..0, |ring| ring.held())
    }

    /// The event under `ticket`, or why there is none.
    pub(crate) fn event(&self, ticket: u64) -> Result<Event, Read> {
        match self.ring().map_or(Read::Lost, |ring| ring.read(ticket)) {
            Read::Record(payload) => {
                let (time_ns, record) = Record::unpack(payload);
                Ok(Event {
                    ticket,
                    time_ns,
                    record,
                })
            }
            missing => Err(missing),
        }
    }

    fn ring(&self) -> Option<Ring<'_>> {
        let layout = self.layout();
        Ring::new(&layout.ring_head, &layout.ring)
    }

    fn layout(&self) -> &Layout {
        self.mapping.layout()
    }
}

fn read(file: &File) -> Result<Box<[u8; SIZE]>, OpenError> {
    let mut bytes = Box::new([0; SIZE]);
    file.read_exact_at(bytes.as_mut_slice(), 0)
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => OpenError::Truncated {
                found: file.metadata().map_or(0, |found| found.len()),
            },
            _ => OpenError::Io(error),
        })?;
    Ok(bytes)
}

/// Makes `mapping` what the second of two reads gave.
fn take_in(mapping: &Mapping, first: &[u8; SIZE], second: &[u8; SIZE]) {
    for (word, bytes) in mapping.words().iter().zip(second.as_chunks().0) {
        word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
    }
    // A record is whole if nothing of its slot changed between the two; of one that is not, a later
    // look will tell.
    for (slot, (first, second)) in mapping
        .layout()
        .ring
        .iter()
        .zip(slots(first).zip(slots(second)))
    {
        if first != second {
            slot.blot();
        }
    }
}

fn slots(bytes: &[u8; SIZE]) -> impl Iterator<Item = &[u8]> {
    let ring = bytes.get(offset_of!(Layout, ring)..).unwrap_or_default();
    ring.chunks_exact(size_of::<Slot>())
}

fn check(layout: &Layout) -> Result<(), OpenError> {
    let word = load(&layout.magic);
    // Acquire fence: pairs with the release in the writer's `describe`.
    fence(Ordering::Acquire);
    let [a, b, c, d, major_high, major_low, minor_high, minor_low] = word.to_be_bytes();
    if u32::from_be_bytes([a, b, c, d]) != MAGIC {
        return Err(OpenError::NotASegment);
    }
    let major = u16::from_be_bytes([major_high, major_low]);
    let minor = u16::from_be_bytes([minor_high, minor_low]);
    if major != MAJOR {
        return Err(OpenError::Version {
            found: (major, minor),
        });
    }
    Ok(())
}

fn is_gauge(row: &RowWords) -> bool {
    load(&row.kind) == Kind::Gauge.word()
}

/// Gauges are two's complement: below zero, for the moment between two threads, is zero.
fn clamp(gauge: bool, value: u64) -> u64 {
    if gauge && value > u64::MAX / 2 {
        0
    } else {
        value
    }
}

/// Relaxed is all that std promises on a read-only mapping; fences do the rest where order counts.
fn load(word: &crate::sync::AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_changed_between_two_reads_is_not_told() {
        let mapping = segment::blank().unwrap();
        let layout = mapping.layout();
        let ring = Ring::new(&layout.ring_head, &layout.ring).unwrap();
        for word in 0..3 {
            assert!(ring.push([word; 5]));
        }
        let mut first = Box::new([0; SIZE]);
        let words = mapping.words().iter().map(load);
        for (bytes, word) in first.as_chunks_mut().0.iter_mut().zip(words) {
            *bytes = word.to_ne_bytes();
        }
        let mut second = first.clone();
        // The last word of the second record.
        second[0x4400 + 48 + 40] ^= 1;
        let copy = Segment {
            mapping: segment::blank().unwrap(),
            source: None,
        };
        let tickets =
            |copy: &Segment| -> Vec<_> { copy.events().iter().map(|e| e.ticket).collect() };
        take_in(&copy.mapping, &first, &second);
        assert_eq!(tickets(&copy), [0, 2]);
        take_in(&copy.mapping, &first, &first);
        assert_eq!(tickets(&copy), [0, 1, 2]);
    }
}
