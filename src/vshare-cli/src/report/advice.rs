//! What the numbers mean, and what to change.

use vshare_core::units::Human;

use crate::recording::Recording;
use crate::text::Nanoseconds;

/// How much a remark matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    Good,
    Note,
    Bad,
}

/// A remark in plain words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remark {
    pub(crate) weight: Weight,
    pub(crate) text: String,
}

/// All that there is to say, what matters most first.
pub(crate) fn on(recording: &Recording) -> Vec<Remark> {
    let mut remarks = Vec::new();
    let mut say = |weight, text: String| remarks.push(Remark { weight, text });
    let snapshot = &recording.last;
    let value = |name: &str| snapshot.value(name);

    trouble(&value, &mut say);
    refusals(&value, &mut say);
    movement(recording, &value, &mut say);
    not_served(&value, &mut say);
    if snapshot.command.contains("python")
        && value("evicted_bytes") > 0
        && value("allocations") > 0
        && value("stream_allocations") == 0
    {
        say(
            Weight::Note,
            "This is Python, and no allocation came in stream order: if it is PyTorch, its own cache hides from vshare what is \
             free. PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync moves about half as much; `vshare run` sets it."
                .to_owned(),
        );
    }
    if recording.lost > 0 || value("records_dropped") > 0 {
        let lost = recording.lost.saturating_add(value("records_dropped"));
        say(
            Weight::Note,
            format!(
                "{lost} events were lost, so the charts do not show everything; the numbers in the tables are complete. \
                 --follow or --seconds records a running process without gaps."
            ),
        );
    }
    remarks.sort_by_key(|remark| match remark.weight {
        Weight::Bad => 0,
        Weight::Note => 1,
        Weight::Good => 2,
    });
    remarks
}

fn trouble(value: &impl Fn(&str) -> u64, say: &mut impl FnMut(Weight, String)) {
    let (failures, fallbacks, panics) = (
        value("driver_failures"),
        value("fallbacks"),
        value("panics"),
    );
    if failures > 0 || fallbacks > 0 {
        say(
            Weight::Bad,
            format!(
                "{failures} driver calls of vshare's own failed, and {fallbacks} times a part of it stepped aside: `vshare log` has the calls and their codes."
            ),
        );
    }
    if panics > 0 {
        say(
            Weight::Bad,
            format!("{panics} defects in vshare were caught: please report them."),
        );
    }
}

fn refusals(value: &impl Fn(&str) -> u64, say: &mut impl FnMut(Weight, String)) {
    let (limit, driver) = (value("oom_limit"), value("oom_driver"));
    if limit > 0 {
        say(
            Weight::Bad,
            format!(
                "{limit} allocations were refused because they went beyond the limit of {}: a larger --limit lets the program have more, \
                 if the host has the memory.",
                Human(value("limit_bytes"))
            ),
        );
    }
    if driver > 0 {
        say(
            Weight::Bad,
            format!(
                "{driver} allocations were refused because the driver had no memory: other programs may take the GPU's; a smaller --budget leaves more to spare."
            ),
        );
    }
}

fn movement(
    recording: &Recording,
    value: &impl Fn(&str) -> u64,
    say: &mut impl FnMut(Weight, String),
) {
    let (peak, budget) = (value("peak_live_bytes"), value("budget_bytes"));
    let moved = recording.last.moved();
    if moved == 0 {
        let text = match peak <= budget {
            true => "Everything fitted into the budget: nothing had to move.".to_owned(),
            false => "Nothing has moved yet.".to_owned(),
        };
        say(Weight::Good, text);
        return;
    }
    if peak > budget {
        let over = peak - budget;
        say(
            Weight::Note,
            format!(
                "At its most the program held {}, which is {} more than its budget of {}; {} went over the link. With a --budget of {} \
                 nothing would have to move; each step towards it helps.",
                Human(peak),
                Human(over),
                Human(budget),
                Human(moved),
                Human(peak)
            ),
        );
    }
    let (stalled, elapsed) = (value("stall_nanoseconds"), recording.end_ns());
    let percent = stalled
        .saturating_mul(100)
        .checked_div(elapsed)
        .unwrap_or(0);
    if percent >= 10 {
        say(
            Weight::Bad,
            format!(
                "The program waited {} for moves, {percent} % of its time so far: more budget, smaller batches, or work that uses its data \
                 more often before it moves on to other data would help.",
                Nanoseconds(stalled)
            ),
        );
    } else {
        say(
            Weight::Good,
            format!(
                "The program waited {} for moves, {percent} % of its time so far.",
                Nanoseconds(stalled)
            ),
        );
    }
    let over = value("over_budget_launches");
    if over > 0 {
        say(
            Weight::Note,
            format!(
                "{over} pieces of work needed more than the budget all by themselves, and ran over it."
            ),
        );
    }
}

fn not_served(value: &impl Fn(&str) -> u64, say: &mut impl FnMut(Weight, String)) {
    let vmm = value("vmm_by_program_bytes");
    if vmm > 0 {
        say(
            Weight::Note,
            format!(
                "{} were made with cuMemCreate, which vshare does not serve: choose another allocator (PyTorch: \
                 backend:cudaMallocAsync instead of expandable_segments; JAX: XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async).",
                Human(vmm)
            ),
        );
    }
    let managed = value("managed_by_program_bytes");
    if managed > 0 {
        say(
            Weight::Note,
            format!(
                "{} are managed memory of the program's own, which is left to the driver.",
                Human(managed)
            ),
        );
    }
    let (launches, unknown, graphs) = (
        value("launches"),
        value("launches_unknown"),
        value("graph_launches"),
    );
    if graphs > launches {
        say(
            Weight::Note,
            "Most work is launched as CUDA graphs, into which vshare does not look: what it needs is faulted in, which is slower than \
             being fetched ahead."
                .to_owned(),
        );
    }
    if unknown > launches / 2 {
        say(
            Weight::Note,
            "Of most launches the parameters are not known, so nothing is fetched ahead for them: a driver for CUDA 12.4 or later tells them."
                .to_owned(),
        );
    }
    let waits = value("free_waits");
    if waits > 1000 {
        say(
            Weight::Note,
            format!(
                "{waits} frees waited for work in flight, as the driver's own do: VSHARE_FREE_WAIT=never spares that, if the program does not rely on it."
            ),
        );
    }
}
