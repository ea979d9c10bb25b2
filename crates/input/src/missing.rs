//! Values that stand for a missing one, in files of any format and in requests.
//!
//! A job names texts, for all columns or for one. A text of a file or a request is missing if it is one of them, or empty; a number is missing if it equals
//! one of them, however it is written: -999 is -999.0. The texts are parsed once.

use std::collections::HashMap;

use crate::{FieldKind, MissingTexts, NumberStyle, Schema, plain_number};

/// The values that stand for a missing one.
#[derive(Debug, Clone, Default)]
pub struct Missing {
    texts: Vec<Vec<u8>>,
    /// The whole numbers among the texts.
    integers: Vec<i128>,
    /// The whole numbers that a text has in their usual form: `-999`, not `-0999`.
    digits: Vec<i128>,
    /// All numbers among the texts.
    numbers: Vec<f64>,
}

/// The values that stand for a missing one in each column.
#[derive(Debug, Clone, Default)]
pub struct MissingValues {
    everywhere: Missing,
    of_columns: HashMap<String, Missing>,
}

impl MissingValues {
    /// Returns the values of a job's texts.
    pub fn new(texts: &MissingTexts) -> Self {
        let of_columns = texts.of_columns.iter();
        Self {
            everywhere: Missing::new(&texts.everywhere),
            of_columns: of_columns
                .map(|(column, texts)| (column.clone(), Missing::new(texts)))
                .collect(),
        }
    }

    /// Returns the values of a column.
    pub fn of(&self, column: &str) -> &Missing {
        self.of_columns.get(column).unwrap_or(&self.everywhere)
    }

    /// Returns the values of each field of a schema.
    pub(crate) fn of_fields(texts: &MissingTexts, schema: &Schema) -> Vec<Missing> {
        let values = Self::new(texts);
        let fields = schema.fields.iter();
        fields.map(|field| values.of(&field.name).clone()).collect()
    }
}

/// First whole number that a float of 64 bits may round.
const ROUNDED_FROM: i128 = 1 << f64::MANTISSA_DIGITS;

impl Missing {
    /// Returns the values of a job's texts.
    pub fn new(texts: &[String]) -> Self {
        let integers = texts.iter().filter_map(|text| {
            let number = text.parse::<i128>().ok()?;
            Some((number, number.to_string() == *text))
        });
        let (mut all, mut digits) = (Vec::new(), Vec::new());
        for (number, is_usual) in integers {
            all.push(number);
            digits.extend(is_usual.then_some(number));
        }
        let numbers = texts.iter().filter_map(|text| number(text.as_bytes()));
        Self {
            texts: texts.iter().map(|text| text.clone().into_bytes()).collect(),
            integers: all,
            digits,
            numbers: numbers.collect(),
        }
    }

    /// Returns the texts that are missing, as texts; the empty text is, too.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        // They were made from texts.
        self.texts
            .iter()
            .filter_map(|text| std::str::from_utf8(text).ok())
    }

    /// Returns the whole numbers of 64 bits that are missing where a value of this kind is wanted, ascending.
    pub fn integers(&self, kind: &FieldKind) -> Vec<i64> {
        let finite = self.numbers.iter().filter(|number| number.is_finite());
        let written = finite.map(|number| *number as i128);
        let known = self.integers.iter().copied().chain(written);
        let mut known: Vec<i64> = known
            .filter(|number| self.integer(*number, kind))
            .filter_map(|number| i64::try_from(number).ok())
            .collect();
        known.sort_unstable();
        known.dedup();
        known
    }

    /// Returns the floats of 32 bits that are missing. A number that is beyond them is none.
    pub fn floats(&self) -> Vec<f32> {
        let narrow = self.numbers.iter().map(|number| (*number as f32, *number));
        let narrow = narrow.filter(|(narrow, number)| narrow.is_finite() || number.is_infinite());
        narrow.map(|(narrow, _)| narrow).collect()
    }

    /// Returns whether a text is missing, as a text.
    #[inline]
    pub(crate) fn text(&self, text: &[u8]) -> bool {
        text.is_empty() || self.texts.iter().any(|missing| missing == text)
    }

    /// Returns whether a text is missing that stands for a value of this kind.
    #[inline]
    pub(crate) fn written(&self, text: &[u8], kind: &FieldKind) -> bool {
        self.text(text) || is_number(kind) && !self.numbers.is_empty() && self.decimal(text)
    }

    /// As [`Missing::written`], for a text whose numbers are written in a style; absent = as plain decimals.
    #[inline]
    pub(crate) fn written_in(
        &self,
        style: Option<&NumberStyle>,
        text: &[u8],
        kind: &FieldKind,
    ) -> bool {
        let Some(style) = style else {
            return self.written(text, kind);
        };
        self.text(text)
            || is_number(kind)
                && !self.numbers.is_empty()
                && plain_number(style, text)
                    .is_some_and(|plain| self.written(plain.text.as_bytes(), kind))
    }

    /// Returns whether a whole number is missing where a value of this kind is wanted.
    #[inline]
    pub(crate) fn integer(&self, number: impl Into<i128>, kind: &FieldKind) -> bool {
        if self.numbers.is_empty() {
            return false;
        }
        let number = number.into();
        if !is_number(kind) {
            return self.digits.contains(&number);
        }
        self.integers.contains(&number)
            || number.abs() < ROUNDED_FROM && self.numbers.contains(&(number as f64))
    }

    /// Returns whether a float is missing. A float that has no more than the bits of an `f32` may come from one, into which
    /// the number was rounded.
    #[inline]
    pub(crate) fn float(&self, number: f64) -> bool {
        let narrow = number as f32;
        let is_narrow = f64::from(narrow) == number && narrow.is_finite();
        self.numbers
            .iter()
            .any(|missing| *missing == number || is_narrow && *missing as f32 == narrow)
    }

    fn decimal(&self, text: &[u8]) -> bool {
        let integer = std::str::from_utf8(text)
            .ok()
            .and_then(|text| text.parse::<i128>().ok());
        match integer {
            Some(integer) => self.integer(integer, &FieldKind::FLOAT),
            None => number(text).is_some_and(|number| self.float(number)),
        }
    }
}

/// Returns the number that a text is: `inf` and `-Infinity` are numbers, and digits beyond 64 bits are not.
fn number(text: &[u8]) -> Option<f64> {
    let number = fast_float2::parse::<f64, _>(text).ok()?;
    let is_written_out = !text.iter().any(u8::is_ascii_digit);
    (number.is_finite() || number.is_infinite() && is_written_out).then_some(number)
}

fn is_number(kind: &FieldKind) -> bool {
    !matches!(kind, FieldKind::Bytes { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_a_style_is_missing_by_its_value_too() {
        let style = NumberStyle {
            decimal: crate::Decimal::Comma,
            thousands: Some('.'),
            ..NumberStyle::default()
        };
        let missing = Missing::new(&["-999", "1", "n/a"].map(str::to_owned));
        for (text, expected) in [
            ("-999", true),
            ("-999,0", true),
            ("n/a", true),
            ("1,0", true),
            ("1.000", false),
            ("2", false),
        ] {
            let found = missing.written_in(Some(&style), text.as_bytes(), &FieldKind::FLOAT);
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn infinities_are_missing_if_they_are_named_however_they_are_written() {
        let infinities = ["inf", "+Inf", "Infinity", "INF"];
        let missing = Missing::new(&["inf".to_owned()]);
        for text in infinities {
            assert!(
                missing.written(text.as_bytes(), &FieldKind::FLOAT),
                "{text}"
            );
            let negative = format!("-{}", text.trim_start_matches('+'));
            assert!(!missing.written(negative.as_bytes(), &FieldKind::FLOAT));
        }
        assert!(missing.float(f64::INFINITY) && !missing.float(f64::NEG_INFINITY));
        assert!(!missing.written(b"1e999", &FieldKind::FLOAT) && !missing.float(1e300));
        assert!(!Missing::new(&["1e300".to_owned()]).float(f64::INFINITY));
        let both = Missing::new(&["-inf", "inf", "7"].map(str::to_owned));
        assert_eq!(both.floats(), [f32::NEG_INFINITY, f32::INFINITY, 7.0]);
        assert_eq!(both.integers(&FieldKind::INT), [7]);
        assert!(!both.integer(i128::MAX, &FieldKind::INT));
    }

    #[test]
    fn the_numbers_that_are_missing_are_listed_for_graphs() {
        let texts = ["-999", "NA", "1e3", "0.5", "-0999", "1e300"];
        let missing = Missing::new(&texts.map(str::to_owned));
        assert_eq!(missing.texts().collect::<Vec<_>>(), texts);
        assert_eq!(missing.integers(&FieldKind::INT), [-999, 1000]);
        assert_eq!(missing.integers(&FieldKind::BYTES), [-999]);
        assert_eq!(missing.floats(), [-999.0, 1000.0, 0.5, -999.0]);
    }

    #[test]
    fn a_number_is_missing_by_its_value_and_a_text_by_its_letters() {
        let texts = ["?", "-999", "007", "-99.9", "9007199254740993", "nan"];
        let missing = Missing::new(&texts.map(str::to_owned));
        for (text, as_text, as_number) in [
            ("", true, true),
            ("?", true, true),
            ("-999", true, true),
            ("-999.0", false, true),
            ("-9.99e2", false, true),
            ("007", true, true),
            ("7", false, true),
            ("-99.9", true, true),
            ("9007199254740993", true, true),
            ("9007199254740992", false, false),
            ("1", false, false),
            ("x", false, false),
        ] {
            assert_eq!(
                missing.written(text.as_bytes(), &FieldKind::BYTES),
                as_text,
                "{text}"
            );
            assert_eq!(
                missing.written(text.as_bytes(), &FieldKind::FLOAT),
                as_number,
                "{text}"
            );
        }
        for (number, as_text, as_number) in
            [(-999, true, true), (7, false, true), (8, false, false)]
        {
            assert_eq!(
                missing.integer(number, &FieldKind::BYTES),
                as_text,
                "{number}"
            );
            assert_eq!(
                missing.integer(number, &FieldKind::INT),
                as_number,
                "{number}"
            );
        }
        for (number, expected) in [
            (-999.0, true),
            (-99.9, true),
            (f64::from(-99.9_f32), true),
            (-99.8, false),
        ] {
            assert_eq!(missing.float(number), expected, "{number}");
        }
    }
}
