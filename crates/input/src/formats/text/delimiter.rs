//! Search for the delimiters of a record, 64 bytes at a time. Fields are too short for one search each.

/// Bytes that are compared at once.
const CHUNK_BYTES: usize = 64;

/// The places of a delimiter in a record, ascending.
#[derive(Debug)]
pub(super) struct Delimiters<'a> {
    record: &'a [u8],
    delimiter: u8,
    /// Offset of the current chunk in the record.
    base: usize,
    /// Bit mask of the remaining delimiters of the chunk.
    bits: u64,
}

impl<'a> Delimiters<'a> {
    #[inline]
    pub(super) fn new(record: &'a [u8], delimiter: u8) -> Self {
        Self {
            record,
            delimiter,
            base: 0,
            bits: places(record, delimiter),
        }
    }

    /// Returns the place of the next delimiter, or the length of the record after the last one.
    #[inline]
    pub(super) fn next(&mut self) -> usize {
        while self.bits == 0 {
            self.base += CHUNK_BYTES;
            match self.record.get(self.base..) {
                Some(rest) => self.bits = places(rest, self.delimiter),
                None => return self.record.len(),
            }
        }
        let place = self.base + self.bits.trailing_zeros() as usize;
        self.bits &= self.bits - 1;
        place
    }

    /// Returns the number of remaining delimiters.
    pub(super) fn count(self) -> usize {
        let rest = self
            .record
            .get(self.base + CHUNK_BYTES..)
            .unwrap_or_default();
        self.bits.count_ones() as usize + memchr::memchr_iter(self.delimiter, rest).count()
    }
}

/// Returns a bit mask of the delimiters in the first 64 bytes. The delimiter must not be byte 0, which fills the rest
/// of a shorter chunk.
#[inline]
fn places(bytes: &[u8], delimiter: u8) -> u64 {
    match bytes.first_chunk() {
        Some(chunk) => matches(chunk, delimiter),
        None => {
            let mut chunk = [0; CHUNK_BYTES];
            chunk[..bytes.len()].copy_from_slice(bytes);
            matches(&chunk, delimiter)
        }
    }
}

#[inline]
fn matches(chunk: &[u8; CHUNK_BYTES], byte: u8) -> u64 {
    // Every x86-64 processor has SSE2, so the compiler removes this check there.
    #[cfg(target_arch = "x86_64")]
    if let Some(sse2) = pulp::core_arch::x86::Sse2::try_new() {
        let wanted = sse2._mm_set1_epi8(byte as i8);
        let mut bits = 0;
        for (place, word) in chunk.as_chunks::<16>().0.iter().enumerate() {
            let word = u128::from_le_bytes(*word);
            let word = sse2._mm_set_epi64x((word >> 64) as i64, word as i64);
            let found = sse2._mm_movemask_epi8(sse2._mm_cmpeq_epi8(word, wanted));
            bits |= u64::from(found as u32) << (16 * place);
        }
        return bits;
    }
    (0..CHUNK_BYTES).fold(0, |bits, place| {
        bits | u64::from(chunk[place] == byte) << place
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_delimiter_is_found_in_order(record in "[a\t]{0,200}", before in 0..40_usize) {
            let record = record.as_bytes();
            let wanted: Vec<usize> = memchr::memchr_iter(b'\t', record).collect();
            let mut delimiters = Delimiters::new(record, b'\t');
            for place in wanted.iter().take(before) {
                prop_assert_eq!(delimiters.next(), *place);
            }
            prop_assert_eq!(delimiters.count(), wanted.len() - before.min(wanted.len()));
            let mut delimiters = Delimiters::new(record, b'\t');
            wanted.iter().for_each(|place| assert_eq!(delimiters.next(), *place));
            prop_assert_eq!((delimiters.next(), delimiters.next()), (record.len(), record.len()));
        }
    }
}
