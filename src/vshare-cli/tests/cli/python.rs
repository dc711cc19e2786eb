//! `scripts/vshare_reader.py`: says what `vshare` says, and an error where it must.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use vshare_shm::record::{Cause, Class};
use vshare_shm::{CallName, Record};

use crate::hostile::{Random, mutate};
use crate::{NOBODY, Scratch, golden, set_word, stderr, stdout, vshare, write};

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/vshare_reader.py")
}

fn python(args: &[&str]) -> Output {
    Command::new("python3")
        .arg("-B")
        .arg(script())
        .args(args)
        .output()
        .unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap()
}

/// What both readers say of a file: all but the events, then the events.
fn both(path: &str) -> [(Value, Vec<Value>); 2] {
    let mut theirs = json(&python(&["--json", path]));
    let Value::Array(events) = theirs.as_object_mut().unwrap().remove("events").unwrap() else {
        unreachable!("events are a list");
    };
    let ours = json(&vshare(&["stats", "--json", path]));
    let log = stdout(&vshare(&["log", "--json", path]));
    let log = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line.get("lost").is_none())
        .map(|mut line| {
            line.as_object_mut().unwrap().remove("time");
            line
        });
    [(theirs, events), (ours, log.collect())]
}

#[test]
fn it_says_what_vshare_says_of_the_living_and_the_dead() {
    let scratch = Scratch::new("python-same");
    let writer = write(&scratch.0, 3);
    let (address, bytes, nanoseconds, device) = (1 << 47, 2, 3, 4);
    for record in [
        Record::Allocated {
            address,
            bytes,
            class: Class::Managed,
            stream: 9,
        },
        Record::Freed {
            address,
            bytes,
            class: Class::Other(7),
            stream: 0,
        },
        Record::Refused {
            bytes,
            cause: Cause::Host,
            live: 1,
            limit: u64::MAX,
        },
        Record::Promoted {
            address,
            bytes,
            nanoseconds,
            device,
        },
        Record::Evicted {
            address,
            bytes,
            nanoseconds,
            device,
        },
        Record::Stalled {
            nanoseconds,
            bytes,
            launch: 5,
            device,
        },
        Record::Failed {
            call: CallName::new("cuMemFree_v2"),
            code: 700,
            device: 1,
            bytes,
        },
        Record::ContextLost {
            context: 1,
            bytes,
            device,
        },
        Record::Sampled {
            live: 1,
            resident: 2,
            host: 3,
            budget: 4,
        },
        Record::Unknown {
            kind: 99,
            words: [1, 2, 3, 4],
        },
    ] {
        writer.record(17, record);
    }
    let segment = fs::read(writer.path()).unwrap();
    let dead = scratch.forge(&segment, NOBODY, 1);
    let mut exited = segment.clone();
    set_word(&mut exited, 0x10, 2);
    let exited = scratch.forge(&exited, NOBODY + 1, 1);
    let old = scratch.0.join("old");
    fs::write(&old, fs::read(golden()).unwrap()).unwrap();
    for path in [writer.path(), &dead, &exited, &old] {
        let [theirs, ours] = both(path.to_str().unwrap());
        assert_eq!(theirs, ours);
        assert!(theirs.1.len() >= 9);
    }
    let all = json(&python(&["--json", "--directory", scratch.text()]));
    let ours = json(&vshare(&["stats", "--json", "--directory", scratch.text()]));
    assert_eq!(all, ours);
    let pid = NOBODY.to_string();
    let one = stdout(&python(&["--directory", scratch.text(), &pid]));
    for part in [
        "dead",
        "NVIDIA H200",
        "1.2 GiB",
        "held by the program now",
        "allocated",
        "cuMemFree_v2",
    ] {
        assert!(one.contains(part), "no {part:?} in {one}");
    }
    let list = stdout(&python(&["--directory", scratch.text()]));
    assert_eq!(list.lines().count(), 4, "{list}");
}

#[test]
fn what_cannot_be_read_is_said_in_a_sentence() {
    let scratch = Scratch::new("python-bad");
    let writer = write(&scratch.0, 0);
    let segment = fs::read(writer.path()).unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = scratch.0.join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let mut newer = segment.clone();
    newer[2] = 9;
    for (which, reason) in [
        (
            file("short", &segment[..100]),
            "100 bytes long, a segment has 65536",
        ),
        (file("zero", &[0; 0x10000]), "not a vshare segment"),
        (
            file("newer", &newer),
            "format 9.0, and this reader knows 1.0",
        ),
        (scratch.text().to_owned(), "not a regular file"),
        ("/dev/zero".to_owned(), "not a regular file"),
        ("/nonexistent".to_owned(), "No such file"),
        ("1".to_owned(), "process 1 has no segment"),
        ("9".repeat(5000), "File name too long"),
    ] {
        let output = python(&["--directory", scratch.text(), &which]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = stderr(&output);
        assert!(said.contains(reason) && said.lines().count() == 1, "{said}");
    }
    assert_eq!(python(&["--nonsense"]).status.code(), Some(2));
    let output = python(&["--directory", "/nonexistent"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no directory"));
}

#[test]
fn any_bytes_are_read_as_vshare_reads_them() {
    let scratch = Scratch::new("python-any");
    let writer = write(&scratch.0, 0);
    for i in 0..2000 {
        writer.record(
            i,
            Record::Sampled {
                live: i,
                resident: i,
                host: i,
                budget: i,
            },
        );
    }
    let good = fs::read(writer.path()).unwrap();
    let path = scratch.0.join("x");
    let mut random = Random(0x5eed_0f9e_5077);
    for round in 0..40 {
        let mut bytes = mutate(&good, &mut random, round);
        // Numbers of processes are cut differently, and no JSON holds the pid of a text.
        bytes[0x18..0x28].copy_from_slice(&good[0x18..0x28]);
        fs::write(&path, bytes).unwrap();
        let [theirs, ours] = both(path.to_str().unwrap());
        assert_eq!(theirs, ours, "round {round}");
    }
}

#[test]
fn a_record_that_changes_while_it_is_read_is_not_told() {
    let scratch = Scratch::new("python-torn");
    let writer = write(&scratch.0, 0);
    for i in 0..3 {
        writer.record(
            i,
            Record::Sampled {
                live: i,
                resident: i,
                host: i,
                budget: i,
            },
        );
    }
    let code = r#"
import sys
sys.path.insert(0, sys.argv[1])
import vshare_reader
class Torn(vshare_reader.Segment):
    looks = 0
    def _bytes(self, at, length):
        read = bytearray(super()._bytes(at, length))
        if at == 0x4400:
            self.looks += 1
            read[48 + 40] ^= self.looks  # the last word of the second record
        return bytes(read)
print([event.ticket for event in Torn(sys.argv[2]).events()])
"#;
    let output = Command::new("python3")
        .args(["-B", "-c", code])
        .arg(script().parent().unwrap())
        .arg(writer.path())
        .output()
        .unwrap();
    assert_eq!(stdout(&output), "[0, 2]\n");
}

#[test]
fn thousands_of_broken_segments_raise_its_own_error_or_none() {
    let scratch = Scratch::new("python-fuzz");
    let writer = write(&scratch.0, 0);
    let code = r#"
import os, random, sys
sys.path.insert(0, sys.argv[1])
import vshare_reader
good, path, dice = open(sys.argv[2], "rb").read(), sys.argv[3], random.Random(7)
read = refused = 0
for round in range(3000):
    data = bytearray(good)
    for _ in range(dice.choice((1, 40, 400))):
        at = dice.randrange(len(data)) & ~7
        data[at : at + 8] = dice.choice((b"\xff" * 8, dice.randbytes(8), dice.randrange(2000).to_bytes(8, "little")))
    if round % 10 == 0:
        del data[dice.randrange(len(data)) :]
    with open(path, "wb") as file:
        file.write(data)
    try:
        with vshare_reader.Segment(path) as segment:
            segment.summary(), segment.events(), segment.counters(), segment.device()
            if round % 7 == 0:
                os.truncate(path, dice.randrange(len(data)))
                segment.summary(), segment.events()
        read += 1
    except vshare_reader.SegmentError:
        refused += 1
print(read, refused)
"#;
    let output = Command::new("python3")
        .args(["-B", "-c", code])
        .arg(script().parent().unwrap())
        .arg(writer.path())
        .arg(scratch.0.join("x"))
        .output()
        .unwrap();
    let said = stdout(&output);
    let counts: Vec<u32> = said
        .split_whitespace()
        .map(|n| n.parse().unwrap())
        .collect();
    assert!(counts[0] > 1000 && counts[1] > 300, "{said}");
}
