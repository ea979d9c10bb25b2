//! Last records of text files that are totals of the others, as spreadsheets and reporting tools export them.

use trainyard_input::{ColumnKind, NumberStyle, Profile, plain_number};

use super::Doubt;

/// Words in the first field of a total, in lower case.
const WORDS: [&str; 11] = [
    "total",
    "totals",
    "sum",
    "grand total",
    "subtotal",
    "overall total",
    "gesamt",
    "gesamtsumme",
    "summe",
    "somme",
    "suma",
];

/// Share of a sum that rounding may add to it or take from it.
const ROUNDING: f64 = 1e-6;

/// Fewest other records that show what a sum is.
const ROWS_MIN: u64 = 3;

/// Returns the doubt about the last record of a file, given its fields by the names of their columns.
pub(in crate::init) fn of_total(
    file: &str,
    record: &[(String, String)],
    found: &Profile,
    style: &NumberStyle,
) -> Option<Doubt> {
    let number = |text: &str| {
        plain_number(style, text.as_bytes())?
            .text
            .parse::<f64>()
            .ok()
    };
    let numbers: Vec<(&str, f64)> = record
        .iter()
        .filter_map(|(name, text)| Some((name.as_str(), number(text)?)))
        .collect();
    if numbers.is_empty() || found.rows < ROWS_MIN {
        return None;
    }
    let first = record.first().map_or("", |(_, text)| text.as_str());
    let word = first.trim_end_matches(':').trim().to_lowercase();
    let comes_again = found
        .column(&record[0].0)
        .is_some_and(|column| column.count(first.as_bytes()) > 1);
    let is_named = WORDS.contains(&word.as_str()) && !comes_again;
    if !is_named && !is_sum_without_names(record, &numbers, found) {
        return None;
    }
    let shown: Vec<&str> = record.iter().map(|(_, text)| text.as_str()).collect();
    Some(Doubt {
        message: format!(
            "the last record of {file} looks like a total of the others, and would be one more record: {:?}",
            shown.join(", ")
        ),
        help: "delete the line where it is a total, or export the records without their totals, and run `trainyard init` again"
            .to_owned(),
    })
}

/// Returns whether a record has no names, which all others have, and a number that is the sum of all others.
fn is_sum_without_names(
    record: &[(String, String)],
    numbers: &[(&str, f64)],
    found: &Profile,
) -> bool {
    let mut names = record.iter().filter_map(|(name, text)| {
        let column = found.column(name)?;
        (column.kind == Some(ColumnKind::Text)).then_some((column, text))
    });
    let Some(first) = names.next() else {
        return false;
    };
    let mut names = std::iter::once(first).chain(names);
    if !names.all(|(column, text)| text.is_empty() && column.missing <= 1) {
        return false;
    }
    numbers.iter().any(|(name, number)| {
        let Some(column) = found.column(name).filter(|column| column.is_numeric()) else {
            return false;
        };
        let sum = column.numbers.mean * column.numbers.count as f64;
        // The sum of all others and of the total, or of those that were read before it.
        let is_sum = |of_others: f64| (number - of_others).abs() <= ROUNDING * number.abs();
        column.numbers.count >= ROWS_MIN && *number != 0.0 && (is_sum(sum - number) || is_sum(sum))
    })
}

#[cfg(test)]
mod tests {
    use trainyard_input::{Cell, Value};

    use super::*;

    /// Returns whether the last of these records is taken for a total.
    fn is_told(rows: &[[&str; 3]]) -> bool {
        let names = ["name", "city", "amount"].map(str::to_owned);
        let mut found = Profile::default();
        for row in rows {
            let cells = row.map(|text| Cell {
                values: match text {
                    "" => Vec::new(),
                    text => vec![Value::Text(text.into())],
                },
                list: false,
            });
            found.see(&names, &cells);
        }
        let record: Vec<(String, String)> = names
            .into_iter()
            .zip(rows[rows.len() - 1].map(str::to_owned))
            .collect();
        of_total("a.csv", &record, &found, &NumberStyle::default()).is_some()
    }

    #[test]
    fn a_last_record_that_is_a_total_is_told_and_one_that_is_a_record_is_not() {
        let rows = [["a", "x", "1.5"], ["b", "y", "2"], ["c", "x", "3"]];
        let with = |last: [&'static str; 3]| is_told(&[&rows[..], &[last]].concat());
        for last in [
            ["Total", "", "6.5"],
            ["Grand total:", "", "7"],
            ["SUM", "x", "6.5"],
            ["", "", "6.5"],
        ] {
            assert!(with(last), "{last:?}");
        }
        for last in [
            ["d", "x", "6.5"],
            ["", "", "6"],
            ["Total", "", ""],
            ["", "x", "6.5"],
        ] {
            assert!(!with(last), "{last:?}");
        }
        let words = [["total", "x", "1"], ["sum", "y", "2"], ["c", "x", "3"]];
        assert!(
            !is_told(&[&words[..], &[["total", "x", "6"]]].concat()),
            "a word of the data"
        );
    }
}
