//! Devices: described as the driver describes them, each counted for itself, and those that cannot oversubscribe left alone.

use crate::published::segment_of;
use crate::{Bench, Env, PLACES};

#[test]
fn every_attribute_of_a_device_is_the_drivers_b21() {
    let bench = Bench::new("device");
    for place in PLACES {
        let env = [place, &[("SIMCUDA_DEVICES", "2")]].concat();
        let native = bench.native(&["attributes"], &env);
        assert!(native.printed().contains("102:0:1"), "{native:?}");
        assert_eq!(bench.shimmed(&["attributes"], &env), native, "{place:?}");
    }
}

/// Takes memory of four devices by one kind of call.
fn is_missing_where_it_was_taken(how: &str) {
    let env = [("SIMCUDA_DEVICES", "4")];
    let bench = Bench::new("device");
    let native = bench.native(&["shares", how], &env);
    assert!(native.printed().ends_with("freed on 3: 0 0 0 0\n"));
    for place in PLACES {
        let outcome = bench.shimmed(&["shares", how], &[&env, place].concat());
        assert_eq!(outcome.stdout, native.stdout, "{place:?}");
    }
}

#[test]
fn what_is_held_on_one_device_is_missing_on_no_other_d20() {
    is_missing_where_it_was_taken("plain");
    is_missing_where_it_was_taken("in-order");
}

#[test]
fn what_is_created_on_one_device_is_missing_on_no_other_d20() {
    is_missing_where_it_was_taken("created");
}

#[test]
fn each_device_gives_what_the_limit_says_d20() {
    let bench = Bench::new("device");
    for (limit, says) in [("20MiB", "20 20 20 20 MiB\n"), ("10%", "20 20 20 20 MiB\n")] {
        let env = [
            ("SIMCUDA_DEVICES", "4"),
            ("SIMCUDA_VRAM", "200M"),
            ("VSHARE_LIMIT", limit),
        ];
        for place in PLACES {
            let outcome = bench.shimmed(&["limits"], &[&env, place].concat());
            assert_eq!(outcome.stdout, says, "{limit} {place:?}");
        }
    }
}

/// What a device's memory lies in cannot be moved to where it is: one line says so, and the device's own is used.
fn is_left_alone(env: Env<'_>) {
    let bench = Bench::new("pressure");
    let native = bench.native(&["extra", "48"], env);
    let path = bench.dir.path().join("counters");
    let counted = [
        ("SIMCUDA_STATS", path.to_str().unwrap()),
        ("VSHARE_BUDGET", "24MiB"),
    ];
    let outcome = bench.shimmed(&["extra", "48"], &[env, &counted].concat());
    assert_eq!(outcome.stdout, native.stdout, "{env:?}");
    assert_eq!(outcome.stderr.lines().count(), 1, "{env:?}: {outcome:?}");
    assert!(
        outcome.stderr.contains("cannot oversubscribe"),
        "{outcome:?}"
    );
    let counters = crate::Counters::read(&path);
    for counter in [
        "managed_allocs",
        "cuMemPrefetchAsync",
        "cuMemPrefetchAsync_v2",
    ] {
        assert_eq!(counters.of(counter), 0, "{env:?} {counter}");
    }
    assert!(counters.of("device_allocs") > 0, "{env:?}");
}

#[test]
fn a_device_whose_memory_is_the_hosts_uses_its_own_only_b16() {
    is_left_alone(&[("SIMCUDA_INTEGRATED", "1")]);
}

#[test]
fn a_device_too_old_to_fault_uses_its_own_memory_only_c9() {
    is_left_alone(&[("SIMCUDA_CC", "5.2"), ("SIMCUDA_CONCURRENT_MANAGED", "0")]);
}

/// The device that is used, not the first there is.
#[test]
fn what_is_published_names_the_device_that_is_used_d14() {
    let bench = Bench::new("device");
    for used in ["0", "2"] {
        let segment = segment_of(&bench, &["only", used], &[("SIMCUDA_DEVICES", "3")]);
        let device = segment.device().unwrap();
        assert_eq!(device.ordinal.to_string(), used);
        assert_eq!(device.name, format!("Simulated GPU {used}"));
        assert_eq!(device.uuid[15].to_string(), used, "{device:?}");
    }
}

/// What holds its room is its own: nothing that another device's moves would change.
#[test]
fn work_that_needs_more_than_fits_does_not_wait_for_another_devices_moves() {
    let env = [
        ("VSHARE_BUDGET", "16MiB"),
        ("VSHARE_POLICY", "lru"),
        ("SIMCUDA_DEVICES", "2"),
    ];
    let outcome = Bench::new("queued").shimmed(&["needs"], &env);
    assert_eq!(
        outcome.printed(),
        "it waited for nothing that is none of its own\n"
    );
}
