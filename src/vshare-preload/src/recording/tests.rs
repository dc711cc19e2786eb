//! The buffer when it is full, and the file that ends where its writer did.

use super::file::Output;
use super::raw::{self, Buffer, Kind};
use vshare_core::trace::{Encoder, Fault, Head, Record, Trace, What};
use vshare_core::units::PAGE;

#[test]
fn what_does_not_fit_is_not_there_in_part_and_nothing_comes_after_it() {
    let mut buffer = Buffer::new();
    buffer.take(&mut Vec::with_capacity(10));
    buffer.push(Kind::Alloc, &[1, 2, 3, 4]);
    buffer.push(Kind::Alloc, &[5, 6, 7, 8]);
    buffer.push(Kind::Sync, &[9]);
    let mut taken = Vec::with_capacity(10);
    assert!(buffer.take(&mut taken), "it was full");
    let (kind, fields, rest) = raw::first(&taken).unwrap();
    assert_eq!((kind, fields), (Kind::Alloc, &[1, 2, 3, 4][..]));
    let (kind, fields, rest) = raw::first(rest).unwrap();
    assert_eq!((kind, fields), (Kind::Alloc, &[5, 6, 7, 8][..]));
    assert_eq!(raw::first(rest), None);
    // With room, but after a gap.
    buffer.push(Kind::Sync, &[10]);
    assert!(buffer.take(&mut taken));
    assert_eq!(taken, []);
}

#[test]
fn no_memory_is_taken_from_the_system_before_the_writer_has_given_any() {
    let mut buffer = Buffer::new();
    buffer.push(Kind::Sync, &[1]);
    let mut taken = Vec::new();
    assert!(buffer.take(&mut taken));
    assert_eq!(taken, []);
}

#[test]
fn a_list_has_everything_once_and_in_its_order() {
    let mut buffer = Buffer::new();
    buffer.take(&mut Vec::with_capacity(20));
    buffer.push_list(Kind::Work, &[7, 8], 5, [3, 7, 3, 1, 7].into_iter());
    let mut taken = Vec::new();
    assert!(!buffer.take(&mut taken));
    let (_, fields, _) = raw::first(&taken).unwrap();
    assert_eq!(fields, [7, 8, 3, 7, 1]);
}

#[test]
fn names_of_any_length_come_back_but_for_their_ends() {
    for length in [0, 1, 7, 8, 9, 4096, 5000] {
        let mut buffer = Buffer::new();
        buffer.take(&mut Vec::with_capacity(1000));
        buffer.push_text(Kind::Function, 3, &"ab".repeat(length)[..length]);
        let mut taken = Vec::new();
        assert!(!buffer.take(&mut taken));
        let (kind, fields, rest) = raw::first(&taken).unwrap();
        let kept = length.min(4096);
        assert_eq!((kind, rest), (Kind::Function, &[][..]));
        assert_eq!(fields[..2], [3, kept as u64]);
        let bytes: Vec<u8> = fields[2..].iter().flat_map(|w| w.to_le_bytes()).collect();
        assert_eq!(bytes[..kept], "ab".repeat(length).as_bytes()[..kept]);
    }
}

/// After each flush, however little it has written.
#[test]
fn a_file_is_whole_only_after_its_end() {
    let path = std::env::temp_dir().join(format!("vshare-recording-{}", std::process::id()));
    let name = path.to_str().unwrap();
    let read = || Trace::read(&std::fs::read(name).unwrap());
    let mut output = Output::open(name).unwrap();
    let mut encoder = Encoder::start(output.bytes());
    let head = Record::Head(Head {
        page: PAGE,
        ..Head::default()
    });
    encoder.record(&head, output.bytes());
    output.flush().unwrap();
    assert_eq!(read().unwrap_err().fault, Fault::NoWork);
    for works in 1..4 {
        let work = Record::Work {
            what: What::Fill,
            function: 0,
            signature: 1,
            stream: 1,
            when_ns: works,
            device_ns: 0,
            pieces: (&[]).into(),
        };
        encoder.record(&work, output.bytes());
        output.flush().unwrap();
        // Nothing new.
        output.flush().unwrap();
        let trace = read().unwrap();
        assert_eq!(trace.works().len() as u64, works);
        assert!(trace.truncated().is_some());
    }
    output.end().unwrap();
    let trace = read().unwrap();
    std::fs::remove_file(name).unwrap();
    assert_eq!((trace.works().len(), trace.truncated()), (3, None));
}
