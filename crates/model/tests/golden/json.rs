//! Reading the recorded cases, and comparing numbers.

use serde_json::Value;

/// The recorded file, or nothing where it is not here.
pub(crate) fn golden(name: &str) -> Option<Value> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/golden");
    let folder = std::env::var("TRAINYARD_GOLDEN").unwrap_or_else(|_| default.into());
    match std::fs::read_to_string(format!("{folder}/{name}")) {
        Ok(text) => Some(serde_json::from_str(&text).unwrap()),
        Err(_) => {
            println!("skipped: {folder}/{name} is not here");
            None
        }
    }
}

pub(crate) fn floats(value: &Value, out: &mut Vec<f32>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| floats(item, out)),
        Value::Null => {}
        Value::Bool(flag) => out.push(f32::from(u8::from(*flag))),
        Value::String(text) => out.push(text.parse().unwrap()),
        other => out.push(other.as_f64().unwrap() as f32),
    }
}

/// All numbers of nested lists.
pub(crate) fn flat(value: &Value) -> Vec<f32> {
    let mut out = Vec::new();
    floats(value, &mut out);
    out
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Says where two lists differ by more than the tolerance.
pub(crate) fn difference(given: &[f32], expected: &[f32], relative: f32, absolute: f32) -> Option<String> {
    if given.len() != expected.len() {
        return Some(format!("{} numbers, not {}", given.len(), expected.len()));
    }
    let far =
        |(given, expected): &(&f32, &f32)| (*given - *expected).abs() > absolute + relative * expected.abs();
    let wrong = given.iter().zip(expected).find(|pair| far(pair) || pair.0.is_nan());
    wrong.map(|(given, expected)| format!("{given} is not {expected}"))
}

/// Fails with every case that failed, after the count of those that passed.
pub(crate) fn report(file: &str, passed: usize, failures: &[String], apart: &[&str]) {
    println!("{file}: {passed} cases passed, {} failed, {} apart: {apart:?}", failures.len(), apart.len());
    assert!(failures.is_empty(), "{file}:\n{}", failures.join("\n"));
}
