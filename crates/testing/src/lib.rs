//! Support for the tests of several crates: the golden records of TensorFlow, seeds that replay a failure, and the
//! comparison of generated code with its definitions.
//!
//! A dev-dependency only: no library or program links it.

pub mod generated;
mod golden;
mod numbers;
mod seed;

pub use golden::Golden;
pub use numbers::{difference, flat, list};
pub use seed::Seed;
