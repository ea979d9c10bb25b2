//! Many texts in one buffer.

use std::fmt;

use memchr::{memchr, memchr_iter};

/// A list of texts, end to end in one buffer. It takes 8 bytes of memory for each text, beside the text itself.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Texts {
    buffer: String,
    /// End of each text in the buffer. A text begins at the end of the one before.
    ends: Vec<u64>,
}

impl Texts {
    /// Returns the lines of a text, divided as by [`str::lines`]. They stay in the memory of the text.
    pub fn of_lines(text: String) -> Self {
        let mut bytes = text.into_bytes();
        let unterminated = bytes.last().is_some_and(|last| *last != b'\n');
        let count = memchr_iter(b'\n', &bytes).count() + usize::from(unterminated);
        let mut ends = Vec::with_capacity(count);
        let mut begin = 0;
        let mut written = 0;
        while begin < bytes.len() {
            let rest = &bytes[begin..];
            let (line, next) = match memchr(b'\n', rest) {
                Some(end) if rest[..end].ends_with(b"\r") => {
                    (begin..begin + end - 1, begin + end + 1)
                }
                Some(end) => (begin..begin + end, begin + end + 1),
                None => (begin..bytes.len(), bytes.len()),
            };
            let length = line.len();
            bytes.copy_within(line, written);
            written += length;
            ends.push(written as u64);
            begin = next;
        }
        bytes.truncate(written);
        let buffer = String::from_utf8(bytes).expect("the lines of a text are texts");
        Self { buffer, ends }
    }

    /// Adds a text.
    pub fn push(&mut self, text: &str) {
        self.buffer.push_str(text);
        self.ends.push(self.buffer.len() as u64);
    }

    /// Keeps the first texts, and gives the memory of the others back.
    pub fn truncate(&mut self, count: usize) {
        self.ends.truncate(count);
        self.ends.shrink_to_fit();
        self.buffer.truncate(self.end(self.ends.len()));
        self.buffer.shrink_to_fit();
    }

    /// Returns the number of texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the text at an index.
    ///
    /// # Panics
    /// The index is not below [`Texts::len`].
    pub fn get(&self, index: usize) -> &str {
        &self.buffer[self.end(index)..self.ends[index] as usize]
    }

    /// Returns the texts in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Returns the bytes of memory that the list takes.
    pub fn memory_bytes(&self) -> usize {
        self.buffer.capacity() + self.ends.capacity() * size_of::<u64>()
    }

    /// Returns the end of the first `count` texts.
    fn end(&self, count: usize) -> usize {
        count
            .checked_sub(1)
            .map_or(0, |last| self.ends[last] as usize)
    }
}

impl<T: AsRef<str>> FromIterator<T> for Texts {
    fn from_iter<I: IntoIterator<Item = T>>(texts: I) -> Self {
        let mut out = Self::default();
        texts.into_iter().for_each(|text| out.push(text.as_ref()));
        out
    }
}

impl fmt::Debug for Texts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} texts", self.len())
    }
}
