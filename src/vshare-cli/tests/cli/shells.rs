//! `vshare completions` and `vshare man`, as shells and `man` take them.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::{Scratch, skip, stderr, stdout, vshare};

const COMMANDS: [&str; 13] = [
    "run",
    "stats",
    "sim",
    "ps",
    "top",
    "log",
    "metrics",
    "trace",
    "report",
    "doctor",
    "completions",
    "man",
    "help",
];

/// Whether `program` takes `script`; `None` if there is no such program.
fn takes(program: &[&str], script: &str) -> Option<bool> {
    let mut child = Command::new(program[0])
        .args(&program[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .ok()?;
    _ = child.stdin.take().unwrap().write_all(script.as_bytes());
    Some(child.wait().unwrap().success())
}

#[test]
fn shells_take_the_completions() {
    for (shell, check) in [
        ("bash", &["bash", "-n"][..]),
        ("zsh", &["zsh", "-n"]),
        ("fish", &["fish", "--no-execute"]),
    ] {
        let script = stdout(&vshare(&["completions", shell]));
        for command in COMMANDS {
            assert!(script.contains(command), "no {command} for {shell}");
        }
        match takes(check, &script) {
            Some(taken) => assert!(taken, "{shell}"),
            None => skip(&format!("no {shell}: it has not read its completions")),
        }
    }
    let output = vshare(&["completions", "cmd.exe"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("possible values"), "{output:?}");
}

#[test]
fn bash_completes_commands_and_options() {
    let script = stdout(&vshare(&["completions", "bash"]));
    let ask = r#"
complete_words() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _vshare vshare "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"; echo "${COMPREPLY[@]}"; }
complete_words vshare do
complete_words vshare ps --p
complete_words vshare pro
"#;
    let output = Command::new("bash")
        .args(["-c", &(script + ask)])
        .output()
        .unwrap();
    let said = stdout(&output);
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines, ["doctor", "--prune", ""]);
}

#[test]
fn there_is_a_page_for_each_command_and_man_takes_it() {
    let scratch = Scratch::new("man");
    let directory = scratch.0.join("made/man1");
    stdout(&vshare(&["man", directory.to_str().unwrap()]));
    let mut names: Vec<_> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let mut expected: Vec<_> = COMMANDS
        .iter()
        .filter(|name| **name != "help")
        .map(|name| format!("vshare-{name}.1"))
        .chain(["vshare.1".to_owned()])
        .collect();
    expected.sort();
    assert_eq!(names, expected);
    let page = fs::read_to_string(directory.join("vshare-ps.1")).unwrap();
    assert!(page.contains("prune") && page.contains(".TH"), "{page}");
    for name in names {
        let page = fs::read_to_string(directory.join(&name)).unwrap();
        match takes(&["groff", "-man", "-Tutf8", "-ww", "-z"], &page) {
            Some(taken) => assert!(taken, "{name}"),
            None => {
                skip("no groff: no page has been set");
                break;
            }
        }
    }
    let output = vshare(&["man", "/proc/nowhere"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("cannot make /proc/nowhere"),
        "{output:?}"
    );
}
