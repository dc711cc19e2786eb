//! The page: figures, remarks, charts, tables. No script, and nothing from elsewhere.

use std::collections::HashMap;
use std::fmt::{self, Write as _};

use vshare_core::units::Human;
use vshare_shm::Record;
use vshare_shm::reader::Event;

use super::advice::{self, Weight};
use super::chart::{self, Range};
use crate::events;
use crate::recording::Recording;
use crate::text::{Nanoseconds, Utc, printable, uuid, with_unit};
use crate::timeline::{self, Basis, Slice, Way};

/// How many rows tables of events and of allocations have at most.
const ROWS: usize = 20;

/// A text in HTML: it comes from outside.
struct Html<'a>(&'a str);

impl fmt::Display for Html<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in printable(self.0).chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// The whole page.
pub(crate) fn of(recording: &Recording) -> String {
    let last = &recording.last;
    let mut page = String::new();
    let title = format!("vshare: process {}", last.owner.pid);
    // A String takes all, here and below.
    _ = write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<p class=\"command\">{}</p>\n",
        Html(&last.command)
    );
    page += &about(recording);
    page += &figures(recording);
    page += &remarks(recording);
    page += &charts(recording);
    page += &moves_table(recording);
    page += &trouble(&recording.events, recording.created_ns);
    page += &largest(&recording.events);
    page += &counters(recording);
    page + "</body>\n</html>\n"
}

fn about(recording: &Recording) -> String {
    let last = &recording.last;
    let device = last.device.as_ref().map_or_else(
        || "no GPU yet".to_owned(),
        |device| {
            format!(
                "GPU {}: {} ({})",
                device.ordinal,
                device.name,
                uuid(device.uuid)
            )
        },
    );
    let parts = [
        device,
        format!(
            "{}; used the GPU from {} on",
            last.state(),
            Utc(recording.created_ns)
        ),
        format!("policy {}", last.policy),
        format!("vshare {}", last.library),
    ];
    format!("<p class=\"about\">{}</p>\n", Html(&parts.join(" · ")))
}

fn figures(recording: &Recording) -> String {
    let value = |name| recording.last.value(name);
    let of = |name| Human(value(name)).to_string();
    let mut text = "<div class=\"figures\">\n".to_owned();
    for (name, figure, more) in [
        (
            "in use at most",
            of("peak_live_bytes"),
            format!("now {}", of("live_bytes")),
        ),
        (
            "on the GPU at most",
            of("peak_resident_bytes"),
            format!("of a budget of {}", of("budget_bytes")),
        ),
        (
            "to the GPU",
            of("promoted_bytes"),
            format!("in {} moves", value("promotions")),
        ),
        (
            "to the host",
            of("evicted_bytes"),
            format!("in {} moves", value("evictions")),
        ),
        (
            "waited",
            Nanoseconds(value("stall_nanoseconds")).to_string(),
            format!("{} times", value("stalls")),
        ),
    ] {
        _ = writeln!(
            text,
            "<div><span>{name}</span><b>{figure}</b><span>{more}</span></div>"
        );
    }
    text + "</div>\n"
}

fn remarks(recording: &Recording) -> String {
    let mut text = "<h2>What this means</h2>\n<ul class=\"remarks\">\n".to_owned();
    for remark in advice::on(recording) {
        let class = match remark.weight {
            Weight::Good => "good",
            Weight::Note => "note",
            Weight::Bad => "bad",
        };
        _ = writeln!(text, "<li class=\"{class}\">{}</li>", Html(&remark.text));
    }
    text + "</ul>\n"
}

fn charts(recording: &Recording) -> String {
    let (samples, basis) = timeline::memory(recording);
    let to_gpu = timeline::moves(&recording.events, Way::ToGpu);
    let to_host = timeline::moves(&recording.events, Way::ToHost);
    let stalls = timeline::stalls(&recording.events);
    let starts = [&to_gpu, &to_host, &stalls].map(|slices| slices.first().map(|s| s.start_ns));
    let first = samples
        .iter()
        .map(|s| s.time_ns)
        .chain(starts.into_iter().flatten())
        .min();
    let range = Range {
        from: first.unwrap_or(0),
        to: recording.end_ns(),
    };
    let how = match basis {
        Basis::Sampled => String::new(),
        Basis::SampledFrom(time_ns) => format!(
            " <small>(until {} from the start worked out from allocations, frees and moves: an estimate)</small>",
            Nanoseconds(time_ns)
        ),
        Basis::Estimated => {
            " <small>(worked out from allocations, frees and moves: an estimate)</small>".to_owned()
        }
    };
    let key = |class: &str, name: &str| format!("<span class=\"key {class}\"></span>{name} ");
    format!(
        "<h2>Memory{how}</h2>\n<p>{}{}{}</p>\n{}\n<h2>Transfers</h2>\n<p>{}{}</p>\n{}\n<h2>Waits</h2>\n<p>{}</p>\n{}\n",
        key("gpu", "on the GPU"),
        key("host", "in host memory"),
        key("budget", "budget"),
        chart::memory(&samples, range),
        key("gpu", "to the GPU (up)"),
        key("host", "to the host (down)"),
        chart::transfers(&to_gpu, &to_host, range),
        key(
            "stall",
            "share of the time in which the program waited for moves"
        ),
        chart::stalls(&stalls, range),
    )
}

fn moves_table(recording: &Recording) -> String {
    let events = &recording.events;
    let mut rows = Vec::new();
    for (name, slices) in [
        ("to the GPU", timeline::moves(events, Way::ToGpu)),
        ("to the host", timeline::moves(events, Way::ToHost)),
        ("waits", timeline::stalls(events)),
    ] {
        if !slices.is_empty() {
            rows.push(distribution(name, &slices));
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    "<h2>How long moves took</h2>\n<p>Of the events that were read. A move to the GPU counts for the call that begins it.</p>\n".to_owned()
        + &table(&["", "number", "bytes", "median", "90 %", "99 %", "longest"], &rows)
}

fn distribution(name: &str, slices: &[Slice]) -> Vec<String> {
    let mut times: Vec<_> = slices.iter().map(|slice| slice.nanoseconds).collect();
    times.sort_unstable();
    let quantile = |percent: usize| {
        let place = (times.len() - 1) * percent / 100;
        Nanoseconds(times.get(place).copied().unwrap_or(0)).to_string()
    };
    let bytes = slices
        .iter()
        .fold(0u64, |sum, slice| sum.saturating_add(slice.bytes));
    vec![
        name.to_owned(),
        slices.len().to_string(),
        Human(bytes).to_string(),
        quantile(50),
        quantile(90),
        quantile(99),
        quantile(100),
    ]
}

fn trouble(events: &[Event], created_ns: u64) -> String {
    let bad = events.iter().rev().filter(|event| {
        matches!(
            event.record,
            Record::Refused { .. } | Record::Failed { .. } | Record::ContextLost { bytes: 1.., .. }
        )
    });
    let rows: Vec<_> = bad
        .take(ROWS)
        .map(|event| {
            let time = Utc(created_ns.saturating_add(event.time_ns));
            vec![time.to_string(), events::words(&event.record)]
        })
        .collect();
    match rows.is_empty() {
        true => String::new(),
        false => "<h2>Trouble</h2>\n".to_owned() + &table(&["when", "what"], &rows),
    }
}

/// The largest allocations that were made and not freed, as far as the events tell.
fn largest(events: &[Event]) -> String {
    let mut held: HashMap<u64, u64> = HashMap::new();
    for event in events {
        match event.record {
            Record::Allocated { address, bytes, .. } => _ = held.insert(address, bytes),
            Record::Freed { address, .. } => _ = held.remove(&address),
            _ => {}
        }
    }
    let mut held: Vec<_> = held.into_iter().collect();
    held.sort_by_key(|&(address, bytes)| (std::cmp::Reverse(bytes), address));
    let rows: Vec<_> = held
        .iter()
        .take(ROWS)
        .map(|(address, bytes)| vec![Human(*bytes).to_string(), format!("{address:#x}")])
        .collect();
    match rows.is_empty() {
        true => String::new(),
        false => {
            "<h2>Largest allocations</h2>\n<p>Of those in the events that were read.</p>\n"
                .to_owned()
                + &table(&["bytes", "address"], &rows)
        }
    }
}

fn counters(recording: &Recording) -> String {
    let rows: Vec<_> = recording
        .last
        .counters
        .iter()
        .map(|c| vec![c.name.clone(), with_unit(c.value, &c.unit), c.help.clone()])
        .collect();
    "<h2>All counters</h2>\n".to_owned() + &table(&["counter", "value", "meaning"], &rows)
}

fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut text = "<table>\n<tr>".to_owned();
    for cell in head {
        _ = write!(text, "<th>{}</th>", Html(cell));
    }
    text += "</tr>\n";
    for row in rows {
        text += "<tr>";
        for cell in row {
            _ = write!(text, "<td>{}</td>", Html(cell));
        }
        text += "</tr>\n";
    }
    text + "</table>\n"
}

const STYLE: &str = "
:root{--back:#fff;--text:#1b1f24;--soft:#667;--line:#dde;--gpu:#2a7de1;--host:#f0a030;--stall:#c0392b;--good:#2e8b57;--card:#f5f7fa}
@media(prefers-color-scheme:dark){:root{--back:#15181c;--text:#e6e8eb;--soft:#9aa;--line:#333a44;--card:#1e2329}}
body{font:15px/1.5 system-ui,sans-serif;background:var(--back);color:var(--text);max-width:960px;margin:2rem auto;padding:0 1rem}
h1{margin:0}h2{margin:2rem 0 .3rem}small,.about,th{color:var(--soft);font-weight:normal}
.command{font-family:monospace;overflow-wrap:anywhere;margin:.3rem 0}
.figures{display:flex;flex-wrap:wrap;gap:.8rem;margin:1.2rem 0}
.figures div{background:var(--card);border-radius:8px;padding:.7rem 1rem;flex:1 1 9rem}
.figures span{display:block;color:var(--soft);font-size:13px}.figures b{font-size:1.4rem}
.remarks{padding:0;list-style:none}.remarks li{background:var(--card);border-left:4px solid var(--line);padding:.5rem .8rem;margin:.4rem 0}
.remarks .bad{border-color:var(--stall)}.remarks .note{border-color:var(--host)}.remarks .good{border-color:var(--good)}
svg{width:100%;height:auto;background:var(--card);border-radius:8px}
svg text{font-size:11px;fill:var(--soft)}.grid{stroke:var(--line)}
path.gpu{fill:var(--gpu)}path.host{fill:var(--host)}path.stall{fill:var(--stall)}line.budget{stroke:var(--text);stroke-dasharray:6 4}
.key{display:inline-block;width:.8em;height:.8em;margin:0 .4em 0 .8em}.key.gpu{background:var(--gpu)}.key.host{background:var(--host)}
.key.stall{background:var(--stall)}.key.budget{height:0;border-top:2px dashed var(--text);vertical-align:middle}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.2rem .8rem .2rem 0;border-bottom:1px solid var(--line);overflow-wrap:anywhere}
";
