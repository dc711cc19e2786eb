//! Kernels kept waiting so that a test has work in flight: `SIMCUDA_HOLD_KERNEL=name[:path],…`; calls, so that it has a thread in the
//! driver: `SIMCUDA_HOLD_CALL`. Never longer than 30 s.

use crate::{config, stats};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_micros(200);

static RELEASED: AtomicBool = AtomicBool::new(false);

/// Returns when the kernel of that name may go on: its file exists, or `simcuda_release` was called.
pub(crate) fn wait(name: &str) {
    static RULES: OnceLock<Vec<Rule>> = OnceLock::new();
    let rules = RULES.get_or_init(|| parse(config::config().hold.as_deref()));
    hold(rules, name);
}

/// The same for a call.
pub(crate) fn wait_in_call(name: &str) {
    static RULES: OnceLock<Vec<Rule>> = OnceLock::new();
    let rules = RULES.get_or_init(|| parse(config::config().hold_call.as_deref()));
    hold(rules, name);
}

/// A name, and the file that lets it go.
type Rule = (String, Option<String>);

fn hold(rules: &[Rule], name: &str) {
    let Some((_, path)) = rules.iter().find(|(held, _)| held == name) else {
        return;
    };
    let start = Instant::now();
    stats::COUNTERS.held.one();
    while start.elapsed() < LIMIT
        && !RELEASED.load(Ordering::Relaxed)
        && !path.as_deref().is_some_and(|path| Path::new(path).exists())
    {
        std::thread::sleep(LOOK_EVERY);
    }
}

fn parse(text: Option<&str>) -> Vec<Rule> {
    let rule = |text: &str| match text.split_once(':') {
        Some((name, path)) => (name.to_owned(), Some(path.to_owned())),
        None => (text.to_owned(), None),
    };
    text.unwrap_or_default()
        .split(',')
        .filter(|text| !text.is_empty())
        .map(rule)
        .collect()
}

/// For test programs: 1 lets everything go that is held, 0 holds again.
#[expect(unsafe_code, reason = "an export for test programs")]
#[unsafe(no_mangle)]
extern "C" fn simcuda_release(release: i32) {
    RELEASED.store(release != 0, Ordering::Relaxed);
}
