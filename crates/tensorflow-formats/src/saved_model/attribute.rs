//! Attributes of a node.

use crate::generated::attr_value::{ListValue, Value};
use crate::generated::tensor_shape_proto::Dim;
use crate::generated::{AttrValue, DataType, TensorProto, TensorShapeProto};

/// Value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Attribute {
    /// A type.
    Type(DataType),
    /// Several types.
    Types(Vec<DataType>),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f32),
    /// Several floats.
    Floats(Vec<f32>),
    /// A flag.
    Bool(bool),
    /// A text.
    Text(String),
    /// A shape. A dimension that is absent is not known.
    Shape(Vec<Option<usize>>),
    /// Several shapes.
    Shapes(Vec<Vec<Option<usize>>>),
    /// A constant.
    Tensor(Box<TensorProto>),
}

/// Returns the message of a shape.
pub(super) fn shape_proto(shape: &[Option<usize>]) -> TensorShapeProto {
    let dim = |size: &Option<usize>| Dim {
        size: size.map_or(-1, |size| size as i64),
    };
    TensorShapeProto {
        dim: shape.iter().map(dim).collect(),
        unknown_rank: false,
    }
}

impl From<Attribute> for AttrValue {
    fn from(attribute: Attribute) -> Self {
        let list = |list: ListValue| Value::List(list);
        let value = match attribute {
            Attribute::Type(dtype) => Value::Type(dtype.into()),
            Attribute::Types(dtypes) => list(ListValue {
                r#type: dtypes.into_iter().map(i32::from).collect(),
                ..ListValue::default()
            }),
            Attribute::Int(value) => Value::I(value),
            Attribute::Float(value) => Value::F(value),
            Attribute::Floats(values) => list(ListValue {
                f: values,
                ..ListValue::default()
            }),
            Attribute::Bool(value) => Value::B(value),
            Attribute::Text(text) => Value::S(text.into_bytes()),
            Attribute::Shape(shape) => Value::Shape(shape_proto(&shape)),
            Attribute::Shapes(shapes) => list(ListValue {
                shape: shapes.iter().map(|shape| shape_proto(shape)).collect(),
                ..ListValue::default()
            }),
            Attribute::Tensor(tensor) => Value::Tensor(*tensor),
        };
        Self { value: Some(value) }
    }
}
