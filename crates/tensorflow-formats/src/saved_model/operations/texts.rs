//! Hashes and other operations on texts.

use super::of_type;
use crate::generated::DataType;
use crate::saved_model::{Attribute, Edge, Graph};

impl Graph {
    /// Returns `Fingerprint64(text) mod buckets` of each text.
    pub fn hash_buckets(&mut self, name: &str, texts: &Edge, buckets: i64) -> Edge {
        let attributes = vec![("num_buckets", Attribute::Int(buckets))];
        self.one(
            "StringToHashBucketFast",
            name,
            &[texts],
            (attributes, DataType::DtInt64),
        )
    }

    /// Returns `Fingerprint64` of each text of a vector, as the integer with the same bits.
    pub fn fingerprints(&mut self, name: &str, texts: &Edge) -> Edge {
        let method = self.text("farmhash64");
        let attributes = vec![of_type("T", texts.dtype())];
        let bytes = self.one(
            "Fingerprint",
            &format!("{name}/bytes"),
            &[texts, &method],
            (attributes, DataType::DtUint8),
        );
        let attributes = vec![
            of_type("T", DataType::DtUint8),
            of_type("type", DataType::DtInt64),
        ];
        self.one("Bitcast", name, &[&bytes], (attributes, DataType::DtInt64))
    }

    /// Returns the decimal text of each integer.
    pub fn decimal_texts(&mut self, name: &str, integers: &Edge) -> Edge {
        let attributes = vec![
            of_type("T", integers.dtype()),
            ("fill", Attribute::Text(String::new())),
            ("precision", Attribute::Int(-1)),
            ("scientific", Attribute::Bool(false)),
            ("shortest", Attribute::Bool(false)),
            ("width", Attribute::Int(-1)),
        ];
        self.one(
            "AsString",
            name,
            &[integers],
            (attributes, DataType::DtString),
        )
    }
}
