//! The buffer that the program's threads append to: words, so that nothing has to be encoded under the lock.
//!
//! Each entry is a word with its kind and length, and then that many words. Either all of one is there or nothing.

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Block, pages, stream, time.
    Alloc,
    /// Block, stream, time.
    Free,
    /// What, function, signature, stream, time, context of the events, the two events, then blocks.
    Work,
    /// Number, bytes of the name, then these.
    Function,
    /// Time.
    Sync,
}

impl Kind {
    const ALL: [Self; 5] = [
        Self::Alloc,
        Self::Free,
        Self::Work,
        Self::Function,
        Self::Sync,
    ];
}

/// Words for at least as long as the writer sleeps: a launch that names 20 blocks takes 29.
pub(super) const CAPACITY: usize = 2 << 20;

/// Bytes of a name that are kept.
const LONGEST_NAME: usize = 4096;

/// See the module.
#[derive(Debug)]
pub(super) struct Buffer {
    words: Vec<u64>,
    /// Whether something did not fit. Nothing is taken from then on.
    full: bool,
}

impl Buffer {
    pub(super) const fn new() -> Self {
        Self {
            words: Vec::new(),
            full: false,
        }
    }

    /// Takes what is there, and leaves the memory of `empty` in its place. Returns whether something did not fit.
    pub(super) fn take(&mut self, empty: &mut Vec<u64>) -> bool {
        empty.clear();
        core::mem::swap(&mut self.words, empty);
        self.full
    }

    /// Something cannot be noted: the recording ends here.
    pub(super) const fn overflow(&mut self) {
        self.full = true;
    }

    pub(super) fn push(&mut self, kind: Kind, fields: &[u64]) {
        self.push_list(kind, fields, 0, core::iter::empty());
    }

    /// Appends an entry that ends with a list of at most `most`, each once.
    pub(super) fn push_list(
        &mut self,
        kind: Kind,
        fields: &[u64],
        most: usize,
        list: impl Iterator<Item = u64>,
    ) {
        if !self.has_room(fields.len() + most) {
            return;
        }
        let start = self.words.len();
        self.words.push(0);
        self.words.extend_from_slice(fields);
        let first = self.words.len();
        for item in list {
            if !self
                .words
                .get(first..)
                .is_some_and(|all| all.contains(&item))
            {
                self.words.push(item);
            }
        }
        self.set_head(start, kind);
    }

    pub(super) fn push_text(&mut self, kind: Kind, number: u64, text: &str) {
        let text = text.as_bytes();
        let text = text.get(..LONGEST_NAME).unwrap_or(text);
        if !self.has_room(2 + text.len().div_ceil(8)) {
            return;
        }
        let start = self.words.len();
        self.words.extend([0, number, text.len() as u64]);
        for piece in text.chunks(8) {
            let mut word = [0; 8];
            for (to, from) in word.iter_mut().zip(piece) {
                *to = *from;
            }
            self.words.push(u64::from_le_bytes(word));
        }
        self.set_head(start, kind);
    }

    /// The memory is the writer's to give: none is taken from the system here.
    fn has_room(&mut self, words: usize) -> bool {
        self.full |= self.words.capacity() - self.words.len() <= words;
        !self.full
    }

    fn set_head(&mut self, start: usize, kind: Kind) {
        let length = self.words.len() - start - 1;
        if let Some(head) = self.words.get_mut(start) {
            *head = (length as u64) << 8 | kind as u64;
        }
    }
}

/// The first entry of `words`: its kind, its fields, and what comes after it.
pub(super) fn first(words: &[u64]) -> Option<(Kind, &[u64], &[u64])> {
    let (&head, rest) = words.split_first()?;
    let kind = *Kind::ALL.get(usize::from(head.to_le_bytes()[0]))?;
    let (fields, rest) = rest.split_at_checked(usize::try_from(head >> 8).ok()?)?;
    Some((kind, fields, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_not_there_in_part_and_nothing_comes_after_it() {
        let mut buffer = Buffer::new();
        buffer.take(&mut Vec::with_capacity(10));
        buffer.push(Kind::Alloc, &[1, 2, 3, 4]);
        buffer.push(Kind::Alloc, &[5, 6, 7, 8]);
        buffer.push(Kind::Sync, &[9]);
        let mut taken = Vec::with_capacity(10);
        assert!(buffer.take(&mut taken), "it was full");
        let (kind, fields, rest) = first(&taken).unwrap();
        assert_eq!((kind, fields), (Kind::Alloc, &[1, 2, 3, 4][..]));
        let (kind, fields, rest) = first(rest).unwrap();
        assert_eq!((kind, fields), (Kind::Alloc, &[5, 6, 7, 8][..]));
        assert_eq!(first(rest), None);
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
        let (_, fields, _) = first(&taken).unwrap();
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
            let (kind, fields, rest) = first(&taken).unwrap();
            let kept = length.min(4096);
            assert_eq!((kind, rest), (Kind::Function, &[][..]));
            assert_eq!(fields[..2], [3, kept as u64]);
            let bytes: Vec<u8> = fields[2..].iter().flat_map(|w| w.to_le_bytes()).collect();
            assert_eq!(bytes[..kept], "ab".repeat(length).as_bytes()[..kept]);
        }
    }
}
