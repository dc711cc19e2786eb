//! What the ring tells: kinds of record, and how each lies in the payload's words.
//!
//! Word 0 is the kind (high 8 bits) and the time (low 56). The others, by kind:
//!
//! | kind | name         | a                     | b       | c              | d            |
//! |-----:|--------------|-----------------------|---------|----------------|--------------|
//! |    1 | allocated    | address               | bytes   | class          | stream       |
//! |    2 | freed        | address               | bytes   | class          | stream       |
//! |    3 | refused      | bytes                 | cause   | live bytes     | limit bytes  |
//! |    4 | promoted     | address               | bytes   | nanoseconds    | device       |
//! |    5 | evicted      | address               | bytes   | nanoseconds    | device       |
//! |    6 | stalled      | nanoseconds           | bytes   | launch number  | device       |
//! |    7 | failed       | code, device (32 each)| bytes   | call           | call, cont.  |
//! |    8 | context lost | context               | bytes   | device         | 0            |
//! |    9 | sampled      | live bytes            | resident bytes | host bytes | budget bytes |
//!
//! *class*: 0 managed, 1 device. *cause*: 0 over the limit, 1 the driver had none, 2 no room in
//! host memory. *call*: 16 bytes, the driver function's name without its `cu`, cut. Kinds and
//! values are added, never reused; 0 is no kind.

use crate::ring::PAYLOAD;

const TIME_BITS: u32 = 56;
const TIME: u64 = (1 << TIME_BITS) - 1;

/// Where memory came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Managed memory, which vshare moves.
    Managed,
    /// Plain device memory, which stays.
    Device,
    /// Written by a newer library.
    Other(u64),
}

/// Why an allocation was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Over `VSHARE_LIMIT`.
    Limit,
    /// The driver had no memory.
    Driver,
    /// Host memory has no room for what would be evicted.
    Host,
    /// Written by a newer library.
    Other(u64),
}

/// A driver function's name without its `cu`, as far as 16 bytes reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallName([[u8; 8]; 2]);

impl CallName {
    /// `name` as CUDA spells it.
    pub fn new(name: &str) -> Self {
        let mut bytes = [[0; 8]; 2];
        let name = name.strip_prefix("cu").unwrap_or(name);
        for (to, from) in bytes.as_flattened_mut().iter_mut().zip(name.bytes()) {
            *to = from;
        }
        Self(bytes)
    }

    /// The name, as CUDA spells it but for the cut. Calls of the UVM kernel module are not CUDA's.
    pub fn text(&self) -> String {
        let mut bytes = self.0.as_flattened().to_vec();
        bytes.truncate(bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len()));
        let prefix = if bytes.starts_with(b"UVM_") { "" } else { "cu" };
        format!("{prefix}{}", String::from_utf8_lossy(&bytes))
    }

    fn words(self) -> [u64; 2] {
        self.0.map(u64::from_ne_bytes)
    }

    fn from_words(words: [u64; 2]) -> Self {
        Self(words.map(u64::to_ne_bytes))
    }
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the module's table")]
pub enum Record {
    /// The program has new memory.
    Allocated {
        address: u64,
        bytes: u64,
        class: Class,
        stream: u64,
    },
    /// The program gave memory back.
    Freed {
        address: u64,
        bytes: u64,
        class: Class,
        stream: u64,
    },
    /// An allocation was answered with out of memory.
    Refused {
        bytes: u64,
        cause: Cause,
        live: u64,
        limit: u64,
    },
    /// Bytes went from host to GPU.
    Promoted {
        address: u64,
        bytes: u64,
        nanoseconds: u64,
        device: u64,
    },
    /// Bytes went from GPU to host.
    Evicted {
        address: u64,
        bytes: u64,
        nanoseconds: u64,
        device: u64,
    },
    /// The program waited for a move.
    Stalled {
        nanoseconds: u64,
        bytes: u64,
        launch: u64,
        device: u64,
    },
    /// A driver call of vshare's own failed.
    Failed {
        call: CallName,
        code: u32,
        device: u32,
        bytes: u64,
    },
    /// A context died with `bytes` of ours in it.
    ContextLost {
        context: u64,
        bytes: u64,
        device: u64,
    },
    /// How memory stood: the gauges of these names at one moment.
    Sampled {
        live: u64,
        resident: u64,
        host: u64,
        budget: u64,
    },
    /// Written by a newer library.
    Unknown { kind: u8, words: [u64; 4] },
}

impl Record {
    /// The kind's number and name.
    pub const fn kind(&self) -> (u8, &'static str) {
        match self {
            Self::Allocated { .. } => (1, "allocated"),
            Self::Freed { .. } => (2, "freed"),
            Self::Refused { .. } => (3, "refused"),
            Self::Promoted { .. } => (4, "promoted"),
            Self::Evicted { .. } => (5, "evicted"),
            Self::Stalled { .. } => (6, "stalled"),
            Self::Failed { .. } => (7, "failed"),
            Self::ContextLost { .. } => (8, "context lost"),
            Self::Sampled { .. } => (9, "sampled"),
            Self::Unknown { kind, .. } => (*kind, "unknown"),
        }
    }

    pub(crate) fn pack(self, time_ns: u64) -> [u64; PAYLOAD] {
        let [a, b, c, d] = match self {
            Self::Allocated {
                address,
                bytes,
                class,
                stream,
            }
            | Self::Freed {
                address,
                bytes,
                class,
                stream,
            } => [address, bytes, class.word(), stream],
            Self::Refused {
                bytes,
                cause,
                live,
                limit,
            } => [bytes, cause.word(), live, limit],
            Self::Promoted {
                address,
                bytes,
                nanoseconds,
                device,
            }
            | Self::Evicted {
                address,
                bytes,
                nanoseconds,
                device,
            } => [address, bytes, nanoseconds, device],
            Self::Stalled {
                nanoseconds,
                bytes,
                launch,
                device,
            } => [nanoseconds, bytes, launch, device],
            Self::Failed {
                call,
                code,
                device,
                bytes,
            } => {
                let [first, second] = call.words();
                [
                    u64::from(code) << 32 | u64::from(device),
                    bytes,
                    first,
                    second,
                ]
            }
            Self::ContextLost {
                context,
                bytes,
                device,
            } => [context, bytes, device, 0],
            Self::Sampled {
                live,
                resident,
                host,
                budget,
            } => [live, resident, host, budget],
            Self::Unknown { words, .. } => words,
        };
        let (kind, _) = self.kind();
        [u64::from(kind) << TIME_BITS | time_ns.min(TIME), a, b, c, d]
    }

    /// The time and the record in `payload`; any words make one.
    pub(crate) fn unpack(payload: [u64; PAYLOAD]) -> (u64, Self) {
        let [head, a, b, c, d] = payload;
        let record = match (head >> TIME_BITS).to_le_bytes()[0] {
            1 => Self::Allocated {
                address: a,
                bytes: b,
                class: Class::from_word(c),
                stream: d,
            },
            2 => Self::Freed {
                address: a,
                bytes: b,
                class: Class::from_word(c),
                stream: d,
            },
            3 => Self::Refused {
                bytes: a,
                cause: Cause::from_word(b),
                live: c,
                limit: d,
            },
            4 => Self::Promoted {
                address: a,
                bytes: b,
                nanoseconds: c,
                device: d,
            },
            5 => Self::Evicted {
                address: a,
                bytes: b,
                nanoseconds: c,
                device: d,
            },
            6 => Self::Stalled {
                nanoseconds: a,
                bytes: b,
                launch: c,
                device: d,
            },
            7 => Self::Failed {
                call: CallName::from_words([c, d]),
                code: high(a),
                device: low(a),
                bytes: b,
            },
            8 => Self::ContextLost {
                context: a,
                bytes: b,
                device: c,
            },
            9 => Self::Sampled {
                live: a,
                resident: b,
                host: c,
                budget: d,
            },
            kind => Self::Unknown {
                kind,
                words: [a, b, c, d],
            },
        };
        (head & TIME, record)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the high half is cut on purpose"
)]
const fn low(word: u64) -> u32 {
    word as u32
}

const fn high(word: u64) -> u32 {
    low(word >> 32)
}

impl Class {
    const fn word(self) -> u64 {
        match self {
            Self::Managed => 0,
            Self::Device => 1,
            Self::Other(word) => word,
        }
    }

    const fn from_word(word: u64) -> Self {
        match word {
            0 => Self::Managed,
            1 => Self::Device,
            _ => Self::Other(word),
        }
    }
}

impl Cause {
    const fn word(self) -> u64 {
        match self {
            Self::Limit => 0,
            Self::Driver => 1,
            Self::Host => 2,
            Self::Other(word) => word,
        }
    }

    const fn from_word(word: u64) -> Self {
        match word {
            0 => Self::Limit,
            1 => Self::Driver,
            2 => Self::Host,
            _ => Self::Other(word),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_words_are_some_record_and_come_back_the_same() {
        for kind in 0..=255u64 {
            for word in [0, 1, 2, 3, 1 << 32, u64::MAX] {
                let payload = [kind << TIME_BITS | 5, word, word, word, word];
                let (time, record) = Record::unpack(payload);
                assert_eq!(time, 5);
                if kind == 8 {
                    continue; // its last word is spare
                }
                assert_eq!(record.pack(time), payload, "{record:?}");
            }
        }
    }

    #[test]
    fn a_time_that_does_not_fit_is_the_last_one_and_leaves_the_kind_alone() {
        let record = Record::ContextLost {
            context: 1,
            bytes: 2,
            device: 3,
        };
        assert_eq!(Record::unpack(record.pack(u64::MAX)), (TIME, record));
    }

    #[test]
    fn a_call_keeps_sixteen_bytes_of_its_name() {
        assert_eq!(CallName::new("cuMemFree_v2").text(), "cuMemFree_v2");
        assert_eq!(CallName::new("UVM_MIGRATE").text(), "UVM_MIGRATE");
        assert_eq!(
            CallName::new("cuMemPrefetchAsync").text(),
            "cuMemPrefetchAsync"
        );
        assert_eq!(
            CallName::new("cuStreamSynchronize").text(),
            "cuStreamSynchroniz"
        );
        let [first, second] = CallName::new("cuMemPrefetchAsync").words();
        assert_eq!(&first.to_ne_bytes(), b"MemPrefe");
        assert_eq!(&second.to_ne_bytes(), b"tchAsync");
    }
}
