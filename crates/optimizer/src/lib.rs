//! Update rules: pure arithmetic on slices of values, slots and gradients.

mod config;

pub use config::OptimizerConfig;
