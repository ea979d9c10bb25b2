//! Protocol buffers of events, limited to the fields that are written. Field numbers are those of
//! `tensorflow/core/util/event.proto` and `tensorflow/core/framework/{summary,histogram,tensor}.proto`. Fields are in
//! the order of their numbers, as in other writers.

use prost::{Message, Oneof};

/// `Event`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct EventProto {
    #[prost(double, tag = "1")]
    pub(crate) wall_time: f64,
    #[prost(int64, tag = "2")]
    pub(crate) step: i64,
    #[prost(oneof = "What", tags = "3, 5, 7")]
    pub(crate) what: Option<What>,
    #[prost(message, optional, tag = "10")]
    pub(crate) source_metadata: Option<SourceMetadata>,
}

/// Kinds of events that are written.
#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum What {
    #[prost(string, tag = "3")]
    FileVersion(String),
    #[prost(message, tag = "5")]
    Summary(Summary),
    #[prost(message, tag = "7")]
    SessionLog(SessionLog),
}

/// `SourceMetadata`: the program that writes the file.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct SourceMetadata {
    #[prost(string, tag = "1")]
    pub(crate) writer: String,
}

/// `SessionLog`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct SessionLog {
    /// 1 = start, 2 = stop, 3 = checkpoint.
    #[prost(int32, tag = "1")]
    pub(crate) status: i32,
    #[prost(string, tag = "2")]
    pub(crate) checkpoint_path: String,
}

/// `Summary`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Summary {
    #[prost(message, repeated, tag = "1")]
    pub(crate) value: Vec<Value>,
}

/// `Summary.Value`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Value {
    #[prost(string, tag = "1")]
    pub(crate) tag: String,
    #[prost(oneof = "Content", tags = "2, 5, 8")]
    pub(crate) content: Option<Content>,
}

/// Content of a value.
#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Content {
    #[prost(float, tag = "2")]
    Simple(f32),
    #[prost(message, tag = "5")]
    Histogram(HistogramProto),
    #[prost(message, tag = "8")]
    Tensor(TensorProto),
}

/// `HistogramProto`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct HistogramProto {
    #[prost(double, tag = "1")]
    pub(crate) min: f64,
    #[prost(double, tag = "2")]
    pub(crate) max: f64,
    #[prost(double, tag = "3")]
    pub(crate) num: f64,
    #[prost(double, tag = "4")]
    pub(crate) sum: f64,
    #[prost(double, tag = "5")]
    pub(crate) sum_squares: f64,
    /// Upper ends of the buckets, exclusive.
    #[prost(double, repeated, tag = "6")]
    pub(crate) bucket_limit: Vec<f64>,
    #[prost(double, repeated, tag = "7")]
    pub(crate) bucket: Vec<f64>,
}

/// `TensorProto`, of strings.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorProto {
    /// 7 = string.
    #[prost(int32, tag = "1")]
    pub(crate) dtype: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) tensor_shape: Option<TensorShape>,
    #[prost(bytes = "vec", repeated, tag = "8")]
    pub(crate) string_val: Vec<Vec<u8>>,
}

/// `TensorShapeProto` of a scalar.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorShape {}
