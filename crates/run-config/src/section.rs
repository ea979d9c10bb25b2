//! Readers of the sections of a job file.

pub(crate) mod feature;
pub(crate) mod input;
pub(crate) mod model;
mod optimizer;
pub(crate) mod parameter_servers;
pub(crate) mod run;
pub(crate) mod strategy;
pub(crate) mod train;

use trainyard_diagnostic::{Code, Section};

/// Returns the number of `key` in single precision, the precision of models.
fn single(section: &Section<'_>, key: &'static str) -> Option<f32> {
    let number = section.number(key)?;
    let single = number as f32;
    if !single.is_finite() {
        section.fail(
            Code::E1002,
            key,
            format!("{key} must fit into 32 bits (at most 3.4e38), given {number:?}"),
        );
        return None;
    }
    Some(single)
}
