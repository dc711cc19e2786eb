//! What programs see of memory that vshare serves, on the simulated driver: what they would see of the driver's own.
//!
//! Most programs run twice, natively and under the shim, and must print the same.
#![expect(clippy::unwrap_used, reason = "a test that cannot start has failed")]

#[path = "pool/answers.rs"]
mod answers;
#[path = "pool/budget.rs"]
mod budget;
#[path = "pool/contents.rs"]
mod contents;
#[path = "pool/contexts.rs"]
mod contexts;
#[path = "pool/devices.rs"]
mod devices;
#[path = "pool/endings.rs"]
mod endings;
#[path = "pool/extents.rs"]
mod extents;
#[path = "pool/faults.rs"]
mod faults;
#[path = "pool/graphs.rs"]
mod graphs;
#[path = "pool/lifecycle.rs"]
mod lifecycle;
#[path = "pool/order.rs"]
mod order;
#[path = "pool/published.rs"]
mod published;
#[path = "pool/reuse.rs"]
mod reuse;
#[path = "pool/roads.rs"]
mod roads;
#[path = "pool/settings.rs"]
mod settings;
#[path = "pool/strains.rs"]
mod strains;
#[path = "pool/surroundings.rs"]
mod surroundings;
#[path = "pool/tally.rs"]
mod tally;
#[path = "pool/traces.rs"]
mod traces;

use shim_tests::{Outcome, Run, Workdir, artifact, shim};
use std::path::{Path, PathBuf};

/// Variables of a run.
type Env<'a> = &'a [(&'a str, &'a str)];

/// Where an arena may lie: with room for everything, with hardly any by either road, in device memory.
const PLACES: [Env<'static>; 4] = [
    &[],
    &[("VSHARE_BUDGET", "6MiB")],
    &[("VSHARE_BUDGET", "6MiB"), ("SIMCUDA_UVM", "1")],
    &[("SIMCUDA_CONCURRENT_MANAGED", "0")],
];

/// A directory with the simulated driver and a program linked to it.
#[derive(Debug)]
struct Bench {
    dir: Workdir,
    program: PathBuf,
}

impl Bench {
    /// Compiles one of `programs/pool_*.c`.
    fn new(name: &str) -> Self {
        let dir = Workdir::new();
        let driver = dir.path().join("libcuda.so.1");
        std::os::unix::fs::symlink(artifact("libsimcuda.so"), driver).unwrap();
        let search = format!("-L{}", dir.path().display());
        let program = dir.program(&format!("pool_{name}.c"), &[&search, "-l:libcuda.so.1"]);
        Self { dir, program }
    }

    fn run(&self, args: &[&str], env: Env<'_>) -> Run {
        let mut run = Run::new(&self.program)
            .args(args)
            .libraries(self.dir.path())
            .env("VSHARE_TELEMETRY", "0");
        for (name, value) in env {
            run = run.env(name, value);
        }
        run
    }

    /// Runs it without the shim.
    fn native(&self, args: &[&str], env: Env<'_>) -> Outcome {
        self.run(args, env).go()
    }

    /// Runs it under the shim.
    fn shimmed(&self, args: &[&str], env: Env<'_>) -> Outcome {
        self.run(args, env).preload(&[&shim()]).go()
    }

    /// What it prints under the shim, and the driver's counters.
    fn counted(&self, args: &[&str], env: Env<'_>) -> (String, Counters) {
        let path = self.dir.path().join("counters");
        let env = [env, &[("SIMCUDA_STATS", path.to_str().unwrap())]].concat();
        let printed = self.shimmed(args, &env).printed().to_owned();
        (printed, Counters::read(&path))
    }

    /// It must print the same natively and under the shim, wherever its memory lies.
    fn agrees(&self, args: &[&str]) {
        self.agrees_in(args, &[]);
    }

    /// As [`Self::agrees`], with variables for all runs.
    fn agrees_in(&self, args: &[&str], env: Env<'_>) {
        let native = self.native(args, env);
        assert_eq!(native.printed(), native.stdout);
        for place in PLACES {
            let mut outcome = self.shimmed(args, &[env, place].concat());
            outcome.stderr = without_the_line_about_devices(&outcome.stderr);
            assert_eq!(outcome, native, "{args:?} {place:?}");
        }
    }
}

/// What is said once where managed memory cannot serve is nothing that a program says.
fn without_the_line_about_devices(stderr: &str) -> String {
    let lines = stderr.split_inclusive('\n');
    lines
        .filter(|l| !l.contains("cannot oversubscribe"))
        .collect()
}

/// The simulated driver's counters of one run.
#[derive(Debug)]
struct Counters(String);

impl Counters {
    fn read(path: &Path) -> Self {
        Self(std::fs::read_to_string(path).unwrap())
    }

    /// One of them; 0 for a function that was never called.
    fn of(&self, name: &str) -> u64 {
        let key = format!("\"{name}\": ");
        let Some((_, rest)) = self.0.split_once(&key) else {
            assert!(name.starts_with("cu"), "no counter {name}");
            return 0;
        };
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
        digits.and_then(|digits| digits.parse().ok()).unwrap()
    }
}

const MIB: u64 = 1 << 20;
