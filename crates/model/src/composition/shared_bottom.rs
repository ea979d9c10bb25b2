//! Shared bottom (Caruana 1997, "Multitask Learning"): hidden layers that all tasks share, and a tower for each task.

use super::builder::{Builder, Value};
use crate::Error;

pub(super) fn build(builder: &mut Builder<'_>) -> Result<Vec<Value>, Error> {
    let (model, whole) = (builder.model, builder.whole_input());
    let bottom = if model.hidden_units.is_empty() {
        whole
    } else {
        builder.hidden("bottom", whole, &model.hidden_units)
    };
    let inputs = vec![bottom; model.tasks.len()];
    Ok(vec![builder.logits_of_tasks(&inputs)])
}
