//! How programs end, and which signals they get on the way.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use shim_tests::{End, Run, artifact};

use crate::{Bench, Front, fronts};

#[test]
fn the_exit_code_is_the_programs() {
    let bench = Bench::new();
    for front in fronts() {
        for code in [0, 7, 255] {
            let outcome = bench.run(front, &bench.show, &["code", &code.to_string()]);
            assert_eq!(outcome.end, End::Code(code), "{front:?}");
        }
        for signal in [9, 15, 11] {
            let outcome = bench.run(front, &bench.show, &["signal", &signal.to_string()]);
            let end = match front {
                Front::Watching => End::Code(128 + signal),
                _ => End::Signal(signal),
            };
            assert_eq!(outcome.end, end, "{front:?}");
        }
    }
}

#[test]
fn signals_reach_a_program_that_is_watched() {
    let bench = Bench::new();
    let program = bench.dir.program("wrap_signals.c", &[]);
    let mut child = Command::new(artifact("vshare"))
        .args(["run", "--stats", "--library"])
        .args([&bench.library, &program])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    let send = |signal: &str| {
        let pid = child.id().to_string();
        Command::new("kill").args([signal, &pid]).status().unwrap();
    };
    for (signal, number) in [
        ("-INT", 2),
        ("-HUP", 1),
        ("-QUIT", 3),
        ("-USR1", 10),
        ("-USR2", 12),
    ] {
        send(signal);
        assert_eq!(lines.next().unwrap().unwrap(), format!("signal {number}"));
    }
    send("-TERM");
    assert!(lines.next().is_none());
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
}

#[test]
fn an_interrupt_from_the_terminal_reaches_a_watched_program_once() {
    let bench = Bench::new();
    let program = bench.dir.program("wrap_signals.c", &[]);
    let terminal = bench.dir.program("wrap_terminal.c", &["-lutil"]);
    let outcome = Run::new(terminal)
        .args([&artifact("vshare")])
        .args(["run", "--stats", "--library"])
        .args([&bench.library, &program])
        .go();
    assert_eq!(outcome.end, End::Code(128 + 15), "{outcome:?}");
    assert_eq!(outcome.stdout.matches("signal 2").count(), 1, "{outcome:?}");
    assert_eq!(
        outcome.stdout.matches("signal 10").count(),
        1,
        "{outcome:?}"
    );
}

/// As under nohup: what the starter ignores, the program is started to ignore. Nothing else: not
/// the SIGPIPE that Rust's own start ignores, nor what `--stats` blocks to watch for. Not looked at:
/// 32 and 33, which the C library keeps to itself and leaves ignored in whatever it starts.
#[test]
fn a_program_starts_with_the_signals_of_its_starter() {
    let bench = Bench::new();
    let ignoring = ["-c", "trap '' HUP; exec \"$@\"", "sh"];
    let show = ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"];
    let native = Run::new("sh").args(ignoring).args(show).go();
    // Whoever started the tests may ignore more.
    let masks = |text: &str| -> Vec<u64> {
        let words = text
            .lines()
            .filter_map(|line| line.split_ascii_whitespace().last());
        let masks = words.map(|word| u64::from_str_radix(word, 16).unwrap() & 0x7fff_ffff);
        masks.collect()
    };
    let [_, ignored] = *masks(native.printed()) else {
        panic!("{native:?}");
    };
    assert_eq!(ignored & 1, 1, "{native:?}");
    for stats in [&[][..], &["--stats"]] {
        let run = Run::new("sh").args(ignoring).args([artifact("vshare")]);
        let run = run.args(["run", "--library"]).args([&bench.library]);
        let outcome = run.args(stats).args(show).go();
        let (under, without) = (masks(&outcome.stdout), masks(&native.stdout));
        assert_eq!(under, without, "{stats:?} {outcome:?}");
    }
}
