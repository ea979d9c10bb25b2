//! Errors of input, and their diagnostics.

use std::path::PathBuf;

use trainyard_diagnostic::{Code, Diagnostic, listed, suggest};

use crate::RecordUnit;

/// What a job wants of a column that a list has too many values for.
pub(crate) const ONE_VALUE: &str = "one value a row";

/// A record that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRow {
    /// The file.
    pub file: PathBuf,
    /// The unit that the record is in its file.
    pub unit: RecordUnit,
    /// Line on which the record begins; for TFRecord and Parquet, the number of the record in the file. From 1.
    pub line: u64,
    /// Byte of the decompressed content at which the record begins, from 0; for Parquet, the number of the row.
    pub offset: u64,
    /// The column at fault; absent = the record as a whole.
    pub column: Option<String>,
    /// The reason, with the value.
    pub reason: String,
}

impl std::fmt::Display for BadRow {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.unit {
            RecordUnit::Record => {
                write!(
                    formatter,
                    "{}: record {} at byte {}: ",
                    self.file.display(),
                    self.line,
                    self.offset
                )?;
            }
            RecordUnit::Row => write!(formatter, "{}: row {}: ", self.file.display(), self.line)?,
            RecordUnit::FieldLine | RecordUnit::Line => {
                write!(formatter, "{}:{}: ", self.file.display(), self.line)?
            }
        }
        match &self.column {
            Some(column) => write!(formatter, "column `{column}`: {}", self.reason),
            None => formatter.write_str(&self.reason),
        }
    }
}

impl BadRow {
    /// Returns advice to the user on this row.
    pub fn help(&self) -> String {
        if let Some(cause) = self.cause() {
            return cause;
        }
        "fix the row; `trainyard check` says how many of the first are like it. Where they are few, input.bad_rows = \"skip\" \
         leaves them out"
            .to_owned()
    }

    /// Returns advice to the user if the job is wrong and not the row.
    pub fn cause(&self) -> Option<String> {
        let given = self.reason.rsplit_once(", given ").map(|(_, given)| given);
        let several = given
            .and_then(|given| given.parse::<u64>().ok())
            .filter(|given| *given > 1);
        match several {
            Some(given) if self.reason.contains("1 value,") => Some(format!(
                "the column holds lists: give the feature `shape = [{given}]`, or a `separator` where they are of any length"
            )),
            _ => None,
        }
    }
}

/// Returns the beginning of a sentence about columns: "column `a` is" or "columns `a`, `b` are".
fn are(columns: &[String]) -> String {
    let names: Vec<String> = columns.iter().map(|column| format!("`{column}`")).collect();
    match &*names {
        [name] => format!("column {name} is"),
        names => format!("columns {} are", names.join(", ")),
    }
}

/// A failed input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An option is out of range.
    #[error("{name} of the input must be {rule}, given {given}")]
    Setting {
        /// The option.
        name: &'static str,
        /// The rule for its value.
        rule: String,
        /// The given value.
        given: usize,
    },
    /// A file cannot be opened or read.
    #[error("input file {} cannot be read: {message}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The message of the system.
        message: String,
    },
    /// A file cannot be written.
    #[error("{}", .0.message)]
    Unwritten(Box<Diagnostic>),
    /// The format of a file cannot hold a value or a name.
    #[error("{} cannot be written: {message}", file.display())]
    Unfit {
        /// The file.
        file: PathBuf,
        /// The value, with its place.
        message: String,
    },
    /// The content of a file is broken.
    #[error("input file {} cannot be read: {message}", file.display())]
    Content {
        /// The file.
        file: PathBuf,
        /// The fault, with its place.
        message: String,
        /// Advice to the user.
        help: &'static str,
    },
    /// The first line of a text file holds carriage returns.
    #[error("{}: carriage returns stand within the first line: with lines that end with them alone, all of the file is one line", file.display())]
    CarriageReturns {
        /// The file.
        file: PathBuf,
    },
    /// A remote file cannot be read.
    #[error("{0}")]
    Remote(Box<trainyard_storage::Error>),
    /// This program was built without the feature that reads or writes the file's format.
    #[error("{}: this program was built without `{feature}`", file.display())]
    NotBuilt {
        /// The file.
        file: PathBuf,
        /// The feature.
        feature: &'static str,
    },
    /// A file has content that this program does not read.
    #[error("{} holds what this program does not read: {what}", file.display())]
    Unsupported {
        /// The file.
        file: PathBuf,
        /// The content, in the words of its reader.
        what: String,
    },
    /// The type of a column does not fit the job.
    #[error("column `{column}` of {} holds {found}, the job wants {wanted}", file.display())]
    ColumnType {
        /// The column.
        column: String,
        /// The file.
        file: PathBuf,
        /// Type of the column.
        found: String,
        /// Type that the job wants.
        wanted: &'static str,
    },
    /// Two files hold times of two units in a column, times and durations, times and other values, or booleans and texts, which are taken for plain numbers or names.
    #[error(
        "the column `{column}` holds {of_first} in {} and {of_file} in {}, and the job takes them for plain numbers or names",
        first.display(), file.display()
    )]
    MixedTimes {
        /// The column.
        column: String,
        /// The file before.
        first: PathBuf,
        /// What it holds, in words.
        of_first: String,
        /// The other file.
        file: PathBuf,
        /// What it holds, in words.
        of_file: String,
    },
    /// A column that is to be kept beside other values has a type that cannot be.
    #[error(
        "column `{column}` of {} holds {found}, and what can be kept is one value a row, or a list of values",
        file.display()
    )]
    Kept {
        /// The column.
        column: String,
        /// The file.
        file: PathBuf,
        /// Type of the column.
        found: String,
        /// Columns within it that can be kept.
        inner: Vec<String>,
    },
    /// A file has changed since its records were counted.
    #[error("input file {} has changed: {what}", file.display())]
    Changed {
        /// The file.
        file: PathBuf,
        /// The difference.
        what: String,
    },
    /// A data shard is inconsistent.
    #[error("data shard {round}, lane {lane}, of pass {pass} cannot be read: {reason}")]
    Shard {
        /// Pass of the data shard.
        pass: u64,
        /// Round of the pass.
        round: u64,
        /// Lane of the round.
        lane: u32,
        /// The reason.
        reason: String,
    },
    /// The records of a data shard are larger than memory allows.
    #[error(
        "a data shard must hold at most {most} bytes of records, the first {rows} of {of} rows hold {bytes}"
    )]
    ShardBytes {
        /// Rows counted.
        rows: u64,
        /// Rows of the data shard.
        of: u64,
        /// Bytes of the counted rows.
        bytes: u64,
        /// Bytes allowed.
        most: u64,
    },
    /// Wanted columns are not in the input.
    #[error("{} not in {}", are(columns), file.display())]
    Column {
        /// The columns.
        columns: Vec<String>,
        /// The file.
        file: PathBuf,
        /// Columns of the input.
        known: Vec<String>,
    },
    /// Several columns of the input have the name of a column that is read.
    #[error("column `{column}` is there twice in {}", file.display())]
    ColumnTwice {
        /// The column.
        column: String,
        /// The file.
        file: PathBuf,
        /// Columns of the input.
        known: Vec<String>,
    },
    /// No file holds a record.
    #[error("the input holds no record: {}", files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", "))]
    Empty {
        /// The files.
        files: Vec<PathBuf>,
    },
    /// A record cannot be read, and the job stops at bad rows.
    #[error("{0}")]
    Row(Box<BadRow>),
    /// The records of a batch are larger than the limit.
    #[error("a batch must hold less than {most} bytes of records, its first {rows} hold {bytes}")]
    Batch {
        /// Records counted.
        rows: usize,
        /// Bytes of the counted records.
        bytes: u64,
        /// Bytes allowed.
        most: u64,
    },
    /// More bad rows than allowed.
    #[error("{bad} of {read} rows are unreadable, bad_rows_max is {most}")]
    Rows {
        /// Bad rows.
        bad: u64,
        /// Rows read.
        read: u64,
        /// Rows allowed to be bad.
        most: u64,
        /// The first few bad rows.
        first: Vec<BadRow>,
    },
}

impl From<Error> for Diagnostic {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::Content { help, .. } => Self::error(Code::E4002, text).help(help),
            Error::File { .. } => Self::error(Code::E4002, text).help("check the path and its permissions"),
            Error::Unwritten(problem) => *problem,
            Error::Unfit { .. } => Self::error(Code::E4005, text)
                .help("change the value or the name in the input, or write another format: parquet holds any"),
            Error::CarriageReturns { .. } => Self::error(Code::E4002, text)
                .help("write it with line feeds: `tr '\\r' '\\n' < IN > OUT`"),
            Error::Remote(error) => Self::from(*error),
            Error::NotBuilt { feature, .. } => {
                Self::error(Code::E1002, text).help(trainyard_diagnostic::not_built_help(feature))
            }
            Error::Unsupported { .. } => Self::error(Code::E1002, text)
                .help("write the file again, uncompressed or with snappy, gzip, lz4 or zstd"),
            Error::ColumnType { wanted, .. } => {
                let problem = Self::error(Code::E4003, text);
                if wanted == ONE_VALUE {
                    problem.help(
                        "give a feature a separator (any: values stand apart already), or a shape; a label, a weight or a time needs a column of one \
                         value a row: write it so",
                    )
                } else {
                    problem.help(
                        "change the feature's kind or `integers`, or write the column as that type",
                    )
                }
            }
            Error::MixedTimes { .. } => Self::error(Code::E4003, text).help(
                "write the training files with one type in the column, and times in one unit; or give the feature `time`, which knows the units of times",
            ),
            Error::Kept { inner, .. } if inner.is_empty() => Self::error(Code::E4003, text)
                .help("keep another column, or write the file with one value a row, or a list of values, in its place"),
            Error::Kept { inner, .. } => {
                Self::error(Code::E4003, text).help(format!("keep columns within it: {}", listed(&inner)))
            }
            Error::ColumnTwice { known, .. } => Self::error(Code::E4003, text)
                .note(format!("columns: {}", listed(known)))
                .help("give each column a name of its own; where the first line is a record, name the columns with input.columns, or --columns"),
            // A header of numbers is a record.
            Error::Column { known, .. } if known.iter().any(|name| name.parse::<f64>().is_ok()) => {
                Self::error(Code::E4003, text)
                    .note(format!("the first line of the file holds {}", listed(known)))
                    .help("that line is no header: name the columns of the file with input.columns")
            }
            Error::Column { columns, known, file } => {
                // The names of Parquet are in the file, those of TFRecord in each record.
                let extension = file.extension().and_then(|extension| extension.to_str());
                let has_names = matches!(
                    extension,
                    Some("parquet" | "pq" | "tfrecord" | "tfrecords")
                );
                let near = |column: &String| suggest(column, known.iter().map(String::as_str));
                let suggested = match &*columns {
                    [column] => near(column).map(|near| format!("did you mean `{near}`?")),
                    several => {
                        let pairs = several.iter().filter_map(|column| Some(format!("`{}` for `{column}`", near(column)?)));
                        let pairs: Vec<String> = pairs.collect();
                        (!pairs.is_empty()).then(|| format!("did you mean {}?", pairs.join(", ")))
                    }
                };
                let problem = Self::error(Code::E4003, text).note(format!("columns: {}", listed(known)));
                problem.help(suggested.unwrap_or_else(|| {
                    if has_names {
                        "correct the job's column, or write the file with it".to_owned()
                    } else {
                        "correct the job's column; if the file has no header line, name its columns with input.columns".to_owned()
                    }
                }))
            }
            Error::Setting { name, .. } => Self::error(Code::E1002, text).help(format!("correct {name}")),
            Error::Changed { .. } => Self::error(Code::E4002, text)
                .help("start the job again, and leave its files alone while it runs; all tasks must see the same files"),
            Error::Shard { .. } => Self::error(Code::E9001, text)
                .help("check that all tasks run the same version, with the same job and files"),
            Error::ShardBytes { .. } => {
                Self::error(Code::E1002, text).help("set a smaller batch_size, or fewer batches in a data shard")
            }
            Error::Empty { .. } => Self::error(Code::E4001, text).help("check that the files are not empty or a header alone"),
            Error::Row(row) => Self::error(Code::E4004, text).help(row.help()),
            Error::Batch { .. } => Self::error(Code::E1002, text).help("set a smaller batch_size"),
            Error::Rows { first, .. } => first
                .iter()
                .fold(Self::error(Code::E4004, text), |problem, row| problem.note(row.to_string()))
                .help("fix the rows, raise input.bad_rows_max, or set input.bad_rows = \"fail\" to stop at the first"),
        }
    }
}
