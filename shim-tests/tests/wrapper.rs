//! `scripts/vshare-run` and `vshare run`: whatever the program is, it runs, and as it would alone.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot start has failed"
)]

#[path = "wrapper/signals.rs"]
mod signals;
#[path = "wrapper/unserved.rs"]
mod unserved;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use shim_tests::{End, Outcome, Run, Workdir, artifact};

/// A way to run a program under vshare.
#[derive(Clone, Copy, Debug)]
enum Front {
    /// `vshare run`.
    Cli,
    /// `vshare run --stats`, which stays while the program runs.
    Watching,
    /// `scripts/vshare-run`, in a shell.
    Script(&'static [&'static str]),
}

/// Each front on this machine; the script in each shell.
fn fronts() -> Vec<Front> {
    let shells: [&[&str]; 3] = [&["sh"], &["bash", "--posix"], &["busybox", "sh"]];
    let there = shells.into_iter().filter(|words| {
        let tried = Command::new(words[0])
            .args(&words[1..])
            .args(["-c", ":"])
            .output();
        tried.is_ok_and(|tried| tried.status.success())
    });
    let mut fronts = vec![Front::Cli, Front::Watching];
    fronts.extend(there.map(Front::Script));
    fronts
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/vshare-run")
}

/// A library and the small program that shows what it is started with.
struct Bench {
    dir: Workdir,
    library: PathBuf,
    show: PathBuf,
}

impl Bench {
    fn new() -> Self {
        let dir = Workdir::new();
        let library = dir.library("lib/libvshare.so", "wrap_library.c", &[]);
        let show = dir.program("wrap_show.c", &[]);
        Self { dir, library, show }
    }

    fn front(&self, front: Front) -> Run {
        let run = match front {
            Front::Cli => Run::new(artifact("vshare")).args(["run"]),
            Front::Watching => Run::new(artifact("vshare")).args(["run", "--stats"]),
            Front::Script(shell) => Run::new(shell[0]).args(&shell[1..]).args([script()]),
        };
        run.env("VSHARE_LIBRARY", &self.library)
    }

    /// Runs `program` by `front`.
    fn run(&self, front: Front, program: &Path, args: &[&str]) -> Outcome {
        let mut outcome = self.front(front).args([program]).args(args).go();
        if matches!(front, Front::Watching) {
            // What it reports in the end is not these tests' matter.
            let kept = outcome
                .stderr
                .lines()
                .filter(|line| !line.contains("nothing to report"));
            outcome.stderr = kept.map(|line| format!("{line}\n")).collect();
        }
        outcome
    }

    /// A file of these bytes that may be executed.
    fn executable(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn preloaded(&self) -> String {
        format!("LD_PRELOAD={}\n", self.library.display())
    }
}

/// One line on stderr that has all of `parts`.
fn assert_said(outcome: &Outcome, parts: &[&str]) {
    let said = &outcome.stderr;
    assert_eq!(said.lines().count(), 1, "{said:?}");
    for part in parts {
        assert!(said.contains(part), "no {part:?} in {said:?}");
    }
}

#[test]
fn a_program_is_served_and_nothing_is_said() {
    let bench = Bench::new();
    for front in fronts() {
        let outcome = bench.run(front, &bench.show, &["a b", "*", "", "--stats", "--", "-b"]);
        let printed = outcome.printed();
        assert!(printed.starts_with("served: yes\n"), "{front:?} {printed}");
        assert!(printed.contains(&bench.preloaded()), "{front:?} {printed}");
        assert!(
            printed.ends_with("[a b][*][][--stats][--][-b]\n"),
            "{front:?} {printed}"
        );
    }
}

#[test]
fn options_become_the_librarys_settings() {
    let bench = Bench::new();
    for front in fronts() {
        let options: &[&str] = match front {
            Front::Script(_) => &["-b", "1.5GiB", "-l50%", "--"],
            _ => &["--budget", "1.5GiB", "--limit=50%", "--policy", "lru", "--"],
        };
        let outcome = bench.front(front).args(options).args([&bench.show]).go();
        assert!(
            outcome
                .stdout
                .contains("VSHARE_BUDGET=1.5GiB\nVSHARE_LIMIT=50%\n"),
            "{outcome:?}"
        );
        let policy = outcome.stdout.contains("VSHARE_POLICY=lru");
        assert_eq!(policy, !matches!(front, Front::Script(_)), "{outcome:?}");
    }
}

#[test]
fn wrong_usage_is_2_and_runs_nothing() {
    let bench = Bench::new();
    for front in fronts() {
        let wrong: &[&[&str]] = match front {
            Front::Script(_) => &[&[], &["-b"], &["-b", "much"], &["-l", "-5"], &["-x"]],
            _ => &[
                &[],
                &["--budget"],
                &["--budget", "much"],
                &["--limit=-5"],
                &["-x"],
                &["--policy", "x"],
            ],
        };
        for options in wrong {
            let mut run = bench.front(front).args(*options);
            if !options.is_empty() {
                run = run.args([&bench.show]);
            }
            let outcome = run.go();
            assert_eq!(
                outcome.end,
                End::Code(2),
                "{front:?} {options:?} {outcome:?}"
            );
            assert_eq!(outcome.stdout, "");
            assert_ne!(outcome.stderr, "");
        }
    }
}

#[test]
fn what_is_preloaded_already_stays_and_is_not_added_twice() {
    let bench = Bench::new();
    let other = bench.dir.library("other.so", "wrap_library.c", &[]);
    let (ours, other) = (bench.library.to_str().unwrap(), other.to_str().unwrap());
    for front in fronts() {
        for (before, after) in [
            (other.to_owned(), format!("{ours}:{other}")),
            (
                format!("{other} {other}"),
                format!("{ours}:{other} {other}"),
            ),
            (ours.to_owned(), ours.to_owned()),
            (format!("{other}:{ours}"), format!("{other}:{ours}")),
            (format!("{other} {ours}"), format!("{other} {ours}")),
            (format!("{ours}x"), format!("{ours}:{ours}x")),
        ] {
            let run = bench.front(front).env("LD_PRELOAD", &before);
            let outcome = run.args([&bench.show]).go();
            let line = format!("LD_PRELOAD={after}\n");
            assert!(
                outcome.stdout.contains(&line),
                "{front:?} {before:?} {outcome:?}"
            );
        }
    }
}

#[test]
fn the_library_is_found_where_it_is_installed() {
    let bench = Bench::new();
    let root = bench.dir.path().join("opt");
    for folder in ["bin", "lib", "lib/vshare", "link"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    let installed = [
        (script(), root.join("bin/vshare-run")),
        (artifact("vshare"), root.join("bin/vshare")),
    ];
    for (from, to) in &installed {
        fs::copy(from, to).unwrap();
        symlink(to, root.join("link").join(to.file_name().unwrap())).unwrap();
    }
    for place in ["lib", "lib/vshare", "bin"] {
        let library = root.join(place).join("libvshare.so");
        fs::copy(&bench.library, &library).unwrap();
        for folder in ["bin", "link"] {
            let script = Run::new(root.join(folder).join("vshare-run")).args([&bench.show]);
            let cli = Run::new(root.join(folder).join("vshare"))
                .args(["run"])
                .args([&bench.show]);
            for run in [script, cli] {
                let outcome = run.go();
                let line = format!("LD_PRELOAD={}\n", library.display());
                assert!(outcome.printed().contains(&line), "{place} {outcome:?}");
            }
        }
        fs::remove_file(library).unwrap();
    }
}

#[test]
fn pytorch_is_told_to_ask_for_each_tensor_unless_the_user_chose() {
    let bench = Bench::new();
    let body = "echo \"[${PYTORCH_CUDA_ALLOC_CONF-}]\"";
    let python = bench.executable("python3.99", format!("#!/bin/sh\n{body}\n"));
    let other = bench.executable("other", format!("#!/bin/sh\n{body}\n"));
    let launcher = bench.executable("launcher", format!("#!{}\n", python.display()));
    for front in [Front::Cli, Front::Watching] {
        for program in [&python, &launcher] {
            let outcome = bench.run(front, program, &[]);
            assert_eq!(outcome.stdout, "[backend:cudaMallocAsync]\n", "{front:?}");
            assert_said(
                &outcome,
                &["PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync"],
            );
        }
        assert_eq!(bench.run(front, &other, &[]).printed(), "[]\n");
        for (name, value, left) in [
            (
                "PYTORCH_CUDA_ALLOC_CONF",
                "max_split_size_mb:64",
                "[max_split_size_mb:64]\n",
            ),
            ("PYTORCH_ALLOC_CONF", "backend:native", "[]\n"),
            ("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", "[]\n"),
        ] {
            let outcome = bench.front(front).env(name, value).args([&python]).go();
            assert_eq!(outcome.stdout, left, "{front:?} {name}");
        }
    }
}

/// A23: what a program starts is as without a preload, to the byte.
#[test]
fn ordinary_tools_print_what_they_print_alone() {
    let bench = Bench::new();
    for front in fronts() {
        for words in [
            &["sh", "-c", "echo a; echo b >&2; exit 3"][..],
            &["sh", "-c", "ldconfig -p; ls /; nvidia-smi"],
        ] {
            let native = Run::new(words[0]).args(&words[1..]).go();
            let served = bench.run(front, Path::new(words[0]), &words[1..]);
            assert!(native == served, "{front:?} {words:?} {:?}", served.stderr);
        }
    }
}
