//! Pages of a Parquet file: the bytes that a decoder reads. One read fetches several consecutive pages.

use std::io::Read;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf as _, Bytes};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result as Outcome};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;
use trainyard_storage::File;

/// Bytes of one read of a column, unless a page is longer.
pub(super) const READ_BYTES: u64 = 1 << 20;

/// Pages of a column without those that hold no value. Some writers write such pages, and the library takes one for the
/// end of the column.
pub(super) struct FilledPages(pub(super) SerializedPageReader<Pages>);

impl FilledPages {
    /// Moves to the next page that holds a value, or a dictionary.
    fn pass_empty_pages(&mut self) -> Outcome<Option<PageMetadata>> {
        loop {
            match self.0.peek_next_page()? {
                Some(page) if !page.is_dict && page.num_levels == Some(0) => {
                    self.0.skip_next_page()?;
                }
                page => return Ok(page),
            }
        }
    }
}

impl PageReader for FilledPages {
    fn get_next_page(&mut self) -> Outcome<Option<Page>> {
        self.pass_empty_pages()?;
        self.0.get_next_page()
    }

    fn peek_next_page(&mut self) -> Outcome<Option<PageMetadata>> {
        self.pass_empty_pages()
    }

    fn skip_next_page(&mut self) -> Outcome<()> {
        self.pass_empty_pages()?;
        self.0.skip_next_page()
    }

    fn supports_deferred_dictionary(&self) -> bool {
        self.0.supports_deferred_dictionary()
    }

    fn take_deferred_dictionary(&mut self) -> Outcome<Option<Page>> {
        self.0.take_deferred_dictionary()
    }
}

impl Iterator for FilledPages {
    type Item = Outcome<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

/// The file as the decoder of one column or of the footer reads it. One read fetches several consecutive pages.
#[derive(Clone)]
pub(super) struct Pages(Arc<PagesOf>);

struct PagesOf {
    file: Arc<File>,
    bytes: u64,
    /// End of the column, at which read-ahead stops.
    end: u64,
    /// Offset and bytes of the last read.
    window: Mutex<(u64, Bytes)>,
}

impl Pages {
    /// Returns a reader of the part of a file at `place`. `first` is the beginning of that part, already read.
    pub(super) fn new(file: &Arc<File>, bytes: u64, place: Range<u64>, first: Bytes) -> Self {
        let window = Mutex::new((place.start, first));
        Self(Arc::new(PagesOf {
            file: Arc::clone(file),
            bytes,
            end: place.end,
            window,
        }))
    }

    /// Returns bytes from `start` on: at least `least` bytes if the file has them.
    fn read(&self, start: u64, least: u64) -> std::io::Result<Bytes> {
        let PagesOf {
            file,
            bytes,
            end,
            window,
        } = &*self.0;
        let mut window = window.lock().unwrap_or_else(PoisonError::into_inner);
        let (begin, held) = &*window;
        let from = start
            .checked_sub(*begin)
            .filter(|from| from + least <= held.len() as u64);
        if let Some(from) = from {
            return Ok(held.slice(from as usize..));
        }
        let wanted = least.max(READ_BYTES.min(end.saturating_sub(start)));
        let wanted = wanted.min(bytes.saturating_sub(start));
        let read = file.read_at(start, wanted as usize)?;
        *window = (start, read.clone());
        Ok(read)
    }
}

impl Length for Pages {
    fn len(&self) -> u64 {
        self.0.bytes
    }
}

/// Sequential reader from an offset, for the headers of pages.
pub(super) struct PageBytes {
    pages: Pages,
    at: u64,
    bytes: Bytes,
}

impl Read for PageBytes {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if self.bytes.is_empty() && self.at < self.pages.0.bytes {
            self.bytes = self.pages.read(self.at, 1)?;
        }
        let count = self.bytes.len().min(out.len());
        self.bytes.split_to(count).copy_to_slice(&mut out[..count]);
        self.at += count as u64;
        Ok(count)
    }
}

impl ChunkReader for Pages {
    type T = PageBytes;

    fn get_read(&self, start: u64) -> parquet::errors::Result<PageBytes> {
        Ok(PageBytes {
            pages: self.clone(),
            at: start,
            bytes: Bytes::new(),
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let bytes = self.read(start, length as u64)?;
        if bytes.len() >= length {
            Ok(bytes.slice(..length))
        } else {
            Err(ParquetError::EOF(format!(
                "expected {length} bytes at byte {start}, found {}",
                bytes.len()
            )))
        }
    }
}
