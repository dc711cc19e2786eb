//! The `VSHARE_` variables: what each means, and what is used when its value means nothing.
//!
//! A bad value never stops the program: it gives one [`Complaint`], and the default is used.

use crate::units::{Size, parse_size};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

/// Which memory leaves the device, and whether memory is fetched ahead of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Looks ahead: what the program is about to use is fetched before it asks, what it needs furthest in
    /// the future leaves. As `Lru` as long as nothing can be foreseen.
    Auto,
    /// What was used longest ago leaves; what a launch names is fetched before it.
    Lru,
    /// What migrated longest ago leaves; launches fault their data in. The driver's own behaviour
    /// under the same budget, to compare with.
    Demand,
}

/// The policies' names.
pub const POLICIES: &[(&str, Policy)] = &[
    ("auto", Policy::Auto),
    ("lru", Policy::Lru),
    ("demand", Policy::Demand),
];

impl Policy {
    /// As `VSHARE_POLICY` has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        let found = POLICIES.iter().find(|p| p.1 == self);
        found.map_or("", |p| p.0)
    }
}

/// What `cuMemFree` waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeWait {
    /// For work in flight whose end the host could observe: it names pinned or managed host-visible
    /// memory. Other work cannot be told apart from finished work, and is not waited for.
    Auto,
    /// For all work in flight, as the driver does for most allocations.
    Always,
    /// For nothing.
    Never,
}

/// Through what memory moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Road {
    /// The kernel module's own calls where they do what they should, else libcuda's.
    Auto,
    /// The same, but where they cannot be had that is said.
    Direct,
    /// Libcuda's calls.
    Libcuda,
}

/// What the user asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `VSHARE_DISABLE`: pass everything through.
    pub disabled: bool,
    /// `VSHARE_BUDGET`: memory kept resident on each device. `None`: what is free at the start.
    pub budget: Option<Size>,
    /// `VSHARE_LIMIT`: memory that may be allocated. `None`: the budget and the host's headroom.
    pub limit: Option<Size>,
    /// `VSHARE_POLICY`.
    pub policy: Policy,
    /// `VSHARE_FREE_WAIT`.
    pub free_wait: FreeWait,
    /// `VSHARE_ROAD`.
    pub road: Road,
    /// `VSHARE_TELEMETRY`: publish a segment in shared memory.
    pub telemetry: bool,
    /// `VSHARE_TRACE`: the file that is recorded to. `%p` in it stands for the process's number.
    pub trace: Option<String>,
    /// `VSHARE_TRACE_TIMES`: record how long work takes on the device, too.
    pub trace_times: bool,
    /// `VSHARE_RUN`: the number by which `vshare run` finds the segments of what it started; 0 for none.
    pub run: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            disabled: false,
            budget: None,
            limit: None,
            policy: Policy::Auto,
            free_wait: FreeWait::Auto,
            road: Road::Auto,
            telemetry: true,
            trace: None,
            trace_times: false,
            run: 0,
        }
    }
}

/// A value that means nothing, in words for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// The variable.
    pub name: &'static str,
    /// Its value, made printable and short.
    pub value: String,
    /// What is wrong with it.
    pub why: String,
    /// What is used instead.
    pub instead: &'static str,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            value,
            why,
            instead,
        } = self;
        write!(f, "{name}='{value}' is ignored: {why}; using {instead}")
    }
}

/// One variable: its name, and what its default is, in words.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// As in the environment.
    pub name: &'static str,
    /// What holds when it is unset or means nothing.
    pub default: &'static str,
    read: fn(&mut Config, &str) -> Result<(), String>,
}

/// Every variable the library reads.
pub const VARIABLES: &[Variable] = &[
    Variable {
        name: "VSHARE_DISABLE",
        default: "0 (vshare is on)",
        read: |config, text| switch(text).map(|on| config.disabled = on),
    },
    Variable {
        name: "VSHARE_BUDGET",
        default: "what is free on the device at the start, less a reserve",
        read: |config, text| size(text).map(|size| config.budget = Some(size)),
    },
    Variable {
        name: "VSHARE_LIMIT",
        default: "the budget and what the host has to spare",
        read: |config, text| size(text).map(|size| config.limit = Some(size)),
    },
    Variable {
        name: "VSHARE_POLICY",
        default: "auto",
        read: |config, text| {
            config.policy = choice(text, POLICIES)?;
            Ok(())
        },
    },
    Variable {
        name: "VSHARE_FREE_WAIT",
        default: "auto",
        read: |config, text| {
            config.free_wait = choice(
                text,
                &[
                    ("auto", FreeWait::Auto),
                    ("always", FreeWait::Always),
                    ("never", FreeWait::Never),
                ],
            )?;
            Ok(())
        },
    },
    Variable {
        name: "VSHARE_ROAD",
        default: "auto",
        read: |config, text| {
            config.road = choice(
                text,
                &[
                    ("auto", Road::Auto),
                    ("direct", Road::Direct),
                    ("libcuda", Road::Libcuda),
                ],
            )?;
            Ok(())
        },
    },
    Variable {
        name: "VSHARE_TELEMETRY",
        default: "1 (published in shared memory)",
        read: |config, text| switch(text).map(|on| config.telemetry = on),
    },
    Variable {
        name: "VSHARE_TRACE",
        default: "none (nothing is recorded)",
        read: |config, text| {
            config.trace = Some(file(text)?);
            Ok(())
        },
    },
    Variable {
        name: "VSHARE_TRACE_TIMES",
        default: "0 (without the device's times)",
        read: |config, text| switch(text).map(|on| config.trace_times = on),
    },
    Variable {
        name: "VSHARE_RUN",
        default: "none",
        read: |config, text| {
            let run = text.trim().parse();
            config.run = run.map_err(|_| String::from("it is no whole number"))?;
            Ok(())
        },
    },
];

/// Reads every variable by `lookup`, which answers `None` for one that is unset.
pub fn read(mut lookup: impl FnMut(&str) -> Option<String>) -> (Config, Vec<Complaint>) {
    let mut config = Config::default();
    let mut complaints = Vec::new();
    for variable in VARIABLES {
        let Some(value) = lookup(variable.name) else {
            continue;
        };
        if let Err(why) = (variable.read)(&mut config, &value) {
            complaints.push(Complaint {
                name: variable.name,
                value: printable(&value),
                why,
                instead: variable.default,
            });
        }
    }
    (config, complaints)
}

fn size(text: &str) -> Result<Size, String> {
    parse_size(text).map_err(|error| error.to_string())
}

fn file(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err(String::from("it names no file"));
    }
    // What was not UTF-8 has such characters in its place, and would be another file.
    if text
        .chars()
        .any(|c| c.is_control() || c == char::REPLACEMENT_CHARACTER)
    {
        return Err(String::from(
            "it has control characters in it, or is not UTF-8",
        ));
    }
    Ok(String::from(text))
}

fn switch(text: &str) -> Result<bool, String> {
    const WORDS: [(&str, bool); 8] = [
        ("1", true),
        ("true", true),
        ("yes", true),
        ("on", true),
        ("0", false),
        ("false", false),
        ("no", false),
        ("off", false),
    ];
    choice(text, &WORDS)
}

fn choice<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, String> {
    let text = text.trim();
    if let Some(&(_, value)) = words.iter().find(|(w, _)| text.eq_ignore_ascii_case(w)) {
        return Ok(value);
    }
    let mut why = String::from("it is none of");
    for (word, _) in words {
        why.push(' ');
        why.push_str(word);
    }
    Err(why)
}

/// At most 60 characters, none of them a control character.
fn printable(value: &str) -> String {
    let mut text: String = value
        .chars()
        .take(60)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    if value.chars().nth(60).is_some() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> (Config, Vec<Complaint>) {
        read(|asked| (asked == name).then(|| value.to_string()))
    }

    #[test]
    fn nothing_set_is_the_default_without_a_word() {
        assert_eq!(read(|_| None), (Config::default(), Vec::new()));
    }

    #[test]
    fn good_values_are_taken() {
        assert_eq!(
            with("VSHARE_BUDGET", "2GiB").0.budget,
            Some(Size::Bytes(2 << 30))
        );
        assert_eq!(
            with("VSHARE_LIMIT", "50%").0.limit,
            Some(Size::Percent(50.0))
        );
        assert_eq!(with("VSHARE_POLICY", "Demand").0.policy, Policy::Demand);
        assert_eq!(with("VSHARE_ROAD", "libcuda").0.road, Road::Libcuda);
        assert!(with("VSHARE_DISABLE", "1").0.disabled);
        assert!(!with("VSHARE_DISABLE", "off").0.disabled);
        let file = with("VSHARE_TRACE", "a b/%p").0.trace;
        assert_eq!(file.as_deref(), Some("a b/%p"));
        assert!(with("VSHARE_TRACE_TIMES", "on").0.trace_times);
    }

    #[test]
    fn a_bad_value_is_named_in_one_line_and_the_default_holds() {
        for variable in VARIABLES {
            for bad in [
                "",
                "abc",
                "-5",
                "999999999999999999999",
                "a\nb\u{7}",
                "\u{fffd}",
            ] {
                // Most texts are good names of files.
                if variable.name == "VSHARE_TRACE"
                    && matches!(bad, "abc" | "-5" | "999999999999999999999")
                {
                    continue;
                }
                let (config, complaints) = with(variable.name, bad);
                assert_eq!(config, Config::default(), "{} {bad:?}", variable.name);
                let [complaint] = complaints.as_slice() else {
                    panic!("{} {bad:?}: {complaints:?}", variable.name);
                };
                let line = complaint.to_string();
                assert!(line.starts_with(variable.name) && !line.contains('\n'));
                assert!(line.contains(variable.default));
            }
        }
    }
}
