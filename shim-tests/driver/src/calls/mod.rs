//! What each exported function does, one file per area. Rows first, then handlers in the same order.

mod absent;
mod advice;
mod capture;
mod context;
mod copy;
mod device;
mod event;
mod graph;
mod graph_nodes;
mod host;
mod init;
mod launch;
mod managed;
mod memory;
mod module;
mod pointer;
mod pool;
mod set;
mod set_rows;
mod settings;
mod shaped;
mod stream;

pub(crate) use device::uuid;

use crate::table::Entry;

/// Every exported function of CUDA's.
pub(crate) fn entries() -> impl Iterator<Item = &'static Entry> + Clone {
    static AREAS: &[&[Entry]] = &[
        init::ENTRIES,
        device::ENTRIES,
        context::ENTRIES,
        memory::ENTRIES,
        pool::ENTRIES,
        host::ENTRIES,
        managed::ENTRIES,
        advice::ENTRIES,
        pointer::ENTRIES,
        copy::ENTRIES,
        set::ENTRIES,
        set_rows::ENTRIES,
        settings::ENTRIES,
        shaped::ENTRIES,
        stream::ENTRIES,
        event::ENTRIES,
        capture::ENTRIES,
        graph::ENTRIES,
        graph_nodes::ENTRIES,
        module::ENTRIES,
        launch::ENTRIES,
        absent::ENTRIES,
    ];
    // The static slices live in tables of `&'static` entries.
    AREAS.iter().copied().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Lane;
    use std::collections::HashSet;

    #[test]
    fn no_name_is_exported_twice() {
        let mut seen = HashSet::new();
        for entry in entries() {
            assert!(seen.insert(entry.call.name), "{}", entry.call.name);
        }
    }

    #[test]
    fn a_name_is_its_base_and_a_suffix_that_agrees_with_its_lane() {
        for entry in entries() {
            let suffix = entry
                .call
                .name
                .strip_prefix(entry.call.base)
                .unwrap_or("no base");
            let twin = suffix.ends_with("_ptsz") || suffix.ends_with("_ptds");
            assert_eq!(
                twin,
                entry.call.lane == Lane::PerThread,
                "{}",
                entry.call.name
            );
            let version = suffix.trim_end_matches("_ptsz").trim_end_matches("_ptds");
            assert!(
                ["", "_v2", "_v3", "_v4"].contains(&version)
                    || entry.call.base == "cuGraphInstantiate",
                "{}",
                entry.call.name
            );
        }
    }

    #[test]
    fn no_base_has_two_functions_of_one_version_and_lane() {
        let mut seen = HashSet::new();
        for entry in entries() {
            let lane = entry.call.lane == Lane::PerThread;
            assert!(
                seen.insert((entry.call.base, entry.call.since, lane)),
                "{}",
                entry.call.name
            );
        }
    }
}
