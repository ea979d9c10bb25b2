//! Writer of tables in any format. It is atomic: the file appears when it is complete.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::write::{GzEncoder, ZlibEncoder};
use trainyard_tfrecord::write_frame;

#[cfg(not(feature = "parquet"))]
use super::parquet_absent::ParquetWriter;
#[cfg(feature = "parquet")]
use super::parquet_writer::ParquetWriter;
use super::{Cell, ColumnKind, Layout, float, int, text};
use crate::{Compression, Error, Format, libsvm};

/// Separator of the values of a list in text.
const LIST_SEPARATOR: u8 = b'|';

/// Writer of a file. The file has a temporary name until it is finished. An unfinished file is removed.
pub struct TableWriter {
    path: PathBuf,
    partial: PathBuf,
    layout: Layout,
    /// Absent once the file is finished.
    target: Option<Target>,
    buffer: Vec<u8>,
    scratch: Vec<u8>,
}

enum Target {
    Lines(Format, Output),
    Examples(Output),
    Parquet(ParquetWriter<BufWriter<File>>),
}

/// A file, compressed or not.
enum Output {
    Plain(BufWriter<File>),
    Gzip(GzEncoder<BufWriter<File>>),
    Zlib(ZlibEncoder<BufWriter<File>>),
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(out) => out.write(bytes),
            Self::Gzip(out) => out.write(bytes),
            Self::Zlib(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::Plain(out) => out.flush(),
            Self::Gzip(out) => out.flush(),
            Self::Zlib(out) => out.flush(),
        }
    }
}

impl Output {
    fn finish(self) -> std::io::Result<()> {
        let mut out = match self {
            Self::Plain(out) => out,
            Self::Gzip(out) => out.finish()?,
            Self::Zlib(out) => out.finish()?,
        };
        out.flush()?;
        out.get_ref().sync_all()
    }
}

impl TableWriter {
    /// Creates a file. The extension of its name determines the compression. Parquet compresses its pages instead.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(path: &Path, format: Format, layout: Layout) -> Result<Self, Error> {
        let mut partial = path.as_os_str().to_owned();
        partial.push(format!(".partial-{}", std::process::id()));
        let partial = PathBuf::from(partial);
        let failed = |error: std::io::Error| file_error(path, &error);
        let file = BufWriter::new(File::create(&partial).map_err(failed)?);
        let level = flate2::Compression::default();
        let target = match format {
            Format::Parquet => {
                let writer = ParquetWriter::new(path, file, &layout);
                // The error is ignored: at worst, an empty temporary file remains.
                Target::Parquet(writer.inspect_err(|_| drop(std::fs::remove_file(&partial)))?)
            }
            _ => {
                let output = match Compression::of(path) {
                    Compression::None => Output::Plain(file),
                    Compression::Gzip => Output::Gzip(GzEncoder::new(file, level)),
                    Compression::Zlib => Output::Zlib(ZlibEncoder::new(file, level)),
                };
                match format {
                    Format::TfRecord => Target::Examples(output),
                    format => Target::Lines(format, output),
                }
            }
        };
        let buffer = Vec::new();
        let scratch = Vec::new();
        let mut writer = Self {
            path: path.to_owned(),
            partial,
            layout,
            target: Some(target),
            buffer,
            scratch,
        };
        if let Some(Target::Lines(format @ (Format::Csv | Format::Tsv), _)) = writer.target {
            let names: Vec<Vec<u8>> = writer
                .layout
                .columns
                .iter()
                .map(|column| column.name.as_bytes().to_vec())
                .collect();
            for (place, name) in names.iter().enumerate() {
                writer.field(format, place, name)?;
            }
            writer.end_line()?;
        }
        Ok(writer)
    }

    /// Appends a row with the cells of the layout's columns.
    ///
    /// # Errors
    /// The file cannot be written, or the format cannot hold a value.
    pub fn write(&mut self, row: &[Cell]) -> Result<(), Error> {
        match &mut self.target {
            None => Ok(()),
            Some(Target::Parquet(writer)) => writer.write(row).map_err(|message| Error::File {
                file: self.path.clone(),
                message,
            }),
            Some(Target::Examples(output)) => {
                self.buffer.clear();
                example(&self.layout, row, &mut self.buffer, &mut self.scratch);
                write_frame(output, &self.buffer).map_err(|error| file_error(&self.path, &error))
            }
            Some(Target::Lines(Format::LibSvm(_), _)) => {
                self.pairs(row)?;
                self.end_line()
            }
            Some(Target::Lines(format, _)) => {
                let format = *format;
                let mut value = std::mem::take(&mut self.scratch);
                for place in 0..self.layout.columns.len() {
                    value.clear();
                    for (nth, part) in row
                        .get(place)
                        .map_or([].as_slice(), |cell| &cell.values)
                        .iter()
                        .enumerate()
                    {
                        if nth > 0 {
                            value.push(LIST_SEPARATOR);
                        }
                        text(part, &mut value);
                    }
                    self.field(format, place, &value)?;
                }
                self.scratch = value;
                self.end_line()
            }
        }
    }

    /// Completes the file and renames it to its final name.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(mut self) -> Result<(), Error> {
        let failed = |error: std::io::Error| file_error(&self.path, &error);
        match self.target.take() {
            None => {}
            Some(Target::Parquet(writer)) => {
                let file = writer.finish();
                let file = file.map_err(|message| Error::File {
                    file: self.path.clone(),
                    message,
                })?;
                let file = file
                    .into_inner()
                    .map_err(std::io::IntoInnerError::into_error);
                file.and_then(|file| file.sync_all()).map_err(failed)?;
            }
            Some(Target::Lines(_, output) | Target::Examples(output)) => {
                output.finish().map_err(failed)?
            }
        }
        std::fs::rename(&self.partial, &self.path).map_err(failed)
    }

    /// Appends a field to the line.
    fn field(&mut self, format: Format, place: usize, value: &[u8]) -> Result<(), Error> {
        let delimiter = if format == Format::Csv { b',' } else { b'\t' };
        if place > 0 {
            self.buffer.push(delimiter);
        }
        let special = |byte: &u8| *byte == delimiter || matches!(byte, b'\n' | b'\r' | b'"');
        let spaced = value.first().is_some_and(u8::is_ascii_whitespace)
            || value.last().is_some_and(u8::is_ascii_whitespace);
        if format == Format::Csv && (value.iter().any(special) || spaced) {
            self.buffer.push(b'"');
            for part in value.split_inclusive(|byte| *byte == b'"') {
                self.buffer.extend_from_slice(part);
                if part.ends_with(b"\"") {
                    self.buffer.push(b'"');
                }
            }
            self.buffer.push(b'"');
        } else if format == Format::Tsv
            && value
                .iter()
                .any(|byte| matches!(byte, b'\t' | b'\n' | b'\r'))
        {
            let name = self
                .layout
                .columns
                .get(place)
                .map_or("", |column| column.name.as_str());
            let shown = crate::cells::shown(value);
            let message =
                format!("column `{name}` holds {shown}: tsv has no place for tabs and line ends");
            return Err(Error::File {
                file: self.path.clone(),
                message,
            });
        } else {
            self.buffer.extend_from_slice(value);
        }
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), Error> {
        self.buffer.push(b'\n');
        let Some(Target::Lines(_, output)) = &mut self.target else {
            return Ok(());
        };
        output
            .write_all(&self.buffer)
            .map_err(|error| file_error(&self.path, &error))?;
        self.buffer.clear();
        Ok(())
    }

    /// Appends a line of libsvm. Its pairs are the lists `index` and `value`. Without these columns, they are all
    /// numbers that are not 0, each with the place of its column, counted from 1 without label and query.
    fn pairs(&mut self, row: &[Cell]) -> Result<(), Error> {
        let place = |name: &str| {
            self.layout
                .columns
                .iter()
                .position(|column| column.name == name)
        };
        let [label, query, index, value] = libsvm::COLUMNS.map(place);
        let cell = |place: Option<usize>| {
            place
                .and_then(|place| row.get(place))
                .map_or([].as_slice(), |cell| &cell.values)
        };
        match cell(label).first() {
            Some(label) => text(label, &mut self.buffer),
            None => {
                let message = match label {
                    Some(_) => "a row has no label, without which libsvm has no line".to_owned(),
                    None => "libsvm needs a column `label`".to_owned(),
                };
                return Err(Error::File {
                    file: self.path.clone(),
                    message,
                });
            }
        }
        if let Some(query) = cell(query).first() {
            self.buffer.extend_from_slice(b" qid:");
            text(query, &mut self.buffer);
        }
        if index.is_some() && value.is_some() {
            let indices = parts(cell(index));
            let values = parts(cell(value));
            if indices.len() != values.len() {
                let message = format!(
                    "a row has {} indices and {} values",
                    indices.len(),
                    values.len()
                );
                return Err(Error::File {
                    file: self.path.clone(),
                    message,
                });
            }
            for (index, value) in indices.iter().zip(values) {
                self.buffer.push(b' ');
                self.buffer.extend_from_slice(index);
                self.buffer.push(b':');
                self.buffer.extend_from_slice(&value);
            }
            return Ok(());
        }
        let mut number = 0;
        for (place, column) in self.layout.columns.iter().enumerate() {
            if Some(place) == label || Some(place) == query {
                continue;
            }
            if column.kind == Some(ColumnKind::Text) || column.list {
                let what = if column.list { "lists" } else { "texts" };
                let message = format!(
                    "column `{}` holds {what}, libsvm numbers alone",
                    column.name
                );
                return Err(Error::File {
                    file: self.path.clone(),
                    message,
                });
            }
            number += 1;
            if let Some(value) = cell(Some(place)).first()
                && float(value) != Some(0.0)
            {
                self.buffer
                    .extend_from_slice(format!(" {number}:").as_bytes());
                text(value, &mut self.buffer);
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for TableWriter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "TableWriter({})", self.path.display())
    }
}

impl Drop for TableWriter {
    fn drop(&mut self) {
        // A finished file was renamed, so there is nothing to remove.
        let _ = std::fs::remove_file(&self.partial);
    }
}

/// Returns the values of a list, or of a text that holds a list.
fn parts(values: &[super::Value]) -> Vec<Vec<u8>> {
    let mut whole = Vec::new();
    for value in values {
        if !whole.is_empty() {
            whole.push(LIST_SEPARATOR);
        }
        text(value, &mut whole);
    }
    if whole.is_empty() {
        Vec::new()
    } else {
        whole
            .split(|byte| *byte == LIST_SEPARATOR)
            .map(<[u8]>::to_vec)
            .collect()
    }
}

fn file_error(path: &Path, error: &std::io::Error) -> Error {
    Error::File {
        file: path.to_owned(),
        message: format!("it cannot be written: {error}"),
    }
}

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a protobuf field of bytes.
fn field(number: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(number << 3 | 2);
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Encodes a row as a `tf.train.Example`. Missing values are omitted.
fn example(layout: &Layout, row: &[Cell], out: &mut Vec<u8>, scratch: &mut Vec<u8>) {
    let mut entries = Vec::new();
    for (column, cell) in layout
        .columns
        .iter()
        .zip(row)
        .filter(|(_, cell)| !cell.values.is_empty())
    {
        let mut list = Vec::new();
        let mut feature = Vec::new();
        let mut entry = Vec::new();
        let kind = column.kind.unwrap_or(ColumnKind::Text);
        let values = cell.values.iter();
        match kind {
            ColumnKind::Text => values.for_each(|value| {
                scratch.clear();
                text(value, scratch);
                field(1, scratch, &mut list);
            }),
            ColumnKind::Float => {
                scratch.clear();
                for value in values {
                    scratch.extend_from_slice(&(float(value).unwrap_or(0.0) as f32).to_le_bytes());
                }
                field(1, scratch, &mut list);
            }
            ColumnKind::Int => {
                scratch.clear();
                values.for_each(|value| varint(int(value) as u64, scratch));
                field(1, scratch, &mut list);
            }
        }
        let number = match kind {
            ColumnKind::Text => 1,
            ColumnKind::Float => 2,
            ColumnKind::Int => 3,
        };
        field(number, &list, &mut feature);
        field(1, column.name.as_bytes(), &mut entry);
        field(2, &feature, &mut entry);
        field(1, &entry, &mut entries);
    }
    field(1, &entries, out);
}
