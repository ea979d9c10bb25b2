//! Arithmetic on `f32` matrices: the kernels under every layer and every optimizer.
//!
//! Matrices are row-major slices with their dimensions beside them, so that buffers live from step to step.

mod activation;
mod indexed_slices;
mod matrix;

pub use activation::{relu_backward, sigmoid, sigmoid_cross_entropy, softmax_in_place};
pub use indexed_slices::IndexedSlices;
pub use matrix::{
    add_bias, add_bias_relu, add_column_sums, multiply, multiply_first_transposed, multiply_second_transposed,
};
