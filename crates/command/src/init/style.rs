//! The style of the fields of text files, found in their first lines and in the profile of their columns: the delimiter, whether the
//! first line names the columns, the decimal character, units, and words for missing numbers.

use std::collections::BTreeSet;

use trainyard_input::{ColumnProfile, Decimal, NumberStyle, Profile, plain_number};

use crate::missing_words::MISSING_WORDS;

/// Delimiters that are tried, the most usual first.
const DELIMITERS: [u8; 8] = [b',', b'\t', b';', b'|', b'^', b'~', 1, b' '];

/// Least share of the lines that have as many fields as the first one.
const ALIKE_SHARE_MIN: f64 = 0.9;

/// Units of numbers that are known.
pub(super) const UNITS: [&str; 8] = ["%", "$", "€", "£", "¥", "₹", "₩", "₽"];

/// Division of lines into fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Division {
    /// This byte is between the fields.
    By(u8),
    /// This byte is between the fields, and the first line has one field less than the others.
    LacksName(u8),
    /// No byte divides the lines into equally many fields.
    Unknown,
}

/// Returns the delimiter of lines, which is `own` unless another one fits better.
pub(super) fn division(lines: &[Vec<u8>], own: u8) -> Division {
    let width = |delimiter: u8| -> Option<usize> {
        let widths: Vec<usize> = lines
            .iter()
            .map(|line| fields(line, delimiter).len())
            .collect();
        let first = *widths.first()?;
        let alike = widths.iter().filter(|width| **width == first).count();
        (first > 1 && alike as f64 >= ALIKE_SHARE_MIN * widths.len() as f64).then_some(first)
    };
    if let Some(width_of_own) = width(own) {
        // `0,5;1` has two fields by either.
        let is_decimal = own == b','
            && width(b';').is_some_and(|width| width >= width_of_own)
            && lines.iter().all(|line| are_decimal_commas(line));
        return Division::By(if is_decimal { b';' } else { own });
    }
    let found = DELIMITERS.into_iter().filter(|other| *other != own);
    let found = found.filter_map(|other| Some((width(other)?, other)));
    // The first of the widest.
    if let Some((_, other)) = found.reduce(|best, next| if next.0 > best.0 { next } else { best }) {
        return Division::By(other);
    }
    let lacks_name = |delimiter: &u8| {
        let mut widths = lines.iter().map(|line| fields(line, *delimiter).len());
        let first = widths.next().unwrap_or_default();
        let more = widths.filter(|width| *width == first + 1).count();
        let others = lines.len().saturating_sub(1);
        first > 0 && others > 0 && more as f64 >= ALIKE_SHARE_MIN * others as f64
    };
    match DELIMITERS.iter().find(|delimiter| lacks_name(delimiter)) {
        Some(delimiter) => Division::LacksName(*delimiter),
        None => Division::Unknown,
    }
}

/// Returns whether each comma of a line is inside of a number between semicolons.
fn are_decimal_commas(line: &[u8]) -> bool {
    let style = NumberStyle {
        decimal: Decimal::Comma,
        ..NumberStyle::default()
    };
    let mut fields = fields(line, b';').into_iter();
    fields.all(|field| !field.contains(&b',') || plain_number(&style, field).is_some())
}

/// Returns the fields of a line. A delimiter in a field that begins with a quote is part of the field until the quote ends.
pub(super) fn fields(line: &[u8], delimiter: u8) -> Vec<&[u8]> {
    let mut out = Vec::new();
    let mut begin = 0;
    let mut quoted = false;
    for (place, byte) in line.iter().enumerate() {
        if *byte == b'"' {
            let is_begin = line[begin..place].trim_ascii().is_empty();
            quoted = if quoted {
                false
            } else {
                is_begin || line[place - 1] == b'"'
            };
        } else if *byte == delimiter && !quoted {
            out.push(unquoted(&line[begin..place]));
            begin = place + 1;
        }
    }
    out.push(unquoted(&line[begin..]));
    out
}

fn unquoted(field: &[u8]) -> &[u8] {
    let field = field.trim_ascii();
    let inside = field
        .strip_prefix(b"\"")
        .and_then(|field| field.strip_suffix(b"\""));
    inside.unwrap_or(field)
}

/// Returns whether the first line is a record: it holds a number, and no column has a word there and numbers alone below.
pub(super) fn begins_with_a_record(lines: &[Vec<u8>], delimiter: u8) -> bool {
    let mut rows = lines.iter().map(|line| fields(line, delimiter));
    let Some(first) = rows.next() else {
        return false;
    };
    let rows: Vec<_> = rows.collect();
    let is_number = |field: &[u8]| {
        let plain = |decimal| NumberStyle {
            decimal,
            ..NumberStyle::default()
        };
        [Decimal::Point, Decimal::Comma]
            .into_iter()
            .any(|decimal| plain_number(&plain(decimal), field).is_some())
    };
    let names_numbers = |(place, name): (usize, &&[u8])| {
        let below = rows.iter().filter_map(|row| row.get(place));
        let mut below = below.filter(|field| !field.is_empty()).peekable();
        !name.is_empty()
            && !is_number(name)
            && !is_missing_word(name)
            && below.peek().is_some()
            && below.all(|field| is_number(field))
    };
    first.iter().any(|field| is_number(field)) && !first.iter().enumerate().any(names_numbers)
}

fn is_missing_word(text: &[u8]) -> bool {
    MISSING_WORDS.iter().any(|word| word.as_bytes() == text)
}

/// How the columns of a profile write numbers, and the words among them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Writing {
    pub(super) numbers: NumberStyle,
    /// Words that stand for missing numbers.
    pub(super) missing: Vec<String>,
    /// Columns of texts that have such a word, with the first of their words.
    pub(super) missing_in_texts: Vec<(String, String)>,
    /// Columns that mix numbers with a unit and without it, or with different units, and stay texts.
    pub(super) mixed: Vec<String>,
}

/// Returns the writing by which most columns are numbers, the plainest of several. The columns were profiled with plain decimals.
pub(super) fn writing(found: &Profile, delimiter: u8) -> Writing {
    let grouped_by = |other| {
        let others = [other, ' ', '\'', '_', '\u{a0}', '\u{202f}'].map(Some);
        [None].into_iter().chain(others)
    };
    let mut point = grouped_by(',').map(|thousands| (Decimal::Point, thousands));
    let comma = grouped_by('.').map(|thousands| (Decimal::Comma, thousands));
    let plain = point.next();
    // `1,234` is a fraction where commas are not between the fields.
    let candidates: Vec<(Decimal, Option<char>)> = if delimiter == b';' {
        plain.into_iter().chain(comma).chain(point).collect()
    } else {
        plain.into_iter().chain(point).chain(comma).collect()
    };
    let mut best: Option<(usize, Writing)> = None;
    for (decimal, thousands) in candidates {
        let style = NumberStyle {
            decimal,
            thousands,
            units: UNITS.map(str::to_owned).to_vec(),
        };
        let (count, writing) = measure(found, &style);
        if best.as_ref().is_none_or(|(most, _)| count > *most) {
            best = Some((count, writing));
        }
    }
    best.map_or_else(Writing::default, |(_, writing)| writing)
}

/// Counts the columns that are numbers in a style, those with mixed units included, and collects units and words of the others.
fn measure(found: &Profile, style: &NumberStyle) -> (usize, Writing) {
    let mut units = BTreeSet::new();
    let mut mixed_units = BTreeSet::new();
    let mut missing = BTreeSet::new();
    let mut mixed = Vec::new();
    let mut count = 0;
    let columns: Vec<(&ColumnProfile, Column<'_>)> = found
        .columns
        .iter()
        .filter(|column| !column.list && column.present > 0)
        .map(|column| (column, Column::of(column, style)))
        .collect();
    for (column, read) in &columns {
        if !read.is_numeric() {
            continue;
        }
        count += 1;
        if read.is_mixed() {
            mixed.push(column.name.clone());
            mixed_units.extend(read.units.iter().map(|(unit, _)| *unit));
        }
    }
    for (_, read) in &columns {
        let has_mixed_unit = read
            .units
            .iter()
            .any(|(unit, _)| mixed_units.contains(unit));
        if read.is_numeric() && !has_mixed_unit {
            units.extend(read.units.iter().map(|(unit, _)| *unit));
            missing.extend(read.words.iter().copied());
        }
    }
    let known = style.units.iter();
    let numbers = NumberStyle {
        units: known
            .filter(|unit| units.contains(unit.as_str()))
            .cloned()
            .collect(),
        ..style.clone()
    };
    let texts = columns.iter().filter(|(_, read)| !read.is_numeric());
    let with_word = texts.filter_map(|(column, read)| {
        let word = read.words.intersection(&missing).next()?;
        Some((column.name.clone(), (*word).to_owned()))
    });
    let missing_in_texts = with_word.collect();
    let missing = missing.into_iter().map(str::to_owned).collect();
    (
        count,
        Writing {
            numbers,
            missing,
            missing_in_texts,
            mixed,
        },
    )
}

/// The values of a column, read in a style.
#[derive(Debug, Default)]
struct Column<'a> {
    numbers: u64,
    /// Numbers without a unit, other than 0.
    bare: u64,
    others: u64,
    units: Vec<(&'a str, u64)>,
    words: BTreeSet<&'a str>,
}

impl<'a> Column<'a> {
    fn of(column: &'a ColumnProfile, style: &'a NumberStyle) -> Self {
        let mut read = Self::default();
        for (value, count) in column.counts() {
            let word = std::str::from_utf8(value).ok();
            if let Some(word) = word.filter(|word| is_no_finite_number(word)) {
                read.words.insert(word);
                continue;
            }
            match plain_number(style, value).filter(|number| is_quantity(&number.text)) {
                Some(number) => {
                    read.numbers += count;
                    match number.unit {
                        Some(unit) => read.add(unit, count),
                        None if number.text.bytes().all(|byte| matches!(byte, b'0' | b'.')) => {}
                        None => read.bare += count,
                    }
                }
                None => read.others += count,
            }
        }
        read
    }

    fn add(&mut self, unit: &str, count: u64) {
        let known = UNITS.into_iter().find(|known| *known == unit);
        match self.units.iter_mut().find(|(have, _)| Some(*have) == known) {
            Some((_, have)) => *have += count,
            None => self.units.extend(known.map(|unit| (unit, count))),
        }
    }

    fn is_mixed(&self) -> bool {
        self.units.len() > 1 || !self.units.is_empty() && self.bare > 0
    }

    fn is_numeric(&self) -> bool {
        self.numbers > 0 && self.others == 0
    }
}

/// Returns whether a text among numbers stands for a missing one, or is a number that no float holds, such as `1e999`.
fn is_no_finite_number(text: &str) -> bool {
    is_missing_word(text.as_bytes()) || text.parse::<f64>().is_ok_and(f64::is_infinite)
}

/// Returns whether a plain number is no name: leading zeros and more digits than 64 bits hold are those of names.
fn is_quantity(plain: &str) -> bool {
    let digits = plain.strip_prefix('-').unwrap_or(plain);
    let has_leading_zero =
        digits.len() > 1 && digits.starts_with('0') && digits.as_bytes()[1].is_ascii_digit();
    let is_whole = digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_beyond = is_whole && plain.parse::<i64>().is_err();
    !has_leading_zero && !is_beyond
}

#[cfg(test)]
mod tests {
    use trainyard_input::{Cell, Value};

    use super::*;

    fn lines(text: &str) -> Vec<Vec<u8>> {
        text.lines().map(|line| line.as_bytes().to_vec()).collect()
    }

    #[test]
    fn the_delimiter_divides_all_lines_into_as_many_fields() {
        for (text, own, division_of_it) in [
            ("a,b\n1,2\n3,4", b',', Division::By(b',')),
            ("a;b\n1;2\n3;4", b',', Division::By(b';')),
            ("a;x;y\nred;0,5;1\nblue;-1,25;0", b',', Division::By(b';')),
            // Without a header, commas divide the lines into as many fields, too.
            ("red;0,5;1\nblue;-1,25;0", b',', Division::By(b';')),
            ("0,5;1\n-1,25;0", b',', Division::By(b';')),
            ("a\tb\n1\t2", b',', Division::By(b'\t')),
            ("a|b|c\n1|2|3", b',', Division::By(b'|')),
            ("id,tags\n1,a|b\n2,c|d", b',', Division::By(b',')),
            ("id,text\n1,\"a;b;c\"\n2,\"d\"", b',', Division::By(b',')),
            (
                "\"a;b\";c\n\"1;2\";3\n\"x\"\"y;z\";4",
                b',',
                Division::By(b';'),
            ),
            ("a b c\n1 2 3", b',', Division::By(b' ')),
            ("a,b\n1,2", b'\t', Division::By(b',')),
            ("a\n1\n2", b',', Division::Unknown),
            ("x,y\nr1,1,2\nr2,3,4", b',', Division::LacksName(b',')),
        ] {
            assert_eq!(division(&lines(text), own), division_of_it, "{text}");
        }
    }

    #[test]
    fn a_first_line_is_a_record_if_it_has_a_number_and_names_no_numbers() {
        for (text, is_record) in [
            ("a,b\n1,2", false),
            ("1,red\n2,blue", true),
            ("0.5,-1\n1,2", true),
            ("id,2019,2020\n1,7,8\n2,9,7", false),
            ("red,0\nblue,1", true),
            ("red,NaN,1\nblue,2,1", true),
            ("name,kind\nx,y", false),
        ] {
            assert_eq!(
                begins_with_a_record(&lines(text), b','),
                is_record,
                "{text}"
            );
        }
        assert!(begins_with_a_record(&lines("0,5;1\n1,5;0"), b';'));
    }

    fn profile(columns: &[&[&str]]) -> Profile {
        let names: Vec<String> = (0..columns.len()).map(|place| place.to_string()).collect();
        let mut profile = Profile::default();
        let rows = columns.first().map_or(0, |column| column.len());
        for row in 0..rows {
            let cell = |column: &&[&str]| Cell {
                values: vec![Value::Text(column[row].into())],
                list: false,
            };
            profile.see(&names, &columns.iter().map(cell).collect::<Vec<_>>());
        }
        profile
    }

    #[test]
    fn numbers_are_written_as_most_columns_become_numbers() {
        let style = |decimal, thousands, units: &[&str]| NumberStyle {
            decimal,
            thousands,
            units: units.iter().map(|unit| (*unit).to_owned()).collect(),
        };
        let plain = NumberStyle::default();
        let comma = style(Decimal::Comma, None, &[]);
        let cases: [(&[&[&str]], u8, NumberStyle); 12] = [
            (&[&["1.5", "2"], &["red", "blue"]], b',', plain.clone()),
            (&[&["0,5", "2"], &["1", "2"]], b';', comma.clone()),
            (&[&["0,5", "1,234"]], b',', comma.clone()),
            (&[&["1,234", "2,500"]], b';', comma),
            (
                &[&["1,234", "2,500"]],
                b',',
                style(Decimal::Point, Some(','), &[]),
            ),
            (
                &[&["1.234,5", "0,5"]],
                b';',
                style(Decimal::Comma, Some('.'), &[]),
            ),
            (
                &[&["12.5%", "0"]],
                b',',
                style(Decimal::Point, None, &["%"]),
            ),
            (
                &[&["$1,234.50", "$2"]],
                b',',
                style(Decimal::Point, Some(','), &["$"]),
            ),
            (
                &[&["12,5 €", "3,1 €"]],
                b';',
                style(Decimal::Comma, None, &["€"]),
            ),
            // One column with a unit and without it: nobody knows what the others mean.
            (&[&["12.5%", "0.5"], &["7%", "8%"]], b',', plain.clone()),
            (&[&["$5", "€5"]], b',', plain.clone()),
            (&[&["007", "123"], &["1,2", "x"]], b',', plain),
        ];
        for (columns, delimiter, wanted) in cases {
            let found = writing(&profile(columns), delimiter);
            assert_eq!(found.numbers, wanted, "{columns:?}");
        }
    }

    #[test]
    fn words_among_numbers_stand_for_missing_ones_and_words_among_texts_do_not() {
        let found = writing(
            &profile(&[
                &["1.5", "null", "NaN"],
                &["red", "NA", "blue"],
                &["?", "?", "?"],
            ]),
            b',',
        );
        assert_eq!(found.missing, ["NaN", "null"]);
        assert_eq!(found.missing_in_texts, []);
        let namibia = writing(
            &profile(&[&["1.5", "NA", "2"], &["NL", "NA", "DE"], &["a", "b", ""]]),
            b',',
        );
        assert_eq!(namibia.missing, ["NA"]);
        let told = [("1".to_owned(), "NA".to_owned())];
        assert_eq!(namibia.missing_in_texts, told);
        let infinite = writing(&profile(&[&["1.5", "-inf", "2"], &["Inf", "a", "b"]]), b',');
        assert_eq!(infinite.missing, ["-inf"]);
        let beyond = writing(&profile(&[&["1.5", "1e999", "-1e999", "2e308"]]), b',');
        assert_eq!(beyond.missing, ["-1e999", "1e999", "2e308"]);
        let mixed = writing(&profile(&[&["12.5%", "0.5"]]), b',');
        assert_eq!(mixed.mixed, ["0"]);
    }
}
