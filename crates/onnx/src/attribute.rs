//! Attributes of a node.

use crate::generated::AttributeProto;
use crate::generated::attribute_proto::AttributeType;

/// Value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Attribute {
    /// A float.
    Float(f32),
    /// An integer.
    Int(i64),
    /// Several integers.
    Ints(Vec<i64>),
    /// Several texts.
    Strings(Vec<String>),
}

/// Makes an attribute with this name.
pub fn attribute(name: &str, value: Attribute) -> AttributeProto {
    let mut out = AttributeProto {
        name: name.to_owned(),
        ..AttributeProto::default()
    };
    let kind = match value {
        Attribute::Float(value) => {
            out.f = value;
            AttributeType::Float
        }
        Attribute::Int(value) => {
            out.i = value;
            AttributeType::Int
        }
        Attribute::Ints(values) => {
            out.ints = values;
            AttributeType::Ints
        }
        Attribute::Strings(values) => {
            out.strings = values.into_iter().map(String::into_bytes).collect();
            AttributeType::Strings
        }
    };
    out.set_type(kind);
    out
}
