//! Purpose of a file of values.

/// Purpose of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FilePurpose {
    /// Servers go on from it.
    #[default]
    Checkpoint,
    /// Predictions are made with it. Lists of held rows are packed, and idle times are left out.
    Publication,
}
