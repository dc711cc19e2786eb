//! What can be wrong with a trace, in words that say where.

use super::MAJOR;
use core::fmt;

/// What is wrong with a trace, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// The byte at which the record begins.
    pub at: u64,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The file does not begin as a trace does.
    NotATrace,
    /// The file is of another major version.
    Version(u8),
    /// The file ends within it.
    Truncated,
    /// It says that it is longer than a record can be.
    TooLong(u64),
    /// It ends before its fields do, or a number in it has more than 64 bits.
    Short,
    /// Bytes are left after its fields.
    Left(u64),
    /// A text is not UTF-8.
    Text,
    /// A number that has to be below 2^32 is not.
    TooLarge(u64),
    /// Work of a kind that is none.
    What(u64),
    /// A time before 0 or beyond 2^63.
    Time,
    /// The first record is not a head.
    NoHead,
    /// A head after the first record.
    SecondHead,
    /// Pages are of another size.
    PageSize(u64),
    /// A block without pages, or of more than any machine has.
    Pages(u64),
    /// More live pages than any machine has.
    TooMuchLive,
    /// A block is allocated that is there.
    BlockThere(u32),
    /// A block is named that is not there.
    NoBlock(u32),
    /// Work that takes longer than a day.
    LongWork(u64),
    /// There is no work in it.
    NoWork,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fault {
            Fault::NotATrace => return write!(f, "it is not a trace of vshare's"),
            Fault::Version(v) if v < MAJOR => {
                return write!(
                    f,
                    "it is of version {v}, older than {MAJOR}, which is read here: record it again"
                );
            }
            Fault::Version(v) => {
                return write!(
                    f,
                    "it is of version {v}, newer than {MAJOR}, which is read here: use the vshare that wrote it, or a later one"
                );
            }
            Fault::NoWork => return write!(f, "no work is recorded in it"),
            _ => write!(f, "at byte {}: ", self.at)?,
        }
        match self.fault {
            Fault::Truncated => write!(f, "it ends in the middle of a record"),
            Fault::TooLong(n) => write!(f, "a record says it has {n} bytes, more than any has"),
            Fault::Short => write!(f, "a record ends before its fields do"),
            Fault::Left(n) => write!(f, "a record has {n} bytes after its fields"),
            Fault::Text => write!(f, "a text is not UTF-8"),
            Fault::TooLarge(n) => write!(f, "{n} is too large for a block, stream or function"),
            Fault::What(n) => write!(f, "there is no kind {n} of work"),
            Fault::Time => write!(f, "a time is before 0 or beyond 2^63 nanoseconds"),
            Fault::NoHead => write!(f, "the first record is not a head"),
            Fault::SecondHead => write!(f, "a second head"),
            Fault::PageSize(n) => {
                write!(f, "pages of {n} bytes, where only those of 2 MiB are known")
            }
            Fault::Pages(n) => write!(f, "a block of {n} pages"),
            Fault::TooMuchLive => write!(f, "more memory is allocated than any machine has"),
            Fault::BlockThere(b) => write!(f, "block {b} is allocated, which is there already"),
            Fault::NoBlock(b) => write!(f, "block {b} is named, which is not there"),
            Fault::LongWork(n) => write!(f, "work that takes {n} ns, more than a day"),
            Fault::NotATrace | Fault::Version(_) | Fault::NoWork => Ok(()),
        }
    }
}

impl core::error::Error for TraceError {}
