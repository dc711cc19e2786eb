//! What replays came to, for people and for machines.

use std::fmt::Write;

use serde_json::{Value, json};
use vshare_core::ideal::Ideal;
use vshare_core::replay::Outcome;
use vshare_core::trace::{Trace, Window};
use vshare_core::units::{Human, PAGE};

/// What is possible.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) ideal: Ideal,
}

/// What one policy made of it.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) policy: &'static str,
    pub(crate) outcome: Outcome,
}

#[derive(Debug)]
struct Section {
    pages: u64,
    bound: Bound,
    rows: Vec<Row>,
}

/// All about one trace.
#[derive(Debug)]
pub(crate) struct Sheet {
    pub(crate) name: String,
    peak: u64,
    works: usize,
    window: Window,
    sections: Vec<Section>,
}

impl Sheet {
    pub(crate) fn new(name: String, trace: &Trace, window: Window) -> Self {
        Self {
            name,
            peak: trace.peak() * PAGE,
            works: trace.works().len(),
            window,
            sections: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, pages: u64, bound: Bound, rows: Vec<Row>) {
        self.sections.push(Section { pages, bound, rows });
    }

    /// How much is shown as one: a step, or all that counts.
    fn share(&self) -> u64 {
        self.window.steps.max(1) as u64
    }

    pub(crate) fn to_text(&self) -> String {
        let mut text = format!(
            "{}: {} pieces of work, at most {} at once; ",
            self.name,
            self.works,
            Human(self.peak)
        );
        let counted = self.works - self.window.first;
        _ = match self.window.period {
            Some(period) => writeln!(
                text,
                "steps of {period}, the last {} of which count; figures are for one",
                self.window.steps
            ),
            None => writeln!(
                text,
                "no steps found, the last {counted} count; figures are for all of them"
            ),
        };
        _ = writeln!(
            text,
            "{:<16} {:<10} {:>9} {:>9} {:>9} {:>7} {:>10} {:>10} {:>6} {:>8} {:>7}",
            "budget",
            "policy",
            "MiB in",
            "MiB out",
            "remote",
            "stalls",
            "stalled ms",
            "time ms",
            "GB/s",
            "x bytes",
            "x time"
        );
        for section in &self.sections {
            self.section(section, &mut text);
        }
        text
    }

    fn section(&self, section: &Section, text: &mut String) {
        let share = self.share();
        let bound = &section.bound;
        let ideal = &bound.ideal;
        let least = bound.bytes_in + bound.bytes_out;
        let budget = format!(
            "{} ({:.0}%)",
            Human(section.pages * PAGE),
            100.0 * float(section.pages * PAGE) / float(self.peak)
        );
        _ = writeln!(
            text,
            "{budget:<16} {:<10} {:>9} {:>9} {:>9} {:>7} {:>10} {:>10} {:>6} {:>8} {:>7}",
            "possible",
            mib(bound.bytes_in / share),
            mib(bound.bytes_out / share),
            0,
            0,
            ms(0),
            ms(ideal.time / share),
            rate(least, ideal.time),
            "1.000",
            "1.000",
        );
        for row in &section.rows {
            let outcome = &row.outcome;
            _ = writeln!(
                text,
                "{:<16} {:<10} {:>9} {:>9} {:>9} {:>7} {:>10} {:>10} {:>6} {:>8} {:>7}",
                "",
                row.policy,
                mib(outcome.bytes_in / share),
                mib(outcome.bytes_out / share),
                mib(outcome.remote / share),
                outcome.stalls / share,
                ms(outcome.stalled / share),
                ms(outcome.time / share),
                rate(outcome.moved(), outcome.time),
                times(outcome.moved(), least),
                times(outcome.time, ideal.time),
            );
        }
        _ = writeln!(
            text,
            "{:<16} computing {} ms; no less than {} ms, or {} ms if one direction waits for the other",
            "",
            ms(ideal.compute / share),
            ms(ideal.least / share),
            ms(ideal.sum / share),
        );
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "trace": self.name,
            "peak_bytes": self.peak,
            "works": self.works,
            "first_counted": self.window.first,
            "works_per_step": self.window.period,
            "steps": self.window.steps,
            "budgets": self.sections.iter().map(|s| self.section_json(s)).collect::<Vec<_>>(),
        })
    }

    fn section_json(&self, section: &Section) -> Value {
        let Bound {
            bytes_in,
            bytes_out,
            ideal,
        } = &section.bound;
        let least = bytes_in + bytes_out;
        let steps = self.window.steps as u64;
        let per_step = |ns: u64| ns.checked_div(steps);
        let rows: Vec<Value> = section
            .rows
            .iter()
            .map(|row| {
                let o = &row.outcome;
                json!({
                    "policy": row.policy,
                    "in_bytes": o.bytes_in,
                    "out_bytes": o.bytes_out,
                    "remote_bytes": o.remote,
                    "dropped_bytes": o.dropped,
                    "populated_bytes": o.populated,
                    "stalls": o.stalls,
                    "stalled_ns": o.stalled,
                    "over_budget_works": o.over,
                    "peak_resident_bytes": o.peak,
                    "time_ns": o.time,
                    "time_per_step_ns": per_step(o.time),
                    "moved_bytes_per_second": float(o.moved()) / float(o.time.max(1)) * 1e9,
                    "bytes_ratio": ratio(o.moved(), least),
                    "time_ratio": ratio(o.time, ideal.time),
                })
            })
            .collect();
        json!({
            "budget_bytes": section.pages * PAGE,
            "bound": {
                "in_bytes": bytes_in,
                "out_bytes": bytes_out,
                "time_ns": ideal.time,
                "time_per_step_ns": per_step(ideal.time),
                "compute_ns": ideal.compute,
                "least_ns": ideal.least,
                "sum_ns": ideal.sum,
            },
            "policies": rows,
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "for people and ratios")]
fn float(number: u64) -> f64 {
    number as f64
}

fn mib(bytes: u64) -> u64 {
    bytes >> 20
}

fn ms(nanoseconds: u64) -> String {
    format!("{:.1}", float(nanoseconds) / 1e6)
}

fn rate(bytes: u64, nanoseconds: u64) -> String {
    format!("{:.1}", float(bytes) / float(nanoseconds.max(1)))
}

/// `None` where nothing is possible and something was needed.
fn ratio(is: u64, least: u64) -> Option<f64> {
    match (is, least) {
        (0, 0) => Some(1.0),
        (_, 0) => None,
        _ => Some(float(is) / float(least)),
    }
}

fn times(is: u64, least: u64) -> String {
    ratio(is, least).map_or_else(|| "-".to_owned(), |r| format!("{r:.3}"))
}
