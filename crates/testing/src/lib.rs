//! Support for the tests of several crates: the golden records of TensorFlow, and seeds that replay a failure.
//!
//! A dev-dependency only: no library or program links it.

mod golden;
mod numbers;
mod seed;

pub use golden::Golden;
pub use numbers::{difference, flat, list};
pub use seed::Seed;
