//! Inputs that are made of several parts.

/// Cuts an input in two, at the place that its first two bytes say.
pub(crate) fn two(data: &[u8]) -> (&[u8], &[u8]) {
    let Some((head, rest)) = data.split_first_chunk::<2>() else {
        return (&[], &[]);
    };
    rest.split_at(usize::from(u16::from_le_bytes(*head)).min(rest.len()))
}

/// Takes numbers out of an input, and zeros behind its end.
#[derive(Debug)]
pub(crate) struct Numbers<'a>(pub(crate) &'a [u8]);

impl Numbers<'_> {
    /// Returns whether there is nothing left.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the next byte.
    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    /// Returns a number below `most`, which is at most 256.
    pub(crate) fn below(&mut self, most: usize) -> usize {
        usize::from(self.byte()) % most.max(1)
    }

    /// Returns a number, mostly a small one, sometimes one near an end of the range.
    pub(crate) fn wide(&mut self) -> u64 {
        let kind = self.byte();
        let small = u64::from(self.byte());
        match kind % 8 {
            0 => u64::MAX - small,
            1 => small << 56,
            2 => (1 << 24) - 128 + small,
            _ => small,
        }
    }

    /// Returns the next `count` bytes, or what is left.
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken.to_vec()
    }
}
