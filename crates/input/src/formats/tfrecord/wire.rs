//! Reader of Protobuf's wire format without messages: fields borrow from the record
//! (<https://protobuf.dev/programming-guides/encoding>).

use std::ops::Range;

/// The place at which bytes are not valid protobuf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed {
    /// Byte of the record.
    pub(super) at: usize,
    pub(super) expected: &'static str,
}

/// Cursor over the fields of a message: the bytes of a record from `at` to `end`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wire<'a> {
    record: &'a [u8],
    at: usize,
    end: usize,
}

/// A field's value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    Varint(u64),
    Fixed32([u8; 4]),
    Fixed64,
    Bytes(Wire<'a>),
}

impl<'a> Wire<'a> {
    /// Returns a cursor over a whole record.
    #[inline]
    pub(super) fn new(record: &'a [u8]) -> Self {
        Self {
            record,
            at: 0,
            end: record.len(),
        }
    }

    /// Returns the remaining bytes of the message.
    #[inline]
    pub(super) fn bytes(&self) -> &'a [u8] {
        &self.record[self.at..self.end]
    }

    /// Returns the record, and the place of the remaining bytes of the message in it.
    #[inline]
    pub(super) fn place(&self) -> (&'a [u8], Range<usize>) {
        (self.record, self.at..self.end)
    }

    /// Skips `length` bytes. The message must have them.
    #[inline]
    pub(super) fn pass(&mut self, length: usize) {
        self.at += length;
    }

    /// Returns whether no bytes remain.
    #[inline]
    pub(super) fn is_at_end(&self) -> bool {
        self.at >= self.end
    }

    /// Returns the error that something else was expected at this place.
    pub(super) fn malformed(&self, expected: &'static str) -> Malformed {
        Malformed {
            at: self.at,
            expected,
        }
    }

    /// Reads a number of 7 bits a byte.
    #[inline]
    pub(super) fn varint(&mut self) -> Result<u64, Malformed> {
        match self.bytes().first() {
            Some(byte) if *byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for (place, byte) in self.bytes().iter().take(10).enumerate() {
            // Only one bit of the tenth byte fits into 64 bits.
            if place == 9 && *byte > 1 {
                break;
            }
            number |= u64::from(byte & 0x7f) << (7 * place);
            if *byte < 0x80 {
                self.at += place + 1;
                return Ok(number);
            }
        }
        Err(self.malformed("a number of at most 64 bits"))
    }

    /// Reads the next field. Returns its number and value; nothing at the end of the message.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<(u64, Value<'a>)>, Malformed> {
        if self.is_at_end() {
            return Ok(None);
        }
        let tag = self.varint()?;
        if tag >> 3 == 0 {
            return Err(self.malformed("a field number above 0 before this"));
        }
        let value = match tag & 7 {
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.take(length)?)
            }
            0 => Value::Varint(self.varint()?),
            1 => {
                self.take(8)?;
                Value::Fixed64
            }
            5 => match self.take(4)?.bytes().first_chunk() {
                Some(bytes) => Value::Fixed32(*bytes),
                None => return Err(self.malformed("4 bytes")),
            },
            _ => return Err(self.malformed("a field of wire type 0, 1, 2 or 5 before this")),
        };
        Ok(Some((tag >> 3, value)))
    }

    #[inline]
    fn take(&mut self, length: u64) -> Result<Self, Malformed> {
        if length > (self.end - self.at) as u64 {
            return Err(self.malformed("as many bytes as the length before says"));
        }
        let taken = Self {
            end: self.at + length as usize,
            ..*self
        };
        self.at = taken.end;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_hold_64_bits_and_no_more() {
        let read = |bytes: &[u8]| Wire::new(bytes).varint().ok();
        assert_eq!(read(&[0x7f]), Some(127));
        assert_eq!(read(&[0xac, 0x02]), Some(300));
        assert_eq!(read(&[0xff; 10][..9]), None);
        let mut most = [0xff; 10];
        most[9] = 1;
        assert_eq!(read(&most), Some(u64::MAX));
        most[9] = 2;
        assert_eq!(read(&most), None);
        assert_eq!(read(&[]), None);
    }

    #[test]
    fn a_field_longer_than_its_message_is_malformed() {
        let mut outer = Wire::new(&[0x0a, 2, 0x0a, 1, 0, 0]);
        let Ok(Some((1, Value::Bytes(mut inner)))) = outer.next() else {
            panic!("{outer:?}")
        };
        assert_eq!(
            inner.next().map(|_| ()),
            Err(Malformed {
                at: 4,
                expected: "as many bytes as the length before says"
            })
        );
    }
}
