//! Commas in numbers that may be decimal ones or stand between thousands: `12,345`.

use trainyard_input::{ColumnProfile, Decimal, NumberStyle, Profile};

/// Fewest numbers with a comma that say how it is meant.
const COMMAS_MIN: u64 = 3;

/// A column in which each comma has exactly three digits behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DoubtfulCommas {
    column: String,
    count: u64,
    example: String,
    /// How the comma is read.
    decimal: Decimal,
}

impl DoubtfulCommas {
    pub(crate) fn message(&self) -> String {
        let Self {
            column,
            count,
            example,
            decimal,
        } = self;
        let (point, whole) = (example.replace(',', "."), example.replace(',', ""));
        let (read, other) = match decimal {
            Decimal::Comma => (point, whole),
            Decimal::Point => (whole, point),
        };
        format!(
            "each of the {count} numbers with a comma in `{column}` has three digits behind it, as `{example}`: the job reads {read}, and it may mean {other}"
        )
    }

    /// Returns the keys of the other meaning. `besides` is what is to be done besides.
    pub(crate) fn remedy(&self, besides: &str) -> String {
        let keys = match self.decimal {
            Decimal::Comma => "input.decimal = \".\" and input.thousands = \",\"",
            Decimal::Point => "input.decimal = \",\" and no input.thousands, or \".\" there",
        };
        format!("if it does, set {keys}, {besides}")
    }
}

/// Returns the columns of numbers whose commas may mean something else than the style says. One number that shows what they mean, as `0,5`
/// or `1,234,567`, shows it for all columns: one program writes a file.
pub(crate) fn doubtful_commas(found: &Profile, style: &NumberStyle) -> Vec<DoubtfulCommas> {
    let are_read = style.decimal == Decimal::Comma || style.thousands == Some(',');
    if !are_read {
        return Vec::new();
    }
    let mut doubtful = Vec::new();
    for column in found.columns.iter().filter(|column| column.is_numeric()) {
        match of_column(column, style) {
            Commas::Clear => return Vec::new(),
            Commas::None => {}
            Commas::Doubtful(count, example) => doubtful.push(DoubtfulCommas {
                column: column.name.clone(),
                count,
                example,
                decimal: style.decimal,
            }),
        }
    }
    let count: u64 = doubtful.iter().map(|column| column.count).sum();
    if count < COMMAS_MIN {
        doubtful.clear();
    }
    doubtful
}

/// What the commas of a column show.
enum Commas {
    None,
    /// They can mean one thing alone.
    Clear,
    /// Each may mean either. Their number, and the first number with one.
    Doubtful(u64, String),
}

fn of_column(column: &ColumnProfile, style: &NumberStyle) -> Commas {
    let mut doubtful = 0;
    let mut example = None;
    for (value, count) in column.counts() {
        let text = String::from_utf8_lossy(value);
        let is_mark = |one: char| one.is_ascii_digit() || one == ',' || one == '.';
        // Without the sign and the unit.
        let number = text.trim_matches(|one: char| !is_mark(one));
        let Some((before, after)) = number.split_once(',') else {
            let has_point = number.contains('.');
            let is_long = number.bytes().filter(u8::is_ascii_digit).count() > 3;
            match style.decimal {
                // A point beside commas between thousands is a decimal one, and 1234 beside decimal commas is not 1,234.
                Decimal::Point if has_point => return Commas::Clear,
                Decimal::Comma if is_long && !has_point => return Commas::Clear,
                Decimal::Point | Decimal::Comma => continue,
            }
        };
        let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let is_doubtful = (1..=3).contains(&before.len())
            && !before.starts_with('0')
            && are_digits(before)
            && after.len() == 3
            && are_digits(after);
        if !is_doubtful {
            return Commas::Clear;
        }
        doubtful += count;
        example.get_or_insert_with(|| number.to_owned());
    }
    match example {
        Some(example) => Commas::Doubtful(doubtful, example),
        None => Commas::None,
    }
}

#[cfg(test)]
mod tests {
    use trainyard_input::{Cell, Value};

    use super::*;

    fn of(style: &NumberStyle, columns: &[&[&str]]) -> Vec<String> {
        let mut found = Profile::default().in_style(style.clone());
        let names: Vec<String> = (0..columns.len()).map(|nth| format!("c{nth}")).collect();
        for row in 0..columns[0].len() {
            let cells = columns.iter().map(|values| Cell {
                values: vec![Value::Text(values[row].into())],
                list: false,
            });
            found.see(&names, &cells.collect::<Vec<_>>());
        }
        let doubtful = doubtful_commas(&found, style);
        doubtful.iter().map(DoubtfulCommas::message).collect()
    }

    #[test]
    fn commas_before_three_digits_are_told_in_both_styles_unless_a_number_shows_what_they_mean() {
        let thousands = NumberStyle {
            thousands: Some(','),
            ..NumberStyle::default()
        };
        let decimal = NumberStyle {
            decimal: Decimal::Comma,
            ..NumberStyle::default()
        };
        let doubtful = ["12,345", "1,000", "-7,250", "12"];
        for (style, read, other) in [
            (&thousands, "12345", "12.345"),
            (&decimal, "12.345", "12345"),
        ] {
            let told = of(style, &[&doubtful]);
            let expected = format!("as `12,345`: the job reads {read}, and it may mean {other}");
            // Equally frequent values are ordered by their text.
            let expected = expected.replace("12,345", "7,250").replace("12345", "7250");
            let expected = expected.replace("12.345", "7.250");
            assert!(told.len() == 1 && told[0].contains(&expected), "{told:?}");
        }
        for clear in [
            ["12,345", "1,000", "7,250", "0,125"],
            ["12,345", "1,000", "7,250", "1,5"],
            ["12,345", "1,000", "7,250", "1234"],
        ] {
            assert_eq!(of(&decimal, &[&clear]), [""; 0], "{clear:?}");
        }
        for clear in [
            ["12,345", "1,000", "7,250", "1,234,567"],
            ["12,345", "1,000", "7,250", "1.5"],
        ] {
            assert_eq!(of(&thousands, &[&clear]), [""; 0], "{clear:?}");
            // What another column shows holds for the file.
            assert_eq!(of(&thousands, &[&doubtful, &clear]), [""; 0], "{clear:?}");
        }
        let few = ["1,250", "7", "8", "9"];
        assert_eq!(of(&thousands, &[&few]), [""; 0]);
        assert_eq!(of(&NumberStyle::default(), &[&doubtful]), [""; 0]);
    }
}
