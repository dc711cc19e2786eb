//! Text in shared words: bytes in memory order, so that a C reader sees a `char` array.

use crate::sync::{AtomicU64, Ordering, fence};

const WORD: usize = size_of::<u64>();

/// A text with room for `8 * W` bytes, and its length.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Text<const W: usize> {
    length: AtomicU64,
    words: [AtomicU64; W],
}

impl<const W: usize> Text<W> {
    /// Writes as much of `bytes` as there is room for. Meant to be written once: a reader beside
    /// a second write may see a mixture.
    pub(crate) fn write(&self, bytes: &[u8]) {
        let kept = store(&self.words, bytes);
        // Release: pairs with the fence in `read`.
        self.length.store(kept as u64, Ordering::Release);
    }

    /// The bytes; empty if never written.
    pub(crate) fn read(&self) -> Vec<u8> {
        let length = self.length.load(Ordering::Relaxed);
        // Acquire fence: pairs with the release in `write`. Readers map read-only, where std
        // promises relaxed loads alone.
        fence(Ordering::Acquire);
        let mut bytes = load(&self.words);
        bytes.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        bytes
    }
}

/// Stores `bytes` in `words`, padded with zeros; returns how many fitted.
pub(crate) fn store(words: &[AtomicU64], bytes: &[u8]) -> usize {
    let mut chunks = bytes.chunks(WORD);
    for word in words {
        let mut packed = [0; WORD];
        for (to, from) in packed.iter_mut().zip(chunks.next().unwrap_or_default()) {
            *to = *from;
        }
        word.store(u64::from_ne_bytes(packed), Ordering::Relaxed);
    }
    bytes.len().min(words.len() * WORD)
}

/// All bytes of `words`.
pub(crate) fn load(words: &[AtomicU64]) -> Vec<u8> {
    words
        .iter()
        .flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes())
        .collect()
}

/// The text of `words` up to the first zero; what is not UTF-8 is replaced.
pub(crate) fn load_padded(words: &[AtomicU64]) -> String {
    let mut bytes = load(words);
    bytes.truncate(bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len()));
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text<const W: usize>() -> Text<W> {
        Text {
            length: AtomicU64::new(0),
            words: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    #[test]
    fn what_fits_is_kept_and_the_rest_is_cut() {
        let text = text::<2>();
        assert_eq!(text.read(), b"");
        text.write(b"");
        assert_eq!(text.read(), b"");
        text.write(b"0123456789");
        assert_eq!(text.read(), b"0123456789");
        text.write(b"0123456789abcdefXYZ");
        assert_eq!(text.read(), b"0123456789abcdef");
    }

    #[test]
    fn a_length_beyond_the_room_is_cut_to_the_room() {
        let text = text::<1>();
        text.length.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(text.read().len(), 8);
    }

    #[test]
    fn padded_text_ends_at_the_first_zero_or_at_the_end() {
        let words = [const { AtomicU64::new(0) }; 1];
        store(&words, b"abc");
        assert_eq!(load_padded(&words), "abc");
        store(&words, b"abcdefgh");
        assert_eq!(load_padded(&words), "abcdefgh");
    }
}
