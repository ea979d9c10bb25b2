//! Doubts about columns of numbers: a few texts that make names of all of them, numbers that stand for missing ones, and decimal
//! points that may stand between thousands. The data does not decide them, so that a person is asked to look.

use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_input::{ColumnKind, ColumnProfile, Decimal, NumberStyle, Profile};

use super::job_file::quoted;
use super::plan::{is_id, merged};
use crate::data_warnings::{doubtful_commas, listed_units, units_of_times};

mod styles;
mod totals;

use styles::of_styles;
pub(super) use totals::of_total;

/// Least share of numbers in a column that was probably meant as one of numbers.
const NUMBERS_SHARE_MIN: f64 = 0.9;

/// Least share of numbers where the others are few words that come again.
const NUMBERS_SHARE_OF_WORDS_MIN: f64 = 0.5;
const WORDS_MAX: usize = 3;

/// Fewest distinct numbers of a column of quantities. Fewer may be classes.
const DISTINCT_NUMBERS_MIN: usize = 10;

/// Texts that a warning shows.
const SHOWN_MAX: usize = 5;

/// Fewest records in which a number that stands for a missing one comes.
const SENTINELS_MIN: u64 = 2;

/// Fewest digits of such a number: 999.
const SENTINEL_DIGITS_MIN: usize = 3;

/// How many times as far from 0 as all others such a number is.
const SENTINEL_DISTANCE: f64 = 2.0;

/// Fewest numbers with a decimal point that show where it is.
const POINTS_MIN: u64 = 10;

/// A doubt about a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Doubt {
    pub(super) message: String,
    pub(super) help: String,
}

impl Doubt {
    pub(super) fn warning(&self) -> Diagnostic {
        Diagnostic::warning(Code::E4005, &self.message).help(&self.help)
    }
}

/// Returns the doubts about the columns. `mixed` are columns whose units are reported elsewhere; `delimiter` is that of text files, and
/// `time` the column with the times of the records, which is no feature.
pub(super) fn doubts(
    found: &Profile,
    mixed: &[String],
    (delimiter, time): (Option<u8>, Option<&str>),
    numbers: &NumberStyle,
) -> Vec<Doubt> {
    let is_plain = numbers.decimal == Decimal::Point && numbers.thousands.is_none();
    let has_points = is_plain && delimiter.is_some_and(|byte| byte != b',');
    let mut doubts = Vec::new();
    for column in found.columns.iter().filter(|column| !column.list) {
        let is_reported = mixed.contains(&column.name) || is_id(&column.name);
        if !is_reported && column.kind == Some(ColumnKind::Text) {
            doubts.extend(
                of_styles(column, delimiter.is_some(), numbers)
                    .or_else(|| of_texts(column))
                    .or_else(|| of_truths(column)),
            );
        }
        doubts.extend(of_sentinels(column));
        if Some(column.name.as_str()) != time {
            doubts.extend(of_merged(column));
        }
        if has_points {
            doubts.extend(of_points(column));
        }
    }
    let commas = doubtful_commas(found, numbers).into_iter();
    doubts.extend(commas.map(|commas| Doubt {
        message: commas.message(),
        help: commas.remedy(
            "and correct the mean, stddev and boundaries of the features, or write the numbers in plain decimals and run `trainyard init` again",
        ),
    }));
    doubts
}

/// Doubts a few texts in a column that is otherwise numbers.
fn of_texts(column: &ColumnProfile) -> Option<Doubt> {
    let numbers = column.numbers.count;
    if numbers == 0 || numbers == column.values {
        return None;
    }
    let counts = column.counts();
    let (of_numbers, texts): (Vec<_>, Vec<_>) = counts
        .into_iter()
        .partition(|(value, _)| column.number(value).is_some());
    let has_leading_zero =
        |value: &[u8]| value.len() > 1 && value[0] == b'0' && value.iter().all(u8::is_ascii_digit);
    if texts.is_empty() || texts.iter().any(|(value, _)| has_leading_zero(value)) {
        return None;
    }
    let are_words = texts.len() <= WORDS_MAX && of_numbers.len() >= DISTINCT_NUMBERS_MIN;
    let share_min = if are_words {
        NUMBERS_SHARE_OF_WORDS_MIN
    } else {
        NUMBERS_SHARE_MIN
    };
    if (numbers as f64) < share_min * column.values as f64 {
        return None;
    }
    let name = &column.name;
    let shown: Vec<String> = texts
        .iter()
        .take(SHOWN_MAX)
        .map(|(value, _)| format!("`{}`", String::from_utf8_lossy(value).escape_debug()))
        .collect();
    let more = match texts.len() - shown.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let first = column.first_text.unwrap_or_default();
    let message = format!(
        "{numbers} of {} values of `{name}` are numbers, and the others are {}{more}, the first in record {first}: \
         because of them, the job does not read the column as numbers",
        column.values,
        shown.join(", "),
    );
    let remedy = if texts.iter().any(|(value, _)| *value == name.as_bytes()) {
        "delete the line that repeats the names of the columns".to_owned()
    } else {
        let words: Vec<String> = texts
            .iter()
            .take(SHOWN_MAX)
            .map(|(value, _)| format!("{:?}", String::from_utf8_lossy(value)))
            .collect();
        format!(
            "if they mean that there is no number, set input.missing = [{}{}] and make the feature kind = \"numeric\" with a default; or delete their lines",
            words.join(", "),
            if more.is_empty() { "" } else { ", ..." }
        )
    };
    let help = format!("{remedy}, and run `trainyard init` again; names of several kinds may stay");
    Some(Doubt { message, help })
}

/// Words for yes and no, in lower case.
const YES: [&str; 6] = ["true", "yes", "t", "y", "1", "1.0"];
const NO: [&str; 6] = ["false", "no", "f", "n", "0", "0.0"];

/// Doubts a column of yes and no that writes one of them in several ways, as `True` and `1`.
fn of_truths(column: &ColumnProfile) -> Option<Doubt> {
    if !column.are_all_counted() || column.not_utf8 > 0 {
        return None;
    }
    let counts = column.counts();
    let texts: Vec<(String, u64)> = counts
        .iter()
        .map(|(text, count)| (String::from_utf8_lossy(text).into_owned(), *count))
        .collect();
    let of = |words: &[&str]| -> Vec<String> {
        let found = texts.iter().filter(|(text, _)| {
            let word = text.trim().to_lowercase();
            words.contains(&word.as_str())
        });
        found
            .map(|(text, count)| format!("`{}` ({count})", text.escape_debug()))
            .collect()
    };
    let (yes, no) = (of(&YES), of(&NO));
    let is_whole = yes.len() + no.len() == texts.len();
    let several: Vec<&Vec<String>> = [&yes, &no]
        .into_iter()
        .filter(|ways| ways.len() > 1)
        .collect();
    if !is_whole || several.is_empty() {
        return None;
    }
    let shown: Vec<String> = several.iter().map(|ways| ways.join(" and ")).collect();
    let message = format!(
        "`{}` holds {}, which look like one answer: the job takes each for a name of its own",
        column.name,
        shown.join(", and ")
    );
    let help =
        "write yes and no in one way, and run `trainyard init` again. Names may stay".to_owned();
    Some(Doubt { message, help })
}

/// Doubts a column of times of which some are near today in one unit, and others in another: their order is not that of time.
pub(super) fn of_times(found: &Profile, time: Option<&str>) -> Option<Doubt> {
    let column = found.column(time?)?;
    let units = units_of_times(column);
    if units.len() < 2 {
        return None;
    }
    let message = format!(
        "the times in `{}` are of several units: {}. The latest records are those of the smallest unit",
        column.name,
        listed_units(&units)
    );
    let help = "write all times in one unit, and run `trainyard init` again".to_owned();
    Some(Doubt { message, help })
}

/// Doubts numbers as -999 and 9999, far from all others.
fn of_sentinels(column: &ColumnProfile) -> Option<Doubt> {
    if !column.is_numeric() || is_id(&column.name) {
        return None;
    }
    let counts = column.counts();
    let values: Vec<(&[u8], f64, u64)> = counts
        .into_iter()
        .filter_map(|(value, count)| Some((value, column.number(value)?, count)))
        .collect();
    // Largest distance from 0 of the others of its sign. Of few values only: it looks at all of them.
    let next_to = |number: f64| {
        values
            .iter()
            .map(|(_, other, _)| *other)
            .filter(|other| *other != number && (*other < 0.0) == (number < 0.0))
            .fold(0.0, |far: f64, other| far.max(other.abs()))
    };
    let is_sentinel = |(_, number, count): &&(&[u8], f64, u64)| {
        let is_extreme = if *number < 0.0 {
            *number == column.numbers.min
        } else {
            *number == column.numbers.max
        };
        *count >= SENTINELS_MIN
            && values.len() > 2
            && is_extreme
            && are_nines(number.abs())
            && number.abs() > SENTINEL_DISTANCE * next_to(*number)
    };
    let found: Vec<_> = values.iter().filter(is_sentinel).collect();
    if found.is_empty() {
        return None;
    }
    let shown: Vec<String> = found
        .iter()
        .map(|(value, _, count)| format!("{} in {count}", String::from_utf8_lossy(value)))
        .collect();
    let texts: Vec<String> = found
        .iter()
        .map(|(value, ..)| format!("\"{}\"", String::from_utf8_lossy(value)))
        .collect();
    let message = format!(
        "`{}` is {} of {} records, far from all other values: such numbers often stand for missing ones, and the job reads them as numbers",
        column.name,
        shown.join(" and "),
        column.present
    );
    let help = format!(
        "if they do, set input.missing_of = {{ {} = [{}] }}, with any other word that means a missing value there, and a default in the feature, and correct its mean, stddev and boundaries",
        quoted(&column.name),
        texts.join(", ")
    );
    Some(Doubt { message, help })
}

/// Doubts numbers of which some are the same in the 32 bits of a feature.
fn of_merged(column: &ColumnProfile) -> Option<Doubt> {
    let (different, of_features) = merged(column)?;
    let numbers = &column.numbers;
    let message = format!(
        "`{}` holds numbers from {} to {}: {different} different ones are {of_features} in the 32 bits of a numeric feature",
        column.name, numbers.min, numbers.max
    );
    let help = "if they name something, make the feature kind = \"hashed\" or \"vocabulary\"; if their small differences say something, subtract a number from them".to_owned();
    Some(Doubt { message, help })
}

fn are_nines(number: f64) -> bool {
    let digits = number.to_string();
    digits.len() >= SENTINEL_DIGITS_MIN && digits.bytes().all(|digit| digit == b'9')
}

/// Doubts numbers of which each point has three digits behind it, in files that have no comma between the fields.
fn of_points(column: &ColumnProfile) -> Option<Doubt> {
    if !column.is_numeric() || !column.are_all_counted() {
        return None;
    }
    let mut points = 0;
    let mut example = None;
    for (value, count) in column.counts() {
        let value = value.strip_prefix(b"-").unwrap_or(value);
        let Some(place) = value.iter().position(|byte| *byte == b'.') else {
            // 1234 and 1.234 are not written by one program.
            if value.len() > 3 {
                return None;
            }
            continue;
        };
        let (before, after) = (&value[..place], &value[place + 1..]);
        let is_group = (1..=3).contains(&before.len())
            && before[0] != b'0'
            && after.len() == 3
            && before.iter().chain(after).all(u8::is_ascii_digit);
        if !is_group {
            return None;
        }
        points += count;
        example.get_or_insert(String::from_utf8_lossy(value).into_owned());
    }
    let example = example.filter(|_| points >= POINTS_MIN)?;
    let thousand = example.replace('.', "");
    let message = format!(
        "each of the {points} numbers with a point in `{}` has three digits behind it, as `{example}`: the job reads a fraction, and it may mean {thousand}",
        column.name
    );
    let help = "if it does, set input.thousands = \".\" and input.decimal = \",\", and correct the mean, stddev and boundaries of the feature".to_owned();
    Some(Doubt { message, help })
}

#[cfg(test)]
mod tests {
    use trainyard_input::{Cell, Value};

    use super::*;

    fn of(delimiter: Option<u8>, value: &dyn Fn(usize) -> String) -> Vec<Doubt> {
        let mut found = Profile::default();
        for row in 0..100 {
            let cell = Cell {
                values: vec![Value::Text(value(row).into_bytes())],
                list: false,
            };
            found.see(&["x".to_owned()], &[cell]);
        }
        doubts(&found, &[], (delimiter, None), &NumberStyle::default())
    }

    fn with(text: &str, every: usize) -> Vec<Doubt> {
        let value = |row: usize| match row % every {
            4 => text.to_owned(),
            _ => format!("{}.5", row % 50),
        };
        of(None, &value)
    }

    #[test]
    fn few_texts_among_numbers_are_told_with_the_first_record_and_a_remedy() {
        let [doubt] = &with("sold out", 20)[..] else {
            panic!("a doubt");
        };
        for part in ["95 of 100", "`x`", "`sold out`", "record 5"] {
            assert!(doubt.message.contains(part), "{doubt:?}");
        }
        assert!(doubt.help.contains("missing = [\"sold out\"]"), "{doubt:?}");
        assert!(with("x", 100)[0].help.contains("repeats the names"));
        assert!(with("(12.34)", 5)[0].help.contains("hyphen"));
        assert_eq!(with("-", 5).len(), 1);
    }

    #[test]
    fn columns_of_numbers_and_times_in_other_styles_are_told_with_an_example_and_a_remedy() {
        let signed = |minus: fn(usize) -> String| {
            move |row: usize| match row % 3 {
                0 => minus(row),
                _ => format!("{row}.5"),
            }
        };
        for (value, parts) in [
            (
                &signed(|row| format!("{row}-")) as &dyn Fn(usize) -> String,
                [
                    "34 numbers with the minus sign behind them, as `0-`",
                    "hyphen",
                ],
            ),
            (
                &signed(|row| format!("\u{2212}{row}")),
                ["no hyphen", "hyphen before"],
            ),
            (
                &signed(|row| format!("(${row})")),
                ["`($0)`", "hyphen before"],
            ),
            (
                &signed(|row| format!("{row},5")),
                ["`0,5`", "input.decimal"],
            ),
            (
                &signed(|row| format!("- {}", row + 1)),
                [
                    "34 numbers with a blank behind the sign, as `- 1`",
                    "hyphen",
                ],
            ),
            (
                &signed(|row| format!("~{row}")),
                ["34 bounds and estimates, as `~0`", "the number alone"],
            ),
            (
                &signed(|row| format!("<{row}")),
                ["bounds and estimates, as `<0`", "the number alone"],
            ),
            (
                &signed(|row| format!("1\u{a0}{:03}", row)),
                ["blanks inside that are no plain spaces", "input.thousands"],
            ),
            (
                &signed(|row| format!("1,{:02},456", row)),
                [
                    "commas between groups of two digits, as `1,00,456`",
                    "leave out the commas",
                ],
            ),
            (
                &signed(|row| format!("\u{ff11}{row}")),
                ["digits that are not those of ASCII", "digits 0 to 9"],
            ),
            (
                &|row| match row % 20 {
                    4 => "0000-00-00".to_owned(),
                    _ => format!("2024-01-{:02}", 1 + row % 28),
                },
                ["5 dates of zeros, as `0000-00-00`", "leave the field empty"],
            ),
            (
                &|row| format!("2023-W{:02}", 1 + row % 52),
                [
                    "100 weeks or quarters of a year, as `2023-W01`",
                    "first day",
                ],
            ),
            (
                &|row| format!("[{row}, {}]", row + 1),
                [
                    "look like lists: 100 lists in brackets, as `[0, 1]`",
                    "`separator`",
                ],
            ),
            (
                &|row| ["True", "False", "1", "0"][row % 4].to_owned(),
                [
                    "`1` (25) and `True` (25), and `0` (25) and `False` (25), which look like one answer",
                    "one way",
                ],
            ),
            (
                &|row| format!("{row}{}", if row % 2 == 0 { "cm" } else { "in" }),
                ["`0cm`", "input.units"],
            ),
            (
                &|row| format!("2024-01-{:02}", 1 + row % 28),
                ["`2024-01-01`", "seconds since 1970"],
            ),
            (
                &|row| format!("{}:30", row % 24),
                ["100 times of the day", "midnight"],
            ),
        ] {
            let found = of(Some(b','), value);
            let [doubt] = &found[..] else {
                panic!("a doubt of {}: {found:?}", value(0));
            };
            assert!(doubt.message.contains(parts[0]), "{doubt:?}");
            assert!(doubt.help.contains(parts[1]), "{doubt:?}");
        }
        assert_eq!(
            of(None, &|row| format!(
                "{}{}",
                row % 30,
                ["A", "B", "C", "D"][row % 4]
            )),
            []
        );
        assert_eq!(of(None, &|row| format!("{}-{}", row % 9, row % 9 + 9)), []);
        let answers = &|row: usize| ["yes", "no", "1-2"][row % 3].to_owned();
        assert_eq!(of(None, answers), [], "other names among them");
        assert_eq!(of(None, &|row| ["True", "False"][row % 2].to_owned()), []);
    }

    #[test]
    fn texts_and_codes_are_no_doubtful_numbers() {
        for value in [
            &|row: usize| format!("a{row}") as String as _,
            &|row: usize| {
                if row.is_multiple_of(3) {
                    row.to_string()
                } else {
                    format!("a{row}")
                }
            },
            &|row: usize| {
                if row.is_multiple_of(20) {
                    format!("00{row}")
                } else {
                    (100 + row).to_string()
                }
            },
            &|row: usize| {
                if row.is_multiple_of(2) {
                    "4".to_owned()
                } else {
                    "K".to_owned()
                }
            },
            &|row: usize| row.to_string(),
        ] as [&dyn Fn(usize) -> String; 5]
        {
            assert_eq!(of(None, value), [], "{}", value(0));
        }
    }

    #[test]
    fn numbers_of_nines_far_from_all_others_are_told() {
        for text in ["-999", "-9999", "9999", "-999.0", "99999"] {
            let doubts = with(text, 20);
            assert_eq!(doubts.len(), 1, "{text}");
            assert!(doubts[0].message.contains(&format!("{text} in 5 of 100")));
            assert!(doubts[0].help.contains(&format!("[\"{text}\"]")));
        }
        for text in ["99", "-998", "-1", "1000"] {
            assert_eq!(with(text, 20), [], "{text}");
        }
        assert_eq!(of(None, &|row| (900 + row).to_string()), []);
    }

    #[test]
    fn whole_numbers_of_which_32_bits_merge_some_are_told() {
        let doubts = of(None, &|row| ((1 << 30) + row * row).to_string());
        let [doubt] = &doubts[..] else {
            panic!("a doubt: {doubts:?}");
        };
        assert!(doubt.message.contains("100 different ones"), "{doubt:?}");
        assert_eq!(of(None, &|row| ((1 << 23) + row * row).to_string()), []);
        assert_eq!(of(None, &|row| (row << 40).to_string()), []);
    }

    #[test]
    fn times_of_several_units_are_told() {
        let of = |value: &dyn Fn(i64) -> i64| {
            let mut found = Profile::default();
            for row in 0..100 {
                let cell = Cell {
                    values: vec![Value::Int(value(row))],
                    list: false,
                };
                found.see(&["at".to_owned()], &[cell]);
            }
            of_times(&found, Some("at"))
        };
        let mixed = of(&|row| match row % 4 {
            0 => (1_700_000_000 + row) * 1000,
            _ => 1_700_000_000 + row,
        });
        let message = mixed.expect("a doubt").message;
        assert!(
            message.contains("75 seconds, as 17") && message.contains("25 milliseconds"),
            "{message}"
        );
        assert_eq!(of(&|row| 1_700_000_000 + row), None);
    }

    #[test]
    fn points_before_three_digits_are_told_where_no_comma_divides_the_fields() {
        let thousands = |row: usize| match row % 2 {
            0 => format!("{}.{:03}", 1 + row, row),
            _ => row.to_string(),
        };
        let doubts = of(Some(b';'), &thousands);
        assert_eq!(doubts.len(), 1);
        assert!(doubts[0].help.contains("thousands"), "{doubts:?}");
        assert_eq!(of(Some(b','), &thousands), []);
        assert_eq!(of(None, &thousands), []);
        assert_eq!(of(Some(b';'), &|row| format!("0.{:03}", 1 + row)), []);
        assert_eq!(of(Some(b';'), &|row| format!("1.{:02}", 10 + row % 80)), []);
    }
}
