//! Datatypes of the Open Inference Protocol, and the values that each has.

use std::ops::RangeInclusive;

use trainyard_input::Given;

use crate::text::shown;

/// A type of the values of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Datatype {
    pub(crate) name: &'static str,
    /// Bytes of a value; 0 = a text of any length.
    pub(crate) bytes: usize,
}

const fn datatype(name: &'static str, bytes: usize) -> Datatype {
    Datatype { name, bytes }
}

/// All datatypes.
const ALL: [Datatype; 12] = [
    datatype("BOOL", 1),
    datatype("UINT8", 1),
    datatype("UINT16", 2),
    datatype("UINT32", 4),
    datatype("UINT64", 8),
    datatype("INT8", 1),
    datatype("INT16", 2),
    datatype("INT32", 4),
    datatype("INT64", 8),
    datatype("FP32", 4),
    datatype("FP64", 8),
    datatype("BYTES", 0),
];

impl Datatype {
    /// Returns the datatype of a name.
    ///
    /// # Errors
    /// There is none. The message says which there are.
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        let found = ALL.into_iter().find(|datatype| datatype.name == name);
        found.ok_or_else(|| {
            let names = ALL.map(|datatype| datatype.name);
            let name = shown(name);
            format!("unknown datatype `{name}`; datatypes: {}", names.join(", "))
        })
    }

    /// Returns the whole numbers that are values; nothing for floats and texts.
    fn range(self) -> Option<RangeInclusive<i128>> {
        let bits = 8 * self.bytes as u32;
        match self.name {
            "BOOL" => Some(0..=1),
            "FP32" | "FP64" | "BYTES" => None,
            name if name.starts_with('U') => Some(0..=(1 << bits) - 1),
            _ => Some(-(1 << (bits - 1))..=(1 << (bits - 1)) - 1),
        }
    }

    /// Checks that a value is one of the datatype.
    ///
    /// # Errors
    /// The value is not of the datatype: the message has both.
    pub(crate) fn check(self, value: Given<'_>) -> Result<(), String> {
        let is_text = matches!(value, Given::Text(_));
        let is_value = match self.range() {
            Some(range) => whole(value).is_some_and(|number| range.contains(&number)),
            None => is_text == (self.name == "BYTES"),
        };
        if is_value {
            return Ok(());
        }
        Err(self.is_none(value))
    }

    /// Returns a number of JSON as a float of 32 bits. Decimals are rounded once.
    ///
    /// # Errors
    /// No such float is the number.
    pub(crate) fn float(self, value: Given<'_>) -> Result<f32, String> {
        let float = match value {
            Given::Int(number) => number as f32,
            Given::Decimal(text) => text.parse().map_err(|_| self.is_none(value))?,
            Given::Float(number) => number,
            // The word `NaN`, which bytes of a tensor may be, too: the column says what it means.
            Given::Double(number) if number.is_nan() => return Ok(f32::NAN),
            Given::Double(_) | Given::Text(_) => return Err(self.is_none(value)),
        };
        if !float.is_finite() {
            return Err(self.is_beyond(value, f32::MAX));
        }
        let wide = f64::from(float);
        match whole(value) {
            // Clients write a float by the fewest digits that are enough for 32 bits, or for 64.
            Some(number) if wide as i128 != number => {
                let digits = number.to_string();
                let is_written = [float.to_string(), wide.to_string()].contains(&digits);
                is_written
                    .then_some(float)
                    .ok_or_else(|| self.is_near(number, float))
            }
            _ => Ok(float),
        }
    }

    /// Returns a number of JSON as a float of 64 bits. Decimals are rounded once.
    ///
    /// # Errors
    /// No such float is the number.
    pub(crate) fn double(self, value: Given<'_>) -> Result<f64, String> {
        let double = match value {
            Given::Int(number) => number as f64,
            Given::Decimal(text) => text.parse().map_err(|_| self.is_none(value))?,
            Given::Float(number) => number.into(),
            Given::Double(number) if number.is_nan() => return Ok(number),
            Given::Double(number) => number,
            Given::Text(_) => return Err(self.is_none(value)),
        };
        if !double.is_finite() {
            return Err(self.is_beyond(value, f64::MAX));
        }
        match whole(value) {
            Some(number) if double as i128 != number => {
                let is_written = double.to_string() == number.to_string();
                is_written
                    .then_some(double)
                    .ok_or_else(|| self.is_near(number, double))
            }
            _ => Ok(double),
        }
    }

    fn is_none(self, value: Given<'_>) -> String {
        format!("{} is no {}, which is {self}", told(value), self.name)
    }

    fn is_beyond(self, value: Given<'_>, most: impl std::fmt::LowerExp) -> String {
        let (value, name) = (told(value), self.name);
        format!("{value} is no {name}, whose numbers are from -{most:e} to {most:e}")
    }

    fn is_near(self, number: i128, near: impl std::fmt::Display) -> String {
        let name = self.name;
        format!("{number} is no {name}: the nearest one is {near}")
    }

    /// Checks that `true` and `false` are values of the datatype.
    ///
    /// # Errors
    /// They are not.
    pub(crate) fn check_bool(self, value: bool) -> Result<(), String> {
        if self.name == "BOOL" {
            return Ok(());
        }
        Err(format!("{value} is no {}, which is {self}", self.name))
    }
}

/// Returns a number that is written without a fraction.
fn whole(value: Given<'_>) -> Option<i128> {
    match value {
        Given::Int(number) => Some(number.into()),
        Given::Decimal(text) => text.parse().ok(),
        Given::Float(_) | Given::Double(_) | Given::Text(_) => None,
    }
}

/// Returns a value for a message.
fn told(value: Given<'_>) -> String {
    match value {
        Given::Int(number) => number.to_string(),
        Given::Decimal(text) => shown(text),
        Given::Float(number) => number.to_string(),
        Given::Double(number) => number.to_string(),
        Given::Text(text) => format!("the text `{}`", shown(&String::from_utf8_lossy(text))),
    }
}

/// Returns the message that a value of UINT64 is larger than every number of a column.
pub(crate) fn beyond_int64(number: &str) -> String {
    let most = i64::MAX;
    format!(
        "{} is beyond the numbers of INT64, which are at most {most}: a column of texts takes its digits as BYTES",
        shown(number)
    )
}

impl std::fmt::Display for Datatype {
    /// Writes the values.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.range() {
            Some(_) if self.name == "BOOL" => write!(out, "true, false, 1 or 0"),
            Some(range) => write!(
                out,
                "a whole number from {} to {}",
                range.start(),
                range.end()
            ),
            None if self.bytes == 0 => write!(out, "a text"),
            None => write!(out, "a number"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_datatype_has_its_values_and_no_others() {
        // Bounds of whole numbers, as the names of the types say them.
        let ranges: [(&str, i128, i128); 9] = [
            ("BOOL", 0, 1),
            ("UINT8", 0, 255),
            ("UINT16", 0, 65_535),
            ("UINT32", 0, 4_294_967_295),
            ("UINT64", 0, 18_446_744_073_709_551_615),
            ("INT8", -128, 127),
            ("INT16", -32_768, 32_767),
            ("INT32", -2_147_483_648, 2_147_483_647),
            (
                "INT64",
                -9_223_372_036_854_775_808,
                9_223_372_036_854_775_807,
            ),
        ];
        for (name, least, most) in ranges {
            let datatype = Datatype::named(name).expect(name);
            let check = |number: i128| match i64::try_from(number) {
                Ok(number) => datatype.check(Given::Int(number)),
                Err(_) => datatype.check(Given::Decimal(&number.to_string())),
            };
            for good in [least, most, 1] {
                check(good).unwrap_or_else(|reason| panic!("{name} {good}: {reason}"));
            }
            for bad in [least - 1, most + 1] {
                let reason = check(bad).expect_err(name);
                assert!(
                    reason.contains(&bad.to_string()) && reason.contains(name),
                    "{reason}"
                );
            }
            for bad in [
                Given::Decimal("1.5"),
                Given::Decimal("1.0"),
                Given::Float(1.0),
                Given::Double(1.0),
                Given::Text(b"1"),
            ] {
                datatype.check(bad).expect_err(name);
            }
            assert_eq!(datatype.check_bool(true).is_ok(), name == "BOOL", "{name}");
        }
        for name in ["FP32", "FP64"] {
            let datatype = Datatype::named(name).expect(name);
            for good in [
                Given::Int(300),
                Given::Decimal("1.5"),
                Given::Float(0.5),
                Given::Double(0.5),
            ] {
                datatype.check(good).expect(name);
            }
            datatype.check(Given::Text(b"1")).expect_err(name);
            datatype.check_bool(true).expect_err(name);
        }
        let texts = Datatype::named("BYTES").expect("texts");
        texts.check(Given::Text(b"a")).expect("a text");
        texts.check(Given::Int(1)).expect_err("a number");
        texts.check_bool(false).expect_err("a bool");
        assert_eq!(ranges.len() + 3, ALL.len());
        Datatype::named("FP16").expect_err("it is not read");
    }
}
