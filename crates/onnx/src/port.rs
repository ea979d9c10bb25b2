//! Inputs and outputs of a graph: names, types and shapes.

use crate::generated::tensor_proto::DataType;
use crate::generated::tensor_shape_proto::{Dimension as DimensionProto, dimension};
use crate::generated::{TensorShapeProto, TypeProto, ValueInfoProto, type_proto};

/// Element types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tensor {
    /// 32-bit floats.
    Float,
    /// 64-bit integers.
    Int64,
    /// Texts.
    String,
    /// 64-bit floats, used inside of a graph only.
    Double,
}

impl Tensor {
    /// Returns numpy's name of the type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Float => "float32",
            Self::Int64 => "int64",
            Self::String => "string",
            Self::Double => "float64",
        }
    }

    /// Returns the number of the type in `TensorProto.DataType`.
    pub fn number(self) -> i32 {
        let number = match self {
            Self::Float => DataType::Float,
            Self::Int64 => DataType::Int64,
            Self::String => DataType::String,
            Self::Double => DataType::Double,
        };
        number.into()
    }
}

/// A dimension of a shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dimension {
    /// A fixed length.
    Fixed(usize),
    /// A length that the caller chooses. Equal names are equal lengths.
    Any(String),
}

/// An input or output of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Name, unique among the inputs and outputs.
    pub name: String,
    /// Type of the elements.
    pub tensor: Tensor,
    /// Dimensions, outermost first.
    pub shape: Vec<Dimension>,
}

impl Port {
    /// Returns a matrix with one row per record: `batch x width`, or `batch x` any number without `width`.
    pub fn matrix(name: impl Into<String>, tensor: Tensor, width: Option<usize>) -> Self {
        let name = name.into();
        let columns = match width {
            Some(width) => Dimension::Fixed(width),
            None => Dimension::Any(format!("{name}/n")),
        };
        Self {
            name,
            tensor,
            shape: vec![Dimension::Any("batch".to_owned()), columns],
        }
    }

    pub(crate) fn value_info(&self) -> ValueInfoProto {
        let of = |length: &Dimension| DimensionProto {
            value: Some(match length {
                Dimension::Fixed(size) => dimension::Value::DimValue(*size as i64),
                Dimension::Any(name) => dimension::Value::DimParam(name.clone()),
            }),
        };
        let shape = TensorShapeProto {
            dim: self.shape.iter().map(of).collect(),
        };
        let tensor = type_proto::Tensor {
            elem_type: self.tensor.number(),
            shape: Some(shape),
        };
        let of_type = TypeProto {
            value: Some(type_proto::Value::TensorType(tensor)),
        };
        ValueInfoProto {
            name: self.name.clone(),
            r#type: Some(of_type),
        }
    }
}
