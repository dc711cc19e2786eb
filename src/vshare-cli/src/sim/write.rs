//! Writing a generated trace: blocks get their numbers, work its time.

use vshare_core::trace::{Encoder, Head, Record, What};
use vshare_core::units::PAGE;

/// A trace that is being written.
#[derive(Debug)]
pub(crate) struct Script {
    bytes: Vec<u8>,
    encoder: Encoder,
    now: u64,
    unused: Vec<u32>,
    next: u32,
    random: u64,
}

impl Script {
    pub(crate) fn new(seed: u64) -> Self {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::start(&mut bytes);
        let head = Head {
            page: PAGE,
            device: "generated".to_owned(),
            ..Head::default()
        };
        encoder.record(&Record::Head(head), &mut bytes);
        Self {
            bytes,
            encoder,
            now: 0,
            unused: Vec::new(),
            next: 0,
            random: seed,
        }
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }

    pub(crate) fn alloc(&mut self, pages: u64) -> u32 {
        let block = self.unused.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        let when_ns = self.tick(1000);
        self.record(&Record::Alloc {
            block,
            pages,
            stream: 0,
            when_ns,
        });
        block
    }

    pub(crate) fn allocs(&mut self, count: usize, pages: u64) -> Vec<u32> {
        (0..count).map(|_| self.alloc(pages)).collect()
    }

    pub(crate) fn free(&mut self, block: u32) {
        let when_ns = self.tick(500);
        self.record(&Record::Free {
            block,
            stream: 0,
            when_ns,
        });
        self.unused.push(block);
    }

    /// A kernel that runs for so many microseconds.
    pub(crate) fn work(&mut self, function: u32, device_us: u64, pieces: &[u32]) {
        let when_ns = self.tick(5000);
        self.record(&Record::Work {
            what: What::Launch,
            function,
            signature: u64::from(function),
            stream: 0,
            when_ns,
            device_ns: device_us * 1000,
            pieces: pieces.into(),
        });
    }

    pub(crate) fn sync(&mut self) {
        let when_ns = self.tick(1000);
        self.record(&Record::Sync { when_ns });
    }

    /// A number below `end`; the same ones for the same seed.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.random;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % end.max(1)
    }

    fn record(&mut self, record: &Record<'_>) {
        self.encoder.record(record, &mut self.bytes);
    }

    fn tick(&mut self, ns: u64) -> u64 {
        self.now += ns;
        self.now
    }
}
