//! Protocol buffers of a model, limited to the fields that are written, with the field numbers of `onnx/onnx.proto3`.

use prost::Message;

/// `ModelProto`: the content of a file.
#[derive(Clone, PartialEq, Message)]
pub struct ModelProto {
    /// Version of the format.
    #[prost(int64, tag = "1")]
    pub ir_version: i64,
    /// Name of the program that wrote the file.
    #[prost(string, tag = "2")]
    pub producer_name: String,
    /// Version of that program.
    #[prost(string, tag = "3")]
    pub producer_version: String,
    /// The graph.
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphProto>,
    /// Versions of the operators, by domain.
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSetIdProto>,
    /// Free text by name.
    #[prost(message, repeated, tag = "14")]
    pub metadata_props: Vec<StringStringEntryProto>,
}

/// `OperatorSetIdProto`.
#[derive(Clone, PartialEq, Message)]
pub struct OperatorSetIdProto {
    /// Empty for `ai.onnx`.
    #[prost(string, tag = "1")]
    pub domain: String,
    /// Version of its operators.
    #[prost(int64, tag = "2")]
    pub version: i64,
}

/// `StringStringEntryProto`.
#[derive(Clone, PartialEq, Message)]
pub struct StringStringEntryProto {
    /// Name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Text.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// `GraphProto`.
#[derive(Clone, PartialEq, Message)]
pub struct GraphProto {
    /// Nodes, in an order in which every value is computed before it is read.
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeProto>,
    /// Name of the graph.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Constants.
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<TensorProto>,
    /// Inputs of the graph.
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfoProto>,
    /// Outputs of the graph.
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfoProto>,
}

/// `NodeProto`: one operation.
#[derive(Clone, PartialEq, Message)]
pub struct NodeProto {
    /// Names of the inputs.
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    /// Names of the outputs.
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    /// Name of the node.
    #[prost(string, tag = "3")]
    pub name: String,
    /// Operator.
    #[prost(string, tag = "4")]
    pub op_type: String,
    /// Attributes.
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<AttributeProto>,
    /// Domain of the operator; empty for `ai.onnx`.
    #[prost(string, tag = "7")]
    pub domain: String,
}

/// `AttributeProto`.
#[derive(Clone, PartialEq, Message)]
pub struct AttributeProto {
    /// Name of the attribute.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Value of type 1.
    #[prost(float, tag = "2")]
    pub f: f32,
    /// Value of type 2.
    #[prost(int64, tag = "3")]
    pub i: i64,
    /// Values of type 7.
    #[prost(int64, repeated, tag = "8")]
    pub ints: Vec<i64>,
    /// Values of type 8.
    #[prost(bytes = "vec", repeated, tag = "9")]
    pub strings: Vec<Vec<u8>>,
    /// Type of the attribute, which tells the field that counts.
    #[prost(int32, tag = "20")]
    pub r#type: i32,
}

/// `TensorProto`.
#[derive(Clone, PartialEq, Message)]
pub struct TensorProto {
    /// Shape.
    #[prost(int64, repeated, tag = "1")]
    pub dims: Vec<i64>,
    /// Type of the elements ([`crate::Tensor`]).
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    /// Elements that are texts.
    #[prost(bytes = "vec", repeated, tag = "6")]
    pub string_data: Vec<Vec<u8>>,
    /// Name of the value.
    #[prost(string, tag = "8")]
    pub name: String,
    /// Elements that are numbers, row-major, little-endian.
    #[prost(bytes = "vec", tag = "9")]
    pub raw_data: Vec<u8>,
    /// Location of the elements in another file: `location`, `offset` and `length`.
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<StringStringEntryProto>,
    /// 1 if the elements are in another file.
    #[prost(int32, tag = "14")]
    pub data_location: i32,
}

/// `ValueInfoProto`.
#[derive(Clone, PartialEq, Message)]
pub struct ValueInfoProto {
    /// Name of the value.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Type of the value.
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<TypeProto>,
}

/// `TypeProto`.
#[derive(Clone, PartialEq, Message)]
pub struct TypeProto {
    /// The type.
    #[prost(oneof = "type_proto::Value", tags = "1")]
    pub value: Option<type_proto::Value>,
}

/// Content of a [`TypeProto`].
pub(crate) mod type_proto {
    /// `TypeProto.value`.
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Value {
        /// A dense tensor.
        #[prost(message, tag = "1")]
        TensorType(super::TensorTypeProto),
    }
}

/// `TypeProto.Tensor`.
#[derive(Clone, PartialEq, Message)]
pub struct TensorTypeProto {
    /// Type of the elements ([`crate::Tensor`]).
    #[prost(int32, tag = "1")]
    pub elem_type: i32,
    /// Shape.
    #[prost(message, optional, tag = "2")]
    pub shape: Option<ShapeProto>,
}

/// `TensorShapeProto`.
#[derive(Clone, PartialEq, Message)]
pub struct ShapeProto {
    /// Dimensions, outermost first.
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<DimensionProto>,
}

/// `TensorShapeProto.Dimension`.
#[derive(Clone, PartialEq, Message)]
pub struct DimensionProto {
    /// A number or a name.
    #[prost(oneof = "dimension_proto::Value", tags = "1, 2")]
    pub value: Option<dimension_proto::Value>,
}

/// Content of a [`DimensionProto`].
pub(crate) mod dimension_proto {
    /// `TensorShapeProto.Dimension.value`.
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Value {
        /// A fixed length.
        #[prost(int64, tag = "1")]
        DimValue(i64),
        /// A name for a length that is known when the graph runs.
        #[prost(string, tag = "2")]
        DimParam(String),
    }
}
