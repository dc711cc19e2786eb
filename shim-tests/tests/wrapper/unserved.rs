//! Programs that cannot be served or run, and libraries that cannot be preloaded.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use shim_tests::End;

use crate::{Bench, Front, assert_said, fronts};

#[test]
fn a_program_that_is_not_there_is_127_and_one_not_to_be_run_126() {
    let bench = Bench::new();
    let plain = bench.executable("plain", "");
    fs::set_permissions(&plain, Permissions::from_mode(0o644)).unwrap();
    for front in fronts() {
        for (program, code, why) in [
            (Path::new("/nonexistent/program"), 127, "no"),
            (Path::new("no-such-program-in-path"), 127, "no such program"),
            (bench.dir.path(), 126, "directory"),
            (&plain, 126, "chmod"),
        ] {
            let outcome = bench.run(front, program, &[]);
            assert_eq!(outcome.end, End::Code(code), "{front:?} {outcome:?}");
            let name = program.to_str().unwrap();
            assert!(outcome.stderr.to_lowercase().contains(why), "{outcome:?}");
            assert!(outcome.stderr.contains(name), "{outcome:?}");
        }
    }
}

#[test]
fn a_static_program_runs_and_is_said_not_to_be_served() {
    let bench = Bench::new();
    for (name, flag) in [("static", "-static"), ("static-pie", "-static-pie")] {
        let program = bench.dir.path().join(name);
        shim_tests::cc("wrap_show.c", &program, &[flag, "-DWRAP_STATIC"]);
        for front in fronts() {
            let outcome = bench.run(front, &program, &["code", "7"]);
            assert_eq!(outcome.end, End::Code(7), "{front:?}");
            assert_said(&outcome, &[program.to_str().unwrap(), "statically linked"]);
            // It may be a launcher: what it starts is served.
            assert!(outcome.stdout.contains(&bench.preloaded()), "{outcome:?}");
        }
    }
}

/// Never given to a shell, which would make of it what it likes. The script is in a shell's hands: its `exec` is not ours.
#[test]
fn what_no_kernel_runs_is_126_as_in_a_shell() {
    let bench = Bench::new();
    let whole = fs::read(&bench.show).unwrap();
    let mut other_machine = whole.clone();
    other_machine[18] = 0xff;
    let cut_off = whole[..100].to_vec();
    let noise = b"echo no\n\0\xff\xfe".to_vec();
    for (name, bytes) in [
        ("other-machine", other_machine),
        ("cut-off", cut_off),
        ("noise", noise),
    ] {
        let program = bench.executable(name, bytes);
        for front in [Front::Cli, Front::Watching] {
            let outcome = bench.run(front, &program, &[]);
            assert_eq!(outcome.end, End::Code(126), "{front:?} {name} {outcome:?}");
            assert_eq!(outcome.stdout, "", "{front:?} {name} {outcome:?}");
        }
    }
}

/// The smallest 32-bit program: `exit(7)` on a kernel that runs such.
fn tiny_32_bit() -> Vec<u8> {
    let mut file = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    for half in [2u16, 3] {
        file.extend(half.to_le_bytes()); // executable, i386
    }
    for word in [1u32, 0x0804_8054, 52, 0, 0] {
        file.extend(word.to_le_bytes()); // version, entry, program headers
    }
    for half in [52u16, 32, 1, 0, 0, 0] {
        file.extend(half.to_le_bytes());
    }
    for word in [1u32, 0, 0x0804_8000, 0x0804_8000, 96, 96, 5, 0x1000] {
        file.extend(word.to_le_bytes()); // one loadable piece
    }
    file.extend(b"\xb8\x01\0\0\0\xbb\x07\0\0\0\xcd\x80"); // exit(7)
    file
}

#[test]
fn a_32_bit_program_runs_without_vshare() {
    let bench = Bench::new();
    let program = bench.executable("program32", tiny_32_bit());
    // A kernel without 32-bit programs says ENOEXEC, and shells then make of it what they like.
    let native = Command::new(&program).status().ok().and_then(|s| s.code());
    for front in fronts() {
        let outcome = bench.run(front, &program, &[]);
        let first = outcome.stderr.lines().next().unwrap();
        assert!(
            first.contains("is a 32-bit program and cannot be served"),
            "{front:?} {outcome:?}"
        );
        assert!(!outcome.stderr.contains("ld.so"), "{outcome:?}");
        if native == Some(7) {
            assert_eq!(outcome.end, End::Code(7), "{front:?}");
        }
    }
}

#[test]
fn a_program_for_another_machine_is_said_to_be_one() {
    let bench = Bench::new();
    let mut file = fs::read(&bench.show).unwrap();
    file[18..20].copy_from_slice(&0x1234u16.to_le_bytes());
    let program = bench.executable("alien", file);
    for front in fronts() {
        let outcome = bench.run(front, &program, &[]);
        let first = outcome.stderr.lines().next().unwrap();
        assert!(
            first.contains("is for another machine"),
            "{front:?} {outcome:?}"
        );
    }
}

#[test]
fn a_program_for_musl_runs_without_vshare() {
    let bench = Bench::new();
    // The loader is glibc's under another name, so that the program can be run here.
    let glibc = PathBuf::from("/lib64/ld-linux-x86-64.so.2");
    if !glibc.exists() {
        shim_tests::skip("no /lib64/ld-linux-x86-64.so.2");
        return;
    }
    let loader = bench.dir.path().join("ld-musl-x86_64.so.1");
    symlink(glibc, &loader).unwrap();
    let program = bench.dir.path().join("musl");
    let flag = format!("-Wl,--dynamic-linker={}", loader.display());
    shim_tests::cc("wrap_show.c", &program, &[flag.as_str()]);
    for front in fronts() {
        let outcome = bench.run(front, &program, &["code", "7"]);
        assert_eq!(outcome.end, End::Code(7), "{front:?}");
        assert_said(&outcome, &["musl", "without vshare"]);
        assert!(outcome.stdout.starts_with("served: no\n"), "{outcome:?}");
    }
}

/// Only root can make a file of another user's.
#[test]
fn a_setuid_program_runs_and_is_said_not_to_be_served() {
    let bench = Bench::new();
    let program = bench.executable("setuid", fs::read(&bench.show).unwrap());
    if chown(&program, Some(4242), Some(4242)).is_err() {
        shim_tests::skip("not root: no file of another user's");
        return;
    }
    for mode in [0o4755, 0o2755] {
        fs::set_permissions(&program, Permissions::from_mode(mode)).unwrap();
        for front in fronts() {
            let outcome = bench.run(front, &program, &["code", "7"]);
            assert_eq!(outcome.end, End::Code(7), "{front:?}");
            assert_said(&outcome, &["setuid or setgid", "without vshare"]);
            assert!(outcome.stdout.starts_with("served: no\n"), "{outcome:?}");
        }
    }
    // One's own, by which nothing changes, is served.
    chown(&program, Some(0), Some(0)).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o6755)).unwrap();
    for front in fronts() {
        let outcome = bench.run(front, &program, &[]);
        assert!(
            outcome.printed().starts_with("served: yes\n"),
            "{outcome:?}"
        );
    }
}

#[test]
fn a_script_is_judged_by_its_interpreter() {
    let bench = Bench::new();
    let program = bench.dir.path().join("static-interpreter");
    shim_tests::cc("wrap_show.c", &program, &["-static", "-DWRAP_STATIC"]);
    let served = bench.executable("served", format!("#! {}\n", bench.show.display()));
    let by_static = bench.executable("by-static", format!("#!{}\n", program.display()));
    let by_env = bench.executable("by-env", "#!/usr/bin/env -S A=b static-interpreter\n");
    let headless = bench.executable("headless", "echo $LD_PRELOAD; exit 7\n");
    let path = format!(
        "{}:{}",
        bench.dir.path().display(),
        std::env::var("PATH").unwrap()
    );
    for front in fronts() {
        let outcome = bench.run(front, &served, &[]);
        assert!(
            outcome.printed().starts_with("served: yes\n"),
            "{front:?} {outcome:?}"
        );
        for script in [&by_static, &by_env] {
            let outcome = bench.front(front).env("PATH", &path).args([script]).go();
            assert_eq!(outcome.end, End::Code(0), "{front:?} {outcome:?}");
            let first = outcome.stderr.lines().next().unwrap();
            let interpreter = "static-interpreter is statically linked";
            assert!(first.contains(interpreter), "{front:?} {outcome:?}");
        }
        let outcome = bench.run(front, &headless, &[]);
        assert_eq!(outcome.end, End::Code(7), "{front:?} {outcome:?}");
        assert_eq!(outcome.stdout, format!("{}\n", bench.library.display()));
    }
}

#[test]
fn a_library_that_the_list_cannot_name_is_not_preloaded_and_said_so() {
    let bench = Bench::new();
    for name in ["a b", "a:b", "$LIB"] {
        let folder = bench.dir.path().join(name);
        fs::create_dir(&folder).unwrap();
        let library = folder.join("libvshare.so");
        fs::copy(&bench.library, &library).unwrap();
        let program = folder.join("program with blanks");
        fs::copy(&bench.show, &program).unwrap();
        for front in fronts() {
            let run = bench.front(front).env("VSHARE_LIBRARY", &library);
            let outcome = run.args([&program]).args(["code", "7"]).go();
            assert_eq!(outcome.end, End::Code(7), "{front:?} {outcome:?}");
            assert!(outcome.stdout.starts_with("served: no\n"), "{outcome:?}");
            assert!(
                outcome.stderr.contains("LD_PRELOAD cannot hold"),
                "{outcome:?}"
            );
            // The program's own path may be what it likes.
            let outcome = bench.run(front, &program, &[]);
            assert!(
                outcome.printed().starts_with("served: yes\n"),
                "{outcome:?}"
            );
        }
    }
}

#[test]
fn a_missing_or_broken_library_is_a_failure_and_named() {
    let bench = Bench::new();
    let text = bench.executable("text.so", "not a library");
    for front in fronts() {
        for library in [Path::new("/nonexistent/libvshare.so"), &text] {
            let run = bench.front(front).env("VSHARE_LIBRARY", library);
            let outcome = run.args([&bench.show]).go();
            assert_eq!(outcome.end, End::Code(1), "{front:?} {outcome:?}");
            assert_said(&outcome, &[library.to_str().unwrap()]);
        }
    }
}
