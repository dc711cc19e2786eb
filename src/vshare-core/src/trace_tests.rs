//! The format against itself, against random bytes, and against what must be refused.

use super::*;
use crate::pool::tests::Random;
use crate::units::PAGE;
use alloc::string::ToString;
use alloc::vec;

fn head() -> Record<'static> {
    Record::Head(Head {
        page: PAGE,
        policy: "lru".to_string(),
        budget: 3 << 30,
        device: "NVIDIA H200".to_string(),
        link: [50_000, 50_000, 33_000, 33_000],
        start: 1_796_000_000_000_000_000,
    })
}

fn alloc(block: u32, pages: u64) -> Record<'static> {
    Record::Alloc {
        block,
        pages,
        stream: 0,
        when_ns: 1000,
    }
}

fn work(pieces: &[u32]) -> Record<'_> {
    Record::Work {
        what: What::Launch,
        function: 3,
        signature: 77,
        stream: 0,
        when_ns: 2000,
        device_ns: 10,
        pieces: pieces.into(),
    }
}

fn written(records: &[Record<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::start(&mut bytes);
    records.iter().for_each(|r| encoder.record(r, &mut bytes));
    bytes
}

fn fault(records: &[Record<'_>]) -> Fault {
    Trace::read(&written(records)).unwrap_err().fault
}

/// Any numbers, small ones more often.
fn any(random: &mut Random) -> u64 {
    let bits = random.below(64);
    random.below(u64::MAX) >> bits
}

fn small(random: &mut Random) -> u32 {
    u32::try_from(any(random) >> 32).unwrap()
}

fn random_record(random: &mut Random) -> Record<'static> {
    let when_ns = any(random) / 2;
    let stream = small(random);
    match random.below(7) {
        0 => head(),
        1 => Record::Alloc {
            block: small(random),
            pages: any(random),
            stream,
            when_ns,
        },
        2 => Record::Free {
            block: small(random),
            stream,
            when_ns,
        },
        3 => {
            let count = random.below(9);
            Record::Work {
                what: [What::Launch, What::Copy, What::Fill, What::Graph]
                    [usize::try_from(random.below(4)).unwrap()],
                function: small(random),
                signature: any(random),
                stream,
                when_ns,
                device_ns: any(random),
                pieces: (0..count).map(|_| small(random)).collect(),
            }
        }
        4 => Record::Function {
            id: small(random),
            name: "größer<als>(T)".into(),
        },
        5 => Record::Wait {
            stream,
            waits_for: small(random),
            when_ns,
        },
        _ => Record::Sync { when_ns },
    }
}

#[test]
fn what_is_written_is_read() {
    let mut random = Random(7);
    for _ in 0..300 {
        let records: Vec<_> = (0..20).map(|_| random_record(&mut random)).collect();
        let read: Result<Vec<_>, _> = Decoder::new(&written(&records)).unwrap().collect();
        assert_eq!(read.unwrap(), records);
    }
}

#[test]
fn every_beginning_of_a_trace_is_read_up_to_where_it_ends() {
    let records = [head(), alloc(5, 2), work(&[5]), work(&[5, 5])];
    let bytes = written(&records);
    let whole: Vec<_> = (0..=records.len())
        .map(|count| written(&records[..count]).len())
        .collect();
    for length in 10..bytes.len() {
        let mut decoder = Decoder::new(&bytes[..length]).unwrap();
        let read = decoder.by_ref().take_while(Result::is_ok).count();
        let good = whole.iter().filter(|&&end| end <= length).count() - 1;
        assert_eq!(read, good, "{length}");
        let error = Decoder::new(&bytes[..length])
            .unwrap()
            .find_map(Result::err);
        let expected = (!whole.contains(&length)).then_some(TraceError {
            at: whole[good] as u64,
            fault: Fault::Truncated,
        });
        assert_eq!(error, expected, "{length}");
    }
    let cut = Trace::read(&bytes[..bytes.len() - 1]).unwrap();
    assert_eq!(
        (cut.works().len(), cut.truncated()),
        (1, Some(whole[3] as u64))
    );
}

#[test]
fn any_bytes_are_read_or_refused() {
    let mut random = Random(11);
    let good = written(&[head(), alloc(5, 2), alloc(6, 1), work(&[5, 6]), work(&[5])]);
    let mut refused = 0;
    for round in 0..20_000 {
        let mut bytes = good.clone();
        if round % 2 == 0 {
            bytes.truncate(10);
            bytes.extend((0..random.below(60)).map(|_| random.below(256).to_le_bytes()[0]));
        } else {
            for _ in 0..=random.below(3) {
                let at = usize::try_from(random.below(bytes.len() as u64)).unwrap();
                bytes[at] = random.below(256).to_le_bytes()[0];
            }
        }
        refused += u32::from(Trace::read(&bytes).is_err());
    }
    assert!(refused > 10_000, "{refused}");
}

#[test]
fn what_is_not_known_is_passed_over() {
    let mut bytes = written(&[head(), alloc(5, 2)]);
    bytes[9] = MINOR + 1;
    bytes.extend([200, 3, 1, 2, 3]);
    // A function with a field more.
    bytes.extend([5, 4, 1, 1, b'f', 99]);
    let mut rest = Vec::new();
    // Its times go on from the last one.
    let mut encoder = Encoder::start(&mut rest);
    encoder.when = 1000;
    rest.clear();
    encoder.record(&work(&[5]), &mut rest);
    bytes.extend(rest);
    let trace = Trace::read(&bytes).unwrap();
    assert_eq!(trace.works()[0].when_ns, 2000);
    assert_eq!(trace.function(1), Some("f"));
    bytes[9] = MINOR;
    assert_eq!(Trace::read(&bytes).unwrap_err().fault, Fault::Left(1));
}

#[test]
fn what_cannot_be_is_refused() {
    let is_trace = |bytes: &[u8]| Trace::read(bytes).map(|_| ()).map_err(|e| e.fault);
    assert_eq!(is_trace(b""), Err(Fault::NotATrace));
    assert_eq!(is_trace(b"\x7fELF"), Err(Fault::NotATrace));
    assert_eq!(is_trace(b"vsht"), Err(Fault::Truncated));
    assert_eq!(is_trace(b"vshtrace\0\0"), Err(Fault::Version(0)));
    assert_eq!(is_trace(b"vshtrace\x02\0"), Err(Fault::Version(2)));
    assert_eq!(is_trace(b"vshtrace\x01\0"), Err(Fault::NoHead));
    assert_eq!(fault(&[alloc(1, 1)]), Fault::NoHead);
    assert_eq!(fault(&[head()]), Fault::NoWork);
    assert_eq!(fault(&[head(), head()]), Fault::SecondHead);
    assert_eq!(fault(&[head(), alloc(1, 0)]), Fault::Pages(0));
    assert_eq!(fault(&[head(), alloc(1, 1 << 40)]), Fault::Pages(1 << 40));
    let most = alloc(1, 1 << 23);
    assert_eq!(fault(&[head(), most, alloc(2, 1)]), Fault::TooMuchLive);
    assert_eq!(
        fault(&[head(), alloc(1, 1), alloc(1, 1)]),
        Fault::BlockThere(1)
    );
    assert_eq!(fault(&[head(), work(&[4])]), Fault::NoBlock(4));
    let free = Record::Free {
        block: 4,
        stream: 0,
        when_ns: 0,
    };
    assert_eq!(fault(&[head(), free]), Fault::NoBlock(4));
    let mut long = written(&[head()]);
    long.extend([7, 0xff, 0xff, 0xff, 0xff, 0x0f]);
    assert!(matches!(is_trace(&long), Err(Fault::TooLong(_))));
    let other = Head {
        page: 4096,
        ..Head::default()
    };
    assert_eq!(fault(&[Record::Head(other)]), Fault::PageSize(4096));
}

#[test]
fn a_block_named_twice_counts_once() {
    let trace = Trace::read(&written(&[head(), alloc(9, 3), work(&[9, 9])])).unwrap();
    assert_eq!(trace.pieces(&trace.works()[0]), [0]);
    assert_eq!(trace.peak(), 3);
}

fn signed(signature: u64) -> Record<'static> {
    Record::Work {
        what: What::Launch,
        function: 1,
        signature,
        stream: 0,
        when_ns: 0,
        device_ns: 1,
        pieces: Cow::Borrowed(&[]),
    }
}

#[test]
fn a_loop_within_a_step_is_not_the_step() {
    let mut records = vec![head()];
    for _ in 0..5 {
        // Four times forward and backward, then the optimizer.
        records.extend([1, 2, 1, 2, 1, 2, 1, 2, 9].map(signed));
    }
    let trace = Trace::read(&written(&records)).unwrap();
    let window = Window {
        first: 18,
        period: Some(9),
        steps: 3,
    };
    assert_eq!(trace.window(40), window);
}

#[test]
fn what_does_not_repeat_has_no_steps() {
    let mut random = Random(3);
    let mut records = vec![head()];
    records.extend((0..100).map(|_| signed(random.below(4))));
    let trace = Trace::read(&written(&records)).unwrap();
    let window = Window {
        first: 40,
        period: None,
        steps: 0,
    };
    assert_eq!(trace.window(40), window);
}

#[test]
fn the_same_work_on_other_blocks_is_not_the_same() {
    let mut records = vec![head()];
    records.extend((0..6).map(|block| alloc(block, 1)));
    for _ in 0..5 {
        records.extend(
            [[0], [1], [2], [3], [4], [5]].map(|piece| match work(&piece) {
                Record::Work { what, function, .. } => Record::Work {
                    what,
                    function,
                    signature: 1,
                    stream: 0,
                    when_ns: 0,
                    device_ns: 1,
                    pieces: piece.to_vec().into(),
                },
                other => panic!("{other:?}"),
            }),
        );
    }
    let trace = Trace::read(&written(&records)).unwrap();
    assert_eq!(trace.window(40).period, Some(6));
}

#[test]
fn a_loop_at_the_end_is_no_step() {
    let mut random = Random(3);
    let mut records = vec![head()];
    records.extend((0..100).map(|_| signed(random.below(4))));
    records.extend((0..30).map(|i| signed(i % 3)));
    let trace = Trace::read(&written(&records)).unwrap();
    assert_eq!(trace.window(40).period, None);
    assert_eq!(trace.window(80).period, Some(3));
}

/// However often it was written to: what was begun is completed by the next write.
#[test]
fn a_file_that_has_more_to_come_is_good_and_not_whole_until_it_is_ended() {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::start(&mut bytes);
    encoder.record(&head(), &mut bytes);
    encoder.record(&alloc(1, 3), &mut bytes);
    for works in 1..4 {
        encoder.record(&work(&[1]), &mut bytes);
        let at = bytes.len() as u64;
        Encoder::open(&mut bytes);
        let trace = Trace::read(&bytes).unwrap();
        assert_eq!((trace.works().len(), trace.truncated()), (works, Some(at)));
        Encoder::close(&mut bytes);
        let trace = Trace::read(&bytes).unwrap();
        assert_eq!((trace.works().len(), trace.truncated()), (works, None));
    }
}
