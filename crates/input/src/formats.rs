//! The registry of the record formats. A format is a file of this folder and a line here.

mod libsvm;
mod lines;
mod lists;
mod parquet;
mod text;
mod tfrecord;

use crate::record_format::RecordFormat;
use crate::{Format, IndexBase};

/// Every format, once.
const FORMATS: [Format; 5] = [
    Format::Csv,
    Format::Tsv,
    Format::LibSvm(IndexBase::One),
    Format::TfRecord,
    Format::Parquet,
];

impl Format {
    /// Returns the format whose files have this extension, in lower case and without a dot.
    pub fn of_extension(extension: &str) -> Option<Self> {
        FORMATS
            .into_iter()
            .find(|name| format(*name).extensions().contains(&extension))
    }

    /// Returns the name of the format in a job file.
    pub fn name(self) -> &'static str {
        // The first extension of each format is its name.
        format(self)
            .extensions()
            .first()
            .copied()
            .unwrap_or_default()
    }
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
