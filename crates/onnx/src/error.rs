//! Why a model cannot be written.

/// A model that its file format cannot hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Protocol buffers hold less than 2 GiB, and texts cannot lie in another file.
    #[error("an ONNX file holds at most {most} bytes, the model needs {needed}")]
    TooLarge {
        /// Bytes of the model.
        needed: usize,
        /// Bytes that a file holds.
        most: usize,
    },
}
