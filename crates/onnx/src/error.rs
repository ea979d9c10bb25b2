//! Errors of writing a model.

/// A model that the file format cannot hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The model is too large. Protocol buffers hold less than 2 GiB, and texts cannot be in the second file.
    #[error("an ONNX file holds at most {most} bytes, the model needs {needed}")]
    TooLarge {
        /// Bytes of the model.
        needed: usize,
        /// Most bytes of a file.
        most: usize,
    },
}
