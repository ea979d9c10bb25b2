//! What the tests of several crates need: the records of TensorFlow, and a seed that a failure can be replayed from.
//!
//! A dev-dependency only: no library or program of ours links it.

mod golden;
mod numbers;
mod seed;

pub use golden::Golden;
pub use numbers::{difference, flat, list};
pub use seed::Seed;
