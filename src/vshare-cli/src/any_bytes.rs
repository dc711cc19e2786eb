//! Segments that hold anything at all, through everything that reads one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use vshare_shm::reader::Segment;

use crate::recording::{Recording, Span};
use crate::snapshot::Snapshot;
use crate::text::json;
use crate::{events, exposition, ps, report, summary, top, trace};

/// A small generator, so that a failure is the same one again.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }
}

/// The first version's segment, with nothing, some or all of it turned over.
fn mutate(good: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = good.to_vec();
    let words = bytes.len() / 8;
    let hits = [0, 3, 40, 400, words][random.below(5)];
    for hit in 0..hits {
        let at = if hits == words {
            hit
        } else {
            random.below(words)
        };
        let word = match random.below(6) {
            0 => u64::MAX,
            1 => random.next() % 2000,
            2 => 1 << random.below(64),
            // Texts, such as those that mean something to a terminal, a browser or Prometheus.
            3 => u64::from_ne_bytes(*b"\x1b[2J<b>\""),
            4 => u64::from_ne_bytes(*b"\xe2\x80\xae\xc2\x9bab\n"),
            _ => random.next(),
        };
        bytes[at * 8..at * 8 + 8].copy_from_slice(&word.to_ne_bytes());
    }
    if random.below(3) == 0 {
        // A ring in which every slot can be read, of any kind.
        let head = random.next() >> random.below(64);
        bytes[0x80..0x88].copy_from_slice(&head.to_ne_bytes());
        for ticket in head.saturating_sub(960)..head {
            let at = 0x4400 + 48 * usize::try_from(ticket % 960).unwrap();
            let stamp = ticket.wrapping_mul(2).wrapping_add(2);
            bytes[at..at + 8].copy_from_slice(&stamp.to_ne_bytes());
            let kind = (random.next() % 11) << 56 | random.next() >> (8 + random.below(56));
            bytes[at + 8..at + 16].copy_from_slice(&kind.to_ne_bytes());
            for word in 2..6 {
                let value = random.next() >> random.below(64);
                bytes[at + 8 * word..at + 8 * word + 8].copy_from_slice(&value.to_ne_bytes());
            }
        }
    }
    bytes[..8].copy_from_slice(&good[..8]);
    bytes
}

/// What readers say of the file; the slow ones too, if `slow`.
fn read_by_all(path: &Path, slow: bool) -> Vec<String> {
    let open = || Segment::open(path).unwrap();
    let segment = open();
    let snapshot = Snapshot::of(&segment);
    let mut said = vec![
        summary::full(&segment),
        json(&summary::to_json(&segment)),
        summary::overview(&[open()]),
    ];
    said.extend(ps::table_of(vec![snapshot.clone()]));
    for format in [exposition::Format::Plain, exposition::Format::OpenMetrics] {
        said.push(exposition::render(vec![snapshot.clone()], 1, format).unwrap());
    }
    let all = segment.events();
    for event in all.iter().take(if slow { all.len() } else { 5 }) {
        said.push(events::words(&event.record));
        said.push(json(&events::to_json(event, segment.created_ns())));
    }
    if !slow {
        return said;
    }
    let recording = Recording::take(&segment, &Span::default()).unwrap();
    said.push(json(&trace::of(&recording)));
    said.push(report::page::of(&recording));

    let mut terminal = Terminal::new(TestBackend::new(90, 26)).unwrap();
    for screen in top::screens(vec![(snapshot, open())], Duration::from_millis(500)) {
        terminal.draw(|frame| screen(frame)).unwrap();
        let cells = terminal.backend().buffer().content();
        said.push(cells.iter().map(ratatui::buffer::Cell::symbol).collect());
    }
    said
}

#[test]
fn every_reader_has_an_answer_to_any_bytes_and_none_steers_the_terminal() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let good = std::fs::read(here.join("../vshare-shm/tests/golden/1.0.segment")).unwrap();
    let path: PathBuf = std::env::temp_dir().join(format!("vshare-any-{}", std::process::id()));
    let mut random = Random(0x1357_9bdf_0246_8ace);
    for round in 0..3000 {
        std::fs::write(&path, mutate(&good, &mut random)).unwrap();
        for said in read_by_all(&path, round % 15 == 0) {
            let unruly = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
            assert!(!said.contains(unruly), "round {round}: {said:?}");
        }
    }
    std::fs::remove_file(path).unwrap();
}
