//! Checked reading of bytes.

/// Reads bytes from the front. Every method returns `None` if too few bytes are left.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes `length` bytes.
    pub(crate) fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(length).ok()?)?;
        self.rest = rest;
        Some(taken)
    }

    /// Takes four bytes unchanged.
    pub(crate) fn four(&mut self) -> Option<[u8; 4]> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*taken)
    }

    /// Takes a varint of protocol buffers: seven bits per byte, lowest first.
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for place in 0..10 {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            let bits = u64::from(byte & 0x7f);
            if place == 9 && bits > 1 {
                return None;
            }
            value |= bits << (7 * place);
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_and_endless_or_cut_ones_are_not() {
        assert_eq!(Cursor::new(&[0x00]).varint(), Some(0));
        assert_eq!(Cursor::new(&[0xac, 0x02]).varint(), Some(300));
        let mut most = [0xff; 10];
        most[9] = 1;
        assert_eq!(Cursor::new(&most).varint(), Some(u64::MAX));
        most[9] = 2;
        assert_eq!(Cursor::new(&most).varint(), None);
        assert_eq!(Cursor::new(&[0x80; 20]).varint(), None);
        assert_eq!(Cursor::new(&[0x80]).varint(), None);
    }

    #[test]
    fn nothing_is_taken_past_the_end() {
        let mut cursor = Cursor::new(b"abcde");
        assert_eq!(cursor.take(u64::MAX), None);
        assert_eq!(cursor.take(2), Some(b"ab".as_slice()));
        assert_eq!(cursor.four(), None);
        assert_eq!(cursor.take(3), Some(b"cde".as_slice()));
        assert!(cursor.is_empty());
    }
}
