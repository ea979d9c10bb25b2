//! SavedModels, written without TensorFlow: a graph in the form of TensorFlow 1, its signatures, and its saver.
//!
//! A SavedModel is a folder with `saved_model.pb` and the variables as a tensor bundle, `variables/variables`
//! ([`crate::tensor_bundle::BundleWriter`]). The writer exists so that any program that loads SavedModels can serve a
//! trained model. [`Graph`] takes nodes of TensorFlow's own operations; the functions in `operations` are all
//! operations that are used, each with its attributes.
//!
//! ```
//! use trainyard_tensorflow_formats::generated::DataType;
//! use trainyard_tensorflow_formats::saved_model::{Binary, Graph, Method, Signature};
//!
//! let mut graph = Graph::default();
//! let x = graph.placeholder("x", DataType::DtFloat, &[None, Some(1)]);
//! let two = graph.floats("two", &[], &[2.0]);
//! let doubled = graph.binary(Binary::Multiply, "doubled", &x, &two);
//! let signature = Signature::new(Method::Predict)
//!     .input("x", &x, &[None, Some(1)])
//!     .output("y", &doubled, &[None, Some(1)]);
//! let file = graph.finish([("serving_default".to_owned(), signature)]).encode();
//! assert!(!file.is_empty());
//! ```

mod attribute;
mod example_parser;
mod graph;
mod lookup_tables;
mod operations;
mod signature;
mod variables;

pub use attribute::Attribute;
pub use example_parser::{ExampleParser, ParsedExamples, Sparse};
pub use graph::{Edge, Graph, Node, SavedGraph};
pub use lookup_tables::LookupTable;
pub use operations::{Binary, Comparison, Cross, Segments, Unary};
pub use signature::{Method, Signature};
pub use variables::Variable;

/// Tag of the graph that serves (`tf.saved_model.SERVING`).
pub const SERVE: &str = "serve";
/// Name of the file of the graph.
pub const FILE: &str = "saved_model.pb";
/// Folder of the variables, and prefix of their files in it.
pub const VARIABLES: &str = "variables";
/// Version of TensorFlow whose operations a graph uses.
pub const TENSORFLOW_VERSION: &str = "2.15.0";
