//! The byte map of a segment. This file is the specification.
//!
//! A segment is a file of [`SIZE`] bytes made of 64-bit words in the machine's own byte order.
//! Words are written one by one with atomic stores; map the file read-only and load whole words.
//!
//! | offset | bytes | field            | written by, when        | meaning                                           |
//! |-------:|------:|------------------|-------------------------|---------------------------------------------------|
//! | 0x0000 |     8 | `magic`          | creator, last           | [`MAGIC`] in the high half, then major, minor (16 bits each) |
//! | 0x0008 |     8 | `size`           | creator                 | bytes in the whole segment                        |
//! | 0x0010 |     8 | `state`          | owner, any time         | 0 starting, 1 live, 2 exited                      |
//! | 0x0018 |     8 | `pid`            | creator                 | the owner's process id, in its own namespace      |
//! | 0x0020 |     8 | `start_time`     | creator                 | the owner's start, field 22 of `/proc/PID/stat`   |
//! | 0x0028 |     8 | `uid`            | creator                 | the owner's effective user                        |
//! | 0x0030 |     8 | `pid_namespace`  | creator                 | inode of `/proc/self/ns/pid`; 0: not known        |
//! | 0x0038 |     8 | `run`            | creator                 | `VSHARE_RUN`, by which a starter finds its children; 0: none |
//! | 0x0040 |     8 | `created_ns`     | creator                 | nanoseconds since 1970; record times count from here |
//! | 0x0048 |     8 | `driver_version` | owner, once             | what cuDriverGetVersion says (13000 is 13.0); 0: not yet |
//! | 0x0050 |     8 | `counters`       | creator                 | how many counter rows are in use                  |
//! | 0x0058 |    40 | –                | nobody                  | reserved, zero                                    |
//! | 0x0080 |     8 | `ring_head`      | owner, any time         | records ever begun; the newest has ticket head − 1 |
//! | 0x0088 |   120 | –                | nobody                  | reserved, zero                                    |
//! | 0x0100 |    32 | `library`        | creator                 | text: the library's version                       |
//! | 0x0120 |    32 | `policy`         | creator                 | text: the policy's name                           |
//! | 0x0140 |   128 | `device_name`    | owner, once             | text: the GPU's name                              |
//! | 0x01c0 |    16 | `device_uuid`    | owner, once             | the GPU's 16 UUID bytes, in order                 |
//! | 0x01d0 |     8 | `device`         | owner, once, after both | 0: no device yet; else its ordinal + 1            |
//! | 0x01d8 |    40 | –                | nobody                  | reserved, zero                                    |
//! | 0x0200 |   208 | `command`        | creator                 | text: start of `/proc/PID/cmdline`, zero between arguments |
//! | 0x02d0 |   304 | –                | nobody                  | reserved, zero                                    |
//! | 0x0400 |   768 | `values`         | owner, any time         | one word per counter, 96 of them                  |
//! | 0x0700 |   256 | –                | nobody                  | reserved, zero                                    |
//! | 0x0800 | 15360 | `rows`           | creator                 | 96 counter rows                                   |
//! | 0x4400 | 46080 | `ring`           | owner, any time         | 960 slots                                         |
//! | 0xf800 |  2048 | –                | nobody                  | reserved, zero                                    |
//!
//! A *text* is a word with its length in bytes, then the bytes, zero-padded.
//!
//! A *counter row* is 160 bytes: name (32, zero-padded), unit (16, zero-padded), kind (a word:
//! 0 counter, 1 gauge), help (104, zero-padded). A gauge is a two's complement number; below zero
//! it reads as 0.
//!
//! A *ring slot* is 48 bytes: a stamp, then five payload words. Ticket `t` is in slot `t % 960`
//! and readable while the stamp is `2t + 2`: load the stamp, the payload, the stamp again, with
//! acquire fences between, and keep the record if both were `2t + 2` ([`crate::ring`]). The
//! payload's first word is the kind (high 8 bits) and the nanoseconds since `created_ns` (low 56);
//! [`crate::record`] says what the other four mean for each kind.
//!
//! # The file
//! Named `vshare-<uid>-<pid>-<start_time>`, mode 0600, made as `vshare-tmp-…` and renamed when
//! whole. Mode 0400 means that a later process found the owner dead, at the file's modification
//! time. A segment outlives its owner until it is pruned: [`crate::directory`].
//!
//! # Growth
//! Reserved bytes become fields and counter rows are added at the end: minor + 1, and older
//! readers go on reading. Nothing is ever moved or reused. What cannot be done so is major + 1,
//! which older readers refuse by both numbers. A new counter or record kind alone needs no new
//! number: rows describe themselves, and an unknown kind is shown as its number.
//!
//! # History
//! - 1.0: first. Under the same number came later: the counters from `promote_nanoseconds` on; record
//!   kind 9, sampled.

use std::mem::offset_of;

use crate::counters::TABLE;
use crate::ring::Slot;
use crate::sync::AtomicU64;
use crate::text::Text;

/// Bytes in a segment.
pub const SIZE: usize = 0x1_0000;
/// The high half of the first word, "VSHR".
pub const MAGIC: u32 = 0x5653_4852;
/// The format's major version: another is refused.
pub const MAJOR: u16 = 1;
/// The format's minor version: a larger one is read as this one.
pub const MINOR: u16 = 0;
/// Room for counters.
pub const COUNTERS: usize = 96;
/// Slots in the ring.
pub const SLOTS: usize = 960;

/// The first word of a segment of this version.
pub(crate) const PUBLISHED: u64 = (MAGIC as u64) << 32 | (MAJOR as u64) << 16 | MINOR as u64;

/// The value of `state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Made, and not in use yet.
    Starting,
    /// In use.
    Live,
    /// The owner said that it ends.
    Exited,
}

impl State {
    /// As the segment spells it.
    pub const fn word(self) -> u64 {
        match self {
            Self::Starting => 0,
            Self::Live => 1,
            Self::Exited => 2,
        }
    }

    /// The state that `word` spells, if any.
    pub const fn from_word(word: u64) -> Option<Self> {
        match word {
            0 => Some(Self::Starting),
            1 => Some(Self::Live),
            2 => Some(Self::Exited),
            _ => None,
        }
    }
}

/// One counter's description.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RowWords {
    pub(crate) name: [AtomicU64; 4],
    pub(crate) unit: [AtomicU64; 2],
    pub(crate) kind: AtomicU64,
    pub(crate) help: [AtomicU64; 13],
}

/// A whole segment.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Layout {
    pub(crate) magic: AtomicU64,
    pub(crate) size: AtomicU64,
    pub(crate) state: AtomicU64,
    pub(crate) pid: AtomicU64,
    pub(crate) start_time: AtomicU64,
    pub(crate) uid: AtomicU64,
    pub(crate) pid_namespace: AtomicU64,
    pub(crate) run: AtomicU64,
    pub(crate) created_ns: AtomicU64,
    pub(crate) driver_version: AtomicU64,
    pub(crate) counters: AtomicU64,
    reserved_0058: [AtomicU64; 5],
    pub(crate) ring_head: AtomicU64,
    reserved_0088: [AtomicU64; 15],
    pub(crate) library: Text<3>,
    pub(crate) policy: Text<3>,
    pub(crate) device_name: Text<15>,
    pub(crate) device_uuid: [AtomicU64; 2],
    pub(crate) device: AtomicU64,
    reserved_01d8: [AtomicU64; 5],
    pub(crate) command: Text<25>,
    reserved_02d0: [AtomicU64; 38],
    pub(crate) values: [AtomicU64; COUNTERS],
    reserved_0700: [AtomicU64; 32],
    pub(crate) rows: [RowWords; COUNTERS],
    pub(crate) ring: [Slot; SLOTS],
    reserved_f800: [AtomicU64; 256],
}

const _: () = {
    assert!(size_of::<Layout>() == SIZE);
    assert!(align_of::<Layout>() == 8);
    assert!(offset_of!(Layout, magic) == 0x0000);
    assert!(offset_of!(Layout, size) == 0x0008);
    assert!(offset_of!(Layout, state) == 0x0010);
    assert!(offset_of!(Layout, pid) == 0x0018);
    assert!(offset_of!(Layout, start_time) == 0x0020);
    assert!(offset_of!(Layout, uid) == 0x0028);
    assert!(offset_of!(Layout, pid_namespace) == 0x0030);
    assert!(offset_of!(Layout, run) == 0x0038);
    assert!(offset_of!(Layout, created_ns) == 0x0040);
    assert!(offset_of!(Layout, driver_version) == 0x0048);
    assert!(offset_of!(Layout, counters) == 0x0050);
    assert!(offset_of!(Layout, ring_head) == 0x0080);
    assert!(offset_of!(Layout, library) == 0x0100);
    assert!(offset_of!(Layout, policy) == 0x0120);
    assert!(offset_of!(Layout, device_name) == 0x0140);
    assert!(offset_of!(Layout, device_uuid) == 0x01c0);
    assert!(offset_of!(Layout, device) == 0x01d0);
    assert!(offset_of!(Layout, command) == 0x0200);
    assert!(offset_of!(Layout, values) == 0x0400);
    assert!(offset_of!(Layout, rows) == 0x0800);
    assert!(offset_of!(Layout, ring) == 0x4400);
    assert!(offset_of!(Layout, reserved_f800) == 0xf800);
    assert!(size_of::<Slot>() == 48);
    assert!(size_of::<RowWords>() == 160);
    assert!(offset_of!(RowWords, unit) == 32);
    assert!(offset_of!(RowWords, kind) == 48);
    assert!(offset_of!(RowWords, help) == 56);
    assert!(TABLE.len() <= COUNTERS);
};

/// Every row's texts fit, or this does not compile.
const _: () = {
    let mut rest = TABLE;
    while let [row, tail @ ..] = rest {
        assert!(row.name.len() <= 32 && row.unit.text().len() <= 16 && row.help.len() <= 104);
        rest = tail;
    }
};

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
