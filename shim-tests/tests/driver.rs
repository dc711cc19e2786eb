//! The simulated driver itself, without the shim: what every other test that has no GPU relies on.

use shim_tests::{End, Run, Workdir, artifact};
use std::path::{Path, PathBuf};

/// A directory with the driver in it under the name that programs load.
#[expect(clippy::unwrap_used, reason = "a test that cannot start has failed")]
fn with_driver() -> Workdir {
    let dir = Workdir::new();
    let driver = dir.path().join("libcuda.so.1");
    std::os::unix::fs::symlink(artifact("libsimcuda.so"), driver).unwrap();
    dir
}

/// A program linked to the driver, as programs are that use the driver's interface directly.
fn program(dir: &Workdir, name: &str) -> PathBuf {
    let search = format!("-L{}", dir.path().display());
    dir.program(name, &[&search, "-l:libcuda.so.1"])
}

fn run(dir: &Workdir, program: &Path) -> Run {
    Run::new(program).libraries(dir.path())
}

/// What a program prints in such an environment.
fn prints(name: &str, environment: &[(&str, &str)]) -> String {
    let dir = with_driver();
    let mut run = run(&dir, &program(&dir, name));
    for (name, value) in environment {
        run = run.env(name, value);
    }
    run.go().printed().to_owned()
}

#[test]
fn work_is_asynchronous_and_in_order_and_can_be_held() {
    prints("sim_async.c", &[("SIMCUDA_HOLD_KERNEL", "spin_us")]);
}

#[test]
fn managed_memory_faults_moves_and_is_counted_block_by_block() {
    let environment = [("SIMCUDA_VRAM", "64M"), ("SIMCUDA_HOLD_KERNEL", "mix")];
    prints("sim_managed.c", &environment);
}

#[test]
fn wrong_use_has_the_right_errors_and_an_illegal_access_ends_the_context() {
    prints("sim_errors.c", &[("SIMCUDA_DEVICES", "2")]);
}

/// The real driver's answer to it is a broken heap, so nothing that comes after could be relied on.
#[test]
fn whoever_makes_a_destroyed_context_current_is_ended() {
    let dir = with_driver();
    let program = program(&dir, "sim_destroyed.c");
    for how in ["push", "set"] {
        let outcome = run(&dir, &program).args([how]).go();
        assert_eq!(outcome.end, End::Signal(6), "{outcome:?}");
        assert!(outcome.stderr.contains("destroyed"), "{outcome:?}");
    }
}

#[test]
fn a_capture_forbids_what_the_real_one_forbids() {
    prints("sim_capture.c", &[]);
}

#[test]
fn a_graph_tells_what_its_nodes_are_and_becomes_what_fits_it() {
    prints("sim_graph.c", &[]);
}

#[test]
fn rectangles_and_boxes_are_copied_and_set() {
    prints("sim_shapes.c", &[]);
}

#[test]
fn threads_share_a_device_and_leave_nothing_behind() {
    prints("sim_threads.c", &[("SIMCUDA_VRAM", "32M")]);
}

#[test]
fn devices_are_what_the_environment_says() {
    let environment = [
        ("SIMCUDA_DEVICES", "2"),
        ("SIMCUDA_VRAM", "96M"),
        ("SIMCUDA_CC", "8.9"),
        ("SIMCUDA_CONCURRENT_MANAGED", "0"),
        ("SIMCUDA_DRIVER", "12040"),
    ];
    assert_eq!(
        prints("sim_device.c", &environment),
        "version 12040 devices 2\n\
         Simulated GPU 0, Sim, 100663296 bytes 8 9 0 1 0\n\
         Simulated GPU 1, Sim, 100663296 bytes 8 9 0 1 0\n\
         prefetch 101\n"
    );
}

#[test]
fn told_calls_fail_without_effect_whichever_version_is_called() {
    let rules = "cuMemPrefetchAsync:3:2,cuMemAllocManaged:3+:700";
    assert_eq!(
        prints("sim_fail.c", &[("SIMCUDA_FAIL", rules)]),
        "0 0 0\n700 0 0\n700 2 0\n700 0 0\n700 0 0\n\
         2 allocations, 4 prefetches, 5 kernels\n"
    );
}

#[test]
fn lookups_find_the_newest_function_not_newer_than_asked() {
    let look = |asked: &str, driver: &str| {
        let dir = with_driver();
        let run = run(&dir, &program(&dir, "sim_lookup.c"));
        let outcome = run.args([asked]).env("SIMCUDA_DRIVER", driver).go();
        outcome.printed().to_owned()
    };
    let now = look("13000", "13000");
    for line in [
        "cuMemAlloc 0 0 cuMemAlloc_v2",
        "cuMemPrefetchAsync 0 0 cuMemPrefetchAsync_v2",
        "cuMemPrefetchAsync 0 0 cuMemPrefetchAsync_v2_ptsz",
        "cuGetProcAddress 0 0 cuGetProcAddress_v2",
        "cuCtxSynchronize 0 0 cuCtxSynchronize_v2",
        "cuMemcpyHtoDAsync 0 0 cuMemcpyHtoDAsync_v2_ptsz",
        "cuGraphAddKernelNode 0 0 cuGraphAddKernelNode_v2",
        "cuNoSuchThing 500 1 NULL",
    ] {
        assert!(now.lines().any(|found| found == line), "{line}\n{now}");
    }
    let low = look("8000", "13000");
    for line in [
        "cuMemPrefetchAsync 0 0 cuMemPrefetchAsync_ptsz",
        "cuMemAllocAsync 500 2 NULL",
        "cuGetProcAddress 500 2 NULL",
        "cuCtxSynchronize 0 0 cuCtxSynchronize",
    ] {
        assert!(low.lines().any(|found| found == line), "{line}\n{low}");
    }
    // A driver of 11.5 has only the first form of the call, one of 11.0 has neither.
    let eleven = look("11050", "11050");
    for line in [
        "cuMemAllocAsync 0 -1 cuMemAllocAsync_ptsz",
        "cuFuncGetParamInfo 500 -1 NULL",
        "cuMemDiscardBatchAsync 500 -1 NULL",
        "cuGetProcAddress 0 -1 cuGetProcAddress",
    ] {
        assert!(
            eleven.lines().any(|found| found == line),
            "{line}\n{eleven}"
        );
    }
    let first = look("11000", "11000");
    assert!(
        first.lines().all(|line| line.ends_with(" 801 -1 NULL")),
        "{first}"
    );
}

#[test]
fn a_file_lets_held_work_go_and_the_log_and_the_counters_are_written() {
    let dir = with_driver();
    let at = |name: &str| dir.path().join(name);
    let (log, stats, go) = (at("log"), at("stats"), at("go"));
    std::fs::write(&go, "").unwrap();
    let hold = format!("fill_u32:{}", go.display());
    let outcome = run(&dir, &program(&dir, "sim_fail.c"))
        .env("SIMCUDA_HOLD_KERNEL", hold)
        .env("SIMCUDA_LOG", &log)
        .env("SIMCUDA_STATS", &stats)
        .go();
    assert!(outcome.stderr.contains("at[4] == 0"), "{outcome:?}");
    let stats = std::fs::read_to_string(stats).unwrap();
    for row in [
        "\"held\": 5,",
        "\"managed_allocs\": 6,",
        "\"cuMemPrefetchAsync_v2\": 3",
        "\"cuInit\": 1,",
    ] {
        assert!(stats.contains(row), "{row}\n{stats}");
    }
    let log = std::fs::read_to_string(log).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert!(lines[0].starts_with("1 ") && lines[0].ends_with(" cuInit flags=0 -> 0"));
    let calls = |name: &str| lines.iter().filter(|line| line.contains(name)).count();
    assert_eq!(calls(" cuLaunchKernel "), 5);
    assert_eq!(calls(" * fill_u32 "), 5);
    assert_eq!(calls(" cuMemPrefetchAsync_v2 dptr=0x"), 3);
}
