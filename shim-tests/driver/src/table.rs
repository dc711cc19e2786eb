//! One row per function: what it is called, what it takes, and every name it is exported under with the CUDA version that brought it.
//!
//! ```text
//! "cuMemcpyHtoDAsync" htod_async(dst: CUdeviceptr, src: In<u8>, bytes: usize, stream: CUstream) {
//!  ^for cuGetProcAddress  ^handler
//!     cuMemcpyHtoDAsync_v2: 3020 Legacy, cuMemcpyHtoDAsync_v2_ptsz: 7000 PerThread }
//!     ^export               ^since ^what a null stream means in it; then `early` where the call works before cuInit
//! ```
//! From a row come the export, its descriptor (counts, versions) and its place in the table that `cuGetProcAddress` searches.

use crate::gate::{Call, Lane};

/// One exported function.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) call: &'static Call,
    pub(crate) address: fn() -> usize,
}

macro_rules! driver_calls {
    ($( $base:literal $handler:ident $args:tt { $($name:ident: $since:literal $lane:ident $($early:ident)?),+ $(,)? } )*) => {
        $( $( $crate::table::driver_calls!(@export $base, $handler, $args, $name, $since, $lane, $($early)?); )+ )*

        pub(crate) static ENTRIES: &[$crate::table::Entry] = &[
            $( $( $crate::table::Entry { call: &$name::CALL, address: || $name as *const () as usize }, )+ )*
        ];
    };
    (@export $base:literal, $handler:ident, ($($arg:ident: $type:ty),* $(,)?), $name:ident, $since:literal, $lane:ident, $($early:ident)?) => {
        #[expect(non_snake_case, reason = "CUDA's spelling")]
        mod $name {
            pub(super) static CALL: $crate::gate::Call = $crate::gate::Call::new(
                stringify!($name), $base, $since, $crate::gate::Lane::$lane, $crate::table::driver_calls!(@early $($early)?));
        }

        #[expect(unsafe_code, reason = "an export of the driver's: programs and the interposer look it up by this name")]
        #[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $type),*) -> u32 {
            $crate::gate::enter(
                &$name::CALL,
                |_line, _succeeded| { $( $crate::journal::argument(_line, stringify!($arg), &$arg, _succeeded); )* },
                || $handler(&$name::CALL $(, $arg)*),
            )
        }
    };
    (@early early) => { true };
    (@early) => { false };
}
pub(crate) use driver_calls;

/// Names that mean another function from some version on.
const RENAMED: &[(&str, u32, &str)] =
    &[("cuGraphInstantiate", 12000, "cuGraphInstantiateWithFlags")];

/// What `cuGetProcAddress` found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    Found(usize),
    Unknown,
    /// The name exists, but not at so low a version.
    TooOld,
}

/// The newest function of that name not newer than `version`; with `lane` per-thread, its per-thread twin where there is one.
pub(crate) fn find(
    entries: impl Iterator<Item = &'static Entry> + Clone,
    name: &str,
    version: u32,
    lane: Lane,
    driver: u32,
) -> Lookup {
    let renamed = RENAMED
        .iter()
        .find(|(old, since, _)| *old == name && *since <= version);
    let name = renamed.map_or(name, |(_, _, new)| new);
    let named = entries.filter(|entry| entry.call.base == name && entry.call.since <= driver);
    if named.clone().next().is_none() {
        return Lookup::Unknown;
    }
    let newest = |lane: Lane| {
        let usable = named
            .clone()
            .filter(|entry| entry.call.since <= version && entry.call.lane == lane);
        usable.max_by_key(|entry| entry.call.since)
    };
    let twin = if lane == Lane::PerThread {
        newest(Lane::PerThread)
    } else {
        None
    };
    match twin.or_else(|| newest(Lane::Legacy)) {
        Some(entry) => Lookup::Found((entry.address)()),
        None => Lookup::TooOld,
    }
}
