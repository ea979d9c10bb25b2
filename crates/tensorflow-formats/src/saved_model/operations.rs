//! TensorFlow's operations, as far as graphs use them, each with all of its attributes.

mod arithmetic;
mod arrays;
mod constants;
mod segments;
mod texts;

pub use arithmetic::{Binary, Comparison, Unary};
pub use segments::{Cross, Segments};

use super::Attribute;
use crate::generated::DataType;

/// Returns an attribute that is a type.
fn of_type(name: &'static str, dtype: DataType) -> (&'static str, Attribute) {
    (name, Attribute::Type(dtype))
}
