//! The counters: one row each, and everything else about them is made from the row.
//!
//! Names, units and meanings are written into the segment, so that an older reader prints a newer
//! counter. Rows are added at the end, never moved and never reused: see [`crate::layout`].

/// What a value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Bytes of memory.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
}

impl Unit {
    /// How the segment spells it.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Bytes => "bytes",
            Self::Nanoseconds => "nanoseconds",
        }
    }
}

/// How a value moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only ever grows.
    Counter,
    /// Goes up and down. Kept in two's complement: two threads may pass each other and leave it
    /// below zero for a moment, which readers show as zero.
    Gauge,
}

impl Kind {
    /// How the segment spells it.
    pub const fn word(self) -> u64 {
        match self {
            Self::Counter => 0,
            Self::Gauge => 1,
        }
    }
}

/// One counter, as the segment describes it.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its name, as readers print it.
    pub name: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// How it moves.
    pub kind: Kind,
    /// What it means.
    pub help: &'static str,
}

/// A counter's place in the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Counter(usize);

impl Counter {
    pub(crate) const fn index(self) -> usize {
        self.0
    }
}

macro_rules! counters {
    ($($name:ident $text:literal $kind:ident $unit:ident $help:literal;)+) => {
        #[expect(non_camel_case_types, clippy::upper_case_acronyms, reason = "the rows' own names, for their order")]
        enum Place { $($name),+ }
        $(
            #[doc = $help]
            pub const $name: Counter = Counter(Place::$name as usize);
        )+
        /// All rows, in the segment's order.
        pub const TABLE: &[Row] = &[$(Row {
            name: $text,
            unit: Unit::$unit,
            kind: Kind::$kind,
            help: $help,
        }),+];
    };
}

counters! {
    // Memory held.
    LIVE_BYTES               "live_bytes"               Gauge   Bytes       "held by the program now, served by vshare";
    PEAK_LIVE_BYTES          "peak_live_bytes"          Gauge   Bytes       "most that was live at one time";
    BUDGET_BYTES             "budget_bytes"             Gauge   Bytes       "GPU memory that this process may keep resident";
    LIMIT_BYTES              "limit_bytes"              Gauge   Bytes       "most the program may allocate";
    RESIDENT_BYTES           "resident_bytes"           Gauge   Bytes       "GPU memory that the pool takes now, freed memory that has not left included, as far as vshare knows";
    PEAK_RESIDENT_BYTES      "peak_resident_bytes"      Gauge   Bytes       "most that was resident at one time";
    HOST_BYTES               "host_bytes"               Gauge   Bytes       "memory in use that lies in host memory now";
    ARENA_BYTES              "arena_bytes"              Gauge   Bytes       "managed memory that the pool took from the driver";
    // Calls.
    ALLOCATIONS              "allocations"              Counter Count       "allocations served";
    FREES                    "frees"                    Counter Count       "frees of what vshare served";
    STREAM_ALLOCATIONS       "stream_allocations"       Counter Count       "allocations served in stream order";
    STREAM_FREES             "stream_frees"             Counter Count       "frees in stream order of what vshare served";
    OOM_LIMIT                "oom_limit"                Counter Count       "allocations refused: over VSHARE_LIMIT";
    OOM_DRIVER               "oom_driver"               Counter Count       "allocations refused: the driver had no memory";
    FOREIGN_FREES            "foreign_frees"            Counter Count       "frees of memory not ours, passed to the driver";
    // Memory left to the driver.
    MANAGED_BY_PROGRAM_BYTES "managed_by_program_bytes" Gauge   Bytes       "managed memory that the program allocated itself";
    VMM_BY_PROGRAM_BYTES     "vmm_by_program_bytes"     Gauge   Bytes       "physical memory that the program made with cuMemCreate";
    DEVICE_CLASS_BYTES       "device_class_bytes"       Gauge   Bytes       "served with plain device memory, never moved";
    // Launches.
    LAUNCHES                 "launches"                 Counter Count       "kernel launches seen";
    LAUNCHES_SCANNED         "launches_scanned"         Counter Count       "launches whose parameters were searched for pointers";
    LAUNCHES_UNKNOWN         "launches_unknown"         Counter Count       "launches whose parameter layout is not known";
    GRAPH_LAUNCHES           "graph_launches"           Counter Count       "graph launches seen";
    // Movement.
    PROMOTED_BYTES           "promoted_bytes"           Counter Bytes       "moved from host to GPU";
    PROMOTIONS               "promotions"               Counter Count       "moves from host to GPU";
    EVICTED_BYTES            "evicted_bytes"            Counter Bytes       "moved from GPU to host";
    EVICTIONS                "evictions"                Counter Count       "moves from GPU to host";
    POPULATED_BYTES          "populated_bytes"          Counter Bytes       "given GPU pages before first use, nothing copied";
    DROPPED_BYTES            "dropped_bytes"            Counter Bytes       "taken off the GPU without a copy: freed memory";
    STALLS                   "stalls"                   Counter Count       "times the program waited for a move";
    STALL_NANOSECONDS        "stall_nanoseconds"        Counter Nanoseconds "time the program waited for moves";
    OVER_BUDGET_LAUNCHES     "over_budget_launches"     Counter Count       "pieces of work that had more brought in than the budget";
    // Trouble.
    DRIVER_FAILURES          "driver_failures"          Counter Count       "driver calls of vshare's own that failed";
    FALLBACKS                "fallbacks"                Counter Count       "times a part of vshare stepped aside";
    PANICS                   "panics"                   Counter Count       "defects in vshare that were caught";
    RECORDS_DROPPED          "records_dropped"          Counter Count       "events that found no room in the ring";
    // Time in the driver's calls that move memory.
    PROMOTE_NANOSECONDS      "promote_nanoseconds"      Counter Nanoseconds "time in the calls that move to the GPU";
    EVICT_NANOSECONDS        "evict_nanoseconds"        Counter Nanoseconds "time in the calls that move to the host";
    POPULATE_NANOSECONDS     "populate_nanoseconds"     Counter Nanoseconds "time in the calls that give GPU pages";
    DROP_NANOSECONDS         "drop_nanoseconds"         Counter Nanoseconds "time in the calls that take freed memory off the GPU";
    FREE_WAITS               "free_waits"               Counter Count       "frees that waited for work in flight, as the driver's do";
    DIRECT_MOVES             "direct_moves"             Counter Count       "moves and drops that the kernel module's own calls made, without libcuda";
    ROAD_FALLBACKS           "road_fallbacks"           Counter Count       "times those calls failed their trial or a move, so that libcuda's are used";
    // Looking ahead.
    PLANS                    "plans"                    Counter Count       "plans made of what the program is expected to do";
    PLANS_BROKEN             "plans_broken"             Counter Count       "plans that the program did not keep to";
    FORESEEN_BYTES           "foreseen_bytes"           Counter Bytes       "moved from host to GPU before the program asked";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_say_their_unit() {
        for (i, row) in TABLE.iter().enumerate() {
            assert!(
                TABLE[..i].iter().all(|r| r.name != row.name),
                "{}",
                row.name
            );
            assert_eq!(
                row.name.ends_with("_bytes"),
                row.unit == Unit::Bytes,
                "{}",
                row.name
            );
            assert_eq!(
                row.name.ends_with("_nanoseconds"),
                row.unit == Unit::Nanoseconds,
                "{}",
                row.name
            );
        }
    }

    #[test]
    fn a_constant_points_at_the_row_of_its_name() {
        assert_eq!(TABLE[LIVE_BYTES.index()].name, "live_bytes");
        assert_eq!(TABLE[PANICS.index()].name, "panics");
        assert_eq!(TABLE[RECORDS_DROPPED.index()].name, "records_dropped");
        assert_eq!(FORESEEN_BYTES.index() + 1, TABLE.len());
    }
}
