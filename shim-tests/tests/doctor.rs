//! `vshare doctor` before drivers of every kind: good, poor, broken, and none.
#![expect(clippy::unwrap_used, reason = "a test that cannot start has failed")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use shim_tests::{End, Outcome, Run, Workdir, artifact, shim};

/// A directory that holds a driver, if `libcuda` is one.
fn driver(libcuda: Option<&Path>) -> Workdir {
    let dir = Workdir::new();
    if let Some(libcuda) = libcuda {
        symlink(libcuda, dir.path().join("libcuda.so.1")).unwrap();
    }
    dir
}

fn doctor(driver: &Workdir) -> Run {
    Run::new(artifact("vshare"))
        .args([Path::new("doctor"), Path::new("--library"), &shim()])
        .libraries(driver.path())
        .env("CUDA_VISIBLE_DEVICES", "0")
}

/// The lines of a check: its own, and the advice below it.
fn lines(outcome: &Outcome, name: &str) -> Vec<String> {
    let mut lines = outcome.stdout.lines().peekable();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        if line.split_whitespace().nth(1) == Some(name) {
            let advice = lines.next_if(|next| next.starts_with("      "));
            found.push(format!("{line}{}", advice.unwrap_or_default()));
        }
    }
    found
}

/// The one check of this name says all of `parts`, its status first.
fn says(outcome: &Outcome, name: &str, status: &str, parts: &[&str]) {
    let lines = lines(outcome, name);
    let good = |line: &String| {
        line.split_whitespace().next() == Some(status)
            && parts.iter().all(|part| line.contains(part))
    };
    assert!(
        lines.iter().any(good),
        "{name} should be {status} with {parts:?}: {outcome:?}"
    );
}

#[test]
fn all_is_well_on_a_good_driver() {
    let dir = driver(Some(&artifact("libsimcuda.so")));
    let outcome = doctor(&dir).env("SIMCUDA_DEVICES", "2").args(["sh"]).go();
    assert_eq!(outcome.end, End::Code(0), "{outcome:?}");
    let library = shim();
    says(
        &outcome,
        "library",
        "ok",
        &[library.to_str().unwrap(), "can be preloaded", "glibc"],
    );
    says(&outcome, "driver", "ok", &["CUDA 13.0"]);
    says(
        &outcome,
        "device",
        "ok",
        &["Simulated GPU 0", "1.0 GiB", "9.0"],
    );
    says(&outcome, "device", "ok", &["GPU 1: Simulated GPU 1"]);
    says(&outcome, "program", "ok", &["can be served"]);
    assert!(
        outcome
            .stdout
            .trim_end()
            .lines()
            .last()
            .unwrap()
            .starts_with("vshare can work here")
    );
    assert_eq!(outcome.stderr, "");
}

#[test]
fn a_device_that_cannot_be_shared_out_is_a_failure_that_says_why() {
    let dir = driver(Some(&artifact("libsimcuda.so")));
    let outcome = doctor(&dir).env("SIMCUDA_CONCURRENT_MANAGED", "0").go();
    assert_eq!(outcome.end, End::Code(1));
    says(
        &outcome,
        "device",
        "fail",
        &["no concurrent managed access", "WSL"],
    );
    let outcome = doctor(&dir).env("SIMCUDA_INTEGRATED", "1").go();
    assert_eq!(outcome.end, End::Code(0));
    says(&outcome, "device", "warn", &["its memory is the host's"]);
    let outcome = doctor(&dir).env("SIMCUDA_DRIVER", "12000").go();
    says(&outcome, "driver", "warn", &["CUDA 12.0", "12.4"]);
}

#[test]
fn a_driver_that_does_not_start_is_told_by_its_own_error() {
    let dir = driver(Some(&artifact("libsimcuda.so")));
    for (code, name, advice) in [
        ("100", "CUDA_ERROR_NO_DEVICE", "nvidia-smi"),
        ("803", "803", "restart the machine"),
        ("999", "999", "dmesg"),
    ] {
        let outcome = doctor(&dir)
            .env("SIMCUDA_FAIL", format!("cuInit:1+:{code}"))
            .go();
        assert_eq!(outcome.end, End::Code(1), "{outcome:?}");
        says(&outcome, "driver", "fail", &["cuInit", name, advice]);
        // It has said its version before.
        says(&outcome, "driver", "ok", &["CUDA 13.0"]);
    }
}

/// Compiles `source` into a library.
fn library(dir: &Workdir, source: &str) -> std::path::PathBuf {
    let path = dir.path().join("made.so");
    let mut child = Command::new("cc")
        .args(["-shared", "-fPIC", "-xc", "-", "-o"])
        .arg(&path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), source.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    path
}

#[test]
fn no_driver_and_what_is_none_are_told_apart_and_end_only_the_try() {
    let outcome = doctor(&driver(None)).go();
    assert_eq!(outcome.end, End::Code(1));
    says(
        &outcome,
        "driver",
        "fail",
        &["libcuda.so.1", "install NVIDIA's driver"],
    );

    let text = Workdir::new();
    let path = text.path().join("text");
    fs::write(&path, "no library").unwrap();
    let outcome = doctor(&driver(Some(&path))).go();
    says(
        &outcome,
        "driver",
        "fail",
        &["libcuda.so.1", "file too short"],
    );

    let made = Workdir::new();
    for (source, parts) in [
        (
            "int nothing;",
            ["the driver has no cuDriverGetVersion", "dmesg"],
        ),
        (
            "__attribute__((constructor)) void f(void) { *(volatile int *)0 = 1; }",
            ["trying it ended with signal: 11", "reinstall the driver"],
        ),
        (
            "#include <stdlib.h>\n#include <stdio.h>\n__attribute__((constructor)) void f(void) { puts(\"{\"); exit(0); }",
            ["trying it said \"{\"", "reinstall the driver"],
        ),
    ] {
        let outcome = doctor(&driver(Some(&library(&made, source)))).go();
        assert_eq!(outcome.end, End::Code(1), "{outcome:?}");
        says(&outcome, "driver", "fail", &parts);
        // The others have been looked at all the same.
        says(&outcome, "library", "ok", &[]);
    }
}

#[test]
fn what_the_environment_spoils_is_found() {
    let dir = driver(Some(&artifact("libsimcuda.so")));
    let outcome = doctor(&dir).env("CUDA_VISIBLE_DEVICES", "").go();
    assert_eq!(outcome.end, End::Code(1));
    says(
        &outcome,
        "visible",
        "fail",
        &["hides all GPUs", "unset CUDA_VISIBLE_DEVICES"],
    );
    let outcome = doctor(&dir)
        .env("VSHARE_BUDGET", "much")
        .env("VSHARE_BUGDET", "1G")
        .env("VSHARE_DISABLE", "1")
        .go();
    assert_eq!(outcome.end, End::Code(0), "{outcome:?}");
    says(
        &outcome,
        "variables",
        "warn",
        &["VSHARE_BUDGET='much' is ignored"],
    );
    says(
        &outcome,
        "variables",
        "warn",
        &["nothing reads VSHARE_BUGDET"],
    );
    says(&outcome, "variables", "warn", &["VSHARE_DISABLE is set"]);
    let rival = library(&dir, "int nothing;");
    let named = dir.path().join("libvgpu.so");
    fs::rename(rival, &named).unwrap();
    let outcome = doctor(&dir).preload(&[&named]).go();
    says(&outcome, "preload", "warn", &["HAMi"]);
}

#[test]
fn a_library_that_cannot_be_preloaded_is_told_by_the_loaders_own_words() {
    let dir = driver(Some(&artifact("libsimcuda.so")));
    let broken = dir.path().join("libvshare.so");
    let whole = fs::read(shim()).unwrap();
    let mut empty = vec![0; 4096];
    empty
        .get_mut(..56)
        .unwrap()
        .copy_from_slice(whole.get(..56).unwrap());
    fs::write(&broken, empty).unwrap();
    let of = |path: &Path| {
        Run::new(artifact("vshare"))
            .args([Path::new("doctor"), Path::new("--library"), path])
            .libraries(dir.path())
            .go()
    };
    let outcome = of(&broken);
    assert_eq!(outcome.end, End::Code(1), "{outcome:?}");
    says(
        &outcome,
        "library",
        "fail",
        &[
            "cannot be preloaded: ",
            "object file",
            "cargo build --release",
        ],
    );
    fs::write(&broken, whole.get(..5000).unwrap()).unwrap();
    says(
        &of(&broken),
        "library",
        "fail",
        &["ended with signal", "cut off"],
    );
    let outcome = of(Path::new("/nonexistent/libvshare.so"));
    assert_eq!(outcome.end, End::Code(1));
    says(
        &outcome,
        "library",
        "fail",
        &["No such file", "nothing can be served without it"],
    );
    let blank = dir.path().join("a b.so");
    fs::copy(shim(), &blank).unwrap();
    says(
        &of(&blank),
        "library",
        "fail",
        &["has a blank", "make a link"],
    );
}

#[test]
fn a_program_that_cannot_be_served_is_a_failure_that_says_why() {
    let dir = driver(Some(&artifact("libsimcuda.so")));
    let mut narrow = fs::read(artifact("vshare")).unwrap();
    *narrow.get_mut(18).unwrap() = 3; // another machine's
    let foreign = dir.path().join("foreign");
    fs::write(&foreign, narrow).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&foreign, mode).unwrap();
    let outcome = doctor(&dir).args([&foreign]).go();
    assert_eq!(outcome.end, End::Code(1));
    says(
        &outcome,
        "program",
        "fail",
        &["is for another machine and cannot be served"],
    );
    let outcome = doctor(&dir).args(["no-such-program"]).go();
    assert_eq!(outcome.end, End::Code(1));
    says(&outcome, "program", "fail", &["no such program in PATH"]);
}
