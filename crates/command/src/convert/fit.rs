//! Rows that the output could hold only as other rows: they are refused.

use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_input::{Cell, Format, Layout, Value};

/// Separator of lists in text where none is given.
const LIST_SEPARATOR: u8 = b'|';

/// Most characters of a value in a message.
const SHOWN_MAX: usize = 256;

/// The columns of libsvm, in their order.
const LIBSVM_COLUMNS: [&str; 4] = ["label", "qid", "index", "value"];

/// What the output can hold.
#[derive(Debug)]
pub(super) struct Fit {
    to: Format,
    separator: u8,
    columns: Vec<Column>,
    /// The values of each row are the lists `index` and `value`.
    has_pairs: bool,
}

#[derive(Debug)]
struct Column {
    name: String,
    list: bool,
}

/// A value that the output cannot hold.
struct Misfit<'a> {
    column: &'a str,
    value: String,
    why: String,
    help: String,
}

impl Fit {
    /// Returns what a file of this format and layout can hold. In text, the lists have this separator, or `|`.
    ///
    /// # Errors
    /// The format has no place for a column.
    pub(super) fn new(
        to: Format,
        separator: Option<u8>,
        layout: &Layout,
    ) -> Result<Self, Diagnostic> {
        let has = |name: &str| layout.columns.iter().any(|column| column.name == name);
        let has_pairs = matches!(to, Format::LibSvm(_)) && has("index") && has("value");
        if has_pairs {
            refuse_beside_pairs(layout)?;
        }
        let column = |column: &trainyard_input::ColumnLayout| Column {
            name: column.name.clone(),
            list: column.list,
        };
        Ok(Self {
            to,
            separator: separator.unwrap_or(LIST_SEPARATOR),
            columns: layout.columns.iter().map(column).collect(),
            has_pairs,
        })
    }

    /// Makes a row of the input one that the writer takes.
    ///
    /// # Errors
    /// Read back, the row would be another one. `number` is its number in the input, from 1.
    pub(super) fn make(&self, number: u64, row: &mut [Cell]) -> Result<(), Diagnostic> {
        let misfit = match self.to {
            Format::Csv | Format::Tsv => self.text(row),
            Format::LibSvm(_) => self.libsvm(row),
            Format::TfRecord | Format::Parquet => None,
        };
        match misfit {
            None => {
                self.join(row);
                Ok(())
            }
            Some(misfit) => Err(misfit.into_diagnostic(number)),
        }
    }

    /// Returns the value of a row that text would hold as others.
    fn text(&self, row: &[Cell]) -> Option<Misfit<'_>> {
        if let [only] = self.columns.as_slice()
            && row.first().is_none_or(|cell| cell.values.is_empty())
        {
            return Some(empty_line(&only.name, self.to.name()));
        }
        let lists = self.columns.iter().zip(row).filter(|(c, _)| c.list);
        for (column, cell) in lists {
            for value in &cell.values {
                let text = value.to_text();
                if text.contains(&self.separator) {
                    return Some(divided(&column.name, &text, self.separator));
                }
            }
        }
        None
    }

    /// Returns the value of a row that a line of libsvm would hold as others.
    fn libsvm(&self, row: &[Cell]) -> Option<Misfit<'_>> {
        self.columns.iter().zip(row).find_map(|(column, cell)| {
            match column.name.as_str() {
                "label" | "qid" => one_word(&column.name, &cell.values),
                "index" | "value" if self.has_pairs => words(&column.name, &cell.values),
                // A row has no pairs beside the two lists, and the writer takes numbers alone.
                _ if self.has_pairs || !cell.values.is_empty() => None,
                _ => Some(zero(&column.name)),
            }
        })
    }

    /// Joins the values of lists where text has another separator than the writer's.
    fn join(&self, row: &mut [Cell]) {
        let is_text = matches!(self.to, Format::Csv | Format::Tsv);
        if !is_text || self.separator == LIST_SEPARATOR {
            return;
        }
        for cell in row.iter_mut().filter(|cell| cell.values.len() > 1) {
            let texts: Vec<Vec<u8>> = cell.values.iter().map(Value::to_text).collect();
            cell.values = vec![Value::Text(texts.join(&self.separator))];
        }
    }
}

impl Misfit<'_> {
    fn into_diagnostic(self, row: u64) -> Diagnostic {
        let Self {
            column, value, why, ..
        } = &self;
        let message = format!("row {row} of the input, column `{column}`: {value} {why}");
        Diagnostic::error(Code::E4005, message).help(self.help)
    }
}

/// Refuses columns beside the lists `index` and `value`, for which a line of libsvm has no place.
fn refuse_beside_pairs(layout: &Layout) -> Result<(), Diagnostic> {
    let others = layout.columns.iter().map(|column| column.name.as_str());
    let others: Vec<String> = others
        .filter(|name| !LIBSVM_COLUMNS.contains(name))
        .map(|name| format!("`{name}`"))
        .collect();
    if others.is_empty() {
        return Ok(());
    }
    let message = format!(
        "libsvm has no place for the columns {} beside `index` and `value`",
        others.join(", ")
    );
    Err(Diagnostic::error(Code::E4003, message).help(
        "leave these columns out of the input, or write another format: csv, tsv, tfrecord or parquet",
    ))
}

fn empty_line<'a>(column: &'a str, format: &str) -> Misfit<'a> {
    Misfit {
        column,
        value: "the value is missing,".to_owned(),
        why: format!("and {format} of one column would have an empty line, which is no record"),
        help: "leave such rows out of the input, or write tfrecord or parquet".to_owned(),
    }
}

fn zero(column: &str) -> Misfit<'_> {
    Misfit {
        column,
        value: "the value is missing,".to_owned(),
        why: "and a line of libsvm without it says that it is 0".to_owned(),
        help: "write the number that stands for a missing one into the input, or leave the row or column out; or write csv, tsv, tfrecord or \
               parquet"
            .to_owned(),
    }
}

/// Returns the misfit of a value of a list that holds the separator.
fn divided<'a>(column: &'a str, value: &[u8], separator: u8) -> Misfit<'a> {
    let separator = char::from(separator);
    Misfit {
        column,
        value: shown(value),
        why: format!(
            "is one value of a list, and holds {separator:?}, which separates the values of lists in the output: it would be \
             read as several"
        ),
        help: "give --separator another character, which no value holds, and the same to the job; or write tfrecord or parquet"
            .to_owned(),
    }
}

/// Returns the misfit of values of which libsvm holds one.
fn one_word<'a>(column: &'a str, values: &[Value]) -> Option<Misfit<'a>> {
    match values {
        [] => None,
        [value] => no_word(column, &value.to_text(), false),
        several => Some(Misfit {
            column,
            value: format!("{} values", several.len()),
            why: "are given, and a line of libsvm has one".to_owned(),
            help: "write one value a row, or tfrecord or parquet".to_owned(),
        }),
    }
}

/// Returns the misfit of the values of a list, one of which may be a text that holds the list.
fn words<'a>(column: &'a str, values: &[Value]) -> Option<Misfit<'a>> {
    let parts_alone = values.len() == 1;
    values.iter().find_map(|value| {
        let text = value.to_text();
        if !parts_alone {
            return no_word(column, &text, true);
        }
        let mut parts = text.split(|byte| *byte == LIST_SEPARATOR);
        parts.find_map(|part| no_word(column, part, false))
    })
}

/// Returns the misfit of a text that libsvm would not read as one word.
fn no_word<'a>(column: &'a str, text: &[u8], in_list: bool) -> Option<Misfit<'a>> {
    let special = |byte: &u8| {
        byte.is_ascii_whitespace()
            || matches!(byte, b':' | b'#')
            || in_list && *byte == LIST_SEPARATOR
    };
    (text.is_empty() || text.iter().any(special)).then(|| Misfit {
        column,
        value: shown(text),
        why: "is no word of a line of libsvm, and would be read as something else".to_owned(),
        help: "write numbers there, without spaces, `:`, `#` or `|`; or write tfrecord or parquet"
            .to_owned(),
    })
}

/// Returns a value for a message.
pub(super) fn shown(value: &[u8]) -> String {
    let cut = &value[..value.len().min(SHOWN_MAX)];
    let more = if cut.len() < value.len() { " …" } else { "" };
    match std::str::from_utf8(cut) {
        Ok(text) => format!("{text:?}{more}"),
        Err(_) => format!("\"{}\"{more}", cut.escape_ascii()),
    }
}

#[cfg(test)]
mod tests {
    use trainyard_input::{ColumnLayout, IndexBase};

    use super::*;

    fn layout(names: &[&str]) -> Layout {
        let column = |name: &&str| ColumnLayout {
            name: (*name).to_owned(),
            kind: None,
            list: true,
        };
        Layout {
            columns: names.iter().map(column).collect(),
        }
    }

    fn cell(texts: &[&str]) -> Cell {
        Cell {
            values: texts
                .iter()
                .map(|text| Value::Text((*text).into()))
                .collect(),
            list: true,
        }
    }

    fn made(to: Format, separator: Option<u8>, texts: &[&str]) -> Result<Cell, String> {
        let mut row = [cell(texts), cell(&["1"])];
        let fit = Fit::new(to, separator, &layout(&["label", "x"])).expect("it has places");
        let made = fit.make(7, &mut row);
        let [first, _] = row;
        made.map(|()| first).map_err(|problem| problem.render())
    }

    #[test]
    fn a_value_of_a_list_that_holds_the_separator_is_refused() {
        for to in [Format::Csv, Format::Tsv] {
            let told = made(to, None, &["a|b", "c"]).expect_err("three values");
            for part in ["row 7", "`label`", "\"a|b\"", "--separator"] {
                assert!(told.contains(part), "{part}: {told}");
            }
            assert!(made(to, None, &["a|b"]).is_err(), "two values");
            let joined = made(to, Some(b';'), &["a|b", "c"]).expect("two values");
            assert_eq!(joined.values, [Value::Text(b"a|b;c".to_vec())]);
            assert!(made(to, Some(b';'), &["a;b", "c"]).is_err());
        }
        for to in [Format::TfRecord, Format::Parquet] {
            let kept = made(to, None, &["a|b", "c"]).expect("they have lists");
            assert_eq!(kept.values.len(), 2, "{to:?}");
        }
    }

    #[test]
    fn a_line_that_would_be_no_record_is_refused() {
        let fit = Fit::new(Format::Csv, None, &layout(&["x"])).expect("it has places");
        let told = fit.make(2, &mut [cell(&[])]).expect_err("an empty line");
        assert!(told.render().contains("empty line"), "{}", told.render());
        assert!(fit.make(2, &mut [cell(&["a"])]).is_ok());
    }

    #[test]
    fn words_that_libsvm_would_read_as_several_are_refused() {
        let libsvm = Format::LibSvm(IndexBase::One);
        assert!(made(libsvm, None, &["+1"]).is_ok());
        for wrong in [&["1 2:3"][..], &["1:2"], &["#1"], &["1", "2"]] {
            assert!(made(libsvm, None, wrong).is_err(), "{wrong:?}");
        }
        let pairs = layout(&["label", "index", "value"]);
        let fit = Fit::new(libsvm, None, &pairs).expect("it has places");
        let row = |index: &[&str]| fit.make(1, &mut [cell(&["1"]), cell(index), cell(&["1"])]);
        assert!(row(&["1|2"]).is_ok(), "a text that holds a list");
        assert!(row(&["1|2", "3"]).is_err());
        assert!(row(&["1 2"]).is_err());
        let plain = Fit::new(libsvm, None, &layout(&["label", "age"])).expect("it has places");
        let told = plain.make(3, &mut [cell(&["1"]), cell(&[])]);
        let told = told.expect_err("it would be 0").render();
        assert!(told.contains("row 3") && told.contains("`age`"), "{told}");
        assert!(plain.make(3, &mut [cell(&["1"]), cell(&["0"])]).is_ok());
        let told = Fit::new(libsvm, None, &layout(&["label", "index", "value", "age"]));
        let told = told.expect_err("no place").render();
        assert!(told.contains("`age`"), "{told}");
    }
}
