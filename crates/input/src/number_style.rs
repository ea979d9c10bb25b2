//! Numbers with decimal commas, groups of digits and units, as plain decimals.

use std::borrow::Cow;

use trainyard_input_options::NumberStyle;

use crate::cells::shown;
use crate::number::{float, int};
use crate::{Decimal, Fraction};

/// Digits between two separators of thousands.
const GROUP_DIGITS: usize = 3;

/// A number in plain decimals, and the unit that was dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainNumber<'a> {
    /// Sign, digits, a decimal point, digits, and an exponent, as far as they are there.
    pub text: Cow<'a, str>,
    /// The unit, one of those of the style.
    pub unit: Option<&'a str>,
}

/// Returns a text of this style as a plain decimal, or nothing if it is no number. Blanks may stand around the number and its
/// unit. Groups of digits must have three: `1,5` is no number where the comma is between thousands.
pub fn plain_number<'a>(style: &'a NumberStyle, text: &'a [u8]) -> Option<PlainNumber<'a>> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let (sign, rest) = split_sign(text);
    let (rest, unit) = without_unit(style, rest);
    // The sign may stand behind the unit, too: `€ -5`.
    let (sign, rest) = match sign {
        "" => split_sign(rest),
        sign => (sign, rest),
    };
    let places = |byte: u8| byte == b'e' || byte == b'E';
    let (mantissa, exponent) = match rest.bytes().position(places) {
        Some(place) => rest.split_at(place),
        None => (rest, ""),
    };
    let (whole, fraction) = match mantissa.split_once(char::from(style.decimal.byte())) {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let digits = match style.thousands {
        Some(between) if whole.contains(between) => {
            let mut groups = whole.split(between);
            let first = groups.next()?;
            let is_first = (1..=GROUP_DIGITS).contains(&first.len()) && !first.starts_with('0');
            if !is_first || !groups.all(|group| group.len() == GROUP_DIGITS) {
                return None;
            }
            Cow::Owned(whole.replace(between, ""))
        }
        _ => Cow::Borrowed(whole),
    };
    let exponent_digits = split_sign(exponent.get(1..).unwrap_or_default()).1;
    let is_number = are_digits(&digits)
        && fraction.is_none_or(are_digits)
        && digits.len() + fraction.map_or(0, str::len) > 0
        && are_digits(exponent_digits)
        && exponent.is_empty() == exponent_digits.is_empty();
    if !is_number {
        return None;
    }
    let is_plain = unit.is_none()
        && style.decimal == Decimal::Point
        && matches!(digits, Cow::Borrowed(_))
        && sign != "+";
    if is_plain {
        return Some(PlainNumber {
            text: Cow::Borrowed(text),
            unit: None,
        });
    }
    let sign = if sign == "-" { "-" } else { "" };
    let mut plain = format!("{sign}{digits}");
    if let Some(fraction) = fraction {
        plain.push('.');
        plain.push_str(fraction);
    }
    plain.push_str(exponent);
    Some(PlainNumber {
        text: Cow::Owned(plain),
        unit,
    })
}

fn split_sign(text: &str) -> (&str, &str) {
    match text.as_bytes().first() {
        Some(b'-' | b'+') => text.split_at(1),
        _ => ("", text),
    }
}

fn without_unit<'a>(style: &'a NumberStyle, text: &'a str) -> (&'a str, Option<&'a str>) {
    for unit in &style.units {
        let inside = text.strip_prefix(unit.as_str());
        if let Some(inside) = inside.or_else(|| text.strip_suffix(unit.as_str())) {
            return (inside.trim(), Some(unit));
        }
    }
    (text, None)
}

/// Returns the nearest float of a number of this style. The float is finite, or NaN: a missing number.
pub(crate) fn float_of(style: &NumberStyle, text: &[u8]) -> Result<f32, String> {
    match plain_number(style, text) {
        Some(plain) => float(plain.text.as_bytes()),
        None if is_nan(text) => Ok(f32::NAN),
        None => Err(no_number(style, text)),
    }
}

/// Returns a whole number of this style; absent = NaN, a missing number.
pub(crate) fn int_of(
    style: &NumberStyle,
    text: &[u8],
    fraction: Fraction,
) -> Result<Option<i64>, String> {
    match plain_number(style, text) {
        Some(plain) => int(plain.text.as_bytes(), fraction),
        None if is_nan(text) => Ok(None),
        None => Err(no_number(style, text)),
    }
}

fn is_nan(text: &[u8]) -> bool {
    float(text).is_ok_and(f32::is_nan)
}

fn no_number(style: &NumberStyle, text: &[u8]) -> String {
    let mut rules = vec![format!(
        "decimal = {:?}",
        char::from(style.decimal.byte()).to_string()
    )];
    if let Some(between) = style.thousands {
        rules.push(format!("thousands = {:?}", between.to_string()));
    }
    if !style.units.is_empty() {
        rules.push(format!("units = {:?}", style.units));
    }
    format!(
        "{} is not a number of [input] {}",
        shown(text),
        rules.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(decimal: Decimal, thousands: Option<char>, units: &[&str]) -> NumberStyle {
        NumberStyle {
            decimal,
            thousands,
            units: units.iter().map(|unit| (*unit).to_owned()).collect(),
        }
    }

    #[test]
    fn a_number_of_a_style_is_its_plain_decimal_and_other_texts_are_none() {
        let german = style(Decimal::Comma, Some('.'), &["€", "%"]);
        let english = style(Decimal::Point, Some(','), &["$"]);
        let french = style(Decimal::Comma, Some('\u{202f}'), &[]);
        let swiss = style(Decimal::Point, Some('\''), &["CHF"]);
        for (style, text, plain) in [
            (&german, "1.234,5", Some("1234.5")),
            (&german, "0,125", Some("0.125")),
            (&german, "-7", Some("-7")),
            (&german, "+7", Some("7")),
            (&german, ",5", Some(".5")),
            (&german, "12,5 %", Some("12.5")),
            (&german, "-1.000.000 €", Some("-1000000")),
            (&german, "1,5e-3", Some("1.5e-3")),
            (&german, "1.5", None),
            (&german, "0.125", None),
            (&german, "1,2,3", None),
            (&german, "12.5%", None),
            (&german, "", None),
            (&german, "%", None),
            (&german, "e5", None),
            (&german, "1e", None),
            (&german, "inf", None),
            (&english, "$1,234.50", Some("1234.50")),
            (&english, "-$5", Some("-5")),
            (&english, "$-5", Some("-5")),
            (&english, "1,23", None),
            (&english, "0,123", None),
            (&english, "1.5", Some("1.5")),
            (&english, "1e30", Some("1e30")),
            (&french, "1\u{202f}234,5", Some("1234.5")),
            (&swiss, "CHF 1'234.50", Some("1234.50")),
        ] {
            let found = plain_number(style, text.as_bytes());
            assert_eq!(found.as_ref().map(|found| &*found.text), plain, "{text}");
        }
        let found = plain_number(&german, b"12,5 %").expect("a number");
        assert_eq!(found.unit, Some("%"));
    }

    #[test]
    fn what_is_no_number_of_the_style_is_told_with_the_style() {
        let german = style(Decimal::Comma, Some('.'), &["%"]);
        assert_eq!(float_of(&german, b"0,5"), Ok(0.5));
        assert!(float_of(&german, b"NaN").is_ok_and(f32::is_nan));
        assert_eq!(
            float_of(&german, b"1.5"),
            Err(
                r#""1.5" is not a number of [input] decimal = ",", thousands = ".", units = ["%"]"#
                    .to_owned()
            )
        );
        assert_eq!(int_of(&german, b"1.234", Fraction::Refused), Ok(Some(1234)));
        assert!(int_of(&german, b"1,5", Fraction::Refused).is_err());
    }
}
