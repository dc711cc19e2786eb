//! What the host can spare for evicted memory.

use std::fs;
use vshare_core::ledger;

/// Bytes of host memory that may be used: what is available, and what the process's control group
/// (version 2 or 1) leaves, less a reserve. 0 where nothing can be read.
pub(crate) fn bytes() -> u64 {
    let available = fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| available(&text))
        .unwrap_or(0);
    let (limit, used) = group();
    ledger::host_headroom(available, limit, used)
}

/// `MemAvailable` of `/proc/meminfo`, bytes.
fn available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The tightest memory limit of the control groups above this process, and what is used there.
fn group() -> (Option<u64>, u64) {
    let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut tightest: Option<(u64, u64)> = None;
    for (directory, limit, usage) in candidates(&membership) {
        let number = |name: &str| -> Option<u64> {
            fs::read_to_string(format!("{directory}/{name}"))
                .ok()?
                .trim()
                .parse()
                .ok()
        };
        let (Some(limit), Some(used)) = (number(limit), number(usage)) else {
            continue;
        };
        let left = limit.saturating_sub(used);
        if tightest.is_none_or(|(l, u)| left < l.saturating_sub(u)) {
            tightest = Some((limit, used));
        }
    }
    tightest.map_or((None, 0), |(limit, used)| (Some(limit), used))
}

/// Where limits may stand: (directory, file of the limit, file of the usage), the process's own
/// group first and then each above it. Inside a container the paths named in `/proc/self/cgroup`
/// may not be visible, and the root of the mount is the container's own group.
fn candidates(membership: &str) -> Vec<(String, &'static str, &'static str)> {
    let mut found = Vec::new();
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let (root, limit, usage) = if controllers.is_empty() {
            ("/sys/fs/cgroup", "memory.max", "memory.current")
        } else if controllers.split(',').any(|c| c == "memory") {
            (
                "/sys/fs/cgroup/memory",
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
            )
        } else {
            continue;
        };
        let mut path = path.trim_end_matches('/');
        loop {
            found.push((format!("{root}{path}"), limit, usage));
            match path.rfind('/') {
                Some(at) => path = path.get(..at).unwrap_or(""),
                None => break,
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_read_in_bytes() {
        let text = "MemTotal: 10 kB\nMemFree: 1 kB\nMemAvailable:   123 kB\n";
        assert_eq!(available(text), Some(123 * 1024));
        assert_eq!(available("MemTotal: 10 kB\n"), None);
    }

    #[test]
    fn every_group_above_the_process_is_looked_at() {
        let names: Vec<_> = candidates("0::/a/b\n").into_iter().map(|c| c.0).collect();
        assert_eq!(
            names,
            ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"]
        );
        let old = candidates("5:cpu:/x\n4:memory:/\n");
        assert_eq!(old.len(), 1);
        assert_eq!(old[0].1, "memory.limit_in_bytes");
    }

    #[test]
    fn this_machine_has_some_headroom() {
        assert!(bytes() > 0);
    }
}
