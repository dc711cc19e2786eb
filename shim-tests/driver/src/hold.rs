//! Kernels kept waiting so that a test has work in flight: `SIMCUDA_HOLD_KERNEL=name[:path],…`. Never longer than 30 s.

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
    let Some((_, path)) = rules().iter().find(|(held, _)| held == name) else {
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

fn rules() -> &'static [(String, Option<String>)] {
    static RULES: OnceLock<Vec<(String, Option<String>)>> = OnceLock::new();
    RULES.get_or_init(|| parse(config::config().hold.as_deref().unwrap_or_default()))
}

fn parse(text: &str) -> Vec<(String, Option<String>)> {
    let rule = |text: &str| match text.split_once(':') {
        Some((name, path)) => (name.to_owned(), Some(path.to_owned())),
        None => (text.to_owned(), None),
    };
    text.split(',')
        .filter(|text| !text.is_empty())
        .map(rule)
        .collect()
}

/// For test programs: 1 lets every held kernel go, 0 holds again.
#[expect(unsafe_code, reason = "an export for test programs")]
#[unsafe(no_mangle)]
extern "C" fn simcuda_release(release: i32) {
    RELEASED.store(release != 0, Ordering::Relaxed);
}
