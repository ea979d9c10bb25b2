//! CSV and TSV: lines of fields between delimiters.

mod delimiter;
mod parser;
mod quoted;
mod writer;

use std::borrow::Cow;

use self::parser::TextParser;
use self::quoted::{unquote, without_blanks};
use self::writer::TextWriter;
use super::lines::{LineSyntax, Lines, QuoteSyntax};
use crate::encoding::utf8;
use crate::record::Content;
use crate::record_format::{
    Blanks, FileColumns, FileRecords, InputFile, RecordFormat, RecordParser, RowWriter, TableRow,
    Target,
};
use crate::record_unit::RecordUnit;
use crate::{Error, Options, Schema, Value};

/// Fields between commas, quoted where they hold commas, quotes or line ends (RFC 4180).
pub(super) const CSV: Delimited = Delimited {
    extensions: &["csv"],
    delimiter: b',',
    quotes: Quotes::Allowed,
};
/// Fields between tabs, no quotes.
pub(super) const TSV: Delimited = Delimited {
    extensions: &["tsv", "tab"],
    delimiter: b'\t',
    quotes: Quotes::Plain,
};

/// A format of fields between delimiters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Delimited {
    extensions: &'static [&'static str],
    delimiter: u8,
    quotes: Quotes,
}

/// The meaning of quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quotes {
    /// A field may stand in quotes.
    Allowed,
    /// A quote is a character like others.
    Plain,
}

impl RecordFormat for Delimited {
    fn extensions(&self) -> &'static [&'static str] {
        self.extensions
    }

    fn unit(&self) -> RecordUnit {
        RecordUnit::FieldLine
    }

    fn open(
        &self,
        file: &InputFile<'_>,
        _schema: Option<&Schema>,
    ) -> Result<Box<dyn FileRecords>, Error> {
        let syntax = match self.quotes {
            Quotes::Allowed => LineSyntax::Quoted(QuoteSyntax {
                delimiter: self.with(file.delimiter).delimiter,
                trim: file.trim,
            }),
            Quotes::Plain => LineSyntax::Plain,
        };
        Ok(Box::new(Lines::open(file, syntax)?))
    }

    fn names_columns(&self, options: &Options) -> bool {
        options.columns.is_none()
    }

    fn header(&self, record: &[u8], options: &Options) -> Vec<String> {
        let mut names = Vec::new();
        // A name of unknown bytes is that of no column.
        let record = utf8(options.text.encoding, record).unwrap_or(Cow::Borrowed(record));
        // A name whose quoting is broken is that of no column, either.
        let _ = self
            .with(options.text.delimiter)
            .fields(&record, options.trim, |name| {
                let name = String::from_utf8_lossy(name);
                names.push(if options.trim {
                    name.trim().to_owned()
                } else {
                    name.into_owned()
                });
            });
        names
    }

    fn parser(&self, columns: &FileColumns<'_>) -> Result<Box<dyn RecordParser>, Error> {
        let syntax = self.with(columns.options.text.delimiter);
        Ok(Box::new(TextParser::new(syntax, columns)?))
    }

    fn cells(&self, content: Content<'_>, row: TableRow<'_>) -> Result<(), String> {
        let mut count = 0;
        let style = &row.options.text;
        let record = utf8(style.encoding, content.as_bytes())?;
        let trim = row.options.trim;
        let drops = trim && row.blanks == Blanks::AsInJob;
        self.with(style.delimiter).fields(&record, trim, |field| {
            let field = if drops { field.trim_ascii() } else { field };
            let place = row.places.get(count);
            if let Some(cell) = place.and_then(|place| row.cells.get_mut(*place))
                && !field.is_empty()
            {
                cell.values.push(Value::Text(field.to_vec()));
            }
            count += 1;
        })?;
        match row.places.len() {
            columns if columns == count => Ok(()),
            columns => Err(format!(
                "a record must have {columns} columns, given {count}"
            )),
        }
    }

    fn writer(&self, target: Target<'_>) -> Result<Box<dyn RowWriter>, Error> {
        Ok(Box::new(TextWriter::new(
            self.with(target.delimiter),
            target,
        )?))
    }
}

impl Delimited {
    /// Returns the format with another delimiter. Jobs have none for TSV; what reads lines as they are gives one that they lack.
    fn with(self, delimiter: Option<u8>) -> Self {
        Self {
            delimiter: delimiter.unwrap_or(self.delimiter),
            ..self
        }
    }

    /// Returns whether a quoted field begins here. Blanks before its quote belong to it unless they are dropped.
    fn opens_quote(&self, rest: &[u8], trim: bool) -> bool {
        let rest = if trim {
            without_blanks(rest, self.delimiter)
        } else {
            rest
        };
        self.quotes == Quotes::Allowed && rest.first() == Some(&b'"')
    }

    /// Splits a record into fields, unquoted.
    ///
    /// # Errors
    /// The quoting of a field is broken. It is passed on as it is, as are those after it.
    fn fields(&self, record: &[u8], trim: bool, mut each: impl FnMut(&[u8])) -> Result<(), String> {
        let mut outcome = Ok(());
        let mut rest = Some(record);
        let mut scratch = Vec::new();
        while let Some(current) = rest {
            let quoted = self.opens_quote(current, trim);
            let unquoted = if quoted {
                unquote(current, self.delimiter, &mut scratch)
            } else {
                None
            };
            if quoted && unquoted.is_none() {
                outcome = outcome.and_then(|()| Err(broken_quotes(current)));
            }
            match unquoted {
                Some(tail) => {
                    rest = tail;
                    each(&scratch);
                }
                None => {
                    let end = memchr::memchr(self.delimiter, current);
                    rest = end.map(|end| &current[end + 1..]);
                    each(&current[..end.unwrap_or(current.len())]);
                }
            }
        }
        outcome
    }
}

/// Most bytes of a field in a message.
const SHOWN_MAX: usize = 64;

/// Returns the fault of a field that begins with a quote (RFC 4180).
fn broken_quotes(field: &[u8]) -> String {
    let shown = String::from_utf8_lossy(&field[..field.len().min(SHOWN_MAX)]);
    // The quotes are shown as they stand.
    let shown = shown.replace(char::is_control, " ");
    format!(
        "a quoted field has text after its closing quote, or no closing quote, as here: `{shown}`; a quote in a quoted field is written twice"
    )
}
