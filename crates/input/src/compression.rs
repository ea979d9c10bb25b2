//! Decompression of input files.

use std::io::{Error, ErrorKind, Result};
use std::path::Path;

use flate2::{Decompress, FlushDecompress, Status};
use trainyard_storage::{File, Storage};

use crate::Compression;

/// Compressed bytes that one read of a file requests.
const READ_BYTES: usize = 1 << 18;
/// Largest window of deflate, as a power of two.
const WINDOW_BITS: u8 = 15;

/// First bytes of gzip (RFC 1952).
pub(crate) const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The bytes of a file, decompressed.
#[derive(Debug)]
pub(crate) struct Content {
    file: File,
    inflater: Option<Inflater>,
}

impl Content {
    /// Opens a file. Nothing is read yet.
    pub(crate) fn open(storage: &Storage, path: &Path, compression: Compression) -> Result<Self> {
        let file = storage.open(path)?;
        let inflater = (compression != Compression::None).then(|| Inflater::new(compression));
        Ok(Self { file, inflater })
    }

    /// Returns whether a byte can be reached only by decompressing all bytes before it.
    pub(crate) fn is_compressed(&self) -> bool {
        self.inflater.is_some()
    }

    /// Moves to byte `offset`. Compressed content allows only offset 0.
    pub(crate) fn seek(&mut self, offset: u64) -> Result<()> {
        self.file.seek(offset)?;
        if let Some(inflater) = &mut self.inflater {
            *inflater = Inflater::new(inflater.compression);
        }
        Ok(())
    }

    /// Reads into `out`, which must not be empty. Returns the number of bytes, 0 at the end of the content.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidData`] if the compressed content is broken, [`ErrorKind::UnexpectedEof`] if it is cut short, and
    /// [`ErrorKind::Unsupported`] if it is not compressed.
    pub(crate) fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        loop {
            let read = match &mut self.inflater {
                Some(inflater) => inflater.read(&mut self.file, out),
                None => self.file.read(out),
            };
            match read {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }
}

/// Decompresses a file as it is read.
#[derive(Debug)]
struct Inflater {
    compression: Compression,
    state: Decompress,
    input: Vec<u8>,
    begin: usize,
    end: usize,
    /// Place in the file of the end of `input`.
    place: u64,
    /// The first bytes were read.
    begun: bool,
    /// A member has ended. The content ends there if no bytes follow.
    complete: bool,
    /// Zeros follow the last member, which fill a block of a tape or of a tar archive. Nothing else may follow them.
    is_padding: bool,
}

impl Inflater {
    fn new(compression: Compression) -> Self {
        Self {
            compression,
            state: Self::state(compression),
            input: vec![0; READ_BYTES],
            begin: 0,
            end: 0,
            place: 0,
            begun: false,
            complete: false,
            is_padding: false,
        }
    }

    fn state(compression: Compression) -> Decompress {
        match compression {
            Compression::Gzip => Decompress::new_gzip(WINDOW_BITS),
            Compression::Zlib | Compression::None => Decompress::new(true),
        }
    }

    /// Passes zeros behind a member of gzip, as gzip(1) does.
    fn pass_padding(&mut self) {
        if self.compression != Compression::Gzip {
            return;
        }
        let rest = &self.input[self.begin..self.end];
        let zeros = rest.iter().take_while(|byte| **byte == 0).count();
        self.is_padding |= zeros > 0;
        self.begin += zeros;
    }

    /// Returns whether the next byte begins another member.
    fn has_member(&self) -> bool {
        self.compression == Compression::Gzip
            && !self.is_padding
            && self.input[self.begin] == GZIP_MAGIC[0]
    }

    fn read(&mut self, file: &mut File, out: &mut [u8]) -> Result<usize> {
        let broken = |message: String| Error::new(ErrorKind::InvalidData, message);
        let name = if self.compression == Compression::Gzip {
            "gzip"
        } else {
            "zlib"
        };
        loop {
            if self.begin == self.end {
                (self.begin, self.end) = (0, file.read(&mut self.input)?);
                self.place += self.end as u64;
                if self.end == 0 && self.complete {
                    return Ok(0);
                }
            }
            if self.complete {
                self.pass_padding();
                if self.begin == self.end {
                    continue;
                }
                if !self.has_member() {
                    let place = self.place - (self.end - self.begin) as u64;
                    return Err(broken(format!(
                        "bytes that are no {name} content follow its end, from byte {place} on: zeros alone may"
                    )));
                }
                (self.state, self.complete) = (Self::state(self.compression), false);
            }
            if !self.begun && self.end > 0 {
                self.begun = true;
                let mut bytes = self.input.iter().zip(GZIP_MAGIC).take(self.end);
                if self.compression == Compression::Gzip
                    && bytes.any(|(byte, magic)| *byte != magic)
                {
                    let message = "it is to be gzip, and its content is not compressed by it";
                    return Err(Error::new(ErrorKind::Unsupported, message));
                }
            }
            let consumed = self.state.total_in();
            let produced = self.state.total_out();
            let input = &self.input[self.begin..self.end];
            let status = self
                .state
                .decompress(input, out, FlushDecompress::None)
                .map_err(|error| broken(format!("the {name} content is broken: {error}")))?;
            // The casts lose nothing: both numbers are at most the lengths of the slices.
            let consumed = (self.state.total_in() - consumed) as usize;
            let produced = (self.state.total_out() - produced) as usize;
            self.begin += consumed;
            self.complete = status == Status::StreamEnd;
            if produced > 0 {
                return Ok(produced);
            }
            if !self.complete && self.end == 0 {
                return Err(Error::new(
                    ErrorKind::UnexpectedEof,
                    format!("the {name} content is cut short"),
                ));
            }
            if !self.complete && consumed == 0 {
                return Err(broken(format!(
                    "the {name} content is broken: it goes nowhere"
                )));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn gzip(text: &str) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(text.as_bytes()).expect("it is memory");
        out.finish().expect("it is memory")
    }

    /// Returns what a file of these bytes holds.
    fn read(bytes: &[u8]) -> std::result::Result<String, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.csv.gz");
        std::fs::write(&path, bytes).expect("written");
        let content = Content::open(&Storage::default(), &path, Compression::Gzip);
        let mut content = content.expect("it is there");
        let mut text = Vec::new();
        loop {
            let mut piece = [0; 7];
            match content.read(&mut piece) {
                Ok(0) => return Ok(String::from_utf8(text).expect("a text")),
                Ok(read) => text.extend_from_slice(&piece[..read]),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    #[test]
    fn zeros_behind_gzip_are_ignored_and_other_bytes_are_refused_with_their_place() {
        let (first, second) = (gzip("a,b\n"), gzip("1,2\n"));
        let both = [&first[..], &second].concat();
        assert_eq!(read(&both), Ok("a,b\n1,2\n".to_owned()));
        for zeros in [1, 512, 2 * READ_BYTES] {
            let padded = [&both[..], &vec![0; zeros]].concat();
            assert_eq!(read(&padded), Ok("a,b\n1,2\n".to_owned()), "{zeros} zeros");
            for rest in [&b"x"[..], &second] {
                let told = read(&[&padded[..], rest].concat()).expect_err("no padding");
                let place = format!("from byte {} on", padded.len());
                assert!(told.contains(&place), "{told}");
            }
        }
        let told = read(&[&both[..], b"trailer"].concat()).expect_err("no gzip");
        assert!(
            told.contains(&format!("from byte {} on", both.len())),
            "{told}"
        );
        let told = read(&both[..both.len() - 3]).expect_err("no end");
        assert!(told.contains("cut short"), "{told}");
    }
}
