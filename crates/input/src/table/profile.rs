//! Profile of a table: types, missing values, distinct values, moments and quantiles of its columns, in one pass with
//! bounded memory.

mod distinct;
mod sample;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::path::PathBuf;

use distinct::Distinct;
use sample::Sample;

use crate::layout::{float, kind, text};
use crate::missing::{Missing, MissingValues};
use crate::{
    BadRow, Cell, ColumnKind, FieldKind, MissingTexts, NumberStyle, TypeKind, Value, plain_number,
};

/// Most distinct values of a column that are counted individually. The first distinct values are counted.
const COUNTED_VALUES_MAX: usize = 20_000;

/// Most further values that are counted of those that are no numbers: the words among many numbers.
const COUNTED_WORDS_MAX: usize = 1000;

/// The first whole number above those that floats of 64 bits tell apart.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// Longest value that is counted, in bytes. Longer values are free text, which no vocabulary holds.
const COUNTED_BYTES_MAX: usize = 256;

/// Profile of a column.
#[derive(Debug, Clone)]
pub struct ColumnProfile {
    /// Name of the column.
    pub name: String,
    /// Number of rows without a value.
    pub missing: u64,
    /// Number of rows with at least one value.
    pub present: u64,
    /// Number of values. A column of lists may have more values than rows.
    pub values: u64,
    /// Rows may hold several values.
    pub list: bool,
    /// Fewest and most values of a row that has a value; 0 without such a row.
    pub lengths: (u64, u64),
    /// The narrowest type that holds all values; absent until a row has a value.
    pub kind: Option<ColumnKind>,
    /// Statistics of the values that are numbers.
    pub numbers: Numbers,
    /// Number of values that are infinite floats of the format. Such a text, as `inf`, is a text.
    pub infinite: u64,
    /// Number of values that are texts of another encoding than UTF-8.
    pub not_utf8: u64,
    /// Number of the first row that holds a text which is no number, from 1. Rows that cannot be read count.
    pub first_text: Option<u64>,
    /// Number of the first row that holds a number which is not whole, from 1. Rows that cannot be read count.
    pub first_fraction: Option<u64>,
    /// A value is a float of the format, and no text.
    is_typed_float: bool,
    /// How texts write numbers.
    style: NumberStyle,
    /// Number of occurrences of each of the first distinct values; see [`ColumnProfile::are_all_counted`].
    counts: HashMap<Vec<u8>, u64>,
    uncounted: u64,
    distinct: Distinct,
    sample: Sample,
    scratch: Vec<u8>,
}

/// Moments of the numbers of a column.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Numbers {
    /// Number of numbers.
    pub count: u64,
    /// Number of numbers that are not whole.
    pub fractions: u64,
    /// The least number.
    pub min: f64,
    /// The greatest number.
    pub max: f64,
    /// The mean.
    pub mean: f64,
    /// Sum of the squared distances from the mean (Welford 1962).
    squares: f64,
}

impl Numbers {
    /// Adds a number.
    fn add(&mut self, number: f64) {
        if self.count == 0 {
            self.min = number;
            self.max = number;
        }
        self.count += 1;
        self.fractions += u64::from(number.fract() != 0.0);
        self.min = self.min.min(number);
        self.max = self.max.max(number);
        let distance = number - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (number - self.mean);
    }

    /// Returns the standard deviation of all numbers, at least 0 (`numpy.std`).
    pub fn stddev(&self) -> f64 {
        (self.squares / self.count.max(1) as f64).sqrt()
    }
}

impl ColumnProfile {
    /// Returns the profile of a column without values, after `missing` rows.
    fn new(name: &str, missing: u64, style: &NumberStyle) -> Self {
        Self {
            name: name.to_owned(),
            missing,
            present: 0,
            values: 0,
            list: false,
            lengths: (0, 0),
            kind: None,
            numbers: Numbers::default(),
            infinite: 0,
            not_utf8: 0,
            first_text: None,
            first_fraction: None,
            is_typed_float: false,
            style: style.clone(),
            counts: HashMap::new(),
            uncounted: 0,
            distinct: Distinct::default(),
            sample: Sample::default(),
            scratch: Vec::new(),
        }
    }

    fn see(&mut self, cell: &Cell, missing: &Missing, row: u64) {
        self.list |= cell.list;
        let is_missing = |value: &Value| is_nan(value) || is_missing(value, missing, &self.style);
        // As a job reads them: a missing value of a list is no value of the column.
        let values: Vec<&Value> = cell
            .values
            .iter()
            .filter(|value| !is_missing(value))
            .collect();
        if values.is_empty() {
            self.missing += 1;
            return;
        }
        let length = values.len() as u64;
        self.lengths = match self.present {
            0 => (length, length),
            _ => (self.lengths.0.min(length), self.lengths.1.max(length)),
        };
        self.present += 1;
        self.values += length;
        values.into_iter().for_each(|value| self.see_value(value));
        if self.numbers.fractions > 0 {
            self.first_fraction.get_or_insert(row);
        }
        if self.kind == Some(ColumnKind::Text) {
            self.first_text.get_or_insert(row);
        }
    }

    fn see_value(&mut self, value: &Value) {
        if let Value::Text(text) = value
            && !text.is_ascii()
        {
            self.not_utf8 += u64::from(std::str::from_utf8(text).is_err());
        }
        self.is_typed_float |= matches!(value, Value::Float(_));
        self.infinite += u64::from(matches!(value, Value::Float(number) if number.is_infinite()));
        let (kind, number) = self.typed(value);
        self.kind = self.kind.max(Some(kind));
        if kind != ColumnKind::Text
            && let Some(number) = number.filter(|number| number.is_finite())
        {
            self.numbers.add(number);
            self.sample.add(number);
        }
        self.scratch.clear();
        text(value, &mut self.scratch);
        self.distinct.add(&self.scratch);
        if let Some(count) = self.counts.get_mut(self.scratch.as_slice()) {
            *count += 1;
        } else if self.scratch.len() <= COUNTED_BYTES_MAX
            && self.counts.len()
                < match kind {
                    ColumnKind::Text => COUNTED_VALUES_MAX + COUNTED_WORDS_MAX,
                    ColumnKind::Boolean | ColumnKind::Int | ColumnKind::Float => COUNTED_VALUES_MAX,
                }
        {
            self.counts.insert(self.scratch.clone(), 1);
        } else {
            self.uncounted += 1;
        }
    }

    /// Returns the type of a value, and its number if it is one in the column's style.
    fn typed(&self, value: &Value) -> (ColumnKind, Option<f64>) {
        match value {
            Value::Text(text) if !self.style.is_plain() => match plain_number(&self.style, text) {
                Some(plain) => {
                    let plain = Value::Text(plain.text.into_owned().into_bytes());
                    (kind(&plain).unwrap_or(ColumnKind::Text), float(&plain))
                }
                None => (ColumnKind::Text, None),
            },
            value => (kind(value).unwrap_or(ColumnKind::Text), float(value)),
        }
    }

    /// Returns the number that a counted value is.
    pub fn number(&self, value: &[u8]) -> Option<f64> {
        self.typed(&Value::Text(value.to_owned())).1
    }

    /// Returns the number of distinct values: exact while all values are counted, otherwise an estimate within some
    /// percent.
    pub fn distinct(&self) -> u64 {
        if self.are_all_counted() {
            self.counts.len() as u64
        } else {
            self.distinct.estimate()
        }
    }

    /// Returns whether [`ColumnProfile::counts`] holds every value.
    pub fn are_all_counted(&self) -> bool {
        self.uncounted == 0
    }

    /// Returns each counted value, as text, and the number of its occurrences. The most frequent value is first;
    /// equally frequent values are ordered by their text.
    pub fn counts(&self) -> Vec<(&[u8], u64)> {
        let mut counts: Vec<(&[u8], u64)> = self
            .counts
            .iter()
            .map(|(value, count)| (value.as_slice(), *count))
            .collect();
        counts.sort_unstable_by(|left, right| right.1.cmp(&left.1).then(left.0.cmp(right.0)));
        counts
    }

    /// Returns the number of occurrences of a value; 0 if the value was not counted.
    pub fn count(&self, value: &[u8]) -> u64 {
        self.counts.get(value).copied().unwrap_or(0)
    }

    /// Returns whether every value is a number.
    pub fn is_numeric(&self) -> bool {
        matches!(
            self.kind,
            Some(ColumnKind::Boolean | ColumnKind::Int | ColumnKind::Float)
        )
    }

    /// Returns whether a value is a float of the format, and no text.
    pub fn is_typed_float(&self) -> bool {
        self.is_typed_float
    }

    /// Returns whether every value is a whole number that can be read as a name, as well: also `3.0` of a text, as pandas writes
    /// whole numbers beside missing ones.
    pub fn is_whole(&self) -> bool {
        match self.kind {
            Some(ColumnKind::Boolean | ColumnKind::Int) => true,
            Some(ColumnKind::Float) => {
                let largest = self.numbers.max.max(-self.numbers.min);
                !self.is_typed_float && self.numbers.fractions == 0 && largest < WHOLE_MAX
            }
            Some(ColumnKind::Text) | None => false,
        }
    }

    /// As [`ColumnProfile::different_numbers`]; both are 0 unless all values are whole numbers of 64 bits.
    pub fn whole_numbers(&self) -> (usize, usize) {
        match self.kind {
            Some(ColumnKind::Boolean | ColumnKind::Int) => self.different_numbers(),
            Some(ColumnKind::Float | ColumnKind::Text) | None => (0, 0),
        }
    }

    /// Returns how many of the counted numbers differ, and how many of them differ as the floats of 32 bits that features have. Both are
    /// 0 unless all values are numbers.
    pub fn different_numbers(&self) -> (usize, usize) {
        let texts = self.counts.keys();
        match self.kind {
            Some(ColumnKind::Boolean | ColumnKind::Int) => {
                let texts = texts.filter_map(|text| std::str::from_utf8(text).ok());
                let numbers: HashSet<i64> = texts.filter_map(|text| text.parse().ok()).collect();
                (numbers.len(), of_features(&numbers, |number| number as f32))
            }
            Some(ColumnKind::Float) => {
                // The sum makes 0 of -0.
                let numbers = texts.filter_map(|text| Some((self.number(text)? + 0.0).to_bits()));
                let numbers: HashSet<u64> = numbers.collect();
                let narrow = of_features(&numbers, |bits| f64::from_bits(bits) as f32);
                (numbers.len(), narrow)
            }
            Some(ColumnKind::Text) | None => (0, 0),
        }
    }

    /// Returns the quantiles of the column's numbers for these shares, each from 0 to 1. Quantiles of many numbers are
    /// estimated from a random sample. The result is empty if the column has no number.
    pub fn quantiles(&self, shares: &[f64]) -> Vec<f64> {
        self.sample.quantiles(shares)
    }
}

/// A column without a value in the records that were read of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absent {
    /// Name of the column.
    pub column: String,
    /// The file.
    pub file: PathBuf,
    /// Number of records that were read of it.
    pub rows: u64,
}

/// Profile of a table, built row by row.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    /// Number of rows.
    pub rows: u64,
    /// The rows are all of the input, and no part of it.
    pub is_whole: bool,
    /// The columns, in the order in which they appeared.
    pub columns: Vec<ColumnProfile>,
    /// Columns whose values no job can read, with their types.
    pub unreadable: Vec<(String, String)>,
    /// Number of records that cannot be read, and have no part in the rest.
    pub bad_rows: u64,
    /// The first of them.
    pub first_bad: Option<BadRow>,
    /// Columns without a value in a whole file, and with some in others.
    pub absent: Vec<Absent>,
    /// Columns whose values are times or durations of the format, with those of the first file.
    pub times: BTreeMap<String, TypeKind>,
    /// What is told of columns whose numbers are times or durations in one file, and others or plain numbers in another.
    pub mixed_times: Vec<String>,
    missing: MissingValues,
    style: NumberStyle,
    /// Names of the columns of the latest row, and the place of each column in such a row.
    names: Vec<String>,
    places: Vec<Option<usize>>,
}

/// Returns how many numbers differ after a conversion to floats of 32 bits, which rounds to the nearest, as the reader of the files does.
fn of_features<T: Copy>(numbers: &HashSet<T>, narrow: impl Fn(T) -> f32) -> usize {
    let narrow = numbers.iter().map(|number| narrow(*number).to_bits());
    narrow.collect::<HashSet<u32>>().len()
}

/// Returns whether a value is a missing number of the format.
fn is_nan(value: &Value) -> bool {
    matches!(value, Value::Float(number) if number.is_nan())
}

/// Returns whether a value stands for a missing one. A text of a number counts as a number.
pub(super) fn is_missing(value: &Value, missing: &Missing, style: &NumberStyle) -> bool {
    match value {
        Value::Int(number) => missing.integer(*number, &FieldKind::FLOAT),
        Value::Float(number) => missing.float(*number),
        Value::Text(text) if !style.is_plain() => {
            missing.written_in(Some(style), text, &FieldKind::FLOAT)
        }
        Value::Text(text) if kind(value) == Some(ColumnKind::Text) => missing.text(text),
        Value::Text(text) => missing.written(text, &FieldKind::FLOAT),
        Value::Missing => true,
    }
}

impl Profile {
    /// Returns a profile without rows. `missing` are the texts that stand for a missing value, besides the empty text.
    pub fn new(missing: &MissingTexts) -> Self {
        Self {
            missing: MissingValues::new(missing),
            ..Self::default()
        }
    }

    /// Takes texts for numbers that are numbers of this style.
    #[must_use]
    pub fn in_style(mut self, style: NumberStyle) -> Self {
        self.style = style;
        self
    }

    /// Adds a row whose columns have these names, in any order. Of several columns of a name, the first is the first.
    pub fn see(&mut self, names: &[String], row: &[Cell]) {
        if self.names != names {
            self.place(names);
        }
        let none = Cell::default();
        let number = self.rows + self.bad_rows + 1;
        for (column, place) in self.columns.iter_mut().zip(&self.places) {
            let cell = place.and_then(|place| row.get(place));
            let missing = self.missing.of(&column.name);
            column.see(cell.unwrap_or(&none), missing, number);
        }
        self.rows += 1;
    }

    /// Counts a record that cannot be read.
    pub fn see_bad(&mut self, bad: BadRow) {
        self.bad_rows += 1;
        self.first_bad.get_or_insert(bad);
    }

    /// Finds the columns of rows with these names, and adds those that are new.
    fn place(&mut self, names: &[String]) {
        let mut free: HashMap<&str, VecDeque<usize>> = HashMap::new();
        for (place, name) in names.iter().enumerate() {
            free.entry(name).or_default().push_back(place);
        }
        let mut next = |name: &str| free.get_mut(name).and_then(VecDeque::pop_front);
        self.places = self
            .columns
            .iter()
            .map(|column| next(&column.name))
            .collect();
        for name in names {
            if let Some(place) = next(name) {
                let column = ColumnProfile::new(name, self.rows, &self.style);
                self.columns.push(column);
                self.places.push(Some(place));
            }
        }
        self.names = names.to_vec();
    }

    /// Returns the profile of the column with this name.
    pub fn column(&self, name: &str) -> Option<&ColumnProfile> {
        self.columns.iter().find(|column| column.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(texts: &[&str]) -> ColumnProfile {
        let mut profile = Profile::new(&vec!["?".to_owned()].into());
        for text in texts {
            let values = match *text {
                "" => Vec::new(),
                text => vec![Value::Text(text.into())],
            };
            profile.see(
                &["column".to_owned()],
                &[Cell {
                    values,
                    list: false,
                }],
            );
        }
        profile.columns.remove(0)
    }

    #[test]
    fn missing_values_of_a_list_are_no_values_of_its_column() {
        let mut profile = Profile::new(&vec!["?".to_owned()].into());
        let text = |text: &str| Value::Text(text.into());
        for (texts, numbers) in [
            (vec![text("a"), text(""), text("?")], vec![1.0, f64::NAN]),
            (vec![text("")], vec![f64::NAN, f64::NAN]),
            (vec![Value::Missing, text("b")], vec![2.0, 3.0]),
        ] {
            let numbers = numbers.into_iter().map(Value::Float);
            let row = [texts, numbers.collect()].map(|values| Cell { values, list: true });
            profile.see(&["t".to_owned(), "n".to_owned()], &row);
        }
        let [texts, numbers] = profile.columns.as_slice() else {
            panic!("two columns")
        };
        let counts: Vec<&[u8]> = texts.counts().into_iter().map(|(text, _)| text).collect();
        assert_eq!(counts, [b"a", b"b"]);
        assert_eq!((texts.missing, texts.present, texts.values), (1, 2, 2));
        assert_eq!((numbers.missing, numbers.values), (1, 3));
        assert_eq!((numbers.numbers.count, numbers.lengths), (3, (1, 2)));
    }

    #[test]
    fn a_column_has_the_narrowest_type_of_all_its_values() {
        assert_eq!(profile(&["1", "-20"]).kind, Some(ColumnKind::Int));
        assert_eq!(profile(&["1", "2.5"]).kind, Some(ColumnKind::Float));
        assert_eq!(profile(&["1", "2.5", "x"]).kind, Some(ColumnKind::Text));
        assert_eq!(profile(&["-.5", "1"]).kind, Some(ColumnKind::Float));
        assert_eq!(profile(&["007"]).kind, Some(ColumnKind::Text));
        assert_eq!(profile(&[".", "1"]).kind, Some(ColumnKind::Text));
        assert_eq!(profile(&["", "?"]).kind, None);
    }

    #[test]
    fn a_style_says_which_texts_are_numbers_and_values_are_counted_as_they_are_written() {
        let style = NumberStyle {
            decimal: crate::Decimal::Comma,
            units: vec!["%".to_owned()],
            ..NumberStyle::default()
        };
        let mut profile = Profile::default().in_style(style);
        for (comma, point) in [("0,5", "0.5"), ("12,5%", "3")] {
            let cell = |text: &str| Cell {
                values: vec![Value::Text(text.into())],
                list: false,
            };
            profile.see(
                &["comma".to_owned(), "point".to_owned()],
                &[cell(comma), cell(point)],
            );
        }
        let [comma, point] = profile.columns.as_slice() else {
            panic!("two columns");
        };
        assert_eq!(
            (comma.kind, comma.numbers.max),
            (Some(ColumnKind::Float), 12.5)
        );
        assert_eq!(comma.counts(), [(&b"0,5"[..], 1), (&b"12,5%"[..], 1)]);
        assert_eq!(comma.number(b"12,5%"), Some(12.5));
        assert_eq!(point.kind, Some(ColumnKind::Text));
    }

    #[test]
    fn whole_numbers_of_texts_are_whole_with_a_point_too() {
        assert!(profile(&["1", "2"]).is_whole());
        assert!(profile(&["1.0", "", "2.0"]).is_whole());
        assert!(!profile(&["1.0", "2.5"]).is_whole());
        assert!(!profile(&["1e30", "2.0"]).is_whole());
        assert!(!profile(&["a"]).is_whole());
        let mut typed = Profile::default();
        let cell = Cell {
            values: vec![Value::Float(1.0)],
            list: false,
        };
        typed.see(&["x".to_owned()], &[cell]);
        assert!(
            !typed.columns[0].is_whole(),
            "a format of floats has no names"
        );
    }

    #[test]
    fn rows_of_other_files_are_seen_by_the_names_of_their_columns() {
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        let row = |texts: &[&str]| {
            let cell = |text: &&str| Cell {
                values: vec![Value::Text((*text).into())],
                list: false,
            };
            texts.iter().map(cell).collect::<Vec<_>>()
        };
        let mut profile = Profile::default();
        profile.see(&names(&["x", "c", "y"]), &row(&["0.5", "a", "1"]));
        profile.see(&names(&["y", "c", "x"]), &row(&["0", "b", "1.5"]));
        profile.see(&names(&["z", "y"]), &row(&["7", "1"]));
        profile.see(&names(&["y", "y"]), &row(&["1", "8"]));
        let found = profile.columns.iter().map(|column| {
            let values: Vec<&[u8]> = column
                .counts()
                .into_iter()
                .map(|(value, _)| value)
                .collect();
            (column.name.as_str(), column.missing, values)
        });
        let expected: [(&str, u64, Vec<&[u8]>); 5] = [
            ("x", 2, vec![b"0.5", b"1.5"]),
            ("c", 2, vec![b"a", b"b"]),
            ("y", 0, vec![b"1", b"0"]),
            ("z", 3, vec![b"7"]),
            ("y", 3, vec![b"8"]),
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn words_among_many_numbers_are_counted() {
        let mut profile = Profile::default();
        for number in 0..COUNTED_VALUES_MAX + 10 {
            let text = if number > COUNTED_VALUES_MAX {
                "null".to_owned()
            } else {
                number.to_string()
            };
            let cell = Cell {
                values: vec![Value::Text(text.into_bytes())],
                list: false,
            };
            profile.see(&["x".to_owned()], &[cell]);
        }
        assert_eq!(profile.columns[0].count(b"null"), 9);
    }

    #[test]
    fn missing_values_are_counted_and_have_no_part_in_the_rest() {
        let column = profile(&["1", "", "?", "3", "1"]);
        assert_eq!(
            (column.missing, column.present, column.distinct()),
            (2, 3, 2)
        );
        assert_eq!(column.counts(), [(&b"1"[..], 2), (&b"3"[..], 1)]);
    }

    #[test]
    fn moments_are_those_of_the_textbook() {
        let column = profile(&["2", "4", "4", "4", "5", "5", "7", "9"]);
        assert_eq!((column.numbers.mean, column.numbers.stddev()), (5.0, 2.0));
        assert_eq!((column.numbers.min, column.numbers.max), (2.0, 9.0));
        assert_eq!(column.quantiles(&[0.0, 0.5, 1.0]), [2.0, 4.0, 9.0]);
    }

    #[test]
    fn a_column_that_appears_late_was_missing_before() {
        let mut profile = Profile::default();
        let cell = |number| Cell {
            values: vec![Value::Int(number)],
            list: false,
        };
        let names = ["a".to_owned(), "b".to_owned()];
        profile.see(&names[..1], &[cell(1)]);
        profile.see(&names, &[cell(1), cell(2)]);
        profile.see(&names, &[cell(1)]);
        assert_eq!(profile.columns[1].missing, 2);
    }

    #[test]
    fn memory_is_bounded_and_distinct_values_are_told_within_five_percent() {
        let mut profile = Profile::default();
        let rows = 3 * COUNTED_VALUES_MAX as i64;
        for number in 0..rows {
            profile.see(
                &["id".to_owned()],
                &[Cell {
                    values: vec![Value::Int(number)],
                    list: false,
                }],
            );
        }
        let column = &profile.columns[0];
        assert_eq!(column.counts.len(), COUNTED_VALUES_MAX);
        let off = column.distinct() as f64 / rows as f64 - 1.0;
        assert!(off.abs() < 0.05, "{off}");
        let median = column.quantiles(&[0.5])[0] / rows as f64;
        assert!((median - 0.5).abs() < 0.03, "{median}");
    }
}
