//! Blocks of a table: sorted entries, whose keys leave out the prefix that they share with the previous key.
//!
//! The format is that of LevelDB's `block_builder.cc`: entries (bytes shared, bytes not shared, bytes of value, rest of
//! the key, value), then the offsets of restarts as `u32`, then their number. Restarts serve binary search; this reader
//! goes in order.

use crate::tensor_bundle::cursor::Cursor;

/// Longest key, in bytes.
const KEY_BYTES_MAX: usize = 64 << 10;
/// Longest value, in bytes.
const VALUE_BYTES_MAX: u64 = 4 << 20;

/// A key and its value.
pub(crate) type Pair<'k, 'v> = (&'k [u8], &'v [u8]);

/// Iterates over the entries of a block.
#[derive(Debug)]
pub(crate) struct Entries<'a> {
    cursor: Cursor<'a>,
    key: Vec<u8>,
}

impl<'a> Entries<'a> {
    /// Opens the contents of a block, without its trailer.
    pub(crate) fn new(contents: &'a [u8]) -> Result<Self, String> {
        let Some((before, count)) = contents.split_last_chunk() else {
            return Err(format!(
                "a block of {} bytes has no number of restarts",
                contents.len()
            ));
        };
        let count = u32::from_le_bytes(*count) as usize;
        let restarts = count.checked_mul(4).filter(|&bytes| bytes <= before.len());
        let Some(restarts) = restarts else {
            return Err(format!(
                "a block of {} bytes counts {count} restarts",
                contents.len()
            ));
        };
        let entries = before.get(..before.len() - restarts).unwrap_or_default();
        Ok(Self {
            cursor: Cursor::new(entries),
            key: Vec::new(),
        })
    }

    /// Returns the key and value of the next entry, or `None` at the end.
    pub(crate) fn step(&mut self) -> Result<Option<Pair<'_, 'a>>, String> {
        if self.cursor.is_empty() {
            return Ok(None);
        }
        let cut = || "an entry is longer than its block".to_owned();
        let shared = self.cursor.varint().ok_or_else(cut)?;
        let rest = self.cursor.varint().ok_or_else(cut)?;
        let length = self.cursor.varint().ok_or_else(cut)?;
        let rest = self.cursor.take(rest).ok_or_else(cut)?;
        let value = self.cursor.take(length).ok_or_else(cut)?;
        if shared > self.key.len() as u64 {
            return Err(format!(
                "a key shares {shared} bytes with a key of {} bytes",
                self.key.len()
            ));
        }
        if shared as usize + rest.len() > KEY_BYTES_MAX {
            return Err(format!(
                "a key has {} bytes, at most {KEY_BYTES_MAX} are read",
                shared as usize + rest.len()
            ));
        }
        if length > VALUE_BYTES_MAX {
            return Err(format!(
                "an entry has {length} bytes, at most {VALUE_BYTES_MAX} are read"
            ));
        }
        self.key.truncate(shared as usize);
        self.key.extend_from_slice(rest);
        Ok(Some((&self.key, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_parts_of_keys_are_restored() {
        let block = [
            &[0, 2, 1][..],
            b"abx",
            &[1, 2, 0],
            b"cd",
            &[0, 0, 0, 0, 1, 0, 0, 0],
        ]
        .concat();
        let mut entries = Entries::new(&block).expect("a block");
        assert_eq!(
            entries.step(),
            Ok(Some((b"ab".as_slice(), b"x".as_slice())))
        );
        assert_eq!(
            entries.step(),
            Ok(Some((b"acd".as_slice(), b"".as_slice())))
        );
        assert_eq!(entries.step(), Ok(None));
    }

    #[test]
    fn lengths_past_the_block_are_refused() {
        assert!(Entries::new(&[0, 0, 0]).is_err());
        assert!(Entries::new(&[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]).is_err());
        let huge = [0xff; 9].as_slice();
        for entry in [
            [huge, &[1, 0, 0]].concat(),
            [&[0][..], huge, &[1, 0]].concat(),
            [&[0, 0][..], huge, &[1]].concat(),
        ] {
            let block = [entry.as_slice(), &[0; 4]].concat();
            let message = Entries::new(&block)
                .expect("a block")
                .step()
                .expect_err("it is refused");
            assert!(
                message.contains("a key shares 18446744073709551615 bytes")
                    || message.contains("longer than"),
                "{message}"
            );
        }
    }
}
