//! Bytes of a local file, mapped into memory: they cost the memory of the pages that are read.

use std::fs::File;
use std::io;
use std::ops::Range;

use memmap2::{Advice, Mmap, MmapOptions};

/// Mapped bytes of a local file. The file must stay as it is: its owner may remove it, and must not write to it or cut it.
#[derive(Debug)]
pub struct Mapping(Mmap);

impl Mapping {
    /// Maps bytes of a file whose places are read in no order.
    ///
    /// # Errors
    /// The file ends before the bytes do, or cannot be mapped.
    pub(crate) fn of(file: &File, range: Range<u64>) -> io::Result<Self> {
        let length = file.metadata()?.len();
        if range.is_empty() || range.end > length {
            let what = format!("bytes {range:?} of a file of {length} bytes cannot be mapped");
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
        }
        let map = map(file, range)?;
        map.advise(Advice::Random)?;
        Ok(Self(map))
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

#[expect(unsafe_code, reason = "a file can be mapped in no other way")]
fn map(file: &File, range: Range<u64>) -> io::Result<Mmap> {
    let length = (range.end - range.start) as usize;
    // SAFETY: exports are mapped, which are written whole under another name, renamed, and never written again. Values
    // that change under a reader would be wrong, and a file that is cut would end the process: the documentation says so.
    unsafe { MmapOptions::new().offset(range.start).len(length).map(file) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_from_any_place_are_mapped_and_those_beyond_the_end_are_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("file");
        let bytes: Vec<u8> = (0..10_000_u32).map(|place| (place % 251) as u8).collect();
        std::fs::write(&path, &bytes).expect("there is room");
        let file = File::open(&path).expect("it is there");
        for range in [0..1, 5..9000, 4096..8192, 9999..10_000] {
            let map = Mapping::of(&file, range.start as u64..range.end as u64).expect("a map");
            assert_eq!(map.bytes(), &bytes[range]);
        }
        for range in [0..10_001, 7..7] {
            Mapping::of(&file, range).expect_err("no such bytes");
        }
    }
}
