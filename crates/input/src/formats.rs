//! The registry of the record formats. A format is a file of this folder and a line here.

mod libsvm;
mod lines;
mod lists;
mod parquet;
mod text;
mod tfrecord;

pub(crate) use self::lists::several;
pub(crate) use self::parquet::{ParquetCopier, column_types as parquet_types};
use crate::record_format::RecordFormat;
use crate::{Format, IndexBase};

/// Returns the format whose files have this extension, in lower case and without a dot.
pub fn format_of_extension(extension: &str) -> Option<Format> {
    let mut formats = Format::NAMES.into_iter().map(|(_, format)| format);
    formats.find(|name| format(*name).extensions().contains(&extension))
}

/// Returns a format by its name in jobs.
pub(crate) fn format(name: Format) -> &'static dyn RecordFormat {
    match name {
        Format::Csv => &text::CSV,
        Format::Tsv => &text::TSV,
        Format::TfRecord => &tfrecord::TfRecord,
        Format::Parquet => &parquet::Parquet,
        Format::LibSvm(IndexBase::Zero) => &libsvm::FROM_ZERO,
        Format::LibSvm(IndexBase::One) => &libsvm::FROM_ONE,
    }
}
