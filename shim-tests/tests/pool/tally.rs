//! What is published, counted twice: by the program or the driver, and by vshare. And every failure leaves an event that tells what it was.

use crate::published::{segment_of, segment_of_all};
use crate::{Bench, Env, MIB};
use vshare_shm::record::{Cause, Class, Record};

const ARENAS: [Env<'static>; 2] = [&[], &[("SIMCUDA_CONCURRENT_MANAGED", "0")]];

/// Pages are 2 MiB; below 1 MiB a multiple of 512 bytes.
const POOL: u64 = (2 + 4 + 6 + 2) * MIB;

#[test]
fn what_the_program_is_told_that_it_holds_is_what_is_published_b13() {
    let bench = Bench::new("tally");
    for env in ARENAS {
        for keeps in ["pool", "created", "nothing"] {
            let (segment, outcome) = segment_of_all(&bench, &[keeps], env);
            let (_, told) = outcome.stderr.rsplit_once("used ").unwrap();
            let told: u64 = told.trim().parse().unwrap();
            let published = ["live_bytes", "vmm_by_program_bytes"];
            let published: u64 = published.map(|n| segment.value(n).unwrap()).iter().sum();
            assert_eq!(told, published, "{keeps} {env:?}");
            assert_eq!(
                published > POOL,
                keeps == "pool",
                "{keeps} {env:?}: {published}"
            );
        }
    }
}

#[test]
fn each_kind_of_memory_is_counted_for_itself_and_its_count_returns_c25_c28_c32() {
    let bench = Bench::new("tally");
    for env in ARENAS {
        for (keeps, managed, created) in [
            ("pool", 0, 0),
            ("managed", 6 * MIB + 4096, 0),
            ("created", 0, 12 * MIB),
        ] {
            let segment = segment_of(&bench, &[keeps], env);
            let value = |name: &str| segment.value(name).unwrap();
            assert_eq!(
                value("managed_by_program_bytes"),
                managed,
                "{keeps} {env:?}"
            );
            assert_eq!(value("vmm_by_program_bytes"), created, "{keeps} {env:?}");
            let live = value("live_bytes");
            assert_eq!(live > 0, keeps == "pool", "{keeps} {env:?}: {live}");
            let device = if env.is_empty() { 0 } else { live };
            assert_eq!(value("device_class_bytes"), device, "{keeps} {env:?}");
            assert_eq!(value("allocations"), 2 * 9, "{keeps} {env:?}");
            assert_eq!(value("stream_allocations"), 2 * 2, "{keeps} {env:?}");
            assert_eq!(value("oom_limit"), 2 * 2, "{keeps} {env:?}");
        }
    }
}

/// Many threads at once, each memory freed once: whatever passes whatever, nothing is left over and nothing falls below.
#[test]
fn after_a_storm_every_count_has_returned_b9() {
    let bench = Bench::new("storm");
    for seed in ["1", "2"] {
        for env in ARENAS {
            let args = [seed, "4", "600", "two", "4096", "24"];
            let (segment, outcome) = segment_of_all(
                &bench,
                &args,
                &[env, &[("VSHARE_BUDGET", "24MiB")]].concat(),
            );
            assert!(outcome.stderr.contains("every block held"), "{outcome:?}");
            let value = |name: &str| segment.value(name).unwrap();
            assert_eq!(value("allocations"), value("frees"), "{seed} {env:?}");
            for name in ["live_bytes", "device_class_bytes", "panics"] {
                assert_eq!(value(name), 0, "{name} {seed} {env:?}");
            }
        }
    }
}

/// What is still counted of three contexts that have ended with memory in them.
fn left_after(name: &str) -> Vec<(&'static str, Env<'static>, u64)> {
    let bench = Bench::new("tally");
    let mut left = Vec::new();
    for env in ARENAS {
        for how in ["destroyed", "reset", "released"] {
            let (segment, outcome) = segment_of_all(&bench, &[how], env);
            assert!(outcome.stderr.ends_with("used 0\n"), "{how}: {outcome:?}");
            left.push((how, env, segment.value(name).unwrap()));
        }
    }
    left.retain(|(_, _, bytes)| *bytes > 0);
    left
}

#[test]
fn what_a_context_held_in_the_pool_is_not_counted_after_its_end_c14() {
    for name in ["live_bytes", "resident_bytes", "host_bytes", "arena_bytes"] {
        assert_eq!(left_after(name), [], "{name}");
    }
}

#[test]
fn managed_memory_that_went_with_its_context_is_not_counted_c14_c28() {
    assert_eq!(left_after("managed_by_program_bytes"), []);
}

/// Where memory comes from is told alike when it comes and when it goes.
#[test]
fn events_tell_where_memory_comes_from_c25() {
    let bench = Bench::new("tally");
    for (env, class) in ARENAS.into_iter().zip([Class::Managed, Class::Device]) {
        let segment = segment_of(&bench, &["nothing"], env);
        let mut seen = (0, 0);
        for event in segment.events() {
            match event.record {
                Record::Allocated { class: of, .. } => {
                    assert_eq!(of, class, "{env:?}");
                    seen.0 += 1;
                }
                Record::Freed { class: of, .. } => {
                    assert_eq!(of, class, "{env:?}");
                    seen.1 += 1;
                }
                _ => {}
            }
        }
        assert_eq!(seen, (18, 18), "{env:?}");
    }
}

/// The failures among a run's events: call, code, device, bytes.
fn failures(bench: &Bench, args: &[&str], env: Env<'_>) -> Vec<(String, u32, u32, u64)> {
    let segment = segment_of(bench, args, env);
    let failed = |record| match record {
        Record::Failed {
            call,
            code,
            device,
            bytes,
        } => Some((call.text(), code, device, bytes)),
        _ => None,
    };
    let events = segment.events();
    let found: Vec<_> = events
        .into_iter()
        .filter_map(|e| failed(e.record))
        .collect();
    assert_eq!(
        segment.value("driver_failures"),
        Some(found.len() as u64),
        "{env:?}"
    );
    found
}

#[test]
fn a_call_of_ours_that_fails_leaves_an_event_with_its_name_and_code_d22() {
    let bench = Bench::new("faults");
    for (rule, call, code) in [
        ("cuMemPrefetchAsync:3:2", "cuMemPrefetchAsy", 2),
        ("cuMemPrefetchAsync:5:999", "cuMemPrefetchAsy", 999),
    ] {
        let found = failures(&bench, &[], &[("SIMCUDA_FAIL", rule)]);
        let [(name, said, 0, _)] = &*found else {
            panic!("{rule}: {found:?}");
        };
        // Sixteen bytes of the name behind its "cu".
        assert!(name.starts_with(call), "{rule}: {found:?}");
        assert_eq!(*said, code, "{rule}");
    }
}

/// Where a call fails once without which there is no pool, or none that moves: the program runs on, and what it was can be read.
#[test]
fn a_failure_while_an_arena_is_made_leaves_an_event_d22() {
    let bench = Bench::new("faults");
    let calls = [
        "cuStreamCreate",
        "cuEventCreate",
        "cuCtxGetDevice",
        "cuMemGetInfo",
        "cuDeviceTotalMem",
        "cuDeviceGetAttribute",
    ];
    let silent: Vec<_> = calls
        .into_iter()
        .filter(|call| {
            let rule = format!("{call}:1:999");
            let found = failures(&bench, &[], &[("SIMCUDA_FAIL", &*rule)]);
            !found.iter().any(|(_, code, _, _)| *code == 999)
        })
        .collect();
    assert!(silent.is_empty(), "without an event: {silent:?}");
}

/// A line that names what is not the reason is of no use.
#[test]
fn a_call_that_failed_is_not_said_to_be_what_the_device_cannot_do_d22() {
    let bench = Bench::new("faults");
    for call in ["cuStreamCreate", "cuEventCreate"] {
        let rule = format!("{call}:1:999");
        let outcome = bench.shimmed(&[], &[("SIMCUDA_FAIL", &*rule)]);
        let said = &outcome.stderr;
        assert!(
            !said.contains("no concurrent managed access"),
            "{rule}: {said}"
        );
    }
}

#[test]
fn an_event_of_a_failure_names_the_device_d22() {
    let bench = Bench::new("device");
    let env = [
        ("SIMCUDA_DEVICES", "3"),
        ("SIMCUDA_FAIL", "cuMemPrefetchAsync:3:2"),
    ];
    let found = failures(&bench, &["only", "2"], &env);
    assert!(!found.is_empty());
    for (call, _, device, bytes) in found {
        assert_eq!(device, 2, "{call}");
        assert!(bytes > 0, "{call}");
    }
}

/// The threads that move memory have no context of their own.
#[test]
fn an_event_of_a_move_that_failed_names_the_device_whose_memory_it_was_d22() {
    let bench = Bench::new("device");
    for rule in ["cuMemPrefetchAsync:9+:2", "UVM_MIGRATE:16+:2"] {
        let env = [
            ("SIMCUDA_DEVICES", "3"),
            (
                "SIMCUDA_UVM",
                if rule.starts_with("UVM") { "1" } else { "0" },
            ),
            ("VSHARE_BUDGET", "6MiB"),
            ("SIMCUDA_FAIL", rule),
        ];
        let found = failures(&bench, &["only", "2"], &env);
        assert!(!found.is_empty(), "{rule}");
        for (call, _, device, _) in found {
            assert_eq!(device, 2, "{call} {rule}");
        }
    }
}

#[test]
fn an_event_of_an_extent_refused_names_the_call_that_was_made_d22() {
    let bench = Bench::new("limit");
    for (env, call) in ARENAS.into_iter().zip(["cuMemAllocManaged", "cuMemAlloc"]) {
        let rule = format!("{call}:1+:2");
        let fail = [("SIMCUDA_FAIL", &*rule), ("SIMCUDA_VRAM", "300M")];
        let found = failures(&bench, &[], &[env, &fail].concat());
        assert!(!found.is_empty());
        for (name, code, _, bytes) in found {
            assert_eq!((&*name, code), (call, 2), "{env:?}");
            assert!(bytes >= 2 * MIB, "{env:?}: {bytes}");
        }
    }
}

#[test]
fn an_allocation_refused_leaves_an_event_with_its_size_and_cause_d22() {
    let bench = Bench::new("limit");
    let vram = ("SIMCUDA_VRAM", "300M");
    for (env, cause) in [
        (("VSHARE_LIMIT", "100MiB"), Cause::Limit),
        (("SIMCUDA_FAIL", "cuMemAllocManaged:1+:2"), Cause::Driver),
    ] {
        let segment = segment_of(&bench, &[], &[vram, env]);
        let refused = |record| match record {
            Record::Refused { bytes, cause, .. } => Some((bytes, cause)),
            _ => None,
        };
        let events = segment.events();
        let found: Vec<_> = events
            .into_iter()
            .filter_map(|e| refused(e.record))
            .collect();
        assert!(!found.is_empty(), "{env:?}");
        for found in found {
            assert_eq!(found, (2 * MIB, cause), "{env:?}");
        }
    }
}
