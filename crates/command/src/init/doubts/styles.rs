//! Texts that look like numbers or times, in a style that no job reads: `12-`, `($5.50)`, `5cm`, `2024-01-05`.

use std::collections::{BTreeMap, BTreeSet};

use trainyard_input::{ColumnProfile, Decimal, NumberStyle, plain_number};

use super::{DISTINCT_NUMBERS_MIN, Doubt, NUMBERS_SHARE_MIN};
use crate::init::style::UNITS;

/// Most units of a column of quantities. The endings of codes are more.
const UNITS_MAX: usize = 3;

/// Most letters of a unit.
const UNIT_LETTERS_MAX: usize = 8;

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];

/// What a text looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Look {
    /// A number that the job reads.
    Number,
    TrailingMinus,
    /// A minus sign that is no hyphen: U+2212 or a dash.
    TypographicMinus,
    Brackets,
    Underscores,
    /// Digits of other scripts than ASCII, as `１２`.
    OtherDigits,
    /// A blank behind the sign, as `- 12`.
    BlankBehindSign,
    /// Blanks that are no plain spaces between the digits, as U+00A0.
    OtherBlanks,
    /// Groups of two digits before one of three, as `1,23,456`.
    IndianGroups,
    /// A bound or an estimate, as `<5` and `~5`.
    Bound,
    /// A decimal character or separator of thousands that is not that of the other numbers.
    OtherMarks,
    Unit,
    Date,
    /// A date of zeros, as `0000-00-00`.
    ZeroDate,
    /// A week or a quarter of a year, as `2023-W13`.
    Week,
    Clock,
    /// A list in brackets, as `[1, 2]`.
    List,
}

impl Look {
    fn what(self) -> What {
        match self {
            Self::Date | Self::ZeroDate | Self::Week | Self::Clock => What::Times,
            Self::List => What::Lists,
            _ => What::Numbers,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Number => "plain numbers",
            Self::TrailingMinus => "numbers with the minus sign behind them",
            Self::TypographicMinus => "numbers with a minus sign that is no hyphen",
            Self::Brackets => "numbers in brackets",
            Self::Underscores => "numbers with underscores",
            Self::OtherDigits => "numbers with digits that are not those of ASCII",
            Self::BlankBehindSign => "numbers with a blank behind the sign",
            Self::OtherBlanks => "numbers with blanks inside that are no plain spaces",
            Self::IndianGroups => "numbers with commas between groups of two digits",
            Self::Bound => "bounds and estimates",
            Self::OtherMarks => "numbers with other decimal characters or separators of thousands",
            Self::Unit => "numbers with units",
            Self::Date => "dates",
            Self::ZeroDate => "dates of zeros",
            Self::Week => "weeks or quarters of a year",
            Self::Clock => "times of the day",
            Self::List => "lists in brackets",
        }
    }

    /// Returns what to do. `is_text` are formats whose numbers are texts, which the section `input` of the job describes.
    fn remedy(self, is_text: bool) -> Option<&'static str> {
        match self {
            Self::Number => None,
            Self::Underscores | Self::OtherMarks | Self::Unit if !is_text => {
                Some("write a column of numbers of one unit into the files")
            }
            Self::OtherBlanks if !is_text => {
                Some("write a column of numbers of one unit into the files")
            }
            Self::OtherDigits => Some("write the numbers with the digits 0 to 9"),
            Self::OtherBlanks => Some(
                "input.thousands = \"\\u00a0\", or another character, reads such blanks between groups of three digits: leave out others",
            ),
            Self::IndianGroups => Some("leave out the commas between the digits"),
            Self::Bound => Some(
                "write the number alone, and into another column what it is: a bound, an estimate or a value",
            ),
            Self::TrailingMinus
            | Self::TypographicMinus
            | Self::BlankBehindSign
            | Self::Brackets => Some("write negative numbers with a hyphen before them"),
            Self::Underscores => Some(
                "input.thousands = \"_\" reads underscores between groups of three digits: leave out others",
            ),
            Self::OtherMarks => {
                Some("write all numbers in one style, which input.decimal and input.thousands name")
            }
            Self::Unit => Some(
                "input.units drops units, which is right if there is one: convert the numbers of all others, and write them without a unit",
            ),
            Self::Date => Some(
                "write dates as seconds since 1970, and give the feature `time`, as time = \"hour\"",
            ),
            Self::ZeroDate => Some("leave the field empty where there is no date"),
            Self::Week => Some(
                "write the first day of the week or quarter as seconds since 1970, or the year and the number as two columns of numbers",
            ),
            Self::List => Some(
                "write lists without brackets and quotes and with one character between the values, which `separator` of the feature names",
            ),
            Self::Clock => {
                Some("write times of the day as numbers, such as seconds since midnight")
            }
        }
    }
}

/// What the values of a column are meant as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Numbers,
    Times,
    Lists,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            Self::Numbers => "numbers",
            Self::Times => "times",
            Self::Lists => "lists",
        }
    }
}

/// Doubts texts of which nearly all look like numbers, or nearly all like times, or nearly all like lists.
pub(super) fn of_styles(
    column: &ColumnProfile,
    is_text: bool,
    numbers: &NumberStyle,
) -> Option<Doubt> {
    let counts = column.counts();
    let all: u64 = counts.iter().map(|(_, count)| count).sum();
    let mut looks: BTreeMap<Look, (u64, String)> = BTreeMap::new();
    let mut units = BTreeSet::new();
    let mut distinct = 0;
    for (value, count) in counts {
        let Ok(text) = std::str::from_utf8(value) else {
            continue;
        };
        let text = text.trim();
        let (look, unit) = match column.number(value) {
            Some(_) => (Look::Number, None),
            None => match look(text, numbers) {
                Some(found) => found,
                None => continue,
            },
        };
        distinct += 1;
        units.extend(unit.map(str::to_owned));
        let (sum, _) = looks.entry(look).or_insert_with(|| (0, text.to_owned()));
        *sum += count;
    }
    let of = |wanted: &dyn Fn(Look) -> bool| -> u64 {
        let found = looks.iter().filter(|(look, _)| wanted(**look));
        found.map(|(_, (count, _))| count).sum()
    };
    let (times, lists, quantities) = (
        of(&|look| look.what() == What::Times),
        of(&|look| look.what() == What::Lists),
        of(&|look| look.what() == What::Numbers),
    );
    let least = NUMBERS_SHARE_MIN * all as f64;
    let are_times = times as f64 >= least && times > 0;
    let are_quantities = quantities as f64 >= least
        && quantities > of(&|look| look == Look::Number)
        && distinct >= DISTINCT_NUMBERS_MIN
        && units.len() <= UNITS_MAX;
    let (what, count) = if are_times {
        (What::Times, times)
    } else if lists > 0 && lists as f64 >= least {
        (What::Lists, lists)
    } else if are_quantities {
        (What::Numbers, quantities)
    } else {
        return None;
    };
    looks.retain(|look, _| look.what() == what);
    let shown: Vec<String> = looks
        .iter()
        .map(|(look, (count, example))| {
            format!("{count} {}, as `{}`", look.name(), example.escape_debug())
        })
        .collect();
    let what = what.name();
    let message = format!(
        "{count} of {all} values of `{}` look like {what}: {}. The job takes them for names, not for {what}",
        column.name,
        shown.join("; ")
    );
    let mut remedies: Vec<&str> = looks
        .keys()
        .filter_map(|look| look.remedy(is_text))
        .collect();
    remedies.dedup();
    let help = format!(
        "{}; and run `trainyard init` again. Names may stay",
        remedies.join("; ")
    );
    Some(Doubt { message, help })
}

/// Returns what a text looks like that is no number of the style, and its unit.
fn look<'a>(text: &'a str, numbers: &NumberStyle) -> Option<(Look, Option<&'a str>)> {
    if is_date(text) {
        return Some((Look::Date, None));
    }
    if is_clock(text) {
        return Some((Look::Clock, None));
    }
    if is_date_of_zeros(text) {
        return Some((Look::ZeroDate, None));
    }
    if is_week(text) {
        return Some((Look::Week, None));
    }
    if is_list(text) {
        return Some((Look::List, None));
    }
    if let Some(look) = odd_number(text, numbers) {
        return Some((look, None));
    }
    let inside = text.strip_prefix('(');
    if let Some(inside) = inside.and_then(|text| text.strip_suffix(')')) {
        return is_quantity(inside, numbers).then_some((Look::Brackets, None));
    }
    if let Some(before) = text.strip_suffix(['-', '\u{2212}', '\u{2013}']) {
        return is_quantity(before, numbers).then_some((Look::TrailingMinus, None));
    }
    if text.contains(['\u{2212}', '\u{2013}', '\u{ff0d}']) {
        let plain = text.replacen(['\u{2212}', '\u{2013}', '\u{ff0d}'], "-", 1);
        return is_quantity(&plain, numbers).then_some((Look::TypographicMinus, None));
    }
    if text.contains('_') {
        let is_between = text.starts_with(|first: char| first != '_') && !text.ends_with('_');
        let is_number = is_between && is_quantity(&text.replace('_', ""), numbers);
        return is_number.then_some((Look::Underscores, None));
    }
    if is_number(text, numbers) {
        return Some((Look::OtherMarks, None));
    }
    let (number, unit) = parts(text)?;
    is_number(number, numbers).then_some((Look::Unit, Some(unit)))
}

/// Returns the look of a number of which a part is written in an odd way, and is a number without it.
fn odd_number(text: &str, numbers: &NumberStyle) -> Option<Look> {
    if text.contains(|one: char| ascii_digit(one).is_some()) {
        let plain: String = text
            .chars()
            .map(|one| ascii_digit(one).unwrap_or(one))
            .collect();
        return is_quantity(&plain, numbers).then_some(Look::OtherDigits);
    }
    let bound = text.strip_prefix(['<', '>', '~', '≤', '≥', '≈', '±']);
    if let Some(after) = bound {
        let after = after.strip_prefix('=').unwrap_or(after);
        return is_quantity(after, numbers).then_some(Look::Bound);
    }
    if let Some(after) = text.strip_prefix(['-', '+'])
        && after.starts_with(char::is_whitespace)
    {
        let is_number = after
            .trim()
            .starts_with(|first: char| first.is_ascii_digit());
        return (is_number && is_quantity(after, numbers)).then_some(Look::BlankBehindSign);
    }
    if text.contains(BLANKS) {
        let plain: String = text.chars().filter(|one| !BLANKS.contains(one)).collect();
        // A blank before a unit is no blank between digits.
        return is_number(&plain, numbers).then_some(Look::OtherBlanks);
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
    let groups: Vec<&str> = whole.split(',').collect();
    let are_digits =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_indian = match groups.as_slice() {
        [first, between @ .., last] if !between.is_empty() => {
            (1..=2).contains(&first.len())
                && between.iter().all(|group| group.len() == 2)
                && last.len() == 3
                && groups.iter().all(|group| are_digits(group))
                && are_digits(fraction)
        }
        _ => false,
    };
    is_indian.then_some(Look::IndianGroups)
}

/// Blanks that stand between groups of digits and are no plain spaces.
const BLANKS: [char; 4] = ['\u{a0}', '\u{202f}', '\u{2009}', '\u{2007}'];

/// Returns the character of ASCII for a digit, a point or a sign of another script: those of full width, Arabic and Devanagari.
fn ascii_digit(one: char) -> Option<char> {
    let zeros = ['\u{ff10}', '\u{660}', '\u{6f0}', '\u{966}'];
    let of_zero = |zero: char| {
        let digit = u32::from(one).checked_sub(u32::from(zero))?;
        char::from_digit(digit, 10)
    };
    match one {
        '\u{ff0e}' => Some('.'),
        '\u{ff0c}' => Some(','),
        _ => zeros.into_iter().find_map(of_zero),
    }
}

/// Returns whether a text is a date of zeros, as databases write where there is none, with or without a time of the day.
fn is_date_of_zeros(text: &str) -> bool {
    let is_zero = |part: &str| part.bytes().all(|byte| matches!(byte, b'0' | b':' | b'.'));
    let date = text.get(..10).unwrap_or_default();
    matches!(
        date,
        "0000-00-00" | "0000/00/00" | "00/00/0000" | "00.00.0000"
    ) && is_zero(text[10..].trim_start_matches([' ', 'T']))
}

/// Returns whether a text is a week or a quarter of a year: `2023-W13`, `2023-W13-2`, `2023W13`, `2023-Q1`.
fn is_week(text: &str) -> bool {
    let Some((year, rest)) = text.split_at_checked(4) else {
        return false;
    };
    let rest = rest.strip_prefix(['-', ' ']).unwrap_or(rest);
    let is_number = |text: &str, most: u32| within(text, most);
    let is_part = if let Some(week) = rest.strip_prefix('W') {
        let (week, day) = week.split_once('-').unwrap_or((week, "1"));
        week.len() == 2 && is_number(week, 53) && is_number(day, 7)
    } else {
        let quarter = rest.strip_prefix('Q');
        quarter.is_some_and(|quarter| quarter.len() == 1 && is_number(quarter, 4))
    };
    is_year(year) && is_part
}

/// Returns whether a text is a list in brackets of JSON, of Python or of a database.
fn is_list(text: &str) -> bool {
    [('[', ']'), ('{', '}')].into_iter().any(|(begin, end)| {
        let inside = text
            .strip_prefix(begin)
            .and_then(|text| text.strip_suffix(end));
        match inside.map(str::trim) {
            Some("") => begin == '[',
            Some(inside) => {
                let is_value = |part: &str| {
                    let part = part.trim();
                    let is_quoted = part.len() > 1
                        && (part.starts_with('"') && part.ends_with('"')
                            || part.starts_with('\'') && part.ends_with('\''));
                    is_quoted || part.parse::<f64>().is_ok()
                };
                let mut parts = inside.split(',');
                parts.all(is_value) && (begin == '[' || inside.contains(','))
            }
            None => false,
        }
    })
}

fn is_quantity(text: &str, numbers: &NumberStyle) -> bool {
    let text = text.trim();
    is_number(text, numbers) || parts(text).is_some_and(|(number, _)| is_number(number, numbers))
}

/// Returns whether a text is a number of the style or of a usual one, without a unit. Leading zeros are those of codes.
fn is_number(text: &str, numbers: &NumberStyle) -> bool {
    let digits = text.trim_start_matches(['-', '+']).as_bytes();
    let is_code = digits.len() > 1 && digits[0] == b'0' && digits[1].is_ascii_digit();
    let style = |decimal, thousands| NumberStyle {
        decimal,
        thousands,
        units: Vec::new(),
    };
    let usual = [
        style(numbers.decimal, numbers.thousands),
        style(Decimal::Point, Some(',')),
        style(Decimal::Comma, Some('.')),
        style(Decimal::Comma, Some(' ')),
        style(Decimal::Point, Some('\'')),
    ];
    !is_code
        && usual
            .iter()
            .any(|style| plain_number(style, text.as_bytes()).is_some())
}

/// Returns the number and the unit of a text: a sign of a currency on either side, or letters behind the number.
fn parts(text: &str) -> Option<(&str, &str)> {
    for unit in UNITS {
        let inside = text.strip_prefix(unit).or_else(|| text.strip_suffix(unit));
        if let Some(inside) = inside {
            return Some((inside.trim(), unit));
        }
    }
    let end = text.rfind(|one: char| one.is_ascii_digit())? + 1;
    let (number, unit) = text.split_at(end);
    let unit = unit.trim_start();
    let is_unit = (1..=UNIT_LETTERS_MAX).contains(&unit.chars().count())
        && unit
            .chars()
            .all(|letter| letter.is_alphabetic() || matches!(letter, '°' | '/' | '"' | '\''));
    is_unit.then_some((number, unit))
}

/// Returns whether a text begins with a year, month and day in any usual order, and has nothing behind it but a time of the day.
fn is_date(text: &str) -> bool {
    let mut tokens: Vec<&str> = text
        .split(['-', '/', '.', ' ', ','])
        .filter(|token| !token.is_empty())
        .collect();
    let is_word = |token: &&&str| token.chars().all(char::is_alphabetic);
    if tokens.first().filter(is_word).is_some() && month(tokens[0]).is_none() && tokens.len() > 3 {
        // A day of the week.
        tokens.remove(0);
    }
    let (time, last);
    let [first, second, third, rest @ ..] = tokens.as_slice() else {
        return matches!(tokens.as_slice(), [year, number] if text.contains('-')
            && number.len() == 2 && is_year(year) && within(number, 12));
    };
    (last, time) = match third.split_once('T') {
        Some((day, time)) => (day, time),
        None => (*third, ""),
    };
    let day = |token: &str| within(token, 31);
    let are_parts = if is_year(first) {
        (within(second, 12) || month(second).is_some()) && day(last)
    } else {
        let is_year_at_end =
            is_year(last) || last.len() == 2 && within(last, 99) && text.contains('/');
        let months = within(first, 12) || within(second, 12);
        is_year_at_end
            && (months && day(first) && day(second)
                || month(first).is_some() && day(second)
                || day(first) && month(second).is_some())
    };
    let is_of_time = |token: &str| {
        token.chars().all(|one| {
            one.is_ascii_digit()
                || matches!(one, ':' | '+' | 'Z' | 'A' | 'P' | 'M' | 'a' | 'p' | 'm')
        })
    };
    let has_clock = rest.iter().chain([&time]).any(|token| token.contains(':'));
    are_parts
        && is_of_time(time)
        && rest
            .iter()
            .all(|token| is_of_time(token) || matches!(*token, "UTC" | "GMT") && has_clock)
}

fn is_year(token: &str) -> bool {
    token.len() == 4 && token.parse().is_ok_and(|year| (1000..3000).contains(&year))
}

fn within(token: &str, most: u32) -> bool {
    let is_number = token.len() <= 2 && token.bytes().all(|byte| byte.is_ascii_digit());
    is_number
        && token
            .parse()
            .is_ok_and(|number| (1..=most).contains(&number))
}

fn month(token: &str) -> Option<usize> {
    let lower = token.to_lowercase();
    MONTHS
        .iter()
        .position(|month| lower.starts_with(month) && lower.chars().all(char::is_alphabetic))
}

/// Returns whether a text is hours and minutes, and maybe seconds.
fn is_clock(text: &str) -> bool {
    let parts: Vec<&str> = text.split(':').collect();
    let is_part = |part: &&str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    let [hours, rest @ ..] = parts.as_slice() else {
        return false;
    };
    let seconds = |part: &str| part.split('.').next().unwrap_or_default().to_owned();
    (1..=2).contains(&rest.len())
        && (1..=2).contains(&hours.len())
        && hours.parse().is_ok_and(|hours: u32| hours < 25)
        && rest.iter().all(|part| is_part(&seconds(part).as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<Look> {
        look(text, &NumberStyle::default()).map(|(look, _)| look)
    }

    #[test]
    fn numbers_and_times_of_other_styles_are_known_by_their_look() {
        for (text, expected) in [
            ("12-", Look::TrailingMinus),
            ("1,234.50-", Look::TrailingMinus),
            ("\u{2212}5", Look::TypographicMinus),
            ("\u{2013}0.5", Look::TypographicMinus),
            ("$\u{2212}5", Look::TypographicMinus),
            ("(5.50)", Look::Brackets),
            ("($5.50)", Look::Brackets),
            ("5_000", Look::Underscores),
            ("1_0.5", Look::Underscores),
            ("1,5", Look::OtherMarks),
            ("1.234,5", Look::OtherMarks),
            ("$5.50", Look::Unit),
            ("5 €", Look::Unit),
            ("5cm", Look::Unit),
            ("-5.5 in", Look::Unit),
            ("10km/h", Look::Unit),
            ("2024-01-05", Look::Date),
            ("2024/1/5", Look::Date),
            ("05/01/2024", Look::Date),
            ("5.1.2024", Look::Date),
            ("1/5/24", Look::Date),
            ("5 Jan 2024", Look::Date),
            ("January 5, 2024", Look::Date),
            ("05-JAN-2024", Look::Date),
            ("Fri, 5 Jan 2024 10:00:00 +0100", Look::Date),
            ("2024-01-05T10:00:00.123Z", Look::Date),
            ("2024-01-05 10:00:00 UTC", Look::Date),
            ("2024-01", Look::Date),
            ("10:30", Look::Clock),
            ("- 12", Look::BlankBehindSign),
            ("-\u{a0}1.5", Look::BlankBehindSign),
            ("~5", Look::Bound),
            ("<5", Look::Bound),
            (">= 5.5", Look::Bound),
            ("\u{2264}1,000", Look::Bound),
            ("1\u{a0}234", Look::OtherBlanks),
            ("1\u{202f}234\u{202f}567.5", Look::OtherBlanks),
            ("1,23,456", Look::IndianGroups),
            ("-12,34,56,789.50", Look::IndianGroups),
            ("\u{ff11}\u{ff12}", Look::OtherDigits),
            ("\u{661}\u{662}.5", Look::OtherDigits),
            ("0000-00-00", Look::ZeroDate),
            ("0000-00-00 00:00:00", Look::ZeroDate),
            ("2023-W13", Look::Week),
            ("2023W13", Look::Week),
            ("2023-W13-7", Look::Week),
            ("2023-Q4", Look::Week),
            ("[1,2]", Look::List),
            ("[]", Look::List),
            ("[0.5]", Look::List),
            ("['a', 'b']", Look::List),
            ("{1,2}", Look::List),
            ("9:30:15.5", Look::Clock),
        ] {
            assert_eq!(found(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "-",
            "a",
            "A12",
            "007",
            "007-",
            "18-24",
            "1.2.3",
            "10.0.0.1",
            "555-0100",
            "2019-20",
            "12_",
            "_12",
            "()",
            "cm",
            "13/13/2024",
            "a:b",
            "1:2:3:4",
            "may",
            "2024-01-05-7-x",
            "<b>",
            "~",
            "- a",
            "12,34,567,8",
            "2023-W54",
            "2023-Q5",
            "[a",
            "[north]",
            "{x}",
            "10\u{a0}km\u{a0}east",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }
}
