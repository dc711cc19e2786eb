//! `vshare doctor`: whether vshare can work here, and what to do where it cannot.

mod gpu;
mod host;
mod setup;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::text::{self, printable};
use crate::{Failure, print};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// A program, to see whether it can be served
    #[arg(value_name = "PROGRAM")]
    program: Option<OsString>,
    /// The libvshare.so to look at [default: $VSHARE_LIBRARY, or the one beside this executable]
    #[arg(long, value_name = "PATH")]
    library: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How something looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    /// As it should be.
    Ok,
    /// vshare works, with less than there could be.
    Warn,
    /// vshare does not work so.
    Fail,
}

impl Status {
    fn text(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// One thing looked at: what was found, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Check {
    name: &'static str,
    status: Status,
    found: String,
    advice: Option<String>,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            name,
            status: Status::Ok,
            found: found.into(),
            advice: None,
        }
    }

    fn warn(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            status: Status::Warn,
            advice: Some(advice.into()),
            ..Self::ok(name, found)
        }
    }

    fn fail(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            status: Status::Fail,
            ..Self::warn(name, found, advice)
        }
    }
}

pub(crate) fn doctor(options: &Options) -> Result<ExitCode, Failure> {
    let mut checks = setup::library(options.library.as_deref());
    checks.push(setup::preloads());
    checks.extend(setup::variables());
    let (driver, largest) = gpu::driver();
    checks.extend(driver);
    checks.push(gpu::visible());
    checks.push(host::memory(largest));
    checks.push(host::shared_memory());
    checks.push(host::container());
    if let Some(program) = &options.program {
        checks.push(setup::program(program, options.library.as_deref()));
    }
    let good = checks.iter().all(|check| check.status != Status::Fail);
    if options.json {
        let list: Value = checks.iter().map(to_json).collect();
        print(&(text::json(&format_args!("{:#}", json!({ "ok": good, "checks": list }))) + "\n"))?;
    } else {
        print(&to_text(&checks))?;
    }
    Ok(ExitCode::from(u8::from(!good)))
}

fn to_json(check: &Check) -> Value {
    json!({
        "name": check.name,
        "status": check.status.text(),
        "found": check.found,
        "advice": check.advice,
    })
}

fn to_text(checks: &[Check]) -> String {
    let mut text = String::new();
    for check in checks {
        let (status, name) = (check.status.text(), check.name);
        _ = writeln!(text, "{status:<5} {name:<14} {}", printable(&check.found)); // a String takes all
        if let Some(advice) = &check.advice {
            _ = writeln!(text, "{:20} -> {}", "", printable(advice));
        }
    }
    let count = |status| checks.iter().filter(|c| c.status == status).count();
    let said = match (count(Status::Fail), count(Status::Warn)) {
        (0, 0) => "vshare can work here".to_owned(),
        (0, warnings) => format!("vshare can work here, with {}", plural(warnings, "warning")),
        (failures, _) => format!("vshare cannot work here: {}", plural(failures, "failure")),
    };
    text + "\n" + &said + "\n"
}

fn plural(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
