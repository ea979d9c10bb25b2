//! Arithmetic on `f32` matrices: the kernels under every layer and every optimizer.
