//! Budget and limit: kept, and told to the program at allocation.

use crate::{Bench, Env};

#[test]
fn over_the_limit_an_allocation_is_refused_and_the_program_goes_on_c10() {
    let bench = Bench::new("limit");
    let cases: [(Env<'_>, u32); 6] = [
        (&[("VSHARE_LIMIT", "100MiB")], 100),
        (
            &[("VSHARE_LIMIT", "100MiB"), ("VSHARE_BUDGET", "20MiB")],
            100,
        ),
        (&[("VSHARE_LIMIT", "10%")], 30),
        (&[("VSHARE_LIMIT", "1")], 0),
        (
            &[("VSHARE_LIMIT", "100MiB"), ("VSHARE_POLICY", "demand")],
            100,
        ),
        (
            &[("VSHARE_LIMIT", "100MiB"), ("VSHARE_FREE_WAIT", "always")],
            100,
        ),
    ];
    for (env, mib) in cases {
        let env = [env, &[("SIMCUDA_VRAM", "300M")]].concat();
        let refused = format!("{mib} MiB, then 2\n2 2 99\n2\n");
        assert_eq!(
            bench.shimmed(&[], &env).printed(),
            refused.repeat(2),
            "{env:?}"
        );
    }
}

/// Where managed memory cannot serve, the limit holds too, and nearly all of the device can be had.
#[test]
fn in_device_memory_the_limit_holds_and_the_device_can_be_filled_c8() {
    let bench = Bench::new("limit");
    let cases: [(Env<'_>, u32); 2] = [(&[("VSHARE_LIMIT", "100MiB")], 100), (&[], 300)];
    for (env, mib) in cases {
        let device = [
            ("SIMCUDA_VRAM", "300M"),
            ("SIMCUDA_CONCURRENT_MANAGED", "0"),
        ];
        let outcome = bench.shimmed(&[], &[env, &device].concat());
        let refused = format!("{mib} MiB, then 2\n2 2 99\n2\n");
        assert_eq!(outcome.stdout, refused.repeat(2), "{env:?}");
        let [line] = *outcome.stderr.lines().collect::<Vec<_>>() else {
            panic!("{outcome:?}");
        };
        assert!(
            line.starts_with("vshare: device 0 cannot oversubscribe"),
            "{line}"
        );
    }
}

#[test]
fn disabled_it_is_as_if_it_were_not_there() {
    for (program, args) in [("limit", &[][..]), ("queries", &[]), ("async", &[])] {
        let bench = Bench::new(program);
        let vram = ("SIMCUDA_VRAM", "300M");
        let off = [vram, ("VSHARE_DISABLE", "1"), ("VSHARE_LIMIT", "20MiB")];
        let native = bench.native(args, &[vram]);
        assert_eq!(bench.shimmed(args, &off), native, "{program}");
    }
}

#[test]
fn a_program_whose_memory_fits_gets_no_thread() {
    let bench = Bench::new("quiet");
    assert_eq!(bench.shimmed(&[], &[]).printed(), "0\n");
    // Over the budget there are two: one decides, one moves.
    let env = [("VSHARE_BUDGET", "20MiB")];
    assert_eq!(bench.shimmed(&["over"], &env).printed(), "0\n2\n");
}
