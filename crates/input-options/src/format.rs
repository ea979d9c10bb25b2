//! Formats of records.

use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

/// Record formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Fields between commas, quoted where they hold commas, quotes or line ends (RFC 4180).
    Csv,
    /// Fields between tabs, no quotes.
    Tsv,
    /// `tf.train.Example` messages in TFRecord files.
    TfRecord,
    /// Columns in Parquet files. A list is a field of several values.
    Parquet,
    /// Lines `label qid:q index:value index:value ...`, with `#` before comments. The columns are `label`, `qid`,
    /// `index` and `value`; `index` and `value` hold one value for each pair of the line.
    LibSvm(IndexBase),
}

impl Format {
    /// Every format with its name in a job file, with the default base of indices.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("csv", Self::Csv),
        ("tsv", Self::Tsv),
        ("tfrecord", Self::TfRecord),
        ("parquet", Self::Parquet),
        ("libsvm", Self::LibSvm(IndexBase::One)),
    ];

    /// Returns the name in a job file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::TfRecord => "tfrecord",
            Self::Parquet => "parquet",
            Self::LibSvm(_) => "libsvm",
        }
    }
}

/// The keys of a job file: `format` and `index_base`, which has its default for formats without indices.
impl Serialize for Format {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let base = match self {
            Self::LibSvm(base) => *base,
            _ => IndexBase::default(),
        };
        let mut keys = serializer.serialize_struct("Format", 2)?;
        keys.serialize_field("format", self.name())?;
        keys.serialize_field("index_base", &base.first_index())?;
        keys.end()
    }
}

/// Base of the indices of a libsvm file. The first index becomes 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IndexBase {
    /// Indices begin with 0.
    Zero,
    /// Indices begin with 1, as LIBSVM writes them.
    #[default]
    One,
}

impl IndexBase {
    /// Returns the first index, 0 or 1.
    pub(crate) fn first_index(self) -> u8 {
        match self {
            Self::Zero => 0,
            Self::One => 1,
        }
    }
}
