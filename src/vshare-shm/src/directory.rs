//! Where segments lie: their names, finding them, and clearing away those of dead processes.

use std::ffi::OsStr;
use std::fs::{self, DirEntry, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::process::{Identity, Liveness};
use crate::reader::Segment;
use crate::segment;

/// Where segments lie unless told otherwise.
pub const DEFAULT: &str = "/dev/shm";

/// The mode of a segment whose owner was found dead; its modification time says when.
const FOUND_DEAD: u32 = 0o400;

/// A segment's file, as its name tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The file.
    pub path: PathBuf,
    /// Whose it says it is.
    pub uid: u32,
    /// Which process's it says it is.
    pub owner: Identity,
}

/// Which dead processes' segments [`prune`] leaves.
#[derive(Clone, Copy, Debug)]
pub struct Keep {
    /// Those found dead more recently than this.
    pub age: Duration,
    /// But at most so many, the latest found.
    pub most: usize,
}

impl Keep {
    /// What the library keeps at a start: long enough to look into a crash, and at most 4 MiB.
    pub const USUAL: Self = Self {
        age: Duration::from_secs(3600),
        most: 64,
    };
}

/// A segment's file name.
pub(crate) fn name(uid: u32, owner: Identity) -> String {
    format!("vshare-{uid}-{}-{}", owner.pid, owner.start_time)
}

/// The name it is made under, before it is whole.
pub(crate) fn temporary_name(uid: u32, owner: Identity, attempt: u32) -> String {
    format!(
        "vshare-tmp-{uid}-{}-{}-{attempt}",
        owner.pid, owner.start_time
    )
}

/// The segments in `directory`, of all users; none if there is no such directory.
pub fn list(directory: &Path) -> io::Result<Vec<Found>> {
    let mut found: Vec<_> = entries(directory)?
        .filter_map(|entry| {
            let (uid, owner) = parse(&entry.file_name())?;
            Some(Found {
                path: entry.path(),
                uid,
                owner,
            })
        })
        .collect();
    found.sort_by_key(|f| (f.uid, f.owner.pid, f.owner.start_time));
    Ok(found)
}

/// Removes our own user's segments of dead processes, and what they left unfinished. Returns how
/// many files went.
///
/// The first call that finds an owner dead only marks the segment, since nothing else tells when
/// a killed process ended; a later call removes it once `keep` allows. What another user, a live
/// process or a process of another pid namespace owns is left alone.
pub fn prune(directory: &Path, keep: Keep) -> io::Result<usize> {
    let uid = segment::user();
    let now = SystemTime::now();
    let mut removed = 0;
    let mut dead = Vec::new();
    for entry in entries(directory)? {
        let Ok(metadata) = entry.metadata() else {
            continue; // gone meanwhile
        };
        if metadata.uid() != uid || !metadata.is_file() {
            continue;
        }
        if let Some(owner) = parse_temporary(&entry.file_name()) {
            // It exists for microseconds in its owner's life; the age covers an owner that is
            // another pid namespace's and only looks dead.
            let old = age(&metadata, now) > keep.age;
            if old && owner.liveness() == Liveness::Dead {
                removed += remove(&entry.path());
            }
            continue;
        }
        if parse(&entry.file_name()).is_none() || liveness(&entry) != Liveness::Dead {
            continue;
        }
        if metadata.mode() & 0o777 == FOUND_DEAD {
            dead.push((age(&metadata, now), entry.path()));
        } else {
            mark(&entry.path(), now);
            dead.push((Duration::ZERO, entry.path()));
        }
    }
    dead.sort();
    for (place, (age, path)) in dead.iter().enumerate() {
        if *age > keep.age || place >= keep.most {
            removed += remove(path);
        }
    }
    Ok(removed)
}

/// Whether a segment's owner lives, by the segment itself where it can be read, else by its name.
fn liveness(entry: &DirEntry) -> Liveness {
    match (Segment::open(&entry.path()), parse(&entry.file_name())) {
        (Ok(segment), _) => segment.liveness(),
        (Err(_), Some((_, owner))) => owner.liveness(),
        (Err(_), None) => Liveness::Unknown,
    }
}

fn age(metadata: &fs::Metadata, now: SystemTime) -> Duration {
    // A time in the future is no age yet.
    metadata
        .modified()
        .ok()
        .and_then(|then| now.duration_since(then).ok())
        .unwrap_or_default()
}

/// Marks a segment as found dead now. If it cannot be, the next call tries again.
fn mark(path: &Path, now: SystemTime) {
    let Ok(file) = segment::open(path) else {
        return;
    };
    if file.set_modified(now).is_ok() {
        _ = file.set_permissions(Permissions::from_mode(FOUND_DEAD));
    }
}

fn remove(path: &Path) -> usize {
    // Another process may prune at the same time: whoever comes second finds nothing.
    usize::from(fs::remove_file(path).is_ok())
}

fn entries(directory: &Path) -> io::Result<impl Iterator<Item = DirEntry>> {
    let read = match fs::read_dir(directory) {
        Ok(read) => Some(read),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    Ok(read.into_iter().flatten().filter_map(Result::ok))
}

fn parse(name: &OsStr) -> Option<(u32, Identity)> {
    let mut parts = name.to_str()?.strip_prefix("vshare-")?.split('-');
    let uid = number(parts.next()?)?;
    let owner = identity(&mut parts)?;
    parts.next().is_none().then_some((uid, owner))
}

fn parse_temporary(name: &OsStr) -> Option<Identity> {
    let mut parts = name.to_str()?.strip_prefix("vshare-tmp-")?.split('-');
    number::<u32>(parts.next()?)?;
    let owner = identity(&mut parts)?;
    number::<u32>(parts.next()?)?;
    parts.next().is_none().then_some(owner)
}

fn identity<'a>(parts: &mut impl Iterator<Item = &'a str>) -> Option<Identity> {
    Some(Identity {
        pid: number(parts.next()?)?,
        start_time: number(parts.next()?)?,
    })
}

/// A number as we write it: digits only.
fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Identity = Identity {
        pid: 42,
        start_time: 777,
    };

    #[test]
    fn names_come_back_as_what_they_were_made_of() {
        assert_eq!(parse(name(1000, OWNER).as_ref()), Some((1000, OWNER)));
        let temporary = temporary_name(1000, OWNER, 3);
        assert_eq!(parse_temporary(temporary.as_ref()), Some(OWNER));
        assert_eq!(parse(temporary.as_ref()), None);
        assert_eq!(parse_temporary(name(1000, OWNER).as_ref()), None);
    }

    #[test]
    fn other_names_are_not_ours() {
        for other in [
            "",
            "vshare",
            "vshare-",
            "vshare-1",
            "vshare-1-2",
            "vshare-1-2-3-4",
            "vshare-a-2-3",
            "vshare-1-+2-3",
            "vshare-1-2-",
            "xvshare-1-2-3",
            "vshare-1-99999999999-3",
            "vshare-tmp-1-2-3-0",
        ] {
            assert_eq!(parse(other.as_ref()), None, "{other}");
        }
    }

    #[test]
    fn a_directory_that_is_not_there_holds_no_segments() {
        let nowhere = Path::new("/nonexistent/vshare");
        assert_eq!(list(nowhere).unwrap(), []);
        let keep = Keep {
            age: Duration::ZERO,
            most: 0,
        };
        assert_eq!(prune(nowhere, keep).unwrap(), 0);
    }
}
