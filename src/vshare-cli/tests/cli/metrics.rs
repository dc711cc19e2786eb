//! `vshare metrics`, as Prometheus and its own promtool see it.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};

use crate::hostile::{Random, mutate};
use crate::{NOBODY, Scratch, skip, stderr, stdout, vshare, write};

/// `vshare metrics` on a port that the system chose.
struct Serving {
    child: Child,
    address: String,
}

impl Serving {
    fn new(scratch: &Scratch) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_vshare"))
            .args([
                "metrics",
                "--listen",
                "127.0.0.1:0",
                "--directory",
                scratch.text(),
            ])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line.trim().strip_prefix("vshare: serving http://").unwrap();
        let address = address.strip_suffix("/metrics").unwrap().to_owned();
        Self { child, address }
    }

    /// The answer's head and body.
    fn ask(&self, request: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        let (head, body) = said.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }

    fn get(&self, path: &str, more: &str) -> (String, String) {
        self.ask(&format!(
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{more}\r\n"
        ))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Gives `text` to `program`; `None` if there is none.
fn check(program: &[&str], text: &str) -> Option<Output> {
    let mut child = Command::new(program[0])
        .args(&program[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    // It may have said no before it has read all.
    _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    Some(child.wait_with_output().unwrap())
}

const PROMTOOL: [&str; 3] = ["promtool", "check", "metrics"];
const OPENMETRICS: [&str; 3] = [
    "python3",
    "-c",
    "import sys
try: from prometheus_client.openmetrics.parser import text_string_to_metric_families as read
except ImportError: sys.exit(9)
assert len(list(read(sys.stdin.read()))) >= 1",
];

#[test]
fn prometheus_reads_both_formats() {
    let scratch = Scratch::new("metrics-http");
    let writer = write(&scratch.0, 0);
    scratch.forge(&fs::read(writer.path()).unwrap(), NOBODY, 3);
    fs::write(scratch.0.join("vshare-0-4194306-1"), "no segment").unwrap();
    let serving = Serving::new(&scratch);
    let (head, plain) = serving.get("/metrics", "");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    let who = format!("{{pid=\"{}\",start_time=\"", writer.pid());
    for part in [
        format!("vshare_live_bytes{who}"),
        format!("vshare_promoted_bytes_total{who}"),
        format!("vshare_stall_seconds_total{who}"),
        "vshare_unreadable_segments 1\n".to_owned(),
        format!("vshare_process_alive{{pid=\"{NOBODY}\",start_time=\"3\"}} 0"),
        "gpu_uuid=\"GPU-abababab-abab-abab-abab-abababababab\"".to_owned(),
    ] {
        assert!(plain.contains(&part), "no {part} in {plain}");
    }
    let accept = "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n";
    let (head, open) = serving.get("/metrics?x=1", accept);
    assert!(
        head.contains("application/openmetrics-text; version=1.0.0"),
        "{head}"
    );
    assert!(open.ends_with("# EOF\n"));

    match check(&PROMTOOL, &plain) {
        Some(output) => assert!(
            output.status.success() && output.stderr.is_empty(),
            "{output:?}"
        ),
        None => {
            skip("no promtool: Prometheus itself has not seen the metrics (Debian: prometheus)")
        }
    }
    match check(&OPENMETRICS, &open) {
        Some(output) if output.status.code() != Some(9) => {
            assert!(output.status.success(), "{output:?}")
        }
        _ => skip(
            "no prometheus_client for Python: its strict parser has not seen the OpenMetrics text",
        ),
    }
}

#[test]
fn what_is_not_served_is_said() {
    let scratch = Scratch::new("metrics-other");
    let serving = Serving::new(&scratch);
    for (path, code, said) in [
        ("/", "200", "/metrics"),
        ("/x", "404", "there is only /metrics"),
        ("/metrics", "200", "vshare_unreadable_segments 0"),
    ] {
        let (head, body) = serving.get(path, "");
        assert!(head.starts_with(&format!("HTTP/1.1 {code}")), "{head}");
        assert!(body.contains(said), "{body}");
    }
    let post =
        "POST /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    assert!(serving.ask(post).0.starts_with("HTTP/1.1 405"));
    // One that says nothing, and one that goes, hold up nobody.
    let silent = TcpStream::connect(&serving.address).unwrap();
    drop(TcpStream::connect(&serving.address).unwrap());
    assert!(serving.get("/metrics", "").0.starts_with("HTTP/1.1 200"));
    drop(silent);
    let nowhere = vshare(&[
        "metrics",
        "--listen",
        "127.0.0.1:0",
        "--directory",
        "/nonexistent",
    ]);
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(stderr(&nowhere).contains("no directory /nonexistent"));
    // The port is taken now.
    let output = vshare(&["metrics", "--listen", &serving.address]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(
        said.contains("cannot listen on") && said.contains("in use") && said.contains("--listen"),
        "{said}"
    );
}

#[test]
fn wrong_options_are_usage_errors() {
    let scratch = Scratch::new("metrics-usage");
    for args in [
        &["--listen", "nonsense"][..],
        &["--listen", "127.0.0.1:99999"],
        &["--listen", "127.0.0.1:1", "--textfile", "x"],
        &["--every", "5"],
        &["--textfile", "x", "--every", "0"],
    ] {
        let mut all = vec!["metrics", "--directory", scratch.text()];
        all.extend(args);
        let output = vshare(&all);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(!stderr(&output).is_empty());
    }
}

#[test]
fn a_textfile_is_whole_or_not_there() {
    let scratch = Scratch::new("metrics-file");
    let elsewhere = Scratch::new("metrics-file-out");
    write(&scratch.0, 0);
    let out = elsewhere.0.join("vshare.prom");
    fs::write(&out, "old").unwrap();
    let args = ["metrics", "--directory", scratch.text(), "--textfile"];
    stdout(&vshare(&[&args[..], &[out.to_str().unwrap()]].concat()));
    let said = fs::read_to_string(&out).unwrap();
    assert!(said.contains("vshare_live_bytes"), "{said}");
    assert_eq!(fs::read_dir(&elsewhere.0).unwrap().count(), 1);
    for bad in ["/nonexistent/vshare.prom", elsewhere.text()] {
        let output = vshare(&[&args[..], &[bad]].concat());
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(
            stderr(&output).contains(&format!("cannot write {bad}")),
            "{output:?}"
        );
    }
    assert_eq!(fs::read_dir(&elsewhere.0).unwrap().count(), 1);
}

#[test]
fn whatever_segments_hold_promtool_can_read_the_metrics() {
    let scratch = Scratch::new("metrics-any");
    let elsewhere = Scratch::new("metrics-any-out");
    let writer = write(&scratch.0, 0);
    let good = fs::read(writer.path()).unwrap();
    let out = elsewhere.0.join("x.prom");
    let mut random = Random(0x0123_4567_89ab_cdef);
    for round in 0..20 {
        for pid in 1..5 {
            let bytes = mutate(&good, &mut random, round);
            fs::write(scratch.0.join(format!("vshare-0-{pid}-1")), bytes).unwrap();
        }
        let args = [
            "metrics",
            "--directory",
            scratch.text(),
            "--textfile",
            out.to_str().unwrap(),
        ];
        stdout(&vshare(&args));
        let said = fs::read_to_string(&out).unwrap();
        let Some(output) = check(&PROMTOOL, &said) else {
            skip("no promtool: Prometheus itself has not seen the metrics (Debian: prometheus)");
            return;
        };
        // 3: it reads them, and finds names that a good segment would not have.
        assert!(
            matches!(output.status.code(), Some(0 | 3)),
            "{output:?} of {said}"
        );
    }
}
