//! What a program does is recorded whole and right, and recording disturbs nothing.

use crate::{Bench, Env};
use shim_tests::{End, Outcome, Run, artifact};
use std::path::{Path, PathBuf};
use vshare_core::trace::{Event, Trace, What};

impl Bench {
    /// Where a recording goes.
    fn file(&self, name: &str) -> (PathBuf, String) {
        let path = self.dir.path().join(name);
        let text = path.to_str().unwrap().to_owned();
        (path, text)
    }

    /// Runs it while it is recorded.
    fn traced(&self, args: &[&str], env: Env<'_>) -> (Outcome, Trace) {
        let (path, text) = self.file("trace");
        let outcome = self.shimmed(args, &[env, &[("VSHARE_TRACE", &text)]].concat());
        (outcome, read(&path))
    }
}

fn read(path: &Path) -> Trace {
    Trace::read(&std::fs::read(path).unwrap()).unwrap()
}

fn whole(trace: &Trace) -> &Trace {
    assert_eq!(trace.truncated(), None);
    trace
}

/// In words, with blocks by their pages.
fn told(trace: &Trace) -> Vec<String> {
    let event = |event: &Event| match *event {
        Event::Alloc(block) => format!("alloc {}", trace.pages(block)),
        Event::Free(block) => format!("free {}", trace.pages(block)),
        Event::Sync => "sync".to_owned(),
        Event::Work(at) => {
            let work = trace.works().get(at).unwrap();
            let what = match work.what {
                What::Launch => trace.function(work.function).unwrap_or("launch"),
                What::Copy => "copy",
                What::Fill => "fill",
                What::Graph => "graph",
            };
            let pieces = trace.pieces(work).iter();
            let pages: Vec<_> = pieces.map(|&b| trace.pages(b).to_string()).collect();
            format!("{what} [{}]", pages.join(" "))
        }
    };
    trace.events().iter().map(event).collect()
}

const KNOWN: [&str; 19] = [
    "alloc 5",
    "alloc 6",
    "alloc 7",
    "alloc 4",
    "fill_u32 [5]",
    "copy [6 5]",
    "fill [7]",
    "sync",
    "copy [4]",
    "copy [4]",
    "add_u32 [7 6 5]",
    "add_u32 [5]",
    "sync",
    "free 6",
    "alloc 10",
    "fill_u32 [10]",
    "free 10",
    "graph [5]",
    "sync",
];

#[test]
fn everything_is_recorded_in_order_and_names_the_right_blocks() {
    let bench = Bench::new("traced");
    let places: [Env<'_>; 4] = [
        &[],
        &[("VSHARE_BUDGET", "16MiB")],
        &[("VSHARE_BUDGET", "16MiB"), ("SIMCUDA_UVM", "1")],
        &[("VSHARE_POLICY", "demand"), ("VSHARE_BUDGET", "16MiB")],
    ];
    for place in places {
        let (outcome, trace) = bench.traced(&["known"], place);
        assert_eq!(outcome.printed(), "done\n", "{place:?}");
        let told = told(whole(&trace));
        let (last, known) = told.split_last().unwrap();
        assert_eq!(known, KNOWN, "{place:?}");
        assert_eq!(last, "copy [5]");
        let budget = place.iter().any(|v| v.0 == "VSHARE_BUDGET");
        assert_eq!(trace.head.budget == 16 << 20, budget);
        assert!(!trace.head.device.is_empty() && trace.head.start > 0);
    }
}

#[test]
fn what_lies_in_device_memory_is_recorded_too() {
    let bench = Bench::new("traced");
    let (outcome, trace) = bench.traced(&["known"], &[("SIMCUDA_CONCURRENT_MANAGED", "0")]);
    assert_eq!(outcome.stdout, "done\n");
    assert_eq!(told(whole(&trace))[..KNOWN.len()], KNOWN);
}

#[test]
fn blocks_of_two_contexts_are_told_apart_and_go_with_theirs() {
    let bench = Bench::new("traced");
    let (outcome, trace) = bench.traced(&["contexts"], &[]);
    outcome.printed();
    let wanted = [
        "alloc 5",
        "fill_u32 [5]",
        "alloc 6",
        "fill_u32 [6]",
        "sync",
        "free 5",
        "fill_u32 [6]",
        "sync",
    ];
    assert_eq!(told(whole(&trace)), wanted);
}

/// Not when the program next allocates, perhaps never.
#[test]
fn a_chunk_of_small_blocks_goes_when_it_is_free() {
    let (outcome, trace) = Bench::new("traced").traced(&["chunks"], &[]);
    outcome.printed();
    let told = told(whole(&trace));
    assert_eq!(told[..2], ["alloc 4", "alloc 4"]);
    assert_eq!(told.last().unwrap(), "free 4");
}

/// Programs that do all sorts of things print what they print without it, and the recording is good and whole.
#[test]
fn a_recorded_run_does_what_one_that_is_not_does() {
    for (program, args) in [
        ("pressure", &["kernels", "48"][..]),
        ("pressure", &["table", "48"]),
        ("capture", &["replay"]),
        ("capture", &["own-memory"]),
        ("async", &[]),
        ("threads", &[]),
    ] {
        let bench = Bench::new(program);
        let (path, text) = bench.file("trace");
        let native = bench.native(args, &[]);
        for times in ["0", "1"] {
            for budget in ["1GiB", "6MiB"] {
                let env = [
                    ("VSHARE_TRACE", &*text),
                    ("VSHARE_TRACE_TIMES", times),
                    ("VSHARE_BUDGET", budget),
                ];
                let outcome = bench.shimmed(args, &env);
                let stderr = outcome
                    .stderr
                    .lines()
                    .filter(|l| !l.contains("VSHARE_BUDGET"));
                assert_eq!(stderr.count(), 0, "{program} {args:?} {outcome:?}");
                assert_eq!(outcome.stdout, native.stdout, "{program} {args:?} {env:?}");
                assert_eq!(outcome.end, native.end, "{program} {args:?} {env:?}");
                whole(&read(&path));
            }
        }
    }
}

#[test]
fn as_many_launches_are_recorded_as_the_driver_has_seen() {
    for (program, args) in [("pressure", &["kernels", "48"][..]), ("threads", &[])] {
        let bench = Bench::new(program);
        let (path, text) = bench.file("trace");
        for budget in ["64MiB", "6MiB"] {
            let env = [("VSHARE_TRACE", &*text), ("VSHARE_BUDGET", budget)];
            let (_, counters) = bench.counted(args, &env);
            let trace = read(&path);
            let launches = trace
                .works()
                .iter()
                .filter(|w| w.what == What::Launch)
                .count();
            assert_eq!(launches as u64, counters.of("cuLaunchKernel"), "{program}");
        }
    }
}

#[test]
fn time_on_the_device_is_known_where_it_is_asked_for() {
    let bench = Bench::new("traced");
    for (times, known) in [("1", true), ("0", false)] {
        let (outcome, trace) = bench.traced(&["spins"], &[("VSHARE_TRACE_TIMES", times)]);
        outcome.printed();
        let [_, spin] = whole(&trace).works() else {
            panic!("{trace:?}");
        };
        assert_eq!(trace.function(spin.function), Some("spin_us"));
        assert_eq!(spin.device_ns >= 3_000_000, known, "{}", spin.device_ns);
        assert_eq!(spin.device_ns == 0, !known);
    }
}

#[test]
fn what_is_recorded_is_replayed_by_vshare_sim() {
    let bench = Bench::new("pressure");
    let (path, _) = bench.file("trace");
    let (outcome, trace) = bench.traced(&["kernels", "48"], &[("VSHARE_BUDGET", "16MiB")]);
    outcome.printed();
    let run = Run::new(artifact("vshare"))
        .args([Path::new("sim"), &path])
        .go();
    let pieces = format!("{} pieces of work", trace.works().len());
    assert!(run.printed().contains(&pieces), "{run:?}");
}

/// The next process finds a trace, and a trace may be overwritten.
#[test]
fn a_trace_is_overwritten_and_nothing_of_it_is_left() {
    let bench = Bench::new("traced");
    let (_, long) = bench.traced(&["known"], &[]);
    let (_, short) = bench.traced(&["spins"], &[]);
    assert!(long.works().len() > short.works().len());
    assert_eq!(
        told(whole(&short)),
        ["alloc 5", "fill_u32 [5]", "spin_us []", "sync"]
    );
}

#[test]
fn the_file_is_the_users_alone() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new("traced");
    bench.traced(&["spins"], &[]);
    let mode = std::fs::metadata(bench.file("trace").0)
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn each_process_has_its_own_where_the_name_says_so() {
    let bench = Bench::new("fork");
    let (_, text) = bench.file("trace.%p");
    let native = bench.native(&["before"], &[]);
    assert_eq!(
        bench.shimmed(&["before"], &[("VSHARE_TRACE", &text)]),
        native
    );
    let names = std::fs::read_dir(bench.dir.path())
        .unwrap()
        .map(|e| e.unwrap().path());
    let traces: Vec<_> = names
        .filter(|p| p.to_str().unwrap().contains("/trace."))
        .collect();
    assert_eq!(traces.len(), 2, "{traces:?}");
    for path in traces {
        whole(&read(&path));
    }
}

/// The child steps aside; what its parent does afterwards is recorded.
#[test]
fn a_forked_child_leaves_the_recording_to_its_parent() {
    for how in ["after", "exec", "many"] {
        let bench = Bench::new("fork");
        let plain = bench.shimmed(&[how], &[]);
        let (outcome, trace) = bench.traced(&[how], &[]);
        assert_eq!(outcome, plain, "{how}");
        let told = told(whole(&trace));
        assert_eq!(told.last().map(String::as_str), Some("sync"), "{how}");
    }
}

#[test]
fn a_forked_child_ends_without_waiting_for_a_writer_that_it_does_not_have() {
    let (outcome, trace) = Bench::new("traced").traced(&["forks"], &[]);
    assert_eq!(outcome.printed(), "done\n");
    let wanted = [
        "alloc 5",
        "fill_u32 [5]",
        "sync",
        "alloc 6",
        "mix [6]",
        "sync",
    ];
    assert_eq!(told(whole(&trace)), wanted);
}

/// Which directory it has when it first takes memory is the program's affair.
#[test]
fn a_name_without_a_directory_is_one_where_the_program_was_started() {
    let bench = Bench::new("traced");
    let run = bench.run(&["moves"], &[("VSHARE_TRACE", "here")]);
    let run = run.within(bench.dir.path()).preload(&[&shim_tests::shim()]);
    assert_eq!(run.go().printed(), "done\n");
    whole(&read(&bench.file("here").0));
}

/// What had been recorded is there, and is not taken for the whole.
#[test]
fn a_process_that_does_not_end_by_exit_leaves_a_trace_that_is_good_and_not_whole() {
    for (how, end) in [("quits", End::Code(3)), ("dies", End::Signal(9))] {
        let bench = Bench::new("traced");
        let (_, text) = bench.file("trace");
        let (outcome, trace) = bench.traced(&[how, &text], &[]);
        assert_eq!(outcome.end, end);
        assert!(trace.truncated().is_some(), "{how}");
        let told = told(&trace);
        assert_eq!(told[..3], ["alloc 5", "fill_u32 [5]", "mix [5]"], "{how}");
    }
}

/// It says so in one line, and the program does what it does.
fn is_refused(bench: &Bench, name: &str, why: &str) {
    let native = bench.native(&["known"], &[]);
    let outcome = bench.shimmed(&["known"], &[("VSHARE_TRACE", name)]);
    assert_eq!(outcome.stdout, native.stdout, "{name}");
    assert_eq!(outcome.end, native.end, "{name}");
    assert_eq!(outcome.stderr.lines().count(), 1, "{name}: {outcome:?}");
    let line = &outcome.stderr;
    assert!(
        line.starts_with("vshare: VSHARE_TRACE: ") && line.contains(why) && line.contains(name),
        "{line}"
    );
}

#[test]
fn where_it_cannot_be_written_one_line_says_so() {
    let bench = Bench::new("traced");
    is_refused(&bench, "/dev/full", "No space left");
    is_refused(&bench, bench.dir.path().to_str().unwrap(), "Is a directory");
    is_refused(&bench, &bench.file("no/such").1, "No such file");
    let (path, text) = bench.file("pipe");
    let made = Run::new("mkfifo").args([&path]).go();
    assert_eq!(made.end, End::Code(0), "{made:?}");
    is_refused(&bench, &text, "neither a file nor a device");
}

#[test]
fn what_is_no_trace_is_not_overwritten_and_no_link_followed() {
    let bench = Bench::new("traced");
    let (path, text) = bench.file("letter");
    std::fs::write(&path, "dear reader").unwrap();
    is_refused(&bench, &text, "no trace");
    let (link, text) = bench.file("link");
    std::os::unix::fs::symlink(&path, link).unwrap();
    is_refused(&bench, &text, "symbolic link");
    assert_eq!(std::fs::read_to_string(path).unwrap(), "dear reader");
}

#[test]
fn a_file_that_may_not_be_written_is_left_alone() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new("traced");
    let (path, text) = bench.file("locked");
    std::fs::write(&path, "").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o400)).unwrap();
    if std::fs::OpenOptions::new().write(true).open(&path).is_ok() {
        return shim_tests::skip("root may write everything");
    }
    is_refused(&bench, &text, "Permission denied");
}

/// Two processes that write one file would leave none.
#[test]
fn a_trace_that_another_process_is_writing_is_left_to_it() {
    let bench = Bench::new("fork");
    let (path, text) = bench.file("trace");
    let outcome = bench.shimmed(&["before"], &[("VSHARE_TRACE", &text)]);
    assert_eq!(outcome.end, End::Code(0), "{outcome:?}");
    for line in outcome.stderr.lines() {
        assert!(line.contains("%p"), "{line}");
    }
    whole(&read(&path));
}

#[test]
fn a_file_that_has_our_descriptors_number_is_not_written_to() {
    let bench = Bench::new("traced");
    let (own, text) = bench.file("own");
    let (outcome, trace) = bench.traced(&["closes", &text, &bench.file("trace").1], &[]);
    assert_eq!(outcome.stdout, "done\n", "{outcome:?}");
    assert_eq!(std::fs::read_to_string(own).unwrap(), "mine");
    assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:?}");
    assert!(
        outcome.stderr.contains("closed its descriptor"),
        "{outcome:?}"
    );
    assert_eq!(told(&trace)[..2], ["alloc 5", "fill_u32 [5]"]);
    assert!(trace.truncated().is_some());
}

#[test]
fn a_process_that_takes_no_device_memory_makes_no_file() {
    let bench = Bench::new("traced");
    let (path, text) = bench.file("trace");
    let run = Run::new("true").env("VSHARE_TRACE", &text);
    run.preload(&[&shim_tests::shim()]).go().printed();
    assert!(!path.exists());
}
