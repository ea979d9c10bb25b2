//! Tensors, and their descriptions in the index.

use crate::tensor_bundle::DType;

/// Description of a tensor in the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// The variable's name, for example `dnn/table` or `dnn/table/Adagrad`.
    pub name: String,
    /// Type of the elements.
    pub dtype: DType,
    /// Length of each dimension, outermost first; empty for a scalar.
    pub shape: Vec<usize>,
    /// Number of slices of a partitioned variable; 0 if it was saved whole.
    pub slices: usize,
}

impl TensorInfo {
    /// Returns the number of rows: the length of the first dimension, 1 for a scalar.
    pub fn rows(&self) -> usize {
        self.shape.first().copied().unwrap_or(1)
    }

    /// Returns the number of elements in a row; 1 for scalars and vectors.
    pub fn row_width(&self) -> usize {
        // The product cannot overflow: `Bundle::open` refuses shapes whose trailing dimensions have too large a
        // product.
        self.shape.iter().skip(1).product()
    }
}

/// A tensor in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Name, type and shape; `shape` has as many elements as `values`.
    pub info: TensorInfo,
    /// The elements.
    pub values: Values,
}

/// The elements of a tensor. The last dimension varies fastest.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// `float32`.
    F32(Vec<f32>),
    /// `float64`.
    F64(Vec<f64>),
    /// `int32`.
    I32(Vec<i32>),
    /// `int64`.
    I64(Vec<i64>),
    /// `uint8`.
    U8(Vec<u8>),
    /// `bool`.
    Bool(Vec<bool>),
    /// `bfloat16`, widened exactly.
    Bf16(Vec<f32>),
    /// `float16`, widened exactly.
    F16(Vec<f32>),
    /// `string`: bytes that may be invalid UTF-8.
    Strings(Vec<Vec<u8>>),
}

impl Values {
    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) | Self::Bf16(values) | Self::F16(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::I32(values) => values.len(),
            Self::I64(values) => values.len(),
            Self::U8(values) => values.len(),
            Self::Bool(values) => values.len(),
            Self::Strings(values) => values.len(),
        }
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
