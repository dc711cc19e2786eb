//! What the machine and its container give.

use std::fs;
use std::path::Path;

use rustix::fs::statvfs;
use vshare_core::units::Human;
use vshare_shm::directory;
use vshare_shm::layout::SIZE;

use super::Check;

/// Host memory, for what does not fit on a GPU with `gpu` bytes.
pub(super) fn memory(gpu: u64) -> Check {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let Some(available) = available(&text("/proc/meminfo")) else {
        let advice = "without /proc/meminfo vshare takes it that there is no host memory to spare: mount /proc";
        return Check::fail("memory", "the host's memory is not known", advice);
    };
    let limit = tightest(&text("/proc/self/cgroup"), |path| {
        fs::read_to_string(path).ok()?.trim().parse().ok()
    });
    judge(available, limit, gpu)
}

fn judge(available: u64, left: Option<u64>, gpu: u64) -> Check {
    let host = available.min(left.unwrap_or(u64::MAX));
    let mut found = format!("{} of host memory available", Human(available));
    if let Some(left) = left {
        found += &format!(
            ", of which the control group leaves {}",
            Human(left.min(available))
        );
    }
    if host < gpu / 4 {
        let advice = format!(
            "what does not fit on the GPU ({}) lies in host memory: programs may allocate little more than the GPU has",
            Human(gpu)
        );
        return Check::warn("memory", found, advice);
    }
    Check::ok("memory", found)
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|l| l.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// What the tightest control group above this process leaves, by the text of `/proc/self/cgroup`. In a container the
/// paths there may not be visible, and the root of the mount is the container's own group.
fn tightest(membership: &str, read: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    let mut least: Option<u64> = None;
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let (root, limit, usage) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max", "memory.current"),
            list if list.split(',').any(|c| c == "memory") => (
                "/sys/fs/cgroup/memory",
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
            ),
            _ => continue,
        };
        let path = Path::new(path.trim_start_matches('/'));
        for group in path.ancestors() {
            let file = |name| Path::new(root).join(group).join(name).display().to_string();
            // Version 1 writes a number near 2^63 where there is no limit.
            if let (Some(limit @ 0..0x7000_0000_0000_0000), Some(used)) =
                (read(&file(limit)), read(&file(usage)))
            {
                let left = limit.saturating_sub(used);
                least = Some(least.map_or(left, |least| least.min(left)));
            }
        }
    }
    least
}

/// Where segments go.
pub(super) fn shared_memory() -> Check {
    let name = "shared memory";
    let directory = directory::DEFAULT;
    let off = "programs run, but cannot be watched: `vshare ps`, `stats`, `log` and the others see nothing of them";
    let found = match statvfs(directory) {
        Ok(found) => found,
        Err(error) => return Check::warn(name, format!("{directory}: {error}"), off),
    };
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    let (size, free) = (bytes(found.f_blocks), bytes(found.f_bavail));
    let said = format!("{directory}: {} free of {}", Human(free), Human(size));
    if rustix::fs::access(directory, rustix::fs::Access::WRITE_OK).is_err() {
        return Check::warn(name, format!("{said}, and may not be written to"), off);
    }
    if free < SIZE as u64 * 16 {
        let advice = format!(
            "{off}; `vshare ps --prune` removes what dead ones left; Docker's --shm-size gives more"
        );
        return Check::warn(name, said, advice);
    }
    Check::ok(name, said)
}

/// Whether this is a container, which explains much.
pub(super) fn container() -> Check {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let (group, version) = (text("/proc/1/cgroup"), text("/proc/version"));
    let kind = [
        (Path::new("/.dockerenv").exists(), "a Docker container"),
        (
            Path::new("/run/.containerenv").exists(),
            "a Podman container",
        ),
        (
            std::env::var_os("KUBERNETES_SERVICE_HOST").is_some(),
            "a Kubernetes pod",
        ),
        (
            std::env::var_os("APPTAINER_CONTAINER").is_some(),
            "an Apptainer container",
        ),
        (
            group.contains("docker") || group.contains("kubepods") || group.contains("lxc"),
            "a container",
        ),
    ];
    if version.to_lowercase().contains("microsoft") {
        let advice = "WSL's driver has no concurrent managed access: programs run, but not with more memory than the GPU has";
        return Check::warn("container", "Windows Subsystem for Linux", advice);
    }
    match kind
        .into_iter()
        .find_map(|(found, kind)| found.then_some(kind))
    {
        Some(kind) => Check::ok(
            "container",
            format!(
                "{kind}: processes outside are seen only if they share {} and the pid namespace",
                directory::DEFAULT
            ),
        ),
        None => Check::ok("container", "none found"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;

    #[test]
    fn the_tightest_group_counts() {
        let read = |path: &str| match path {
            "/sys/fs/cgroup/a/b/memory.max" => None, // "max"
            "/sys/fs/cgroup/a/memory.max" => Some(100),
            "/sys/fs/cgroup/a/memory.current" => Some(30),
            "/sys/fs/cgroup/memory.max" => Some(80),
            "/sys/fs/cgroup/memory.current" => Some(20),
            "/sys/fs/cgroup/memory/old/memory.limit_in_bytes" => Some(0x7fff_ffff_ffff_f000),
            "/sys/fs/cgroup/memory/old/memory.usage_in_bytes" => Some(1),
            _ => None,
        };
        assert_eq!(tightest("0::/a/b\n", read), Some(60));
        assert_eq!(tightest("5:cpu,memory:/old\n", read), None);
        assert_eq!(tightest("nonsense\n1:cpu:/\n", read), None);
    }

    #[test]
    fn little_host_memory_beside_a_large_gpu_is_a_warning() {
        assert_eq!(judge(64 << 30, None, 128 << 30).status, Status::Ok);
        assert_eq!(
            judge(64 << 30, Some(8 << 30), 128 << 30).status,
            Status::Warn
        );
        assert_eq!(judge(1 << 30, None, 0).status, Status::Ok);
        assert_eq!(
            available("MemTotal: 1 kB\nMemAvailable:  2 kB\n"),
            Some(2048)
        );
        assert_eq!(available("MemAvailable: many"), None);
    }
}
