//! The writing side, which lives in someone else's program.
//!
//! Every call is a few atomic operations: no lock, no system call, no wait. After `fork` the child
//! shares its parent's mapping: it must compare [`Writer::pid`] with its own and, if they differ,
//! write nothing.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::counters::{Counter, RECORDS_DROPPED, TABLE};
use crate::directory;
use crate::layout::{Layout, PUBLISHED, SIZE, State};
use crate::process::{self, Identity};
use crate::record::Record;
use crate::ring::Ring;
use crate::segment::{self, Mapping};
use crate::sync::{AtomicU64, Ordering};
use crate::text;

/// What a segment says from the start. The process itself is looked up.
#[derive(Clone, Copy, Debug)]
pub struct Description<'a> {
    /// Where to put it; [`directory::DEFAULT`] unless told otherwise.
    pub directory: &'a Path,
    /// Now, in nanoseconds since 1970. Record times count from here.
    pub created_ns: u64,
    /// The library's version; 24 bytes are kept.
    pub library: &'a str,
    /// The policy's name; 24 bytes are kept.
    pub policy: &'a str,
    /// The number in `VSHARE_RUN`, by which a starter finds its children's segments; 0: none.
    pub run: u64,
}

/// The one writer of a segment.
#[derive(Debug)]
pub struct Writer {
    mapping: Mapping,
    path: PathBuf,
    pid: u32,
}

impl Writer {
    /// Makes this process's segment and publishes it. On `Err` nothing is left behind.
    ///
    /// It replaces one that this process left before it called `exec`.
    pub fn create(description: &Description<'_>) -> io::Result<Self> {
        let owner = Identity::own()?;
        let uid = segment::user();
        let path = description.directory.join(directory::name(uid, owner));
        refuse_foreign(&path, uid)?;
        let (temporary, mapping) = create_temporary(description.directory, uid, owner)?;
        describe(mapping.layout(), description, uid, owner);
        if let Err(error) = fs::rename(&temporary, &path) {
            _ = fs::remove_file(&temporary);
            return Err(error);
        }
        Ok(Self {
            mapping,
            path,
            pid: owner.pid,
        })
    }

    /// The process that made it, the only one that may write.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The segment's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// One counter.
    #[inline]
    pub fn counter(&self, counter: Counter) -> Cell<'_> {
        Cell {
            word: self.layout().values.get(counter.index()),
        }
    }

    /// Writes `record` as of `time_ns` after `created_ns`; dropped, and counted as
    /// [`RECORDS_DROPPED`], when a slower thread still holds the slot.
    pub fn record(&self, time_ns: u64, record: Record) {
        let layout = self.layout();
        let kept = Ring::new(&layout.ring_head, &layout.ring)
            .is_some_and(|ring| ring.push(record.pack(time_ns)));
        if !kept {
            self.counter(RECORDS_DROPPED).add(1);
        }
    }

    /// Says how far the process is.
    pub fn set_state(&self, state: State) {
        self.layout().state.store(state.word(), Ordering::Relaxed);
    }

    /// Says which driver it is, as cuDriverGetVersion does.
    pub fn set_driver_version(&self, version: u32) {
        let word = &self.layout().driver_version;
        word.store(u64::from(version), Ordering::Relaxed);
    }

    /// Says which GPU it is. Once: a reader beside a second call may see a mixture.
    pub fn set_device(&self, ordinal: u32, name: &str, uuid: [u8; 16]) {
        let layout = self.layout();
        layout.device_name.write(name.as_bytes());
        text::store(&layout.device_uuid, &uuid);
        // Release: pairs with the fence in `Segment::device`.
        layout
            .device
            .store(u64::from(ordinal) + 1, Ordering::Release);
    }

    fn layout(&self) -> &Layout {
        self.mapping.layout()
    }
}

/// One counter's value.
#[derive(Clone, Copy, Debug)]
pub struct Cell<'a> {
    /// Always there: `Counter`s come from the table, which fits.
    word: Option<&'a AtomicU64>,
}

impl Cell<'_> {
    /// Adds `n`.
    #[inline]
    pub fn add(self, n: u64) {
        if let Some(word) = self.word {
            word.fetch_add(n, Ordering::Relaxed);
        }
    }

    /// Takes `n` off. May pass below zero for a moment: see [`crate::counters::Kind::Gauge`].
    #[inline]
    pub fn sub(self, n: u64) {
        if let Some(word) = self.word {
            word.fetch_sub(n, Ordering::Relaxed);
        }
    }

    /// Makes it `n`.
    #[inline]
    pub fn set(self, n: u64) {
        if let Some(word) = self.word {
            word.store(n, Ordering::Relaxed);
        }
    }

    /// Makes it `n` if that is more.
    #[inline]
    pub fn max(self, n: u64) {
        if let Some(word) = self.word {
            word.fetch_max(n, Ordering::Relaxed);
        }
    }

    /// What it is.
    #[inline]
    pub fn get(self) -> u64 {
        self.word.map_or(0, |word| word.load(Ordering::Relaxed))
    }
}

/// `Err` if something that is not our own file has the name. A rename would replace it where the
/// directory lets us.
fn refuse_foreign(path: &Path, uid: u32) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.uid() != uid || !found.is_file() => {
            Err(io::ErrorKind::AlreadyExists.into())
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// A new file under a name of its own. Names may be taken: by this process before `exec`, or by
/// someone who wants to be in the way.
fn create_temporary(directory: &Path, uid: u32, owner: Identity) -> io::Result<(PathBuf, Mapping)> {
    let mut attempt = 0;
    loop {
        let path = directory.join(directory::temporary_name(uid, owner, attempt));
        match segment::create(&path) {
            Ok(mapping) => return Ok((path, mapping)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < 8 => {
                attempt += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Writes all that is known at the start, the first word last.
fn describe(layout: &Layout, description: &Description<'_>, uid: u32, owner: Identity) {
    for (word, value) in [
        (&layout.size, SIZE as u64),
        (&layout.state, State::Starting.word()),
        (&layout.pid, u64::from(owner.pid)),
        (&layout.start_time, owner.start_time),
        (&layout.uid, u64::from(uid)),
        (&layout.pid_namespace, process::pid_namespace()),
        (&layout.run, description.run),
        (&layout.created_ns, description.created_ns),
        (&layout.counters, TABLE.len() as u64),
    ] {
        word.store(value, Ordering::Relaxed);
    }
    layout.library.write(description.library.as_bytes());
    layout.policy.write(description.policy.as_bytes());
    layout.command.write(&process::command());
    for (words, row) in layout.rows.iter().zip(TABLE) {
        text::store(&words.name, row.name.as_bytes());
        text::store(&words.unit, row.unit.text().as_bytes());
        text::store(&words.help, row.help.as_bytes());
        words.kind.store(row.kind.word(), Ordering::Relaxed);
    }
    // Release: pairs with the fence in `Segment::open`.
    layout.magic.store(PUBLISHED, Ordering::Release);
}
