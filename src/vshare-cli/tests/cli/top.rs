//! `vshare top` in a real terminal, that of tmux.

use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use vshare_shm::Record;
use vshare_shm::counters;
use vshare_shm::record::Class;

use crate::{NOBODY, Scratch, skip, stderr, vshare, write};

/// What has not come by then never will.
const LIMIT: Duration = Duration::from_secs(60);

/// A terminal of the test's own.
struct Tmux(String);

impl Tmux {
    /// Runs `command` in a shell in a terminal of this size; `None` without tmux.
    fn new(test: &str, width: u16, height: u16, command: &str) -> Option<Self> {
        let tmux = Self(format!("vshare-{test}-{}", std::process::id()));
        let (width, height) = (width.to_string(), height.to_string());
        let started = tmux.try_run(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &width,
            "-y",
            &height,
            "sh",
            "-c",
            command,
        ]);
        match started {
            Ok(output) => assert!(output.status.success(), "{output:?}"),
            Err(_) => {
                skip("no tmux: no terminal to run in (Debian: tmux)");
                return None;
            }
        }
        Some(tmux)
    }

    fn try_run(&self, args: &[&str]) -> std::io::Result<Output> {
        Command::new("tmux")
            .args(["-L", &self.0])
            .args(args)
            .env("LC_ALL", "C.UTF-8")
            .env_remove("TMUX")
            .stdin(Stdio::null())
            .output()
    }

    fn run(&self, args: &[&str]) -> String {
        let output = self.try_run(args).unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    fn press(&self, keys: &[&str]) {
        self.run(&[&["send-keys"], keys].concat());
    }

    /// Waits until the screen is as wanted, and gives it.
    fn until(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let screen = self.run(&["capture-pane", "-p"]);
            if wanted(&screen) {
                return screen;
            }
            assert!(start.elapsed() < LIMIT, "never {what}:\n{screen}");
        }
    }

    fn until_it_shows(&self, text: &str) -> String {
        self.until(text, |screen| screen.contains(text))
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        _ = self.try_run(&["kill-server"]);
    }
}

#[test]
fn it_is_driven_by_keys_and_leaves_the_terminal_as_it_was() {
    let scratch = Scratch::new("top");
    let writer = write(&scratch.0, 0);
    scratch.forge(&fs::read(writer.path()).unwrap(), NOBODY, 1);
    let command = format!(
        "{} top --interval 50 --directory {}; echo code=$?; cat",
        env!("CARGO_BIN_EXE_vshare"),
        scratch.text()
    );
    let Some(tmux) = Tmux::new("top", 120, 30, &command) else {
        return;
    };
    let pid = writer.pid().to_string();
    let screen = tmux.until_it_shows("1 of 2 processes");
    assert!(
        screen.contains(&pid) && screen.contains("768.0 MiB"),
        "{screen}"
    );
    // It is live.
    writer.counter(counters::RESIDENT_BYTES).set(1 << 30);
    tmux.until("full", |screen| screen.contains("████████   1.0 GiB"));
    tmux.press(&["d"]);
    tmux.until_it_shows(&NOBODY.to_string());
    tmux.press(&["/", "nothing", "Enter"]);
    tmux.until_it_shows("No process matches \"nothing\"");
    tmux.press(&["Escape"]);
    tmux.until_it_shows("2 of 2 processes");
    tmux.press(&["d", "Enter"]);
    tmux.until_it_shows("Largest allocations");
    let (address, bytes) = (0x7f12_3456_0000, 3 << 20);
    let record = Record::Allocated {
        address,
        bytes,
        class: Class::Managed,
        stream: 0,
    };
    writer.record(1, record);
    tmux.until_it_shows("allocated 3.0 MiB at 0x7f1234560000");
    // Too small, and large again.
    tmux.run(&["resize-window", "-x", "40", "-y", "8"]);
    tmux.until_it_shows("This terminal has 40 x 8");
    tmux.run(&["resize-window", "-x", "100", "-y", "25"]);
    tmux.until_it_shows("Latest events");
    tmux.press(&["q"]);
    let screen = tmux.until_it_shows("code=0");
    assert!(!screen.contains("Latest events"), "{screen}");
}

#[test]
fn a_request_to_end_gives_the_terminal_back() {
    let scratch = Scratch::new("top-term");
    write(&scratch.0, 0);
    // The shell tells its own number, which `vshare` then has.
    let command = format!(
        "sh -c 'echo $$ >{}/pid; exec {} top --interval 50 --directory {}'; echo code=$?; cat",
        scratch.text(),
        env!("CARGO_BIN_EXE_vshare"),
        scratch.text()
    );
    let Some(tmux) = Tmux::new("top-term", 100, 24, &command) else {
        return;
    };
    tmux.until_it_shows("1 of 1 processes");
    let pid = fs::read_to_string(scratch.0.join("pid")).unwrap();
    assert!(
        Command::new("kill")
            .arg(pid.trim())
            .status()
            .unwrap()
            .success()
    );
    tmux.until_it_shows("code=0");
}

#[test]
fn without_a_terminal_it_says_what_else_there_is() {
    let scratch = Scratch::new("top-none");
    let output = vshare(&["top", "--directory", scratch.text()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("`vshare ps`"), "{output:?}");
    assert_eq!(vshare(&["top", "--interval", "1"]).status.code(), Some(2));
    let output = vshare(&["top", "--directory", "/nonexistent"]);
    assert!(
        stderr(&output).contains("no directory /nonexistent"),
        "{output:?}"
    );
}
