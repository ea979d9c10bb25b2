//! Lists and numbers of recorded JSON, and comparison of numbers.

use serde_json::Value;

/// Returns a list.
///
/// # Panics
/// If the value is missing or not a list: every record must have the fields that its README names.
pub fn list(value: &Value) -> &[Value] {
    value
        .as_array()
        .unwrap_or_else(|| panic!("a record has a list here, not {value}"))
}

/// Returns all numbers of nested lists, or of a single number. `true` is 1, and `"NaN"`, `"Infinity"` and `"-Infinity"`
/// are these values.
///
/// # Panics
/// If there is any other value, or none.
pub fn flat(value: &Value) -> Vec<f32> {
    let mut out = Vec::new();
    append(value, &mut out);
    out
}

fn append(value: &Value, out: &mut Vec<f32>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| append(item, out)),
        Value::Bool(flag) => out.push(f32::from(u8::from(*flag))),
        other => {
            let number = other.as_f64().map(|number| number as f32);
            let number = number.or_else(|| other.as_str().and_then(|text| text.parse().ok()));
            out.push(number.unwrap_or_else(|| panic!("a record has a number here, not {other}")));
        }
    }
}

/// Describes the first difference between two lists: in length, or by more than `absolute + relative * |expected|`. A
/// value that is not finite equals only itself.
pub fn difference(given: &[f32], expected: &[f32], relative: f32, absolute: f32) -> Option<String> {
    if given.len() != expected.len() {
        return Some(format!("{} numbers, not {}", given.len(), expected.len()));
    }
    let equal = |given: f32, expected: f32| {
        if expected.is_finite() {
            (given - expected).abs() <= absolute + relative * expected.abs()
        } else {
            given == expected || (given.is_nan() && expected.is_nan())
        }
    };
    let mut pairs = given.iter().zip(expected).enumerate();
    let (place, (given, expected)) =
        pairs.find(|(_, (given, expected))| !equal(**given, **expected))?;
    Some(format!("{given} is not {expected}, at {place}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_read_in_order_out_of_nested_lists() {
        let read = flat(&json!([[1, 2.5], [], [true, "Infinity", "-Infinity"]]));
        assert_eq!(read, [1.0, 2.5, 1.0, f32::INFINITY, f32::NEG_INFINITY]);
        assert!(flat(&json!("NaN"))[0].is_nan());
    }

    #[test]
    fn what_is_missing_is_a_failure() {
        let fails = |missing: fn() -> usize| std::panic::catch_unwind(missing).is_err();
        assert!(fails(|| flat(&json!([null])).len()));
        assert!(fails(|| flat(&json!({})["key"]).len()));
        assert!(fails(|| list(&Value::Null).len()));
    }

    #[test]
    fn numbers_differ_by_more_than_the_tolerance_or_by_being_no_numbers() {
        let differ =
            |given: f32, expected: f32| difference(&[given], &[expected], 1e-2, 1e-3).is_some();
        assert!(
            !differ(100.9, 100.0)
                && differ(101.2, 100.0)
                && !differ(0.0009, 0.0)
                && differ(0.0011, 0.0)
        );
        assert!(!differ(f32::NAN, f32::NAN) && differ(1.0, f32::NAN) && differ(f32::NAN, 1.0));
        assert!(!differ(f32::INFINITY, f32::INFINITY) && differ(1.0, f32::INFINITY));
        assert!(differ(f32::NEG_INFINITY, f32::INFINITY) && differ(f32::INFINITY, 1.0));
        assert!(
            difference(&[], &[1.0], 1.0, 1.0).is_some(),
            "another length"
        );
    }
}
