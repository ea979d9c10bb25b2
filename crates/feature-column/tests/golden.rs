//! Fingerprints and crosses compared with TensorFlow's.
#![expect(
    clippy::unwrap_used,
    reason = "a recorded case that is not as its README says fails the test"
)]

use serde_json::Value;
use trainyard_feature_column::{CROSS_HASH_KEY, fingerprint_concatenate, fingerprint64};
use trainyard_testing::{Golden, list};

fn number(value: &Value) -> u64 {
    value.as_str().unwrap().parse().unwrap()
}

/// Decodes standard base64.
fn decode(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |byte: u8| DIGITS.iter().position(|digit| *digit == byte).unwrap() as u32;
    let quads = text
        .trim_end_matches('=')
        .as_bytes()
        .chunks(4)
        .flat_map(|quad| {
            let bits = quad.iter().fold(0, |bits, byte| bits << 6 | digit(*byte))
                << (6 * (4 - quad.len()));
            bits.to_be_bytes()[1..quad.len()].to_vec()
        });
    quads.collect()
}

#[test]
fn golden_fingerprints_are_equal_for_texts_of_every_length() {
    let golden = Golden::find();
    let cases = golden.cases("fingerprint64_lengths.json", "cases");
    let mut equal = 0;
    let mut wrong = Vec::new();
    for case in &cases {
        let text = case["text"].as_str().unwrap().as_bytes();
        if fingerprint64(text) == number(&case["farmhash64"]) {
            equal += 1
        } else {
            wrong.push(text.len())
        }
    }
    golden.assert_counts("fingerprint64_lengths.json", &[("equal", equal, 565)]);
    assert!(
        wrong.is_empty(),
        "texts of these lengths have another fingerprint: {wrong:?}"
    );
}

#[test]
fn golden_fingerprints_and_buckets_are_those_of_farmhash() {
    let golden = Golden::find();
    let cases = golden.cases("fingerprint64.json", "cases");
    let mut buckets = 0;
    for case in &cases {
        let bytes = decode(case["b64"].as_str().unwrap());
        assert_eq!(bytes.len() as u64, case["len"].as_u64().unwrap(), "{case}");
        let hash = fingerprint64(&bytes);
        assert_eq!(hash, number(&case["farmhash64"]), "{case}");
        for (count, id) in case["fast"].as_object().unwrap() {
            assert_eq!(
                hash % count.parse::<u64>().unwrap(),
                id.as_u64().unwrap(),
                "{case} mod {count}"
            );
            buckets += 1;
        }
    }
    let counts = [
        ("equal", cases.len(), 152),
        ("buckets equal", buckets, 152 * 11),
    ];
    golden.assert_counts("fingerprint64.json, cases", &counts);
}

#[test]
fn golden_whole_numbers_have_the_buckets_of_their_text() {
    let golden = Golden::find();
    let cases = golden.cases("fingerprint64.json", "ints");
    for case in &cases {
        let text = number_text(&case["value"]);
        assert_eq!(text, case["as_string"].as_str().unwrap(), "{case}");
        assert_eq!(
            fingerprint64(text.as_bytes()) % 1000,
            case["fast_1000"].as_u64().unwrap(),
            "{case}"
        );
    }
    golden.assert_counts("fingerprint64.json, ints", &[("equal", cases.len(), 10)]);
}

/// Returns the decimal text of an i64 that is recorded as text.
fn number_text(value: &Value) -> String {
    value.as_str().unwrap().parse::<i64>().unwrap().to_string()
}

#[test]
fn golden_crosses_are_those_of_sparse_cross_hashed() {
    let golden = Golden::find();
    let cases = golden.cases("fingerprint64.json", "sparse_cross_hashed");
    for case in &cases {
        // TensorFlow also uses its default for a key of 0.
        let key = case["hash_key"]
            .as_str()
            .map_or(0, |key| key.parse().unwrap());
        let key = if key == 0 { CROSS_HASH_KEY } else { key };
        let hash = list(&case["keys"]).iter().fold(key, |hash, text| {
            fingerprint_concatenate(hash, fingerprint64(text.as_str().unwrap().as_bytes()))
        });
        let buckets = case["num_buckets"].as_u64().unwrap();
        let modulus = if buckets == 0 { (1 << 63) - 1 } else { buckets };
        assert_eq!(hash % modulus, number(&case["id"]), "{case}");
    }
    golden.assert_counts(
        "fingerprint64.json, sparse_cross_hashed",
        &[("equal", cases.len(), 72)],
    );
}
