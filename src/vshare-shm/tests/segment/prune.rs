//! Which segments are listed, and which are cleared away.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use vshare_shm::Writer;
use vshare_shm::directory::{self, Keep};
use vshare_shm::process::{Identity, Liveness};
use vshare_shm::reader::Segment;

use crate::{Scratch, description};

/// A process that has ended, and that nobody else has become.
fn dead() -> Identity {
    let mut child = Command::new("true").spawn().unwrap();
    let identity = Identity::of(child.id()).unwrap();
    child.wait().unwrap();
    identity
}

/// A segment of `owner`'s, made from `writer`'s.
fn forge(writer: &Writer, directory: &Path, uid: u32, owner: Identity) -> PathBuf {
    let mut bytes = fs::read(writer.path()).unwrap();
    bytes[0x18..0x20].copy_from_slice(&u64::from(owner.pid).to_ne_bytes());
    bytes[0x20..0x28].copy_from_slice(&owner.start_time.to_ne_bytes());
    let path = directory.join(format!("vshare-{uid}-{}-{}", owner.pid, owner.start_time));
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

fn own_uid(writer: &Writer) -> u32 {
    fs::metadata(writer.path()).unwrap().uid()
}

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn pruning_takes_the_long_dead_and_only_those() {
    let scratch = Scratch::new("prune");
    let writer = Writer::create(&description(&scratch.0)).unwrap();
    let uid = own_uid(&writer);
    let killed = forge(&writer, &scratch.0, uid, dead());
    let recycled = Identity {
        start_time: 1,
        ..Identity::own().unwrap()
    };
    let recycled = forge(&writer, &scratch.0, uid, recycled);
    let other_name = scratch.0.join("vshare-notes");
    fs::write(&other_name, "").unwrap();
    let keep = Keep {
        age: HOUR,
        most: 10,
    };

    assert_eq!(
        directory::prune(&scratch.0, keep).unwrap(),
        0,
        "just found dead"
    );
    assert_eq!(
        directory::prune(&scratch.0, keep).unwrap(),
        0,
        "still young"
    );
    check_readable_and_dead(&killed);
    check_readable_and_dead(&recycled);
    let yesterday = SystemTime::now() - 24 * HOUR;
    let file = fs::File::open(&killed).unwrap();
    file.set_modified(yesterday).unwrap();
    assert_eq!(directory::prune(&scratch.0, keep).unwrap(), 1);
    assert!(!killed.exists() && recycled.exists() && writer.path().exists());
    let most = Keep { age: HOUR, most: 0 };
    assert_eq!(directory::prune(&scratch.0, most).unwrap(), 1);
    assert!(!recycled.exists() && writer.path().exists() && other_name.exists());
}

fn check_readable_and_dead(path: &Path) {
    assert_eq!(Segment::open(path).unwrap().liveness(), Liveness::Dead);
}

#[test]
fn pruning_takes_what_was_left_unfinished() {
    let scratch = Scratch::new("unfinished");
    let writer = Writer::create(&description(&scratch.0)).unwrap();
    let (uid, gone, own) = (own_uid(&writer), dead(), Identity::own().unwrap());
    let yesterday = SystemTime::now() - 24 * HOUR;
    let mut paths = Vec::new();
    for (owner, old) in [(gone, true), (gone, false), (own, true)] {
        let name = format!(
            "vshare-tmp-{uid}-{}-{}-{}",
            owner.pid,
            owner.start_time,
            u8::from(old)
        );
        let path = scratch.0.join(name);
        let file = fs::File::create(&path).unwrap();
        if old {
            file.set_modified(yesterday).unwrap();
        }
        paths.push(path);
    }
    let keep = Keep {
        age: HOUR,
        most: 10,
    };
    assert_eq!(directory::prune(&scratch.0, keep).unwrap(), 1);
    assert!(!paths[0].exists() && paths[1].exists() && paths[2].exists());
}

#[test]
fn pruning_leaves_another_namespaces_segments() {
    let scratch = Scratch::new("namespace");
    let writer = Writer::create(&description(&scratch.0)).unwrap();
    let path = forge(&writer, &scratch.0, own_uid(&writer), dead());
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.write_at(&1u64.to_ne_bytes(), 0x30).unwrap();
    assert_eq!(Segment::open(&path).unwrap().liveness(), Liveness::Unknown);
    let keep = Keep {
        age: Duration::ZERO,
        most: 0,
    };
    assert_eq!(directory::prune(&scratch.0, keep).unwrap(), 0);
    assert!(path.exists());
}

#[test]
fn all_segments_are_listed_and_nothing_else() {
    let scratch = Scratch::new("list");
    assert_eq!(directory::list(&scratch.0).unwrap(), []);
    let writer = Writer::create(&description(&scratch.0)).unwrap();
    forge(&writer, &scratch.0, 4242, dead());
    fs::write(scratch.0.join("vshare-tmp-0-1-2-0"), "").unwrap();
    fs::write(scratch.0.join("other"), "").unwrap();
    let found = directory::list(&scratch.0).unwrap();
    assert_eq!(found.len(), 2);
    let own = found
        .iter()
        .find(|f| f.owner == Identity::own().unwrap())
        .unwrap();
    assert_eq!(
        (own.path.as_path(), own.uid),
        (writer.path(), own_uid(&writer))
    );
}
