//! MMoE (Ma et al. 2018, "Modeling Task Relationships in Multi-task Learning with Multi-gate Mixture-of-Experts").
//!
//! All tasks share experts. The gate of a task weighs them (equations 6 and 7), and a tower reads the mixture.

use super::builder::{Builder, Value};
use super::experts::{columns, experts, mixture};
use crate::Error;

pub(super) fn build(builder: &mut Builder<'_>) -> Result<Vec<Value>, Error> {
    let (model, whole) = (builder.model, builder.whole_input());
    let shared = experts(builder, "mmoe", whole, model.experts)?;
    let columns = columns(builder, "mmoe", &shared);
    let mixtures: Vec<Value> = model
        .tasks
        .iter()
        .map(|task| {
            let scope = format!("mmoe/tasks/{}", task.name);
            mixture(builder, &scope, whole, columns, shared.len())
        })
        .collect();
    Ok(vec![builder.logits_of_tasks(&mixtures)])
}
