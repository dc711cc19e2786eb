//! Who a process is, and whether it still lives: a pid alone may have been given away again.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

/// A process, told apart from a later one with the same pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Its id, in its own pid namespace.
    pub pid: u32,
    /// When it started, in clock ticks since boot.
    pub start_time: u64,
}

/// Whether a process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It runs.
    Alive,
    /// It has ended, whether or not its parent has noticed.
    Dead,
    /// `/proc` does not tell, or it is in another pid namespace.
    Unknown,
}

impl Identity {
    /// The calling process.
    pub fn own() -> io::Result<Self> {
        let stat = Stat::read("/proc/self/stat")?;
        Ok(Self {
            pid: std::process::id(),
            start_time: stat.start_time,
        })
    }

    /// The process that now has `pid`.
    pub fn of(pid: u32) -> io::Result<Self> {
        let stat = Stat::read(&format!("/proc/{pid}/stat"))?;
        Ok(Self {
            pid,
            start_time: stat.start_time,
        })
    }

    /// Whether it still lives, seen from this pid namespace.
    pub fn liveness(self) -> Liveness {
        match Stat::read(&format!("/proc/{}/stat", self.pid)) {
            Ok(now) if now.start_time == self.start_time && !now.ended => Liveness::Alive,
            Ok(_) => Liveness::Dead,
            // Only a /proc that shows ourselves may say that another is missing.
            Err(_) if Self::own().is_ok() => Liveness::Dead,
            Err(_) => Liveness::Unknown,
        }
    }
}

/// The inode of our pid namespace, 0 if not known.
pub(crate) fn pid_namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |found| found.ino())
}

/// The start of our command line, zero between arguments; empty if not known.
pub(crate) fn command() -> Vec<u8> {
    fs::read("/proc/self/cmdline").unwrap_or_default()
}

/// What we need of a `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    start_time: u64,
    ended: bool,
}

impl Stat {
    fn read(path: &str) -> io::Result<Self> {
        Self::parse(&fs::read(path)?)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, path.to_owned()))
    }

    /// Fields are counted from 1 (proc(5)). Field 2, the name, is in parentheses and may hold
    /// anything, so we count from the last one.
    fn parse(stat: &[u8]) -> Option<Self> {
        let name_end = stat.iter().rposition(|b| *b == b')')?;
        let rest = std::str::from_utf8(stat.get(name_end + 1..)?).ok()?;
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?; // 3
        let threads: u64 = fields.nth(16)?.parse().ok()?; // 20
        let start_time = fields.nth(1)?.parse().ok()?; // 22
        Some(Self {
            start_time,
            // A first thread that has ended is a zombie too while others run on.
            ended: matches!(state, "Z" | "X" | "x") && threads <= 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(state: &str, threads: u64) -> String {
        format!("{state} 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 {threads} 18 4242 20 21")
    }

    #[test]
    fn a_hostile_process_name_does_not_shift_the_fields() {
        for name in ["sh", "a) R 1 2", "((", ") ) )", "\u{fffd}"] {
            let stat = format!("17 ({name}) {}\n", stat("R", 1));
            let parsed = Stat::parse(stat.as_bytes()).unwrap();
            assert_eq!((parsed.start_time, parsed.ended), (4242, false), "{name}");
        }
        for bad in ["", "17", "17 (sh", "17 (sh)", "17 (sh) R 1 2 3"] {
            assert_eq!(Stat::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn a_zombie_has_ended_unless_other_threads_run_on() {
        for (state, threads, ended) in [("Z", 1, true), ("Z", 2, false), ("S", 1, false)] {
            let stat = format!("17 (sh) {}", stat(state, threads));
            assert_eq!(Stat::parse(stat.as_bytes()).unwrap().ended, ended);
        }
    }

    #[test]
    fn a_child_that_nobody_waited_for_is_dead() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let identity = Identity::of(child.id()).unwrap();
        while identity.liveness() != Liveness::Dead {
            std::thread::yield_now();
        }
        child.wait().unwrap();
    }

    #[test]
    fn the_same_pid_with_another_start_is_another_process() {
        let own = Identity::own().unwrap();
        assert_eq!(own.liveness(), Liveness::Alive);
        assert_eq!(Identity::of(own.pid).unwrap(), own);
        let recycled = Identity {
            start_time: own.start_time + 1,
            ..own
        };
        assert_eq!(recycled.liveness(), Liveness::Dead);
        assert_eq!(
            Identity {
                pid: u32::MAX,
                start_time: 0
            }
            .liveness(),
            Liveness::Dead
        );
    }
}
