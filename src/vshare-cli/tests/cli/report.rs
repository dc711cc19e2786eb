//! `vshare report`: a page that a browser shows as it is.

use std::fs;
use std::process::Command;

use vshare_shm::counters;

use crate::{NOBODY, Scratch, set_word, skip, stderr, stdout, trace, vshare, write};

fn report(scratch: &Scratch, more: &[&str]) -> String {
    let mut args = vec!["report", "-o", "-", "--directory", scratch.text()];
    args.extend(more);
    stdout(&vshare(&args))
}

/// Whether every element that is opened is closed, in order.
fn assert_well_formed(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    let body = page.split_once("</style>").unwrap().1;
    for tag in body.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').unwrap();
        let name = tag.split_whitespace().next().unwrap();
        if let Some(closed) = name.strip_prefix('/') {
            if !matches!(closed, "head" | "html") {
                assert_eq!(open.pop(), Some(closed), "{tag}");
            }
        } else if !tag.ends_with('/') && !matches!(name, "meta" | "!DOCTYPE") {
            open.push(name);
        }
    }
    assert_eq!(open, [""; 0]);
}

#[test]
fn it_tells_what_was_held_and_moved_and_what_to_change() {
    let scratch = Scratch::new("report");
    let writer = write(&scratch.0, 0);
    trace::fill(&writer);
    writer.counter(counters::OOM_LIMIT).add(2);
    writer.counter(counters::LIMIT_BYTES).set(3 << 30);
    let page = report(&scratch, &[]);
    assert_well_formed(&page);
    for part in [
        &format!("process {}", writer.pid())[..],
        "NVIDIA H200",
        "1.5 GiB",
        "of a budget of 1.0 GiB",
        "2 allocations were refused because they went beyond the limit of 3.0 GiB",
        "512.0 MiB more than its budget",
        "Memory over time",
        "Transfers over time",
        "Waits over time",
        "refused 32.0 MiB: over the limit",
        "0x7f0000000000",
        "held by the program now",
    ] {
        assert!(page.contains(part), "no {part:?} in {page}");
    }
}

#[test]
fn it_fetches_nothing_and_runs_nothing() {
    let scratch = Scratch::new("report-alone");
    let writer = write(&scratch.0, 0);
    trace::fill(&writer);
    let page = report(&scratch, &[]);
    for part in [
        "http:", "https:", "<script", "url(", "@import", "src=", "href=", "<link", "<img",
    ] {
        assert!(!page.contains(part), "{part} in {page}");
    }
    assert!(page.contains("default-src 'none'; style-src 'unsafe-inline'\""));
}

#[test]
fn texts_from_outside_stay_texts() {
    let scratch = Scratch::new("report-inject");
    let writer = write(&scratch.0, 0);
    let mut bytes = fs::read(writer.path()).unwrap();
    let evil = b"<script>alert('x')</script>&\"\x1b[2J";
    for at in [0x200, 0x140, 0x120] {
        let room = if at == 0x120 { 24 } else { evil.len() };
        set_word(&mut bytes, at, room as u64);
        bytes[at + 8..at + 8 + room].copy_from_slice(&evil[..room]);
    }
    bytes[0x800..0x800 + 20].copy_from_slice(&evil[..20]);
    scratch.forge(&bytes, NOBODY, 1);
    let page = report(&scratch, &[&NOBODY.to_string()]);
    assert!(
        !page.contains("<script") && !page.contains('\x1b'),
        "{page}"
    );
    assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)"), "{page}");
    assert_well_formed(&page);
}

#[test]
fn a_process_that_has_done_nothing_has_a_report_too() {
    let scratch = Scratch::new("report-empty");
    let writer = write(&scratch.0, 0);
    let mut bytes = fs::read(writer.path()).unwrap();
    bytes[0x400..0x700].fill(0);
    scratch.forge(&bytes, NOBODY, 1);
    let page = report(&scratch, &[&NOBODY.to_string()]);
    assert_well_formed(&page);
    assert!(page.contains("Everything fitted into the budget"), "{page}");
}

#[test]
fn chromium_draws_it() {
    let scratch = Scratch::new("report-browser");
    let Some(browser) = ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok())
    else {
        skip("no chromium: no browser has drawn the report (Debian: chromium)");
        return;
    };
    let writer = write(&scratch.0, 0);
    trace::fill(&writer);
    let page = scratch.0.join("report.html");
    let said = vshare(&[
        "report",
        "-o",
        page.to_str().unwrap(),
        "--directory",
        scratch.text(),
    ]);
    assert!(stderr(&said).contains("open it in a browser"), "{said:?}");
    // What the browser has made of it, as text again.
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .arg(format!(
            "--user-data-dir={}",
            scratch.0.join("profile").display()
        ))
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    let drawn = stdout(&output);
    assert_eq!(drawn.matches("<svg").count(), 3, "{drawn}");
    assert!(
        drawn.contains("What this means") && drawn.contains("All counters"),
        "{drawn}"
    );
}
