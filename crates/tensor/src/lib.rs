//! Arithmetic on `f32` matrices: the kernels under every layer and every optimizer.
//!
//! Matrices are row-major slices with their dimensions beside them, so that buffers live from step to step.

mod activation;
mod embedding;
mod encoding;
mod indexed_slices;
mod matrix;
mod parallel;
mod product;
mod row_product;
mod vectorize;

pub use activation::{relu, relu_backward, sigmoid, sigmoid_cross_entropy, softmax_in_place};
pub use embedding::{VectorColumns, gather, scatter_add};
pub use encoding::Encoding;
pub use indexed_slices::IndexedSlices;
pub use matrix::{
    add_bias, add_bias_relu, add_column_sums, add_first_transposed, add_second_transposed,
    multiply, multiply_first_transposed, multiply_second_transposed,
    multiply_second_transposed_columns,
};
pub use parallel::{for_rows, for_rows_of, join, threads};
pub use product::matmul;
pub use row_product::multiply_rows;
pub use vectorize::vectorize;
