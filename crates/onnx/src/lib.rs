//! ONNX models, written without the ONNX library: the messages of the file format, and a builder of graphs.
//!
//! The crate exists so that a trained model can be exported as one file that any ONNX runtime loads. It knows nothing
//! of training: [`Graph`] takes tensors and nodes, and gives a [`ModelProto`]. Files are written for [`IR_VERSION`],
//! [`OPSET`] and [`ML_OPSET`], which onnxruntime reads since release 1.12. The messages are generated from `proto/onnx`
//! and committed; `tests/generated.rs` generates them again.
//!
//! ```
//! # fn main() -> Result<(), trainyard_onnx::Error> {
//! use trainyard_onnx::{Graph, Port, Tensor};
//!
//! let mut graph = Graph::new("double");
//! let x = graph.input(&Port::matrix("x", Tensor::Float, Some(1)));
//! let two = graph.floats("two", &[1], &[2.0]);
//! let doubled = graph.node("Mul", "double/product", &[&x, &two], []);
//! graph.output(&Port::matrix("y", Tensor::Float, Some(1)), &doubled);
//! let file = graph.finish()?;
//! assert!(!file.bytes.is_empty() && file.data.is_empty());
//! # Ok(())
//! # }
//! ```

mod attribute;
mod error;
mod file;
mod graph;
mod port;

pub use attribute::{Attribute, attribute};
pub use error::Error;
pub use file::File;
pub use generated::{AttributeProto, GraphProto, ModelProto, ValueInfoProto};
pub use graph::{Graph, Name, Operator};
pub use port::{Dimension, Port, Tensor};

/// Generated messages of package `onnx`, limited to the fields that are written.
#[allow(missing_docs, unreachable_pub, clippy::all)]
mod generated {
    include!("generated/onnx.rs");
}

/// Version of the file format.
pub const IR_VERSION: i64 = 8;
/// Version of the operators of the domain `ai.onnx`.
pub const OPSET: i64 = 17;
/// Version of the operators of the domain [`ML_DOMAIN`].
pub const ML_OPSET: i64 = 3;
/// Domain of `LabelEncoder`.
pub const ML_DOMAIN: &str = "ai.onnx.ml";
