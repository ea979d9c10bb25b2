//! Constants and placeholders.

use super::of_type;
use crate::generated::{DataType, TensorProto};
use crate::saved_model::attribute::shape_proto;
use crate::saved_model::{Attribute, Edge, Graph};

impl Graph {
    /// Adds an input. A dimension that is absent is not known.
    pub fn placeholder(&mut self, name: &str, dtype: DataType, shape: &[Option<usize>]) -> Edge {
        let attributes = vec![
            of_type("dtype", dtype),
            ("shape", Attribute::Shape(shape.to_vec())),
        ];
        self.one("Placeholder", name, &[], (attributes, dtype))
    }

    /// Adds a constant of floats, row-major.
    pub fn floats(&mut self, name: &str, shape: &[usize], values: &[f32]) -> Edge {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        let tensor = numbers(DataType::DtFloat, shape, bytes.collect());
        self.constant(name, DataType::DtFloat, tensor)
    }

    /// Adds a constant of doubles, row-major.
    pub fn doubles(&mut self, name: &str, shape: &[usize], values: &[f64]) -> Edge {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        let tensor = numbers(DataType::DtDouble, shape, bytes.collect());
        self.constant(name, DataType::DtDouble, tensor)
    }

    /// Adds a constant of 64-bit integers, row-major.
    pub fn integers(&mut self, name: &str, shape: &[usize], values: &[i64]) -> Edge {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        let tensor = numbers(DataType::DtInt64, shape, bytes.collect());
        self.constant(name, DataType::DtInt64, tensor)
    }

    /// Adds a constant of 32-bit integers, row-major.
    pub fn short_integers(&mut self, name: &str, shape: &[usize], values: &[i32]) -> Edge {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        let tensor = numbers(DataType::DtInt32, shape, bytes.collect());
        self.constant(name, DataType::DtInt32, tensor)
    }

    /// Adds a constant of texts, row-major.
    pub fn texts(
        &mut self,
        name: &str,
        shape: &[usize],
        values: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Edge {
        let texts = values
            .into_iter()
            .map(|value| value.as_ref().as_bytes().to_vec());
        let tensor = TensorProto {
            string_val: texts.collect(),
            ..numbers(DataType::DtString, shape, Vec::new())
        };
        self.constant(name, DataType::DtString, tensor)
    }

    /// Returns a number. Equal numbers share a constant.
    pub fn float(&mut self, value: f32) -> Edge {
        let key = [b"f".as_slice(), &value.to_le_bytes()].concat();
        if let Some(have) = self.shared.get(&key) {
            return have.clone();
        }
        let edge = self.floats(&format!("constant/{value}"), &[], &[value]);
        self.shared.insert(key, edge.clone());
        edge
    }

    /// Returns an integer. Equal integers share a constant.
    pub fn integer(&mut self, value: i64) -> Edge {
        let key = [b"i".as_slice(), &value.to_le_bytes()].concat();
        if let Some(have) = self.shared.get(&key) {
            return have.clone();
        }
        let edge = self.integers(&format!("constant/{value}"), &[], &[value]);
        self.shared.insert(key, edge.clone());
        edge
    }

    /// Returns a list of integers, for shapes and dimensions. Equal lists share a constant.
    pub fn list(&mut self, values: &[i64]) -> Edge {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        let key: Vec<u8> = b"l".iter().copied().chain(bytes).collect();
        if let Some(have) = self.shared.get(&key) {
            return have.clone();
        }
        let edge = self.integers("constant/list", &[values.len()], values);
        self.shared.insert(key, edge.clone());
        edge
    }

    /// Returns a text. Equal texts share a constant.
    pub fn text(&mut self, value: &str) -> Edge {
        let key = [b"t".as_slice(), value.as_bytes()].concat();
        if let Some(have) = self.shared.get(&key) {
            return have.clone();
        }
        let edge = self.texts("constant/text", &[], [value]);
        self.shared.insert(key, edge.clone());
        edge
    }

    /// Returns 0, or the empty text.
    pub(in crate::saved_model) fn zero(&mut self, dtype: DataType) -> Edge {
        match dtype {
            DataType::DtInt64 => self.integer(0),
            DataType::DtString => self.text(""),
            _ => self.float(0.0),
        }
    }
}

/// Returns a tensor of numbers, little-endian.
fn numbers(dtype: DataType, shape: &[usize], tensor_content: Vec<u8>) -> TensorProto {
    let known: Vec<Option<usize>> = shape.iter().copied().map(Some).collect();
    TensorProto {
        dtype: dtype.into(),
        tensor_shape: Some(shape_proto(&known)),
        tensor_content,
        ..TensorProto::default()
    }
}
