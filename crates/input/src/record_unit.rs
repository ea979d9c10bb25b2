//! Units of records, for messages.

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
