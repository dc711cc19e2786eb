//! How programs find the driver's functions, and that everything else is as it was.
//!
//! The driver here is `loader_fake_cuda.c`, which does nothing. Ids such as A1 name reports from
//! other projects' trackers that the test would have caught.

use shim_tests::{End, Outcome, Run, Workdir, shim};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Puts the driver into a directory, built with these options.
fn driver(dir: &Workdir, options: &[&str]) -> PathBuf {
    let mut args = vec!["-Wl,-Bsymbolic"];
    args.extend(options);
    dir.library("libcuda.so.1", "loader_fake_cuda.c", &args)
}

/// A directory with a driver, and `loader_look`.
fn looking(options: &[&str]) -> (Workdir, PathBuf) {
    let dir = Workdir::new();
    driver(&dir, options);
    let look = dir.program("loader_look.c", &[]);
    (dir, look)
}

fn native(dir: &Workdir, program: &Path, args: &[&str]) -> Outcome {
    Run::new(program).args(args).libraries(dir.path()).go()
}

fn shimmed(dir: &Workdir, program: &Path, args: &[&str]) -> Outcome {
    let run = Run::new(program).args(args).libraries(dir.path());
    run.preload(&[&shim()]).go()
}

/// Checks what a program prints without the shim and with it.
fn prints(dir: &Workdir, program: &Path, args: &[&str], without: &str, with: &str) {
    let native = native(dir, program, args);
    assert_eq!(native.printed(), without, "natively: {args:?}");
    let shimmed = shimmed(dir, program, args);
    assert_eq!(shimmed.printed(), with, "under the shim: {args:?}");
}

// What is ours.

#[test]
fn every_road_leads_to_the_shim_and_natively_to_the_driver() {
    // With versions, for dlvsym to find.
    let (dir, look) = looking(&["-Wl,--default-symver"]);
    for opened in [
        "open:libcuda.so.1",
        "global:libcuda.so.1",
        "deep:libcuda.so.1",
    ] {
        for (road, answer) in [
            ("sym:cuInit", "cuInit=driver\n"),
            ("sym:cuMemAlloc", "cuMemAlloc=driver\n"),
            ("sym:cuMemAlloc_v2", "cuMemAlloc_v2=driver\n"),
            ("vsym:cuInit@libcuda.so.1", "cuInit=driver\n"),
            ("gpa1:cuInit@2000", "cuInit@2000=driver result=0\n"),
            ("gpa2:cuInit@2000", "cuInit@2000=driver result=0 status=0\n"),
            ("gpa3:cuInit@2000", "cuInit@2000=driver result=0 status=0\n"),
        ] {
            let with = answer.replace("driver", "vshare");
            prints(&dir, &look, &[opened, road], answer, &with);
        }
    }
}

#[test]
fn a_hook_reaches_the_function_of_its_own_name() {
    let (dir, look) = looking(&[]);
    let args = [
        "open:libcuda.so.1",
        "call:cuInit",
        "call:cuMemsetD8Async",
        "call:cuMemsetD8Async_ptsz",
        "call:cuCtxDestroy",
    ];
    let answer = "cuInit()=0\ncuMemsetD8Async()=71\ncuMemsetD8Async_ptsz()=72\ncuCtxDestroy()=73\n";
    prints(&dir, &look, &args, answer, answer);
}

#[test]
fn a_program_linked_with_the_driver_is_served() {
    let dir = Workdir::new();
    let driver = driver(&dir, &[]);
    let linked = dir.program("loader_linked.c", &[driver.to_str().unwrap()]);
    prints(&dir, &linked, &[], "0 71 72\n", "0 71 72\n");
}

#[test]
fn lookups_before_main_are_served_a17() {
    let dir = Workdir::new();
    driver(&dir, &[]);
    let look = dir.program("loader_look.c", &["-DEARLY"]);
    let args = ["open:libcuda.so.1", "gpa2:cuInit@2000", "call:cuInit"];
    let answer = "cuInit@2000=driver result=0 status=0\ncuInit()=0\n";
    prints(
        &dir,
        &look,
        &args,
        answer,
        &answer.replace("driver", "vshare"),
    );
}

#[test]
fn a_runtime_opened_with_deepbind_still_finds_the_shim_a20() {
    let (dir, look) = looking(&[]);
    dir.library("libcudart.so.99", "loader_library.c", &["-DRUNTIME"]);
    let args = ["deep:libcudart.so.99", "ask:runtime_finds"];
    let answer = |whose| format!("runtime_finds()={whose}\n");
    prints(&dir, &look, &args, &answer("driver"), &answer("vshare"));
}

#[test]
fn a_driver_in_a_namespace_of_its_own_is_left_alone_a20() {
    let (dir, look) = looking(&[]);
    let args = ["new:libcuda.so.1", "sym:cuInit", "call:cuInit"];
    let answer = "cuInit=driver\ncuInit()=0\n";
    prints(&dir, &look, &args, answer, answer);
}

// What the driver chooses.

#[test]
fn the_version_and_the_stream_are_the_drivers_choice_a9_a12_a28() {
    let (dir, look) = looking(&[]);
    for (wanted, whose) in [
        ("cuMemAlloc@2000", "vshare"),
        ("cuMemAlloc@3020", "vshare"),
        ("cuMemsetD8Async@3020", "vshare"),
        ("cuMemsetD8Async@7000p", "vshare"),
        ("cuGetProcAddress@11030", "vshare"),
        ("cuGetProcAddress@12000", "vshare"),
        ("cuDeviceGet@2000", "driver"),
    ] {
        let road = format!("gpa2:{wanted}");
        let answer = |whose| format!("{wanted}={whose} result=0 status=0\n");
        let args = ["open:libcuda.so.1", &road];
        prints(&dir, &look, &args, &answer("driver"), &answer(whose));
    }
}

#[test]
fn the_status_is_written_by_the_driver_and_failures_are_not_touched_a18() {
    let (dir, look) = looking(&[]);
    for (wanted, answer) in [
        (
            "gpa2:cuInit@1000",
            "cuInit@1000=nobody result=500 status=1\n",
        ),
        ("gpa2:@0", "@0=nobody result=500 status=1\n"),
        ("gpa1:cuNothing@9000", "cuNothing@9000=nobody result=500\n"),
    ] {
        prints(&dir, &look, &["open:libcuda.so.1", wanted], answer, answer);
    }
}

#[test]
fn functions_that_the_driver_merged_do_not_get_each_others_hooks() {
    let (dir, look) = looking(&[]);
    for (wanted, whose) in [
        ("sym:cuCtxDestroy", "cuCtxDestroy=vshare\n"),
        ("sym:cuCtxDestroy_v2", "cuCtxDestroy_v2=vshare\n"),
        ("sym:cuLaunch", "cuLaunch=vshare\n"),
        ("sym:cuTexRefCreate", "cuTexRefCreate=driver\n"),
        ("gpa1:cuLaunch@2000", "cuLaunch@2000=vshare result=0\n"),
        (
            "gpa1:cuTexRefCreate@2000",
            "cuTexRefCreate@2000=driver result=0\n",
        ),
    ] {
        let without = whose.replace("vshare", "driver");
        prints(&dir, &look, &["open:libcuda.so.1", wanted], &without, whose);
    }
}

// Old drivers, strange drivers, no driver.

#[test]
fn what_an_old_driver_lacks_is_missing_under_the_shim_too_a8() {
    let (dir, look) = looking(&["-DFEW"]);
    let missing = [
        "sym:cuMemAllocAsync",
        "error:",
        "sym:cuGetProcAddress_v2",
        "sym:cuInit",
    ];
    let mut args = vec!["open:libcuda.so.1"];
    args.extend(missing);
    let path = dir.path().join("libcuda.so.1");
    let answer = |whose| {
        let path = path.display();
        format!(
            "cuMemAllocAsync=nobody\n{path}: undefined symbol: cuMemAllocAsync\n\
             cuGetProcAddress_v2=nobody\ncuInit={whose}\n"
        )
    };
    prints(&dir, &look, &args, &answer("driver"), &answer("vshare"));
}

#[test]
fn a_hook_whose_function_the_driver_lacks_says_that_it_is_not_found_a8() {
    let dir = Workdir::new();
    let driver_file = driver(&dir, &[]);
    let linked = dir.program("loader_linked.c", &[driver_file.to_str().unwrap()]);
    driver(&dir, &["-DFEW"]);
    assert_eq!(shimmed(&dir, &linked, &[]).printed(), "0 71 500\n");
}

#[test]
fn a_driver_without_the_second_cu_get_proc_address_works_a11() {
    let (dir, look) = looking(&["-DNO_GPA_V2"]);
    let args = [
        "open:libcuda.so.1",
        "sym:cuGetProcAddress_v2",
        "gpa1:cuMemAlloc@3020",
    ];
    let answer = |whose| format!("cuGetProcAddress_v2=nobody\ncuMemAlloc@3020={whose} result=0\n");
    prints(&dir, &look, &args, &answer("driver"), &answer("vshare"));
}

#[test]
fn a_driver_that_looks_itself_up_finds_itself_a4() {
    let (dir, look) = looking(&["-DASKS_ITSELF"]);
    let args = ["open:libcuda.so.1", "call:cuInit"];
    let answer = "inside cuInit: cuInit=driver cuMemFree_v2=driver\ncuInit()=0\n";
    prints(&dir, &look, &args, answer, answer);
}

#[test]
fn what_the_driver_has_looked_up_while_it_is_at_work_is_the_drivers_a4() {
    let (dir, look) = looking(&["-DASKS_HELPER"]);
    dir.library("libhelper.so", "loader_library.c", &["-DRUNTIME"]);
    let args = ["open:libcuda.so.1", "call:cuInit"];
    let answer = "inside cuInit: cuInit=driver\ncuInit()=0\n";
    prints(&dir, &look, &args, answer, answer);
}

#[test]
fn a_constructor_of_the_driver_finds_the_driver_a16() {
    let early = "early: cuInit=driver cuMemFree_v2=driver\n";
    let (dir, look) = looking(&["-DASKS_EARLY"]);
    let args = ["open:libcuda.so.1", "sym:cuInit"];
    let answer = |whose| format!("{early}cuInit={whose}\n");
    prints(&dir, &look, &args, &answer("driver"), &answer("vshare"));
    // Here it is a hook of ours that loads the driver.
    let weak = dir.program("loader_linked.c", &["-DWEAK"]);
    let answer = format!("{early}0 71 72\n");
    prints(&dir, &weak, &[], "nobody\n", &answer);
}

#[test]
fn a_constructor_of_the_driver_may_call_what_we_export_a16() {
    let dir = Workdir::new();
    // Without -Bsymbolic: its calls of exported functions come to us.
    dir.library("libcuda.so.1", "loader_fake_cuda.c", &["-DCALLS_EARLY"]);
    let look = dir.program("loader_look.c", &[]);
    let args = ["open:libcuda.so.1", "sym:cuInit"];
    let answer = |whose| format!("early: 0 70\ncuInit={whose}\n");
    prints(&dir, &look, &args, &answer("driver"), &answer("vshare"));
    let weak = dir.program("loader_linked.c", &["-DWEAK"]);
    prints(&dir, &weak, &[], "nobody\n", "early: 0 70\n0 71 72\n");
}

#[test]
fn without_a_driver_a_hook_says_so_and_tries_again_the_next_time() {
    let dir = Workdir::new();
    let weak = dir.program("loader_linked.c", &["-DWEAK"]);
    assert_eq!(shimmed(&dir, &weak, &[]).printed(), "3 3 3\n");
    let hidden = dir.path().join("hidden");
    let driver = dir.library(
        "hidden/libcuda.so.1",
        "loader_fake_cuda.c",
        &["-Wl,-Bsymbolic"],
    );
    let late = shimmed(&dir, &weak, &[driver.to_str().unwrap()]);
    assert_eq!(late.printed(), "3 3 3\n0 71 72\n", "{}", hidden.display());
}

#[test]
fn without_a_driver_nobody_finds_our_exports() {
    let dir = Workdir::new();
    let look = dir.program("loader_look.c", &[]);
    let args = ["all:cuInit", "all:cuMemAlloc_v2", "all:cuGetProcAddress_v2"];
    let answer = "cuInit=nobody\ncuMemAlloc_v2=nobody\ncuGetProcAddress_v2=nobody\n";
    prints(&dir, &look, &args, answer, answer);
}

#[test]
fn a_lookup_does_not_load_the_driver() {
    let (dir, look) = looking(&[]);
    dir.library("libx.so", "loader_library.c", &["-DNAMES"]);
    let args = [
        "all:cuInit",
        "open:libx.so",
        "sym:cuMemAlloc_v2",
        "there:libcuda.so.1",
    ];
    let answer = "cuInit=nobody\ncuMemAlloc_v2=libx.so\nlibcuda.so.1 is not there\n";
    prints(&dir, &look, &args, answer, answer);
}

#[test]
fn a_search_through_everything_finds_the_shim_if_the_driver_is_there() {
    let (dir, look) = looking(&[]);
    let args = ["global:libcuda.so.1", "all:cuInit", "error:"];
    let answer = |whose| format!("cuInit={whose}\nno error\n");
    prints(&dir, &look, &args, &answer("driver"), &answer("vshare"));
}

#[test]
fn a_library_that_brought_the_driver_along_finds_the_shim_in_a_search_through_everything() {
    let (dir, look) = looking(&[]);
    let driver = dir.path().join("libcuda.so.1");
    let linked = ["-DSEARCHES", "-Wl,--no-as-needed", driver.to_str().unwrap()];
    dir.library("libuser.so", "loader_library.c", &linked);
    let args = ["open:libuser.so", "ask:search_finds", "error:"];
    let answer = |whose| format!("search_finds()={whose}\nno error\n");
    prints(&dir, &look, &args, &answer("driver"), &answer("vshare"));
}

// What is not ours.

#[test]
fn rtld_next_means_after_the_caller_a1() {
    let dir = Workdir::new();
    let look = dir.program("loader_look.c", &[]);
    let a = dir.library("liba.so", "loader_library.c", &["-DFOO=1"]);
    let b = dir.library("libb.so", "loader_library.c", &["-DFOO=2"]);
    let shim = shim();
    let run = |preload: &[&Path]| {
        let run = Run::new(&look).args(["ask:next_foo"]).preload(preload);
        run.go().printed().to_owned()
    };
    for both in [[&*a, &b, &shim], [&a, &shim, &b], [&shim, &a, &b]] {
        assert_eq!(run(&both), "next_foo()=libb.so\n", "{both:?}");
    }
    for alone in [[&*a, &shim], [&shim, &a]] {
        assert_eq!(run(&alone), "next_foo()=nobody\n", "{alone:?}");
    }
}

#[test]
fn rtld_next_always_gives_the_same_answer_a2() {
    let (dir, look) = looking(&[]);
    prints(
        &dir,
        &look,
        &["again:open"],
        "found always\n",
        "found always\n",
    );
    let args = ["global:libcuda.so.1", "again:cuDeviceGet"];
    prints(&dir, &look, &args, "found always\n", "found always\n");
}

#[test]
fn other_libraries_keep_names_like_the_drivers_a3() {
    let (dir, look) = looking(&[]);
    dir.library("libx.so", "loader_library.c", &["-DNAMES"]);
    let names = [
        "sym:cudnnCreate",
        "sym:cuFoo",
        "sym:cuMemAlloc_v2",
        "call:cuMemAlloc_v2",
    ];
    let answer = "cudnnCreate=libx.so\ncuFoo=libx.so\ncuMemAlloc_v2=libx.so\ncuMemAlloc_v2()=3\n";
    for opened in [
        &["open:libx.so"][..],
        &["open:libcuda.so.1", "open:libx.so"],
    ] {
        let args = [opened, &names].concat();
        prints(&dir, &look, &args, answer, answer);
        let run = Run::new(&look).args(&args).libraries(dir.path());
        let run = run.preload(&[&shim()]).within(Path::new("/"));
        assert_eq!(run.go().printed(), answer);
    }
    let args = ["global:libx.so", "all:cuMemAlloc_v2", "all:cuInit"];
    let answer = "cuMemAlloc_v2=libx.so\ncuInit=nobody\n";
    prints(&dir, &look, &args, answer, answer);
}

#[test]
fn a_library_is_found_along_its_callers_runpath_a21() {
    let (dir, look) = looking(&[]);
    dir.library("sub/libinner.so", "loader_library.c", &["-DFOO=1"]);
    let runpath = ["-DOUTER", "-Wl,--enable-new-dtags,-rpath,$ORIGIN/sub"];
    dir.library("libouter.so", "loader_library.c", &runpath);
    for how in ["open:libouter.so", "deep:libouter.so"] {
        let answer = "inner_foo()=libinner.so\n";
        prints(&dir, &look, &[how, "ask:inner_foo"], answer, answer);
    }
}

#[test]
fn a_library_that_stands_in_for_malloc_may_come_before_or_after_a29() {
    let (dir, look) = looking(&[]);
    let malloc = dir.library("libmalloc.so", "loader_library.c", &["-DMALLOC"]);
    let shim = shim();
    for preload in [[&*shim, &malloc], [&malloc, &shim], [&shim, &shim]] {
        let run = Run::new(&look).args(["open:libcuda.so.1", "sym:cuInit", "call:cuInit"]);
        let outcome = run.libraries(dir.path()).preload(&preload).go();
        assert_eq!(
            outcome.printed(),
            "cuInit=vshare\ncuInit()=0\n",
            "{preload:?}"
        );
    }
}

#[test]
fn a_thread_may_end_after_the_library_was_closed_a24() {
    let dir = Workdir::new();
    driver(&dir, &[]);
    let closes = dir.program("loader_closes.c", &[]);
    let shim = shim();
    let outcome = native(&dir, &closes, &[shim.to_str().unwrap()]);
    assert_eq!(outcome.printed(), "0\nalive\n");
}

#[test]
fn panics_of_a_program_in_rust_print_as_ever() {
    let dir = Workdir::new();
    driver(&dir, &[]);
    let program = dir.path().join("loader_panics");
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
    rustc.args(["--edition", "2024", "-o"]).arg(&program);
    rustc.arg(shim_tests::source("loader_panics.rs"));
    assert!(rustc.status().unwrap().success());
    let panicked = |outcome: Outcome| {
        assert_eq!(outcome.end, End::Code(0), "{outcome:?}");
        assert_eq!(outcome.stdout, "0\ntrue\n");
        // The thread's number is in the message.
        outcome.stderr.replace(|c: char| c.is_ascii_digit(), "")
    };
    let native = panicked(native(&dir, &program, &[]));
    assert!(native.contains("the program's own"), "{native}");
    assert_eq!(panicked(shimmed(&dir, &program, &[])), native);
}

// What it costs those who do not use CUDA: nothing.

/// Everyday programs. Some count the files they have open and the threads they have running.
const EVERYDAY: [(&str, &[&str]); 6] = [
    ("true", &[]),
    ("ls", &["-l", "/usr/lib"]),
    ("sh", &["-c", "echo out; echo err >&2; exit 3"]),
    (
        "sh",
        &[
            "-c",
            "ls /proc/self/fd /proc/self/task | wc -l; kill -TERM $$",
        ],
    ),
    ("python3", &["-c", "pass"]),
    ("python3", &["-c", OPEN_AND_RUNNING]),
];

const OPEN_AND_RUNNING: &str = "
import ctypes, os, ssl
print(len(os.listdir('/proc/self/fd')), len(os.listdir('/proc/self/task')))
";

#[test]
fn programs_without_cuda_do_not_notice_a8_a23() {
    for (program, args) in EVERYDAY {
        let native = Run::new(program).args(args).go();
        let shimmed = Run::new(program).args(args).preload(&[&shim()]).go();
        assert_eq!(native, shimmed, "{program} {args:?}");
    }
}

#[test]
fn programs_without_cuda_open_no_other_file_than_the_library_and_what_it_needs() {
    if Run::new("strace")
        .args(["-o", "/dev/null", "true"])
        .go()
        .end
        != End::Code(0)
    {
        shim_tests::skip("strace is not installed, or not allowed");
        return;
    }
    let shim = shim();
    for (program, args) in EVERYDAY {
        let opened = |preload: &str| -> BTreeSet<String> {
            let dir = Workdir::new();
            // A file for each process, lest a line be broken off by another's.
            let options = ["-ff", "-e", "trace=open,openat", "-o"];
            let run = Run::new("strace")
                .args(options)
                .args([dir.path().join("trace")]);
            let preloaded = format!("LD_PRELOAD={preload}");
            run.args(["env", &preloaded, program]).args(args).go();
            let traces = std::fs::read_dir(dir.path()).unwrap();
            let traces = traces.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
            let traces = traces.collect::<String>();
            let calls = traces.lines().filter(|line| !line.contains("ENOENT"));
            // From the quotation mark to the one that closes it.
            let files = calls.filter_map(|call| call.split('"').nth(1));
            let files = files.filter(|file| !file.starts_with("/proc/"));
            files.map(str::to_owned).collect()
        };
        let native = opened("");
        for file in opened(shim.to_str().unwrap()).difference(&native) {
            let needed = NEEDED.iter().any(|soname| file.ends_with(soname));
            assert!(
                Path::new(file) == shim || needed,
                "{program} {args:?}: {file}"
            );
        }
    }
}

// The library itself.

/// The libraries it asks for.
const NEEDED: [&str; 3] = ["ld-linux-x86-64.so.2", "libc.so.6", "libgcc_s.so.1"];

/// What a tool of binutils prints about the shim.
fn about_the_shim(tool: &str, option: &[&str]) -> String {
    let outcome = Run::new(tool).args(option).args([shim()]).go();
    outcome.printed().to_owned()
}

#[test]
fn it_exports_the_table_and_three_functions_of_the_dynamic_linker_a26() {
    let exports = about_the_shim("nm", &["-D", "--defined-only"]);
    let exports: BTreeSet<_> = exports
        .lines()
        .filter_map(|l| l.split(' ').next_back())
        .collect();
    let pinned: BTreeSet<_> = include_str!("loader_exports.txt").lines().collect();
    let added: Vec<_> = exports.difference(&pinned).collect();
    let gone: Vec<_> = pinned.difference(&exports).collect();
    assert!(
        added.is_empty() && gone.is_empty(),
        "not listed: {added:?}; not there: {gone:?}"
    );
}

#[test]
fn its_exports_have_no_version_so_that_they_answer_for_any() {
    let symbols = about_the_shim("nm", &["-D", "--defined-only", "--with-symbol-versions"]);
    assert!(!symbols.contains('@'), "{symbols}");
}

#[test]
fn it_needs_few_libraries_and_binds_to_them_at_once_and_for_good() {
    let dynamic = about_the_shim("readelf", &["-dW"]);
    let needed: BTreeSet<_> = dynamic
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .filter_map(|line| line.split(['[', ']']).nth(1))
        .collect();
    assert_eq!(needed, BTreeSet::from(NEEDED));
    for flag in ["NOW", "NODELETE"] {
        assert!(dynamic.contains(flag), "{dynamic}");
    }
    for path in ["RPATH", "RUNPATH"] {
        assert!(!dynamic.contains(path), "{dynamic}");
    }
}

/// The glibc from which on it can be loaded. What is weak may be missing.
const GLIBC: (u32, u32) = (2, 34);

#[test]
fn it_needs_no_newer_glibc_than_that_of_2021_a6() {
    let needed = about_the_shim("nm", &["-D", "--undefined-only", "--with-symbol-versions"]);
    let strong = needed
        .lines()
        .filter(|line| line.trim_start().starts_with("U "));
    let versions = strong.filter_map(|line| line.split_once("@GLIBC_"));
    let mut count = 0;
    for (name, version) in versions {
        let (major, minor) = version.split_once('.').unwrap();
        // Some have a third number.
        let minor = minor.split('.').next().unwrap();
        let version = (major.parse().unwrap(), minor.parse().unwrap());
        assert!(version <= GLIBC, "{name}: {version:?}");
        count += 1;
    }
    assert!(count > 20, "{needed}");
}
