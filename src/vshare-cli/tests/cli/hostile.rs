//! Segments that hold anything at all.

/// A small generator, so that a failure is the same one again.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// `good` with some of its words turned over, in every third round all of them; it still begins as a segment.
pub(crate) fn mutate(good: &[u8], random: &mut Random, round: u32) -> Vec<u8> {
    let mut bytes = good.to_vec();
    let words = bytes.len() as u64 / 8;
    let all = round.is_multiple_of(3);
    for hit in 0..if all { words } else { 40 } {
        let word = match random.next() % 4 {
            0 => u64::MAX,
            1 => random.next() % 2000,
            _ => random.next(),
        };
        let at = if all { hit } else { random.next() % words };
        let at = usize::try_from(at).unwrap() * 8;
        bytes[at..at + 8].copy_from_slice(&word.to_ne_bytes());
    }
    bytes[..8].copy_from_slice(&good[..8]);
    bytes
}
