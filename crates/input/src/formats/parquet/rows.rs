//! Reader of the rows of Parquet files. The columns of a row group are decoded side by side, some rows at a time.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parquet::column::reader::get_column_reader;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::serialized_reader::SerializedPageReader;
use trainyard_storage::File;

use super::arrow_schema::arrow_columns;
use super::column::{
    ColumnCursor, Misfit, ParquetColumn, Why, columns, columns_within, project, type_of_root,
};
use super::pages::{FilledPages, Pages, READ_BYTES};
use crate::columnar::ColumnarRows;
use crate::record::{Content, Place, failed};
use crate::record_format::{FileRecords, InputFile, Want};
use crate::{Error, Schema, TypeKind};

/// Number of rows that are decoded together.
const CHUNK_ROWS: u64 = 1024;
/// Bytes of decoded rows that stay in memory. Data shards in a random order go back a little.
const KEPT_BYTES: usize = 32 << 20;

/// Advice where a file is no whole Parquet file.
const ANOTHER_FILE: &str =
    "copy the file again from where it was made, or give the format that it has";

/// Decoded rows.
#[derive(Debug)]
struct Chunk {
    /// Number of the first row in the file.
    first: u64,
    rows: ColumnarRows,
    /// Bytes of the rows in their inline form.
    bytes: usize,
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
pub(super) struct ParquetRows {
    file: Arc<File>,
    file_bytes: u64,
    metadata: Arc<ParquetMetaData>,
    columns: Vec<ParquetColumn>,
    /// Names and types of the columns whose values cannot be used.
    unreadable: Vec<(String, String)>,
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
    pub(super) fn open(input: &InputFile<'_>, schema: Option<&Schema>) -> Result<Self, Error> {
        let path = input.path;
        let file = input.storage.open(path);
        let file = Arc::new(file.map_err(|error| failed(path, &error))?);
        let file_bytes = file.bytes().map_err(|error| failed(path, &error))?;
        let pages = Pages::new(&file, file_bytes, 0..file_bytes, Bytes::new());
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&pages);
        let metadata = metadata.map_err(|error| broken(path, error))?;
        let of_file = metadata.file_metadata();
        let all = columns(of_file.schema_descr(), &arrow_columns(of_file));
        let unreadable = all
            .iter()
            .filter(|column| column.values.is_none())
            .map(|column| (column.name.clone(), column.type_name.clone()))
            .collect();
        let columns = match schema {
            None => all
                .into_iter()
                .filter(|column| column.values.is_some())
                .map(|column| ParquetColumn {
                    keeps_digits: input.keeps_digits,
                    ..column
                })
                .collect(),
            Some(schema) => project(&all, schema).map_err(|Misfit { column, why }| {
                let file = path.to_owned();
                let known: Vec<String> = all.iter().map(|column| column.name.clone()).collect();
                let root = match schema.kept.contains(&column) {
                    true => type_of_root(of_file.schema_descr(), &column),
                    false => None,
                };
                let why = match (why, root) {
                    (Why::Missing, Some(found)) => Why::Kept { found },
                    (why, _) => why,
                };
                match why {
                    Why::Kept { found } => Error::Kept {
                        inner: columns_within(&all, &column),
                        column,
                        file,
                        found,
                    },
                    Why::Type { found, wanted } => Error::ColumnType {
                        column,
                        file,
                        found,
                        wanted,
                    },
                    Why::Twice => Error::ColumnTwice {
                        column,
                        file,
                        known,
                    },
                    Why::Missing => Error::Column {
                        columns: schema.missing_in(&known, column),
                        file,
                        known,
                    },
                }
            })?,
        };
        let mut borders = vec![0_u64];
        for group in metadata.row_groups() {
            let rows = u64::try_from(group.num_rows()).map_err(|_| {
                let message = format!("a row group has {} rows", group.num_rows());
                Error::Content {
                    file: path.to_owned(),
                    message,
                    help: ANOTHER_FILE,
                }
            })?;
            borders.push(borders.last().map_or(0, |last| last.saturating_add(rows)));
        }
        Ok(Self {
            file,
            file_bytes,
            metadata: Arc::new(metadata),
            columns,
            unreadable,
            borders,
            next: 0,
            chunks: VecDeque::new(),
            cursor: None,
            current: (0, 0),
        })
    }

    /// Makes a row the current row, from memory or from the file.
    fn find(&mut self, number: u64) -> Result<(), ParquetError> {
        let holds =
            |chunk: &Chunk| (chunk.first..chunk.first + chunk.rows.rows() as u64).contains(&number);
        let place = match self.chunks.iter().position(holds) {
            Some(place) => place,
            None => {
                let chunk = self.decode(number)?;
                let mut kept: usize = self.chunks.iter().map(|chunk| chunk.bytes).sum();
                while kept > KEPT_BYTES
                    && let Some(oldest) = self.chunks.pop_front()
                {
                    kept -= oldest.bytes;
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
        let columns = cursor.columns.iter_mut().map(|cursor| cursor.take(rows));
        let decoded = ColumnarRows::new(columns.collect::<Result<_, _>>()?, rows);
        cursor.next = begin + rows as u64;
        self.cursor = Some(cursor);
        Ok(Chunk {
            first: begin,
            bytes: decoded.encoded_bytes(),
            rows: decoded,
        })
    }

    /// Returns cursors at the start of a row group. The first pages of all columns of a remote file are requested
    /// together.
    fn open_group(&self, group: usize) -> Result<Vec<ColumnCursor>, ParquetError> {
        let metadata = self.metadata.row_group(group);
        let rows = (self.borders[group + 1] - self.borders[group]) as usize;
        let mut places = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let chunk = metadata.column(column.leaf);
            places.push(byte_range(chunk, &column.name, self.file_bytes)?);
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
            let pages = Box::new(FilledPages(pages));
            let reader = get_column_reader(chunk.column_descr_ptr(), pages);
            Ok(ColumnCursor::new(column, reader))
        };
        self.columns
            .iter()
            .zip(places)
            .zip(first)
            .map(open)
            .collect()
    }
}

impl FileRecords for ParquetRows {
    /// Returns the names of the cells of each row.
    fn columns(&self) -> Option<Vec<String>> {
        let columns = self.columns.iter();
        Some(columns.map(|column| column.name.clone()).collect())
    }

    fn unreadable(&self) -> &[(String, String)] {
        &self.unreadable
    }

    fn kinds(&self) -> Vec<(String, TypeKind)> {
        // Of a column without values, a file may say that it holds no type of them.
        let columns = self.columns.iter().filter(|column| !column.is_untyped);
        columns
            .map(|column| (column.name.clone(), column.kind))
            .collect()
    }

    /// Moves to the next row. A row of which only the place is wanted is not decoded.
    fn next(&mut self, path: &Path, place: &mut Place, want: Want) -> Result<bool, Error> {
        let number = self.next;
        if number >= self.borders.last().copied().unwrap_or(0) {
            return Ok(false);
        }
        place.line = number + 1;
        place.offset = number;
        self.next += 1;
        if want == Want::Content {
            let (chunk, row) = self.current;
            let follows = self.chunks.get(chunk).is_some_and(|chunk| {
                chunk.first + row as u64 + 1 == number && row + 1 < chunk.rows.rows()
            });
            if follows {
                self.current.1 += 1;
            } else {
                self.find(number).map_err(|error| broken(path, error))?;
            }
        }
        Ok(true)
    }

    /// Moves to the row whose number is `offset`.
    fn seek(&mut self, offset: u64, _line: u64, _until: u64) -> std::io::Result<()> {
        self.next = offset;
        Ok(())
    }

    /// Returns the number of the next row.
    fn end(&self) -> u64 {
        self.next
    }

    fn content(&self) -> Content<'_> {
        let (chunk, row) = self.current;
        match self.chunks.get(chunk) {
            Some(chunk) => Content::Row(&chunk.rows, row),
            None => Content::Bytes(&[]),
        }
    }
}

/// Returns the bytes of a column of a row group.
///
/// # Errors
/// The footer says a size or a place below 0.
pub(super) fn byte_range(
    chunk: &ColumnChunkMetaData,
    name: &str,
    file_bytes: u64,
) -> Result<Range<u64>, ParquetError> {
    let dictionary = chunk.dictionary_page_offset().unwrap_or(0);
    let numbers = [
        chunk.compressed_size(),
        chunk.data_page_offset(),
        dictionary,
    ];
    if let Some(number) = numbers.iter().find(|number| **number < 0) {
        let message = format!("column `{name}` has a size or place of {number} bytes");
        return Err(ParquetError::General(message));
    }
    let (begin, bytes) = chunk.byte_range();
    Ok(begin.min(file_bytes)..begin.saturating_add(bytes).min(file_bytes))
}

/// Returns the error of a file that cannot be read: a storage error, or an error of its content.
pub(super) fn broken(path: &Path, error: ParquetError) -> Error {
    if let ParquetError::External(source) = &error
        && let Some(error) = source.downcast_ref::<std::io::Error>()
    {
        return failed(path, error);
    }
    // The library does not tell a codec that it was built without from other errors of the content.
    let text = error.to_string();
    if matches!(error, ParquetError::NYI(_)) || text.contains("Disabled feature") {
        return Error::Unsupported {
            file: path.to_owned(),
            what: text,
        };
    }
    Error::Content {
        file: path.to_owned(),
        message: format!("it is no Parquet file, or a broken one: {text}"),
        help: ANOTHER_FILE,
    }
}
