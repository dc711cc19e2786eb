//! Calls told to take long: `SIMCUDA_SLOW=call:microseconds,…`. A name covers every version and twin of the call.

use crate::config;
use crate::gate::Call;
use std::sync::OnceLock;
use std::time::Duration;

/// Returns when the call may go on. It has been counted by then, so that others can see that it is under way.
pub(crate) fn wait(call: &Call) {
    let named = |(name, _): &&(String, Duration)| name == call.base || name == call.name;
    if let Some((_, time)) = rules().iter().find(named) {
        std::thread::sleep(*time);
    }
}

fn rules() -> &'static [(String, Duration)] {
    static RULES: OnceLock<Vec<(String, Duration)>> = OnceLock::new();
    RULES.get_or_init(|| parse(config::config().slow.as_deref().unwrap_or_default()))
}

fn parse(text: &str) -> Vec<(String, Duration)> {
    let rule = |text: &str| {
        let (name, micros) = text.trim().split_once(':')?;
        Some((name.to_owned(), Duration::from_micros(micros.parse().ok()?)))
    };
    text.split(',').filter_map(rule).collect()
}
