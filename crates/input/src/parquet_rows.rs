//! Reader of the rows of Parquet files. The columns of a row group are decoded side by side, some rows at a time.

use std::collections::VecDeque;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf as _, Bytes};
use parquet::column::reader::get_column_reader;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;
use trainyard_storage::{File, Storage};

use crate::parquet_column::{ColumnCursor, ParquetColumn, columns, project};
use crate::record::{Place, failed};
use crate::{Error, Schema};

/// Number of rows that are decoded together.
const CHUNK_ROWS: u64 = 1024;
/// Bytes of decoded rows that stay in memory. Data shards in a random order go back a little.
const KEPT_BYTES: usize = 32 << 20;
/// Bytes of one read of a column, unless a page is longer.
const READ_BYTES: u64 = 1 << 20;

/// The file as the decoder of one column or of the footer reads it. One read fetches several consecutive pages.
#[derive(Clone)]
struct Pages(Arc<PagesOf>);

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
    fn new(file: &Arc<File>, bytes: u64, place: Range<u64>, first: Bytes) -> Self {
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
struct PageBytes {
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

/// Decoded rows.
#[derive(Debug, Default)]
struct Chunk {
    /// Number of the first row in the file.
    first: u64,
    bytes: Vec<u8>,
    /// End of each row in `bytes`.
    ends: Vec<usize>,
}

/// Position of the decoder.
struct Cursor {
    group: usize,
    /// Number in the file of the next row to decode.
    next: u64,
    columns: Vec<ColumnCursor>,
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "Cursor {{ group: {}, next: {} }}",
            self.group, self.next
        )
    }
}

/// Reader of the rows of one file. Only the wanted columns are read, and skipped rows are not decoded.
#[derive(Debug)]
pub(crate) struct ParquetRows {
    file: Arc<File>,
    file_bytes: u64,
    metadata: Arc<ParquetMetaData>,
    columns: Vec<ParquetColumn>,
    /// Number of the first row of each row group, and at the end the number of all rows.
    borders: Vec<u64>,
    /// Number of the next row.
    next: u64,
    chunks: VecDeque<Chunk>,
    cursor: Option<Cursor>,
    /// The current row: its chunk, and its place in the chunk.
    current: (usize, usize),
}

impl ParquetRows {
    /// Opens a file and reads its footer.
    ///
    /// # Errors
    /// The file cannot be read, or a wanted column is missing or has another type.
    pub(crate) fn open(
        storage: &Storage,
        path: &Path,
        schema: Option<&Schema>,
    ) -> Result<Self, Error> {
        let file = Arc::new(storage.open(path).map_err(|error| failed(path, &error))?);
        let file_bytes = file.bytes().map_err(|error| failed(path, &error))?;
        let pages = Pages::new(&file, file_bytes, 0..file_bytes, Bytes::new());
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&pages);
        let metadata = metadata.map_err(|error| broken(path, error))?;
        let all = columns(metadata.file_metadata().schema_descr());
        let columns = match schema {
            None => all
                .into_iter()
                .filter(|column| column.values.is_some())
                .collect(),
            Some(schema) => project(&all, schema).map_err(|(column, misfit)| match misfit {
                Some((found, wanted)) => Error::ColumnType {
                    column,
                    file: path.to_owned(),
                    found,
                    wanted,
                },
                None => {
                    let known: Vec<String> = all.iter().map(|column| column.name.clone()).collect();
                    Error::Column {
                        columns: schema.missing_in(&known, column),
                        file: path.to_owned(),
                        known,
                    }
                }
            })?,
        };
        let mut borders = vec![0_u64];
        for group in metadata.row_groups() {
            let rows = u64::try_from(group.num_rows()).map_err(|_| {
                let message = format!("a row group has {} rows", group.num_rows());
                Error::File {
                    file: path.to_owned(),
                    message,
                }
            })?;
            borders.push(borders.last().map_or(0, |last| last.saturating_add(rows)));
        }
        Ok(Self {
            file,
            file_bytes,
            metadata: Arc::new(metadata),
            columns,
            borders,
            next: 0,
            chunks: VecDeque::new(),
            cursor: None,
            current: (0, 0),
        })
    }

    /// Returns the names of the cells of each row.
    pub(crate) fn columns(&self) -> Vec<String> {
        self.columns
            .iter()
            .map(|column| column.name.clone())
            .collect()
    }

    /// Returns the number of rows before the current position.
    pub(crate) fn number(&self) -> u64 {
        self.next
    }

    /// Moves to a row, numbered from 0.
    pub(crate) fn seek(&mut self, number: u64) {
        self.next = number;
    }

    /// Returns the current row.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        let (chunk, row) = self.current;
        let Some(chunk) = self.chunks.get(chunk) else {
            return &[];
        };
        let begin = row.checked_sub(1).map_or(0, |before| chunk.ends[before]);
        &chunk.bytes[begin..chunk.ends[row]]
    }

    /// Moves to the next row. Returns `false` at the end of the file. A row that is not `wanted` is not decoded.
    pub(crate) fn next(
        &mut self,
        path: &Path,
        place: &mut Place,
        wanted: bool,
    ) -> Result<bool, Error> {
        let number = self.next;
        if number >= self.borders.last().copied().unwrap_or(0) {
            return Ok(false);
        }
        (place.line, place.offset) = (number + 1, number);
        self.next += 1;
        if wanted {
            let (chunk, row) = self.current;
            let follows = self.chunks.get(chunk).is_some_and(|chunk| {
                chunk.first + row as u64 + 1 == number && row + 1 < chunk.ends.len()
            });
            if follows {
                self.current.1 += 1
            } else {
                self.find(number).map_err(|error| broken(path, error))?
            }
        }
        Ok(true)
    }

    /// Makes a row the current row, from memory or from the file.
    fn find(&mut self, number: u64) -> Result<(), ParquetError> {
        let holds =
            |chunk: &Chunk| (chunk.first..chunk.first + chunk.ends.len() as u64).contains(&number);
        let place = match self.chunks.iter().position(holds) {
            Some(place) => place,
            None => {
                let chunk = self.decode(number)?;
                let mut kept: usize = self.chunks.iter().map(|chunk| chunk.bytes.len()).sum();
                while kept > KEPT_BYTES
                    && let Some(oldest) = self.chunks.pop_front()
                {
                    kept -= oldest.bytes.len();
                }
                self.chunks.push_back(chunk);
                self.chunks.len() - 1
            }
        };
        self.current = (place, (number - self.chunks[place].first) as usize);
        Ok(())
    }

    /// Decodes the chunk that holds a row.
    fn decode(&mut self, number: u64) -> Result<Chunk, ParquetError> {
        let group = self.borders.partition_point(|border| *border <= number) - 1;
        let first = self.borders[group];
        let end = self.borders[group + 1];
        let begin = first + (number - first) / CHUNK_ROWS * CHUNK_ROWS;
        let rows = CHUNK_ROWS.min(end - begin) as usize;
        let here = self
            .cursor
            .take()
            .filter(|cursor| cursor.group == group && cursor.next <= begin);
        let mut cursor = match here {
            Some(cursor) => cursor,
            None => Cursor {
                group,
                next: first,
                columns: self.open_group(group)?,
            },
        };
        let mut chunk = Chunk {
            first: begin,
            ..Chunk::default()
        };
        let skipped = (begin - cursor.next) as usize;
        for (cursor, column) in cursor.columns.iter_mut().zip(&self.columns) {
            let found = match skipped {
                0 => cursor.read(rows)?,
                _ => {
                    if cursor.skip(skipped)? == skipped {
                        cursor.read(rows)?
                    } else {
                        0
                    }
                }
            };
            if found != rows {
                let column = &column.name;
                let from = begin + 1;
                let message = format!(
                    "column `{column}` has {found} of the {rows} values from row {from} on"
                );
                return Err(ParquetError::General(message));
            }
        }
        chunk.ends.reserve(rows);
        for _ in 0..rows {
            cursor
                .columns
                .iter_mut()
                .for_each(|column| column.put(&mut chunk.bytes));
            chunk.ends.push(chunk.bytes.len());
        }
        cursor.next = begin + rows as u64;
        self.cursor = Some(cursor);
        Ok(chunk)
    }

    /// Returns cursors at the start of a row group. The first pages of all columns of a remote file are requested
    /// together.
    fn open_group(&self, group: usize) -> Result<Vec<ColumnCursor>, ParquetError> {
        let metadata = self.metadata.row_group(group);
        let rows = (self.borders[group + 1] - self.borders[group]) as usize;
        let mut places = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let chunk = metadata.column(column.leaf);
            let dictionary = chunk.dictionary_page_offset().unwrap_or(0);
            let numbers = [
                chunk.compressed_size(),
                chunk.data_page_offset(),
                dictionary,
            ];
            if let Some(number) = numbers.iter().find(|number| **number < 0) {
                let name = &column.name;
                let message = format!("column `{name}` has a size or place of {number} bytes");
                return Err(ParquetError::General(message));
            }
            let (begin, bytes) = chunk.byte_range();
            places
                .push(begin.min(self.file_bytes)..begin.saturating_add(bytes).min(self.file_bytes));
        }
        let first: Vec<Bytes> = if self.file.is_remote() {
            let first = |place: &Range<u64>| place.start..place.end.min(place.start + READ_BYTES);
            self.file
                .read_ranges(&places.iter().map(first).collect::<Vec<_>>())?
        } else {
            vec![Bytes::new(); places.len()]
        };
        let open = |((column, place), first): ((&ParquetColumn, Range<u64>), Bytes)| {
            let chunk = metadata.column(column.leaf);
            let pages = Pages::new(&self.file, self.file_bytes, place, first);
            let pages = SerializedPageReader::new(Arc::new(pages), chunk, rows, None)?;
            let reader = get_column_reader(chunk.column_descr_ptr(), Box::new(pages));
            ColumnCursor::new(column, reader).ok_or_else(|| {
                ParquetError::NYI(format!("column `{}` is {}", column.name, column.type_name))
            })
        };
        self.columns
            .iter()
            .zip(places)
            .zip(first)
            .map(open)
            .collect()
    }
}

/// Returns the error of a file that cannot be read: a storage error, or an error of its content.
fn broken(path: &Path, error: ParquetError) -> Error {
    if let ParquetError::External(source) = &error
        && let Some(error) = source.downcast_ref::<std::io::Error>()
    {
        return failed(path, error);
    }
    Error::File {
        file: path.to_owned(),
        message: format!("it is no Parquet file, or a broken one: {error}"),
    }
}
