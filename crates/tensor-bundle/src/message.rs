//! Protocol buffers of a bundle, limited to the fields that are read.
//!
//! From `tensor_bundle.proto`, `tensor_shape.proto`, `tensor_slice.proto` and `versions.proto` of TensorFlow.

use prost::Message;

/// `BundleHeaderProto`, the value of the empty key.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct BundleHeader {
    #[prost(int32, tag = "1")]
    pub(crate) num_shards: i32,
    #[prost(int32, tag = "2")]
    pub(crate) endianness: i32,
    #[prost(message, optional, tag = "3")]
    pub(crate) version: Option<VersionDef>,
}

/// `VersionDef`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct VersionDef {
    #[prost(int32, tag = "1")]
    pub(crate) producer: i32,
    #[prost(int32, tag = "2")]
    pub(crate) min_consumer: i32,
    #[prost(int32, repeated, tag = "3")]
    pub(crate) bad_consumers: Vec<i32>,
}

/// `BundleEntryProto`, the value of every other key.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct BundleEntry {
    #[prost(int32, tag = "1")]
    pub(crate) dtype: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) shape: Option<TensorShape>,
    #[prost(int32, tag = "3")]
    pub(crate) shard_id: i32,
    #[prost(int64, tag = "4")]
    pub(crate) offset: i64,
    #[prost(int64, tag = "5")]
    pub(crate) size: i64,
    #[prost(fixed32, tag = "6")]
    pub(crate) crc32c: u32,
    #[prost(message, repeated, tag = "7")]
    pub(crate) slices: Vec<TensorSlice>,
}

/// `TensorShapeProto`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorShape {
    #[prost(message, repeated, tag = "2")]
    pub(crate) dim: Vec<Dimension>,
    #[prost(bool, tag = "3")]
    pub(crate) unknown_rank: bool,
}

/// `TensorShapeProto.Dim`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Dimension {
    #[prost(int64, tag = "1")]
    pub(crate) size: i64,
}

/// `TensorSliceProto`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorSlice {
    #[prost(message, repeated, tag = "1")]
    pub(crate) extent: Vec<Extent>,
}

/// `TensorSliceProto.Extent`. Without a length it covers the whole dimension.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Extent {
    #[prost(int64, tag = "1")]
    pub(crate) start: i64,
    #[prost(int64, optional, tag = "2")]
    pub(crate) length: Option<i64>,
}
