//! Holds the C header against the byte map: offsets, sizes, constants, each by name.

use std::fmt::Write as _;
use std::io::Write as _;
use std::mem::offset_of;
use std::process::{Command, Stdio};

use super::*;
use crate::counters::Kind;
use crate::record::{CallName, Cause, Class, Record};

/// `(header's expression, our value)`.
fn expectations() -> Vec<(String, u64)> {
    let mut all = Vec::new();
    let mut expect =
        |expression: &str, value: usize| all.push((expression.to_owned(), value as u64));
    macro_rules! fields {
        ($($field:ident)+) => {$(
            expect(
                concat!("offsetof(struct vshare_segment, ", stringify!($field), ")"),
                offset_of!(Layout, $field),
            );
            expect(
                concat!("sizeof(((struct vshare_segment *)0)->", stringify!($field), ")"),
                size_of_field(|layout| &layout.$field),
            );
        )+};
    }
    fields!(magic size state pid start_time uid pid_namespace run created_ns driver_version counters
        reserved_0058 ring_head reserved_0088 library policy device_name device_uuid device reserved_01d8
        command reserved_02d0 values reserved_0700 rows ring reserved_f800);
    expect(
        "offsetof(struct vshare_row, unit)",
        offset_of!(RowWords, unit),
    );
    expect(
        "offsetof(struct vshare_row, kind)",
        offset_of!(RowWords, kind),
    );
    expect(
        "offsetof(struct vshare_row, help)",
        offset_of!(RowWords, help),
    );
    expect("sizeof(struct vshare_row)", size_of::<RowWords>());
    expect("sizeof(struct vshare_slot)", size_of::<Slot>());
    expect("sizeof(struct vshare_segment)", size_of::<Layout>());
    expect("VSHARE_SIZE", SIZE);
    expect("VSHARE_COUNTERS", COUNTERS);
    expect("VSHARE_SLOTS", SLOTS);
    expect("VSHARE_MAJOR", MAJOR.into());
    expect("VSHARE_MINOR", MINOR.into());
    for (name, value) in [
        ("VSHARE_MAGIC", u64::from(MAGIC)),
        ("VSHARE_STARTING", State::Starting.word()),
        ("VSHARE_LIVE", State::Live.word()),
        ("VSHARE_EXITED", State::Exited.word()),
        ("VSHARE_COUNTER", Kind::Counter.word()),
        ("VSHARE_GAUGE", Kind::Gauge.word()),
    ] {
        all.push((name.to_owned(), value));
    }
    for record in one_of_each_kind() {
        let (number, name) = record.kind();
        let name = name.to_uppercase().replace(' ', "_");
        all.push((format!("VSHARE_{name}"), number.into()));
    }
    all
}

fn size_of_field<T>(_: impl Fn(&Layout) -> &T) -> usize {
    size_of::<T>()
}

/// All kinds that have a name, by reading every number.
fn one_of_each_kind() -> Vec<Record> {
    let records = (0..=255u64).map(|kind| Record::unpack([kind << 56, 0, 0, 0, 0]).1);
    records
        .filter(|record| !matches!(record, Record::Unknown { .. }))
        .collect()
}

/// Whether a compiler takes `source`, which includes the header.
fn compiles(compiler: &str, arguments: &[&str], source: &str) -> Result<(), String> {
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include");
    let mut child = Command::new(compiler)
        .args([
            "-fsyntax-only",
            "-Wall",
            "-Wextra",
            "-Wconversion",
            "-Werror",
            "-pedantic",
        ])
        .args(arguments)
        .args([include, "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{compiler}: {error}"))?;
    let mut input = child.stdin.take().unwrap();
    input.write_all(source.as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

fn source(assert: &str, expectations: &[(String, u64)]) -> String {
    let mut source = "#include <vshare.h>\n".to_owned();
    for (expression, value) in expectations {
        writeln!(
            source,
            "{assert}({expression} == {value}u, \"{expression}\");"
        )
        .unwrap();
    }
    source
}

#[test]
fn the_c_header_has_the_same_byte_map() {
    let expectations = expectations();
    assert!(expectations.len() > 60);
    let c = ["-std=c11", "-xc"];
    compiles("cc", &c, &source("_Static_assert", &expectations)).unwrap();
    // Each of these is looked at: a wrong one is found.
    for (i, (expression, _)) in expectations.iter().enumerate().step_by(7) {
        let mut wrong = expectations.clone();
        wrong[i].1 += 8;
        let said = compiles("cc", &c, &source("_Static_assert", &wrong)).unwrap_err();
        assert!(said.contains(expression), "{expression}: {said}");
    }
}

#[test]
fn the_c_header_is_cpp_too() {
    if Command::new("c++").arg("--version").output().is_err() {
        let line = "\nskipped: layout::tests::the_c_header_is_cpp_too: no c++\n";
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        return;
    }
    let cpp = ["-std=c++11", "-xc++"];
    compiles("c++", &cpp, &source("static_assert", &expectations())).unwrap();
}

#[test]
fn the_c_header_tells_every_kind_of_event() {
    let header = include_str!("../include/vshare.h");
    let kinds = one_of_each_kind();
    let told = header
        .lines()
        .filter(|line| {
            line.starts_with("#define VSHARE_") && line.contains("/*") && line.contains("bytes")
        })
        .count();
    assert_eq!(told, kinds.len(), "one line for each");
    // The words that the header has in its comments, in their order.
    let [a, b, c, d] = [1, 2, 3, 4];
    for (record, head) in [
        (
            Record::Allocated {
                address: a,
                bytes: b,
                class: Class::Other(c),
                stream: d,
            },
            1u64,
        ),
        (
            Record::Freed {
                address: a,
                bytes: b,
                class: Class::Other(c),
                stream: d,
            },
            2,
        ),
        (
            Record::Refused {
                bytes: a,
                cause: Cause::Other(b),
                live: c,
                limit: d,
            },
            3,
        ),
        (
            Record::Promoted {
                address: a,
                bytes: b,
                nanoseconds: c,
                device: d,
            },
            4,
        ),
        (
            Record::Evicted {
                address: a,
                bytes: b,
                nanoseconds: c,
                device: d,
            },
            5,
        ),
        (
            Record::Stalled {
                nanoseconds: a,
                bytes: b,
                launch: c,
                device: d,
            },
            6,
        ),
        (
            Record::Sampled {
                live: a,
                resident: b,
                host: c,
                budget: d,
            },
            9,
        ),
    ] {
        assert_eq!(record.pack(0), [head << 56, a, b, c, d]);
    }
    let lost = Record::ContextLost {
        context: a,
        bytes: b,
        device: c,
    };
    assert_eq!(lost.pack(5), [8 << 56 | 5, a, b, c, 0]);
    let call = CallName::new("cuMemFree_v2");
    let [_, code, bytes, ..] = Record::Failed {
        call,
        code: 7,
        device: 1,
        bytes: b,
    }
    .pack(0);
    assert_eq!((code, bytes), (7 << 32 | 1, b));
}
