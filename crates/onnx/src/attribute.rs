//! Attributes of a node.

use crate::message::AttributeProto;

/// Value of an attribute, with its number in `AttributeProto.AttributeType`.
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
    out.r#type = match value {
        Attribute::Float(value) => {
            out.f = value;
            1
        }
        Attribute::Int(value) => {
            out.i = value;
            2
        }
        Attribute::Ints(values) => {
            out.ints = values;
            7
        }
        Attribute::Strings(values) => {
            out.strings = values.into_iter().map(String::into_bytes).collect();
            8
        }
    };
    out
}
