//! Events of the ring in plain words, and as JSON.

use serde_json::{Value, json};
use vshare_core::units::Human;
use vshare_shm::Record;
use vshare_shm::reader::Event;
use vshare_shm::record::{Cause, Class};

use crate::text::{Nanoseconds, Utc, printable};

/// What happened, in a sentence without its time.
pub(crate) fn words(record: &Record) -> String {
    match *record {
        Record::Allocated {
            address,
            bytes,
            class,
            stream,
        } => format!(
            "allocated {} at {address:#x}{}{}",
            Human(bytes),
            of_class(class),
            in_order(stream)
        ),
        Record::Freed {
            address,
            bytes,
            class,
            stream,
        } => format!(
            "freed {} at {address:#x}{}{}",
            Human(bytes),
            of_class(class),
            in_order(stream)
        ),
        Record::Refused {
            bytes,
            cause,
            live,
            limit,
        } => format!(
            "refused {}: {}, with {} of at most {} in use",
            Human(bytes),
            why(cause),
            Human(live),
            Human(limit)
        ),
        Record::Promoted {
            address,
            bytes,
            nanoseconds,
            device,
        } => format!(
            "moved {} to GPU {device} in {}, at {address:#x}",
            Human(bytes),
            Nanoseconds(nanoseconds)
        ),
        Record::Evicted {
            address,
            bytes,
            nanoseconds,
            device,
        } => format!(
            "moved {} to the host from GPU {device} in {}, at {address:#x}",
            Human(bytes),
            Nanoseconds(nanoseconds)
        ),
        Record::Stalled {
            nanoseconds, bytes, ..
        } => format!(
            "the program waited {} for {} to move",
            Nanoseconds(nanoseconds),
            Human(bytes)
        ),
        Record::Failed {
            call,
            code,
            device,
            bytes,
        } => format!(
            "{} failed with code {code}, for {} on GPU {device}",
            printable(&call.text()),
            Human(bytes)
        ),
        Record::ContextLost {
            context,
            bytes,
            device,
        } => format!(
            "context {context:#x} on GPU {device} ended with {} still allocated in it",
            Human(bytes)
        ),
        Record::Sampled {
            live,
            resident,
            host,
            budget,
        } => format!(
            "held {}: {} on the GPU of a budget of {}, {} in host memory",
            Human(live),
            Human(resident),
            Human(budget),
            Human(host)
        ),
        Record::Unknown {
            kind,
            words: [a, b, c, d],
        } => format!("event of kind {kind}, which this vshare does not know: {a} {b} {c} {d}"),
    }
}

fn of_class(class: Class) -> String {
    match class {
        Class::Managed => String::new(),
        Class::Device => " in device memory, which stays".to_owned(),
        Class::Other(class) => format!(" in memory of class {class}"),
    }
}

fn in_order(stream: u64) -> String {
    match stream {
        0 => String::new(),
        stream => format!(", in the order of stream {stream:#x}"),
    }
}

fn why(cause: Cause) -> String {
    match cause {
        Cause::Limit => "over the limit".to_owned(),
        Cause::Driver => "the driver had no memory".to_owned(),
        Cause::Host => "no room in host memory".to_owned(),
        Cause::Other(cause) => format!("cause {cause}"),
    }
}

/// An event for a machine. `created_ns` is when the segment was made.
pub(crate) fn to_json(event: &Event, created_ns: u64) -> Value {
    let mut value = json!({
        "ticket": event.ticket,
        "time": Utc(created_ns.saturating_add(event.time_ns)).to_string(),
        "time_ns": event.time_ns,
        "event": event.record.kind().1,
    });
    if let (Value::Object(value), Value::Object(fields)) = (&mut value, fields(&event.record)) {
        value.extend(fields);
    }
    value
}

fn fields(record: &Record) -> Value {
    match *record {
        Record::Allocated {
            address,
            bytes,
            class,
            stream,
        }
        | Record::Freed {
            address,
            bytes,
            class,
            stream,
        } => json!({
            "address": address,
            "bytes": bytes,
            "class": match class {
                Class::Managed => "managed".into(),
                Class::Device => "device".into(),
                Class::Other(class) => Value::from(class),
            },
            "stream": stream,
        }),
        Record::Refused {
            bytes,
            cause,
            live,
            limit,
        } => json!({
            "bytes": bytes,
            "cause": match cause {
                Cause::Limit => "limit".into(),
                Cause::Driver => "driver".into(),
                Cause::Host => "host".into(),
                Cause::Other(cause) => Value::from(cause),
            },
            "live_bytes": live,
            "limit_bytes": limit,
        }),
        Record::Promoted {
            address,
            bytes,
            nanoseconds,
            device,
        }
        | Record::Evicted {
            address,
            bytes,
            nanoseconds,
            device,
        } => {
            json!({ "address": address, "bytes": bytes, "nanoseconds": nanoseconds, "device": device })
        }
        Record::Stalled {
            nanoseconds,
            bytes,
            launch,
            device,
        } => {
            json!({ "nanoseconds": nanoseconds, "bytes": bytes, "launch": launch, "device": device })
        }
        Record::Failed {
            call,
            code,
            device,
            bytes,
        } => json!({ "call": call.text(), "code": code, "device": device, "bytes": bytes }),
        Record::ContextLost {
            context,
            bytes,
            device,
        } => json!({ "context": context, "bytes": bytes, "device": device }),
        Record::Sampled {
            live,
            resident,
            host,
            budget,
        } => json!({
            "live_bytes": live,
            "resident_bytes": resident,
            "host_bytes": host,
            "budget_bytes": budget,
        }),
        Record::Unknown { kind, words } => json!({ "kind": kind, "words": words }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vshare_shm::CallName;

    #[test]
    fn events_are_told_in_plain_words() {
        let moved = Record::Evicted {
            address: 0x10,
            bytes: 32 << 20,
            nanoseconds: 1_200_000,
            device: 0,
        };
        assert_eq!(
            words(&moved),
            "moved 32.0 MiB to the host from GPU 0 in 1.2 ms, at 0x10"
        );
        let refused = Record::Refused {
            bytes: 1 << 30,
            cause: Cause::Limit,
            live: 7 << 30,
            limit: 8 << 29,
        };
        assert_eq!(
            words(&refused),
            "refused 1.0 GiB: over the limit, with 7.0 GiB of at most 4.0 GiB in use"
        );
        let freed = Record::Freed {
            address: 1,
            bytes: 512,
            class: Class::Device,
            stream: 9,
        };
        assert_eq!(
            words(&freed),
            "freed 512 B at 0x1 in device memory, which stays, in the order of stream 0x9"
        );
    }

    #[test]
    fn a_call_name_from_outside_cannot_steer_the_terminal() {
        let failed = Record::Failed {
            call: CallName::new("cu\x1b[2J"),
            code: 1,
            device: 0,
            bytes: 0,
        };
        assert_eq!(
            words(&failed),
            "cu?[2J failed with code 1, for 0 B on GPU 0"
        );
    }
}
