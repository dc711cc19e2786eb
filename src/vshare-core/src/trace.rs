//! What a program did with memory, recorded: the one format that is written while it runs and read
//! by `vshare sim`. [`Trace::read`] checks a whole one; [`Decoder`] gives its records one by one.
//!
//! # The format
//!
//! A file is a beginning and then records until its end. A writer only ever appends.
//!
//! ```text
//! beginning  8 bytes  "vshtrace"
//!            1 byte   major version, 1: another one is read by nobody who knows only this one
//!            1 byte   minor version, 0: a later one adds kinds of records, or fields at the end of one
//! record     1 byte   kind
//!            number   bytes of the payload, at most 2^24
//!            payload  fields, one after the other
//! ```
//!
//! A *number* is LEB128: seven bits to a byte, the lowest first, the top bit set where more follow, at
//! most 64 bits. A *difference* is a number that has been made signed by zigzag (0, -1, 1, -2 ...). A
//! *text* is a number of bytes and then so much UTF-8. A *time* is the difference, in nanoseconds, to the
//! time of the record before it that has one; the first one's is to 0. Its clock is the host's, and only
//! differences mean anything.
//!
//! | kind | name | fields |
//! |---|---|---|
//! | 0 | filler | none, and no meaning |
//! | 1 | head, first and only once | page size (2 MiB), policy (text), budget in bytes, device (text), link rates in, out, in and out while both run (MB/s, 0: not known), wall clock at the start (ns since 1970) |
//! | 2 | alloc | block, pages, stream, time |
//! | 3 | free | block, stream, time |
//! | 4 | work | what (0 launch, 1 copy, 2 fill, 3 graph), function, signature (8 bytes, little-endian), stream, time, device time in ns (0: not known), count of pieces, then each piece's block as the difference to the one before, the first one's to 0 |
//! | 5 | function | number, name (text) |
//! | 6 | wait | stream, the stream whose work so far it waits for, time |
//! | 7 | sync | time: the host waits for all work |
//!
//! Blocks, streams and functions are numbers below 2^32 that the writer chooses; a block's number may be
//! used again once it has been freed. What was allocated before the recording began is allocated at its
//! start. A signature is a hash of all that makes two pieces of work alike: function, grid and such.
//!
//! A reader passes over records of kinds that it does not know, which is why each says how long it is, and,
//! where the minor version is later than its own, over fields at the end of those it does. A file that ends
//! in the middle of a record is *truncated*: its writer was killed, and what comes before is good. A writer
//! that has more to come lets the file end in the middle of a filler ([`Encoder::open`], [`Encoder::close`]),
//! so that no trace is taken for a whole one whose writer did not end it.

mod fault;
mod period;
mod read;

pub use fault::{Fault, TraceError};
pub use read::{Block, Event, Trace, Window, Work};

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

/// What a file begins with.
pub const MAGIC: [u8; 8] = *b"vshtrace";
/// Readers of another one refuse.
pub const MAJOR: u8 = 1;
/// Readers of an earlier one pass over what they do not know.
pub const MINOR: u8 = 0;

/// Most bytes in one record. A length above it is no length.
const LONGEST: u64 = 1 << 24;

/// What a recording says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Bytes in a page.
    pub page: u64,
    /// The policy under which it was recorded.
    pub policy: String,
    /// The budget under which it was recorded, bytes.
    pub budget: u64,
    /// The device's name.
    pub device: String,
    /// MB/s in, out, and in and out while both run. 0: not known.
    pub link: [u64; 4],
    /// Wall clock at the start, nanoseconds since 1970.
    pub start: u64,
}

/// What a piece of work is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum What {
    /// A kernel.
    #[default]
    Launch,
    /// A copy.
    Copy,
    /// A fill.
    Fill,
    /// A graph.
    Graph,
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// What the recording says of itself.
    Head(Head),
    /// A block of so many pages is there from now on.
    Alloc {
        /// Its number.
        block: u32,
        /// Its size.
        pages: u64,
        /// In whose order.
        stream: u32,
        /// Host clock.
        when_ns: u64,
    },
    /// A block is gone.
    Free {
        /// Its number.
        block: u32,
        /// In whose order.
        stream: u32,
        /// Host clock.
        when_ns: u64,
    },
    /// A piece of work was submitted.
    Work {
        /// Its kind.
        what: What,
        /// Its function's number.
        function: u32,
        /// Equal for work that is alike.
        signature: u64,
        /// Where it was submitted.
        stream: u32,
        /// Host clock.
        when_ns: u64,
        /// Time on the device, 0 if not known.
        device_ns: u64,
        /// Blocks that it may touch.
        pieces: Cow<'a, [u32]>,
    },
    /// A function's name.
    Function {
        /// Its number.
        id: u32,
        /// Its name.
        name: Cow<'a, str>,
    },
    /// A stream waits for another's work so far.
    Wait {
        /// The one that waits.
        stream: u32,
        /// The one that is waited for.
        waits_for: u32,
        /// Host clock.
        when_ns: u64,
    },
    /// The host waits for all work.
    Sync {
        /// Host clock.
        when_ns: u64,
    },
}

/// Writes records.
#[derive(Debug, Default)]
pub struct Encoder {
    when: u64,
    payload: Vec<u8>,
}

impl Encoder {
    /// Begins a file.
    #[must_use]
    pub fn start(out: &mut Vec<u8>) -> Self {
        out.extend(MAGIC);
        out.extend([MAJOR, MINOR]);
        Self::default()
    }

    /// Begins a filler, for a file that has more to come.
    pub fn open(out: &mut Vec<u8>) {
        out.push(0);
    }

    /// Ends the filler with which a file ends.
    pub fn close(out: &mut Vec<u8>) {
        number(out, 0);
    }

    /// Appends a record.
    pub fn record(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        let mut payload = core::mem::take(&mut self.payload);
        payload.clear();
        let kind = self.fields(record, &mut payload);
        out.push(kind);
        number(out, payload.len() as u64);
        out.extend_from_slice(&payload);
        self.payload = payload;
    }

    fn fields(&mut self, record: &Record<'_>, to: &mut Vec<u8>) -> u8 {
        match record {
            Record::Head(head) => {
                number(to, head.page);
                text(to, &head.policy);
                number(to, head.budget);
                text(to, &head.device);
                head.link.iter().for_each(|&rate| number(to, rate));
                number(to, head.start);
                1
            }
            &Record::Alloc {
                block,
                pages,
                stream,
                when_ns,
            } => {
                number(to, block.into());
                number(to, pages);
                number(to, stream.into());
                self.time(to, when_ns);
                2
            }
            &Record::Free {
                block,
                stream,
                when_ns,
            } => {
                number(to, block.into());
                number(to, stream.into());
                self.time(to, when_ns);
                3
            }
            Record::Work {
                what,
                function,
                signature,
                stream,
                when_ns,
                device_ns,
                pieces,
            } => {
                number(to, *what as u64);
                number(to, (*function).into());
                to.extend(signature.to_le_bytes());
                number(to, (*stream).into());
                self.time(to, *when_ns);
                number(to, *device_ns);
                number(to, pieces.len() as u64);
                let mut last = 0;
                for &piece in pieces.iter() {
                    difference(to, u64::from(piece), last);
                    last = piece.into();
                }
                4
            }
            Record::Function { id, name } => {
                number(to, (*id).into());
                text(to, name);
                5
            }
            &Record::Wait {
                stream,
                waits_for,
                when_ns,
            } => {
                number(to, stream.into());
                number(to, waits_for.into());
                self.time(to, when_ns);
                6
            }
            &Record::Sync { when_ns } => {
                self.time(to, when_ns);
                7
            }
        }
    }

    fn time(&mut self, to: &mut Vec<u8>, when: u64) {
        difference(to, when, self.when);
        self.when = when;
    }
}

#[expect(clippy::cast_possible_truncation, reason = "seven bits are taken")]
fn number(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn difference(to: &mut Vec<u8>, value: u64, last: u64) {
    let by = value.wrapping_sub(last).cast_signed();
    number(to, ((by << 1) ^ (by >> 63)).cast_unsigned());
}

fn text(to: &mut Vec<u8>, value: &str) {
    number(to, value.len() as u64);
    to.extend_from_slice(value.as_bytes());
}

/// Reads records one by one; ends after the first error.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Fields after those that are known are passed over.
    newer: bool,
    when: u64,
}

impl<'a> Decoder<'a> {
    /// Begins to read a file.
    ///
    /// # Errors
    /// It does not begin as a trace of this version does.
    pub fn new(bytes: &'a [u8]) -> Result<Self, TraceError> {
        let wrong = |fault| TraceError { at: 0, fault };
        let known = bytes.len().min(MAGIC.len());
        if bytes.is_empty() || bytes.get(..known) != MAGIC.get(..known) {
            return Err(wrong(Fault::NotATrace));
        }
        let (Some(&major), Some(&minor)) = (bytes.get(8), bytes.get(9)) else {
            return Err(wrong(Fault::Truncated));
        };
        if major != MAJOR {
            return Err(wrong(Fault::Version(major)));
        }
        Ok(Self {
            bytes,
            at: 10,
            newer: minor > MINOR,
            when: 0,
        })
    }

    /// The byte at which the next record begins.
    #[must_use]
    pub const fn at(&self) -> u64 {
        self.at as u64
    }

    /// The next record, or `None` for one of a kind that is not known.
    fn one(&mut self) -> Result<Option<Record<'static>>, Fault> {
        let rest = self.bytes.get(self.at..).unwrap_or(&[]);
        let mut fields = Fields(rest);
        let [kind] = fields.bytes().map_err(|_| Fault::Truncated)?;
        let long = fields.0.len() >= 10;
        let length = match fields.number() {
            Err(_) if long => return Err(Fault::TooLong(u64::MAX)),
            other => other.map_err(|_| Fault::Truncated)?,
        };
        if length > LONGEST {
            return Err(Fault::TooLong(length));
        }
        let length = usize::try_from(length).map_err(|_| Fault::TooLong(length))?;
        let head = rest.len() - fields.0.len();
        let mut payload = Fields(fields.0.get(..length).ok_or(Fault::Truncated)?);
        let record = self.fields(kind, &mut payload)?;
        if record.is_some() && !self.newer && !payload.0.is_empty() {
            return Err(Fault::Left(payload.0.len() as u64));
        }
        self.at += head + length;
        Ok(record)
    }

    fn fields(
        &mut self,
        kind: u8,
        from: &mut Fields<'_>,
    ) -> Result<Option<Record<'static>>, Fault> {
        Ok(Some(match kind {
            1 => Record::Head(Head {
                page: from.number()?,
                policy: from.text()?,
                budget: from.number()?,
                device: from.text()?,
                link: [
                    from.number()?,
                    from.number()?,
                    from.number()?,
                    from.number()?,
                ],
                start: from.number()?,
            }),
            2 => Record::Alloc {
                block: from.small()?,
                pages: from.number()?,
                stream: from.small()?,
                when_ns: self.time(from)?,
            },
            3 => Record::Free {
                block: from.small()?,
                stream: from.small()?,
                when_ns: self.time(from)?,
            },
            4 => {
                let what = match from.number()? {
                    0 => What::Launch,
                    1 => What::Copy,
                    2 => What::Fill,
                    3 => What::Graph,
                    other => return Err(Fault::What(other)),
                };
                let function = from.small()?;
                let signature = u64::from_le_bytes(from.bytes()?);
                let stream = from.small()?;
                let when_ns = self.time(from)?;
                let device_ns = from.number()?;
                let count = from.number()?;
                // Each takes a byte at least: no room is made for what cannot be there.
                let mut pieces = Vec::with_capacity(
                    usize::try_from(count.min(from.0.len() as u64)).unwrap_or(0),
                );
                let mut last = 0;
                for _ in 0..count {
                    last = from.difference(last)?;
                    pieces.push(u32::try_from(last).map_err(|_| Fault::TooLarge(last))?);
                }
                Record::Work {
                    what,
                    function,
                    signature,
                    stream,
                    when_ns,
                    device_ns,
                    pieces: pieces.into(),
                }
            }
            5 => Record::Function {
                id: from.small()?,
                name: from.text()?.into(),
            },
            6 => Record::Wait {
                stream: from.small()?,
                waits_for: from.small()?,
                when_ns: self.time(from)?,
            },
            7 => Record::Sync {
                when_ns: self.time(from)?,
            },
            _ => return Ok(None),
        }))
    }

    fn time(&mut self, from: &mut Fields<'_>) -> Result<u64, Fault> {
        self.when = from.difference(self.when)?;
        if self.when > u64::MAX / 2 {
            return Err(Fault::Time);
        }
        Ok(self.when)
    }
}

impl Iterator for Decoder<'_> {
    type Item = Result<Record<'static>, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.at < self.bytes.len() {
            let at = self.at();
            match self.one() {
                Ok(None) => {}
                Ok(Some(record)) => return Some(Ok(record)),
                Err(fault) => {
                    self.at = self.bytes.len();
                    return Some(Err(TraceError { at, fault }));
                }
            }
        }
        None
    }
}

/// Bytes that fields are taken from.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (first, rest) = self.0.split_first_chunk().ok_or(Fault::Short)?;
        self.0 = rest;
        Ok(*first)
    }

    fn number(&mut self) -> Result<u64, Fault> {
        let mut value = 0;
        for shift in (0..70).step_by(7) {
            let [byte] = self.bytes()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(Fault::Short);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Fault::Short)
    }

    fn difference(&mut self, last: u64) -> Result<u64, Fault> {
        let zigzag = self.number()?;
        let by = (zigzag >> 1) ^ (zigzag & 1).wrapping_neg();
        Ok(last.wrapping_add(by))
    }

    fn small(&mut self) -> Result<u32, Fault> {
        let value = self.number()?;
        u32::try_from(value).map_err(|_| Fault::TooLarge(value))
    }

    fn text(&mut self) -> Result<String, Fault> {
        let length = usize::try_from(self.number()?).map_err(|_| Fault::Short)?;
        let (text, rest) = self.0.split_at_checked(length).ok_or(Fault::Short)?;
        self.0 = rest;
        core::str::from_utf8(text)
            .map(String::from)
            .map_err(|_| Fault::Text)
    }
}

#[cfg(test)]
#[path = "trace_tests.rs"]
mod tests;
