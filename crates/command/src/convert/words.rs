//! Words among the numbers of a text file: missing and infinite numbers, which a result with types has as numbers, and words that may
//! stand for a missing number or be a name.

use std::collections::BTreeMap;

use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_input::{Cell, ColumnKind, Layout, NumberStyle, Value, plain_number};

use crate::missing_words::MISSING_WORDS;

/// Most different words of a column that are counted.
const WORDS_MAX: usize = 32;

/// What a word among numbers is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Word {
    /// A missing number in every reader of numbers, as `nan`.
    Missing,
    /// An infinite number.
    Infinite(f64),
    /// A missing number, or a name; or a number that no float holds.
    Doubtful,
}

/// Returns what a text is that is no number of a style.
fn word(text: &[u8]) -> Option<Word> {
    let text = std::str::from_utf8(text).ok()?;
    let digits = text.trim_start_matches(['+', '-']);
    let is_word = digits.starts_with(|first: char| first.is_ascii_alphabetic());
    match text.parse::<f64>() {
        Ok(number) if is_word && number.is_nan() => Some(Word::Missing),
        Ok(number) if is_word && number.is_infinite() => Some(Word::Infinite(number)),
        // As `1e999`.
        Ok(number) if number.is_infinite() => Some(Word::Doubtful),
        _ => MISSING_WORDS.contains(&text).then_some(Word::Doubtful),
    }
}

/// How often a word stands in a column, and its first row, from 1.
#[derive(Debug)]
struct Occurrences {
    word: Word,
    count: u64,
    first: u64,
}

/// The texts of a column.
#[derive(Debug, Default)]
struct Column {
    has_numbers: bool,
    /// A text is neither a number nor a word.
    has_names: bool,
    words: BTreeMap<Vec<u8>, Occurrences>,
    /// The result has numbers in the column.
    are_numbers: bool,
}

/// The words among the numbers of columns.
#[derive(Debug)]
pub(super) struct NumberWords {
    style: NumberStyle,
    /// The columns whose texts may be numbers; absent = all.
    only: Option<Vec<String>>,
    columns: Vec<Column>,
}

impl NumberWords {
    /// Returns those of texts of a style, in the columns `only`, or in all.
    pub(super) fn new(style: NumberStyle, only: Option<Vec<String>>) -> Self {
        Self {
            style,
            only,
            columns: Vec::new(),
        }
    }

    /// Looks at a row of the first pass, and takes its words for numbers. `number` is its number in the input, from 1.
    pub(super) fn see(&mut self, number: u64, names: &[String], row: &mut [Cell]) {
        let count = row.len().max(self.columns.len());
        self.columns.resize_with(count, Column::default);
        for ((column, cell), name) in self.columns.iter_mut().zip(row).zip(names) {
            if self.only.as_ref().is_some_and(|only| !only.contains(name)) {
                continue;
            }
            for value in &cell.values {
                if let Value::Text(text) = value {
                    column.see(number, text, &self.style);
                }
            }
            if !column.has_names {
                replace(cell);
            }
        }
    }

    /// Settles which columns of the result are numbers.
    pub(super) fn settle(&mut self, layout: &mut Layout) {
        for (column, found) in layout.columns.iter_mut().zip(&mut self.columns) {
            if !found.has_numbers && !found.words.is_empty() {
                column.kind = Some(ColumnKind::Text);
            }
            found.are_numbers = matches!(column.kind, Some(ColumnKind::Int | ColumnKind::Float));
        }
    }

    /// Takes the words of a row of the second pass for numbers.
    pub(super) fn make_numbers(&self, row: &mut [Cell]) {
        for (column, cell) in self.columns.iter().zip(row) {
            if column.are_numbers && !column.words.is_empty() {
                replace(cell);
            }
        }
    }

    /// Tells the words among numbers, and what they are in the result.
    pub(super) fn notes(&self, layout: &Layout) -> Vec<Diagnostic> {
        let columns = layout.columns.iter().zip(&self.columns);
        let told = columns.filter(|(_, found)| found.has_numbers && !found.has_names);
        told.flat_map(|(column, found)| found.notes(&column.name))
            .collect()
    }
}

/// Takes the words of a cell for numbers.
fn replace(cell: &mut Cell) {
    let is_list = cell.list || cell.values.len() > 1;
    cell.values.retain_mut(|value| {
        let found = match value {
            Value::Text(text) => word(text),
            _ => None,
        };
        match found {
            Some(Word::Infinite(number)) => *value = Value::Float(number),
            Some(Word::Missing) if is_list => *value = Value::Float(f64::NAN),
            Some(Word::Missing) => return false,
            Some(Word::Doubtful) | None => {}
        }
        true
    });
}

impl Column {
    fn see(&mut self, number: u64, text: &[u8], style: &NumberStyle) {
        if let Some(found) = self.words.get_mut(text) {
            found.count += 1;
            return;
        }
        let Some(word) = word(text) else {
            match plain_number(style, text) {
                Some(_) => self.has_numbers = true,
                None => self.has_names = true,
            }
            return;
        };
        if self.words.len() < WORDS_MAX {
            let found = Occurrences {
                word,
                count: 1,
                first: number,
            };
            self.words.insert(text.to_vec(), found);
        }
    }

    fn notes(&self, name: &str) -> Vec<Diagnostic> {
        let said = |wanted: &dyn Fn(Word) -> bool| {
            let words = self.words.iter().filter(|(_, found)| wanted(found.word));
            let told = words.clone().map(|(text, found)| {
                let text = String::from_utf8_lossy(text);
                let Occurrences { count, first, .. } = found;
                match count {
                    1 => format!("`{text}` in row {first}"),
                    count => format!("`{text}` in {count} rows, first in row {first}"),
                }
            });
            let texts: Vec<_> = words
                .map(|(text, _)| String::from_utf8_lossy(text))
                .collect();
            let told: Vec<String> = told.collect();
            (told.join(", "), texts.join(","))
        };
        let note = |(told, texts): (String, String), becomes: &str, help: &str| {
            (!told.is_empty()).then(|| {
                let message = format!("the column `{name}` holds numbers, and {told}: {becomes}");
                let help = help.replace("WORDS", &format!("{name}={texts}"));
                Diagnostic::warning(Code::E4005, message).help(help)
            })
        };
        if !self.are_numbers {
            let all = said(&|_| true);
            return note(
                all,
                "it stays one of texts",
                "--missing-of WORDS takes the words for missing numbers, so that the column becomes one of numbers",
            )
            .into_iter()
            .collect();
        }
        let missing = note(
            said(&|word| word == Word::Missing),
            "the result has a missing number there, as a job reads it",
            "where a job takes the column for names, the word is one of them in the files, and none in the result: let such a job read the files",
        );
        let infinite = note(
            said(&|word| matches!(word, Word::Infinite(_))),
            "the result has infinite floats there, which no job trains on",
            "--missing-of WORDS leaves them out",
        );
        missing.into_iter().chain(infinite).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the type of a column of these texts, its cells and its notes.
    fn converted(texts: &[&str]) -> (Option<ColumnKind>, Vec<Vec<Value>>, String) {
        let names = ["x".to_owned()];
        let rows = texts.iter().map(|text| Cell {
            values: vec![Value::Text(text.as_bytes().to_vec())],
            list: false,
        });
        let rows: Vec<Cell> = rows.collect();
        let mut words = NumberWords::new(NumberStyle::default(), None);
        let mut layout = Layout::default();
        for (number, cell) in (1..).zip(&rows) {
            let mut row = [cell.clone()];
            words.see(number, &names, &mut row);
            layout.see(&names, &row);
        }
        words.settle(&mut layout);
        let cells = rows.into_iter().map(|cell| {
            let mut row = [cell];
            words.make_numbers(&mut row);
            let [cell] = row;
            cell.values
        });
        let notes = words.notes(&layout);
        (
            layout.columns[0].kind,
            cells.collect(),
            notes.iter().map(Diagnostic::render).collect(),
        )
    }

    #[test]
    fn missing_numbers_among_numbers_are_missing_and_told() {
        for nan in ["nan", "NaN", "NAN", "-nan", "+NaN"] {
            let (kind, cells, told) = converted(&["1", nan, "3", nan]);
            assert_eq!(kind, Some(ColumnKind::Int), "{nan}");
            assert_eq!(cells[1], []);
            assert_eq!(cells[0], [Value::Text(b"1".to_vec())]);
            for part in [
                "`x`".to_owned(),
                format!("`{nan}` in 2 rows, first in row 2"),
                "missing number".to_owned(),
            ] {
                assert!(told.contains(&part), "{part}: {told}");
            }
        }
    }

    #[test]
    fn infinite_numbers_among_numbers_are_floats_and_told() {
        for (text, number) in [
            ("inf", f64::INFINITY),
            ("-inf", f64::NEG_INFINITY),
            ("Infinity", f64::INFINITY),
            ("-INFINITY", f64::NEG_INFINITY),
        ] {
            let (kind, cells, told) = converted(&["1.5", text]);
            assert_eq!(kind, Some(ColumnKind::Float), "{text}");
            assert_eq!(cells[1], [Value::Float(number)]);
            assert!(told.contains(&format!("--missing-of x={text}")), "{told}");
        }
    }

    #[test]
    fn words_that_may_be_names_stay_texts_and_are_told_among_numbers_alone() {
        for text in ["NA", "N/A", "null", "NULL", "None", "?", "1e999"] {
            let (kind, cells, told) = converted(&["1", text, "nan"]);
            assert_eq!(kind, Some(ColumnKind::Text), "{text}");
            let as_read = [b"1".to_vec(), text.as_bytes().to_vec(), b"nan".to_vec()];
            assert_eq!(cells, as_read.map(|text| vec![Value::Text(text)]));
            for part in [
                format!("`{text}` in row 2"),
                "stays one of texts".to_owned(),
                "--missing-of x=".to_owned(),
            ] {
                assert!(told.contains(&part), "{part}: {told}");
            }
            for texts in [&["NL", text, "nan"][..], &["1", text, "DE"], &[text, "nan"]] {
                let (kind, cells, told) = converted(texts);
                assert_eq!(
                    (kind, told.as_str()),
                    (Some(ColumnKind::Text), ""),
                    "{texts:?}"
                );
                assert!(cells.iter().all(|cell| cell.len() == 1));
            }
        }
    }
}
