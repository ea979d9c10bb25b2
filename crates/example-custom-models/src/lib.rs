//! What the examples of custom models share: drawn digits to read.
//!
//! The examples are the programs `custom-mlp`, a model by hand, `custom-cnn`, a model by burn, and `make-digits`, which
//! writes data for the second. `docs/custom-models.md` walks through them.

mod digit;

pub use digit::{PIXELS, SIDE, draw};
