//! Fingerprints and crosses equal TensorFlow's.
#![expect(clippy::unwrap_used, reason = "a recorded case that is not as its README says fails the test")]

use serde_json::Value;
use trainyard_feature_column::{CROSS_HASH_KEY, fingerprint_concatenate};

fn golden(name: &str) -> Option<Value> {
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

fn number(value: &Value) -> u64 {
    value.as_str().unwrap().parse().unwrap()
}

#[test]
fn golden_fingerprints_are_farmhash_fingerprint64() {
    let Some(golden) = golden("fingerprint64.json") else { return };
    let mut covered = 0;
    for case in golden["cases"].as_array().unwrap() {
        let Some(text) = case["text"].as_str() else { continue };
        let hash = farmhash::fingerprint64(text.as_bytes());
        assert_eq!(hash, number(&case["farmhash64"]), "{text:?}");
        for (buckets, id) in case["fast"].as_object().unwrap() {
            assert_eq!(
                hash % buckets.parse::<u64>().unwrap(),
                id.as_u64().unwrap(),
                "{text:?} mod {buckets}"
            );
        }
        covered += 1;
    }
    println!("fingerprint64.json: {covered} texts of {} cases", golden["cases"].as_array().unwrap().len());
    assert!(covered > 100, "only {covered} texts");
}

#[test]
fn golden_crosses_are_those_of_sparse_cross_hashed() {
    let Some(golden) = golden("fingerprint64.json") else { return };
    let cases = golden["sparse_cross_hashed"].as_array().unwrap();
    for case in cases {
        // TensorFlow takes its default for a key of 0, too.
        let key = case["hash_key"].as_str().map_or(0, |key| key.parse().unwrap());
        let key = if key == 0 { CROSS_HASH_KEY } else { key };
        let keys = case["keys"].as_array().unwrap().iter();
        let hash = keys.fold(key, |hash, text| {
            fingerprint_concatenate(hash, farmhash::fingerprint64(text.as_str().unwrap().as_bytes()))
        });
        let buckets = case["num_buckets"].as_u64().unwrap();
        let modulus = if buckets == 0 { (1 << 63) - 1 } else { buckets };
        assert_eq!(hash % modulus, number(&case["id"]), "{case}");
    }
    println!("sparse_cross_hashed: {} cases", cases.len());
}
