//! How fast memory moves, as far as simulation has to know. The figures are those of an H200 behind PCIe 5.0.

/// Rates, in GB/s, which is bytes per nanosecond, and costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// In, while nothing goes out.
    pub into: f64,
    /// Out, while nothing comes in.
    pub out: f64,
    /// In, while something goes out.
    pub both_in: f64,
    /// Out, while something comes in.
    pub both_out: f64,
    /// Making pages that hold nothing.
    pub populate: f64,
    /// Pages that work faults in by itself.
    pub fault: f64,
    /// Work that reads and writes host memory where it lies.
    pub remote: f64,
    /// Dropping a GiB, ns.
    pub drop_ns: f64,
    /// What a move costs beside its bytes, ns.
    pub call_ns: f64,
    /// What submitting work costs the host, ns.
    pub submit_ns: f64,
    /// Moves in each direction at a time.
    pub workers: usize,
    /// Work that may be submitted and not finished.
    pub depth: usize,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            into: 50.0,
            out: 50.0,
            both_in: 33.0,
            both_out: 33.0,
            populate: 159.0,
            fault: 14.0,
            remote: 51.0,
            drop_ns: 2e6,
            call_ns: 20e3,
            submit_ns: 5e3,
            workers: 4,
            depth: 1024,
        }
    }
}

impl Link {
    /// Bytes per nanosecond (in, out), where something moves in these directions.
    #[must_use]
    pub const fn rates(&self, into: bool, out: bool) -> (f64, f64) {
        match (into, out) {
            (true, true) => (self.both_in, self.both_out),
            (true, false) => (self.into, 0.0),
            (false, true) => (0.0, self.out),
            (false, false) => (0.0, 0.0),
        }
    }
}

/// Bytes as a float: exact up to 2^53.
#[expect(
    clippy::cast_precision_loss,
    reason = "sizes need no more than 53 bits"
)]
pub(crate) const fn float(bytes: u64) -> f64 {
    bytes as f64
}

/// A time in whole nanoseconds.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "float casts saturate, and times are not negative"
)]
pub(crate) const fn whole(nanoseconds: f64) -> u64 {
    nanoseconds as u64
}
