//! Signatures: the tensors of a graph that a caller feeds and fetches.

use std::collections::BTreeMap;

use super::Edge;
use super::attribute::shape_proto;
use crate::generated::tensor_info::Encoding;
use crate::generated::{SignatureDef, TensorInfo};

/// Method of TensorFlow Serving that a signature answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// `classify`: classes and scores.
    Classify,
    /// `regress`: one output.
    Regress,
    /// `predict`: any outputs.
    Predict,
}

impl Method {
    /// Returns TensorFlow's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Classify => "tensorflow/serving/classify",
            Self::Regress => "tensorflow/serving/regress",
            Self::Predict => "tensorflow/serving/predict",
        }
    }
}

/// A signature.
#[derive(Debug, Clone, PartialEq)]
pub struct Signature {
    method: Method,
    inputs: BTreeMap<String, TensorInfo>,
    outputs: BTreeMap<String, TensorInfo>,
}

/// A shape. A dimension that is absent is not known.
type Shape = [Option<usize>];

fn described(edge: &Edge, shape: &Shape) -> TensorInfo {
    TensorInfo {
        dtype: edge.dtype().into(),
        tensor_shape: Some(shape_proto(shape)),
        encoding: Some(Encoding::Name(edge.tensor())),
    }
}

impl Signature {
    /// Returns a signature without inputs and outputs.
    pub fn new(method: Method) -> Self {
        Self {
            method,
            inputs: BTreeMap::new(),
            outputs: BTreeMap::new(),
        }
    }

    /// Adds an input.
    #[must_use]
    pub fn input(mut self, name: &str, edge: &Edge, shape: &Shape) -> Self {
        self.inputs.insert(name.to_owned(), described(edge, shape));
        self
    }

    /// Adds an output.
    #[must_use]
    pub fn output(mut self, name: &str, edge: &Edge, shape: &Shape) -> Self {
        self.outputs.insert(name.to_owned(), described(edge, shape));
        self
    }

    /// Returns the method.
    pub fn method(&self) -> Method {
        self.method
    }

    pub(super) fn into_proto(self) -> SignatureDef {
        SignatureDef {
            inputs: self.inputs,
            outputs: self.outputs,
            method_name: self.method.name().to_owned(),
        }
    }
}
