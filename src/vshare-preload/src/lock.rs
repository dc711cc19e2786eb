//! The lock of this library: a spin lock that gives the processor away while it waits.
//!
//! It needs no set-up, works before constructors have run, and can be let go of in a forked child.

use spin::Yield;

/// Something that one thread at a time may use, for a short stretch.
pub(crate) type Lock<T> = spin::mutex::Mutex<T, Yield>;

/// The right to use it.
pub(crate) type Held<'a, T> = spin::mutex::MutexGuard<'a, T, Yield>;
