//! libsvm: lines `label qid:q index:value index:value ... # comment`
//! (<https://www.csie.ntu.edu.tw/~cjlin/libsvm/faq.html#f303>).

mod parser;
mod writer;

use self::parser::{LibSvmParser, Misfit};
use self::writer::LibSvmWriter;
use super::lines::{LineSyntax, Lines};
use crate::cells::shown;
use crate::number::{float, int};
use crate::record::Content;
use crate::record_format::{
    FileColumns, FileRecords, InputFile, RecordFormat, RecordParser, RowWriter, TableRow, Target,
};
use crate::record_unit::RecordUnit;
use crate::{Error, Fraction, IndexBase, Options, Schema, Value};

/// The columns of a line.
const COLUMNS: [&str; 4] = ["label", "qid", "index", "value"];

/// Lines whose indices begin with 0.
pub(super) const FROM_ZERO: LibSvm = LibSvm(IndexBase::Zero);
/// Lines whose indices begin with 1.
pub(super) const FROM_ONE: LibSvm = LibSvm(IndexBase::One);

/// The format, with the base of its indices.
#[derive(Debug)]
pub(super) struct LibSvm(IndexBase);

impl RecordFormat for LibSvm {
    fn extensions(&self) -> &'static [&'static str] {
        &["libsvm", "svm", "svmlight"]
    }

    fn unit(&self) -> RecordUnit {
        RecordUnit::Line
    }

    fn open(
        &self,
        file: &InputFile<'_>,
        _schema: Option<&Schema>,
    ) -> Result<Box<dyn FileRecords>, Error> {
        Ok(Box::new(Lines::open(file, LineSyntax::Commented)?))
    }

    fn parser(&self, columns: &FileColumns<'_>) -> Result<Box<dyn RecordParser>, Error> {
        match LibSvmParser::new(columns.schema, self.0, &columns.options.missing) {
            Ok(parser) => Ok(Box::new(parser)),
            Err(Misfit::Unknown(column)) => {
                let known = COLUMNS.map(str::to_owned);
                Err(columns.missing(column, &known))
            }
            Err(Misfit::Kind { column, wanted }) => Err(Error::ColumnType {
                column,
                file: columns.path(),
                found: "any number of numbers".to_owned(),
                wanted,
            }),
        }
    }

    fn table_columns(&self, _named: Option<Vec<String>>, _options: &Options) -> Vec<String> {
        COLUMNS.map(str::to_owned).to_vec()
    }

    /// Parses a line. The indices are not changed.
    fn cells(&self, content: Content<'_>, row: TableRow<'_>) -> Result<(), String> {
        let [label, query, index, value, ..] = row.cells.as_mut_slice() else {
            return Ok(());
        };
        index.list = true;
        value.list = true;
        let mut tokens = tokens(content.as_bytes());
        let first = tokens.next().unwrap_or_default();
        if first.contains(&b':') {
            return Err(no_label(first));
        }
        label.values.push(Value::Text(first.to_vec()));
        for token in tokens {
            let Some((name, number)) = pair(token) else {
                return Err(no_pair(token));
            };
            if name == b"qid" {
                query.values.push(Value::Text(number.to_vec()));
                continue;
            }
            let refused = |reason| refused_pair(token, reason);
            let name = int(name, Fraction::Refused)
                .and_then(|index| index.ok_or_else(|| "the index is missing".to_owned()));
            index.values.push(Value::Int(name.map_err(refused)?));
            float(number).and_then(present).map_err(refused)?;
            // A table keeps the digits that training rounds to 32 bits.
            let number = fast_float2::parse(number).map_err(|error| refused(error.to_string()))?;
            value.values.push(Value::Float(number));
        }
        Ok(())
    }

    fn writer(&self, target: Target<'_>) -> Result<Box<dyn RowWriter>, Error> {
        Ok(Box::new(LibSvmWriter::new(target)))
    }
}

/// Returns the words of a line, without its comment.
fn tokens(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    memchr::memchr(b'#', line)
        .map_or(line, |end| &line[..end])
        .trim_ascii()
        .split(u8::is_ascii_whitespace)
        .filter(|token| !token.is_empty())
}

/// Returns index and value of a pair, as texts.
fn pair(token: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr::memchr(b':', token)?;
    Some((&token[..colon], &token[colon + 1..]))
}

fn no_label(first: &[u8]) -> String {
    format!("a line begins with its label, given {}", shown(first))
}

fn no_pair(token: &[u8]) -> String {
    format!("expected index:value, given {}", shown(token))
}

/// Returns the value of a pair, which cannot be missing.
fn present(value: f32) -> Result<f32, String> {
    if value.is_nan() {
        Err("the value is missing: leave the pair out".to_owned())
    } else {
        Ok(value)
    }
}

fn refused_pair(token: &[u8], reason: String) -> String {
    format!("expected index:value, given {}: {reason}", shown(token))
}
