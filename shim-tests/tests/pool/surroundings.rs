//! Where a program runs: in a container, without variables, where the system has no memory for a segment.

use crate::Bench;
use shim_tests::{End, Run, shim};

/// The limit that follows from a control group: half of its memory is in use, one tenth of the rest is a reserve.
#[test]
fn in_a_container_what_its_group_leaves_is_the_limit_c11() {
    if Run::new("unshare").args(["-m", "true"]).go().end != End::Code(0) {
        shim_tests::skip("no unshare, or not root");
        return;
    }
    let bench = Bench::new("limit");
    // As in a container: the path that the process is told is not there, the root is the group's own.
    for (membership, group, limit, usage) in [
        ("0::/", "", "memory.max", "memory.current"),
        ("0::/pod/one", "", "memory.max", "memory.current"),
        ("0::/pod/one", "/pod/one", "memory.max", "memory.current"),
        ("0::/pod/one", "/pod", "memory.max", "memory.current"),
        (
            "3:memory:/pod",
            "/memory",
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
        ),
        (
            "3:cpu,memory:/pod",
            "/memory/pod",
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
        ),
    ] {
        let command = format!(
            "mount -t tmpfs none /sys/fs/cgroup && cd /sys/fs/cgroup && mkdir -p .{group} && \
             echo 200000000 >.{group}/{limit} && echo 100000000 >.{group}/{usage} && \
             echo {membership} >own && mount --bind own /proc/$$/cgroup && \
             LD_PRELOAD={} exec {}",
            shim().display(),
            bench.program.display()
        );
        let run = Run::new("unshare").args(["-m", "sh", "-c", &*command]);
        let run = run
            .env("VSHARE_BUDGET", "64MiB")
            .env("VSHARE_TELEMETRY", "0");
        let outcome = run
            .env("SIMCUDA_VRAM", "600M")
            .libraries(bench.dir.path())
            .go();
        // 64 MiB and 90 million bytes: 149 MiB, in whole pages.
        let refused = "148 MiB, then 2\n2 2 99\n2\n";
        assert_eq!(
            outcome.stdout,
            refused.repeat(2),
            "{membership} {group}: {outcome:?}"
        );
    }
}

#[test]
fn a_system_that_maps_no_file_has_the_program_run_without_a_segment_d7() {
    let bench = Bench::new("unmapped");
    let native = bench.native(&[], &[]);
    assert_eq!(native.printed(), "done\n");
    let env = [("VSHARE_TELEMETRY", "1"), ("VSHARE_BUDGET", "8MiB")];
    assert_eq!(bench.shimmed(&["tried"], &env), native);
}

/// As after `su`, `ssh` or a job's clean environment: whatever of the variables is left.
#[test]
fn without_variables_a_program_runs_as_ever_d19() {
    let bench = Bench::new("info");
    let native = bench.native(&[], &[]);
    let libraries = format!("LD_LIBRARY_PATH={}", bench.dir.path().display());
    let preload = format!("LD_PRELOAD={}", shim().display());
    for words in [
        &["-i", &*libraries][..],
        &["-i", &libraries, "VSHARE_BUDGET=6MiB", "VSHARE_LIMIT=8MiB"],
        &["-i", &libraries, &preload],
        &["-i", &libraries, &preload, "HOME=", "PATH="],
        &["-u", "PATH", &libraries, &preload],
    ] {
        let outcome = Run::new("env").args(words).args([&bench.program]).go();
        assert_eq!(outcome, native, "{words:?}");
    }
}
