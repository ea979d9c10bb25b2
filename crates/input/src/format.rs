//! Names of the record formats, as jobs choose them.

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

/// Base of the indices of a libsvm file. The first index becomes 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IndexBase {
    /// Indices begin with 0.
    Zero,
    /// Indices begin with 1, as LIBSVM writes them.
    #[default]
    One,
}

/// The unit that a record is in its file, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordUnit {
    /// A line of fields. The first line of a file may be a header.
    FieldLine,
    /// A line.
    Line,
    /// A record between the frames of a binary file.
    Record,
    /// A row of columns.
    Row,
}
