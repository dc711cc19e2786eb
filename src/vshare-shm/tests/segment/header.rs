//! A reader in C, made with the header alone, says what ours says, whatever the file holds.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use vshare_shm::reader::Segment;
use vshare_shm::{Record, Writer};

use crate::hostile::{Random, mutate};
use crate::{Scratch, description, fill, golden};

fn built(scratch: &Scratch) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = scratch.0.join("reader");
    let build = |more: &[&str]| {
        Command::new("cc")
            .args([
                "-std=c11",
                "-D_DEFAULT_SOURCE",
                "-O1",
                "-Wall",
                "-Wextra",
                "-Werror",
            ])
            .args(more)
            .arg("-I")
            .arg(here.join("include"))
            .arg("-o")
            .arg(&program)
            .arg(here.join("tests/segment/reader.c"))
            .output()
            .unwrap()
    };
    // Where the compiler has them, these end the program at a wrong access.
    let checked = build(&["-fsanitize=address,undefined", "-fno-sanitize-recover"]);
    if !checked.status.success() {
        let plain = build(&[]);
        assert!(plain.status.success(), "{plain:?}");
    }
    program
}

fn read(program: &Path, segment: &Path) -> Output {
    Command::new(program).arg(segment).output().unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// What the C program must print, as far as what lies in the segment is text.
fn expected(segment: &Segment) -> String {
    let mut text = format!(
        "pid {} created {}\n",
        segment.owner().pid,
        segment.created_ns()
    );
    let command = segment.command().replace(' ', "\0") + "\0";
    let device = segment.device().unwrap().name;
    for (what, bytes) in [
        ("library", segment.library().as_bytes()),
        ("device", device.as_bytes()),
        ("command", command.as_bytes()),
    ] {
        writeln!(text, "{what} {}", hex(bytes)).unwrap();
    }
    for counter in segment.counters() {
        writeln!(
            text,
            "counter {} {}",
            hex(counter.name.as_bytes()),
            counter.value
        )
        .unwrap();
    }
    for event in segment.events() {
        let a = match event.record {
            Record::Allocated { address, .. }
            | Record::Freed { address, .. }
            | Record::Promoted { address, .. }
            | Record::Evicted { address, .. } => address,
            Record::Refused { bytes, .. } => bytes,
            Record::Stalled { nanoseconds, .. } => nanoseconds,
            Record::Failed { code, device, .. } => u64::from(code) << 32 | u64::from(device),
            Record::ContextLost { context, .. } => context,
            Record::Sampled { live, .. } => live,
            Record::Unknown { words, .. } => words[0],
        };
        let kind = event.record.kind().0;
        writeln!(text, "event {} {kind} {} {a}", event.ticket, event.time_ns).unwrap();
    }
    text
}

#[test]
fn a_reader_in_c_says_what_ours_says() {
    let scratch = Scratch::new("header");
    let program = built(&scratch);
    let copy = scratch.0.join("1.0");
    fs::write(&copy, fs::read(golden("1.0")).unwrap()).unwrap();
    let writer = Writer::create(&description(&scratch.0)).unwrap();
    fill(&writer);
    for path in [&copy, writer.path()] {
        let output = read(&program, path);
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said, expected(&Segment::open(path).unwrap()));
    }
}

#[test]
fn a_reader_in_c_stands_any_bytes() {
    let scratch = Scratch::new("header-any");
    let program = built(&scratch);
    let writer = Writer::create(&description(&scratch.0)).unwrap();
    fill(&writer);
    let good = fs::read(writer.path()).unwrap();
    let path = scratch.0.join("x");
    let mut random = Random(0x0bad_cafe_0bad_cafe);
    for round in 0..60 {
        fs::write(&path, mutate(&good, &mut random, round)).unwrap();
        let output = read(&program, &path);
        assert_eq!(output.status.code(), Some(0), "round {round}: {output:?}");
    }
    for bytes in [
        &good[..0],
        &good[..8],
        &good[..good.len() - 1],
        &[0; 0x10000],
    ] {
        fs::write(&path, bytes).unwrap();
        assert_eq!(read(&program, &path).status.code(), Some(1));
    }
}
