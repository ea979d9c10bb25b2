//! Parser of decimal numbers.

use std::ops::Range;

use crate::Fraction;
use crate::cells::shown;

/// Number of digits that always fit into 64 bits.
const INT_DIGITS: usize = 18;

/// Returns the whole number of at most [`INT_DIGITS`] digits, if `text` is one.
#[inline]
fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > INT_DIGITS {
        return None;
    }
    let mut number = 0;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + u64::from(digit);
    }
    Some(number)
}

/// Returns the whole number whose digits are the first `length` of 8 bytes, if they are digits; `length` is 1 to 8.
///
/// All digits are checked at once, and joined in pairs and fours at once (D. Lemire, "Quickly parsing eight digits").
/// Numbers of different lengths take the same path.
#[inline]
fn eight_digits(bytes: [u8; 8], length: usize) -> Option<u64> {
    const ZEROS: u64 = u64::from_le_bytes([b'0'; 8]);
    const HIGH: u64 = 0xf0f0_f0f0_f0f0_f0f0;
    // The shift drops the bytes after the number. Zeros fill the places before it.
    let shift = 8 * (8 - length as u32);
    let text = u64::from_le_bytes(bytes) << shift | ZEROS.unbounded_shr(64 - shift);
    if text & HIGH != ZEROS || text.wrapping_add(0x0606_0606_0606_0606) & HIGH != ZEROS {
        return None;
    }
    let ones = text - ZEROS;
    let pairs = (ones.wrapping_mul(10)).wrapping_add(ones >> 8);
    let fours = pairs & 0x0000_00ff_0000_00ff;
    let others = (pairs >> 16) & 0x0000_00ff_0000_00ff;
    let joined = fours
        .wrapping_mul(100 + (1_000_000 << 32))
        .wrapping_add(others.wrapping_mul(1 + (10_000 << 32)));
    Some(joined >> 32)
}

/// Returns the whole number at `place` of a record, if the text consists of at most 18 digits.
#[inline]
fn short(record: &[u8], place: &Range<usize>) -> Option<u64> {
    match record[place.start..].first_chunk() {
        Some(bytes) if (1..=8).contains(&place.len()) => eight_digits(*bytes, place.len()),
        _ => digits(&record[place.clone()]),
    }
}

/// Returns the nearest float of the number at `place` of a record. The float is finite, or NaN: a missing number.
#[inline]
pub(crate) fn float_at(record: &[u8], place: Range<usize>) -> Result<f32, String> {
    match short(record, &place) {
        Some(number) => Ok(number as f32),
        None => float(&record[place]),
    }
}

/// Returns the whole number at `place` of a record; absent = NaN, a missing number.
#[inline]
pub(crate) fn int_at(
    record: &[u8],
    place: Range<usize>,
    fraction: Fraction,
) -> Result<Option<i64>, String> {
    match short(record, &place) {
        // Below 10^18.
        Some(number) => Ok(Some(number as i64)),
        None => int(&record[place], fraction),
    }
}

/// Returns the nearest float of a number. The float is finite, or NaN: a missing number.
#[inline(never)]
pub(crate) fn float(text: &[u8]) -> Result<f32, String> {
    match fast_float2::parse::<f32, _>(text) {
        Ok(number) if !number.is_infinite() => Ok(number),
        Ok(_) if has_digits(text) => Err(beyond_floats(&shown(text))),
        Ok(_) => Err(format!("{} is not a finite number", shown(text))),
        Err(_) => Err(format!("{} is not a number", shown(text))),
    }
}

/// Returns a whole number; absent = NaN, a missing number.
#[inline(never)]
pub(crate) fn int(text: &[u8], fraction: Fraction) -> Result<Option<i64>, String> {
    let (negative, rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    if let Some(number) = digits(rest) {
        return Ok(Some(if negative {
            -(number as i64)
        } else {
            number as i64
        }));
    }
    let whole = std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok());
    if whole.is_some() {
        return Ok(whole);
    }
    // A 32-bit float would round times of today by up to 64 s.
    match fast_float2::parse::<f64, _>(text) {
        Ok(number) if number.is_nan() => Ok(None),
        Ok(number) if fraction.is_dropped() => without_fraction(number, fraction).map(Some),
        Err(_) if fraction.is_dropped() => Err(format!("{} is not a number", shown(text))),
        // What the integer of 64 bits did not hold.
        _ if are_digits(rest) => Err(format!(
            "{} is beyond the whole numbers of 64 bits, which go from {} to {}",
            shown(text),
            i64::MIN,
            i64::MAX
        )),
        _ => Err(format!("{} is not a whole number", shown(text))),
    }
}

/// Returns the nearest float of 32 bits, which is finite.
pub(crate) fn narrow(number: f64) -> Result<f32, String> {
    let narrow = number as f32;
    if narrow.is_finite() {
        Ok(narrow)
    } else if number.is_finite() {
        Err(beyond_floats(&format!("{number:e}")))
    } else {
        Err(format!("{number} is not a finite number"))
    }
}

fn beyond_floats(number: &str) -> String {
    format!(
        "{number} is beyond the floats of 32 bits, which go from {:e} to {:e}",
        f32::MIN,
        f32::MAX
    )
}

/// Returns whether a text is written with digits, and no word as `inf`.
fn has_digits(text: &[u8]) -> bool {
    text.iter().any(u8::is_ascii_digit)
}

fn are_digits(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"+").unwrap_or(text);
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

/// Returns a number that is not NaN without its fraction. A time is rounded down, as those of formats with times: the second before
/// 1970 ends with it.
pub(crate) fn without_fraction(number: f64, fraction: Fraction) -> Result<i64, String> {
    match fraction {
        Fraction::Time(_) => truncated(number.floor()),
        Fraction::Dropped | Fraction::Refused => truncated(number),
    }
}

fn truncated(number: f64) -> Result<i64, String> {
    // 2^63 is the first number above the range, and the next float below -2^63 is far below it.
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    if number.is_infinite() {
        Err(format!("{number} is not a finite number"))
    } else if (-BEYOND..BEYOND).contains(&number) {
        Ok(number as i64)
    } else {
        Err(format!("{number} is beyond the whole numbers of 64 bits"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use trainyard_input_options::TimeUnit;

    use super::*;

    #[test]
    fn numbers_beyond_32_bits_are_told_as_they_are_and_infinite_ones_as_infinite() {
        for text in ["1e39", "-3.5e38", "4e200", "1e999"] {
            let told = float(text.as_bytes()).expect_err("no float of 32 bits");
            assert!(
                told.contains(text) && told.contains("beyond the floats of 32 bits"),
                "{told}"
            );
            if let Ok(number) = text.parse::<f64>()
                && number.is_finite()
            {
                let told = narrow(number).expect_err("no float of 32 bits");
                assert!(told.starts_with(&format!("{number:e} is beyond")), "{told}");
            }
        }
        for text in ["inf", "-Infinity"] {
            let told = float(text.as_bytes()).expect_err("no float of 32 bits");
            assert!(told.contains("is not a finite number"), "{told}");
            let number = text.parse().expect("a float");
            let told = narrow(number).expect_err("no float of 32 bits");
            assert!(told.contains("is not a finite number"), "{told}");
        }
        assert_eq!(narrow(f64::from(f32::MAX)), Ok(f32::MAX));
    }

    #[test]
    fn nan_is_missing_and_what_no_integer_holds_is_refused() {
        for text in ["nan", "NaN", "NAN", "-nan"] {
            assert!(float(text.as_bytes()).is_ok_and(f32::is_nan), "{text}");
            for fraction in [Fraction::Refused, Fraction::Dropped] {
                assert_eq!(int(text.as_bytes(), fraction), Ok(None), "{text}");
            }
        }
        for text in ["inf", "-inf", "1e40"] {
            assert!(float(text.as_bytes()).is_err(), "{text}");
        }
        for text in ["inf", "9223372036854775808.0", "-1e19", "1e400"] {
            assert!(int(text.as_bytes(), Fraction::Dropped).is_err(), "{text}");
        }
        assert_eq!(
            int(b"-9223372036854775808.0", Fraction::Dropped),
            Ok(Some(i64::MIN))
        );
    }

    #[test]
    fn a_whole_number_beyond_64_bits_is_called_so() {
        for text in [
            "9223372036854775808",
            "-9223372036854775809",
            "+18446744073709551616",
        ] {
            let told = int(text.as_bytes(), Fraction::Refused).expect_err("refused");
            assert!(told.contains(text) && told.contains("beyond"), "{told}");
        }
        for text in ["1.5", "x", "1e30", ""] {
            let told = int(text.as_bytes(), Fraction::Refused).expect_err("refused");
            assert!(told.ends_with("is not a whole number"), "{told}");
        }
    }

    proptest! {
        #[test]
        fn short_cuts_give_what_the_libraries_give(
            text in "[-+]{0,1}[0-9]{0,20}([.][0-9]{0,3}){0,1}(e[0-9]){0,1}",
            before in "[ -~]{0,3}",
            after in "[ -~]{0,9}",
        ) {
            let whole = text.parse::<i64>().ok();
            let near = fast_float2::parse::<f32, _>(&text).ok().filter(|number| number.is_finite());
            let long = fast_float2::parse::<f64, _>(&text).ok().filter(|number| number.abs() < 9e18);
            let record = format!("{before}{text}{after}");
            let place = before.len()..before.len() + text.len();
            prop_assert_eq!(int(text.as_bytes(), Fraction::Refused).ok().flatten(), whole);
            prop_assert_eq!(int_at(record.as_bytes(), place.clone(), Fraction::Refused).ok().flatten(), whole);
            if whole.is_some() || long.is_some() {
                prop_assert_eq!(int(text.as_bytes(), Fraction::Dropped).ok().flatten(), whole.or(long.map(|number| number as i64)));
            }
            let bits = near.map(f32::to_bits);
            prop_assert_eq!(float_at(record.as_bytes(), place).ok().map(f32::to_bits), bits);
        }

        #[test]
        fn a_time_with_a_fraction_is_that_of_the_second_in_which_it_is(time in -4_000_000_000_i64..4_000_000_000, fraction in 0..1000_u32) {
            let text = format!("{time}.{fraction:03}");
            let is_before = text.starts_with('-') && fraction > 0;
            let second = if is_before { time - 1 } else { time };
            prop_assert_eq!(int(text.as_bytes(), Fraction::Time(TimeUnit::Seconds)), Ok(Some(second)));
            prop_assert_eq!(int(text.as_bytes(), Fraction::Dropped), Ok(Some(time)));
        }

        #[test]
        fn what_follows_eight_bytes_or_fewer_is_not_read(text in "[!-~]{1,8}", after in "[ -~]{8}") {
            let record = format!("{text}{after}");
            let number = if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None };
            prop_assert_eq!(short(record.as_bytes(), &(0..text.len())), number);
        }
    }
}
