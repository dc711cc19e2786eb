//! `vshare sim`: replays traces under policies and budgets, and says how far each is from what is possible.

mod patterns;
mod table;
mod write;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use vshare_core::link::Link;
use vshare_core::trace::{Trace, Window};
use vshare_core::units::{Human, PAGE, Size, parse_size};
use vshare_core::{bound, ideal, policies, replay};

use crate::{Failure, print, say};
use table::{Bound, Row, Sheet};

/// Percent of the peak, where no budget is given.
const BUDGETS: [f64; 5] = [95.0, 80.0, 67.0, 50.0, 25.0];

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Recorded traces
    #[arg(value_name = "TRACE", required_unless_present = "generate")]
    traces: Vec<PathBuf>,
    /// A budget, as a size or as a percentage of the most that the trace has allocated at once; may be
    /// repeated [default: 95% 80% 67% 50% 25%]
    #[arg(long, value_name = "SIZE|PERCENT%", value_parser = size, allow_negative_numbers = true)]
    budget: Vec<Size>,
    /// A policy; may be repeated [default: all]
    #[arg(long, value_parser = PossibleValuesParser::new(policies::NAMES))]
    policy: Vec<String>,
    /// Percent of the trace's time on the device that is warm-up and does not count
    #[arg(long, value_name = "N%", default_value = "40%", value_parser = percent)]
    skip: u64,
    /// The link's GB/s in, out, and in and out while both run
    #[arg(long, value_name = "IN,OUT,IN,OUT", default_value = "50,50,33,33", value_parser = rates)]
    link: [f64; 4],
    /// Moves in each direction at a time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: u16,
    /// Take a generated trace
    #[arg(long, value_name = "PATTERN", conflicts_with = "traces",
          value_parser = PossibleValuesParser::new(patterns::names()))]
    generate: Option<String>,
    /// With --generate: the number from which random patterns are made [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// With --generate: write the trace to a file instead of replaying it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn size(text: &str) -> Result<Size, String> {
    parse_size(text).map_err(|error| error.to_string())
}

fn percent(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    match number.trim().parse() {
        Ok(percent) if percent < 100 => Ok(percent),
        _ => Err("it is not a whole percentage from 0% to 99%".to_owned()),
    }
}

fn rates(text: &str) -> Result<[f64; 4], String> {
    let numbers: Vec<f64> = text
        .split(',')
        .filter_map(|number| number.trim().parse().ok())
        .filter(|rate| (0.001..=1e6).contains(rate))
        .collect();
    match numbers.try_into() {
        Ok(rates) if text.split(',').count() == 4 => Ok(rates),
        _ => Err("it is not four rates in GB/s, such as 50,50,33,33".to_owned()),
    }
}

pub(crate) fn sim(options: &Options) -> Result<ExitCode, Failure> {
    let mut sheets = Vec::new();
    if let Some(name) = &options.generate {
        let bytes = patterns::generate(name, options.seed.unwrap_or(1))
            .ok_or_else(|| Failure::with_code(format!("{name}: no such pattern"), 2))?;
        if let Some(out) = &options.out {
            std::fs::write(out, bytes).map_err(|error| {
                Failure::new(format!("cannot write {}: {error}", out.display()))
            })?;
            return Ok(ExitCode::SUCCESS);
        }
        let trace = Trace::read(&bytes)
            .map_err(|error| Failure::new(format!("the pattern {name}: {error}")))?;
        sheets.push(sheet(name.clone(), &trace, options)?);
    } else if options.out.is_some() || options.seed.is_some() {
        // clap waives what an option requires where something that conflicts with that is there.
        return Err(Failure::with_code(
            "--out and --seed are for generated traces: name a pattern with --generate",
            2,
        ));
    }
    for path in &options.traces {
        let trace = read(path)?;
        sheets.push(sheet(path.display().to_string(), &trace, options)?);
    }
    if options.json {
        let list: serde_json::Value = sheets.iter().map(Sheet::to_json).collect();
        print(&format!("{list:#}\n"))?;
    } else {
        let texts: Vec<String> = sheets.iter().map(Sheet::to_text).collect();
        print(&texts.join("\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> Result<Trace, Failure> {
    let bytes = std::fs::read(path)
        .map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())))?;
    let trace = Trace::read(&bytes)
        .map_err(|error| Failure::new(format!("cannot use {}: {error}", path.display())))?;
    if let Some(at) = trace.truncated() {
        say(format_args!(
            "{} ends in the middle of the record that begins at byte {at}, as when its writer was killed: \
             it is used up to there",
            path.display()
        ));
    }
    Ok(trace)
}

fn sheet(name: String, trace: &Trace, options: &Options) -> Result<Sheet, Failure> {
    let [into, out, both_in, both_out] = options.link;
    let link = Link {
        into,
        out,
        both_in,
        both_out,
        workers: options.workers.into(),
        ..Link::default()
    };
    let window = trace.window(options.skip);
    let default = BUDGETS.map(Size::Percent);
    let budgets = if options.budget.is_empty() {
        &default[..]
    } else {
        &options.budget
    };
    let names: Vec<&str> = if options.policy.is_empty() {
        policies::NAMES.to_vec()
    } else {
        options.policy.iter().map(String::as_str).collect()
    };
    let mut sheet = Sheet::new(name, trace, window);
    for &size in budgets {
        let pages = pages(&sheet.name, trace, size)?;
        let bound = bounds(trace, pages, &window, &link);
        let rows = names
            .iter()
            .filter_map(|name| {
                let mut policy = policies::named(name)?;
                let outcome = replay::replay(trace, pages, &window, &link, &mut *policy);
                Some(Row {
                    policy: policy.name(),
                    outcome,
                })
            })
            .collect();
        sheet.add(pages, bound, rows);
    }
    Ok(sheet)
}

fn bounds(trace: &Trace, pages: u64, window: &Window, link: &Link) -> Bound {
    let plan = bound::plan(trace, pages, window);
    let (bytes_in, bytes_out) = plan.bytes(window.first);
    Bound {
        bytes_in,
        bytes_out,
        ideal: ideal::time(trace, pages, window, link),
    }
}

/// A budget in pages.
fn pages(name: &str, trace: &Trace, size: Size) -> Result<u64, Failure> {
    let peak = trace.peak() * PAGE;
    let bytes = size.of(peak);
    let wrong = |what| {
        Failure::with_code(
            format!("a budget of {} for {name}: {what}", Human(bytes)),
            2,
        )
    };
    if bytes < PAGE {
        return Err(wrong(format!(
            "it is less than one page of 2 MiB; the trace has {} at most, so give more than {:.2}%",
            Human(peak),
            100.0 / f64::from(u32::try_from(trace.peak()).unwrap_or(u32::MAX))
        )));
    }
    if bytes > peak {
        return Err(wrong(format!(
            "the trace never has more than {}, so nothing would have to move; give less, or a percentage",
            Human(peak)
        )));
    }
    Ok(bytes / PAGE)
}
