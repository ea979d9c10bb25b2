//! PLE (Tang et al. 2020, "Progressive Layered Extraction (PLE): A Novel Multi-Task Learning Model for Personalized Recommendations").
//!
//! A level has experts of each task and experts that all share. The gate of a task weighs its own and the shared experts, and the
//! shared gate, which the last level does not have, weighs all. The next level reads the mixtures; the towers read those of the last.

use super::builder::{Builder, Value};
use super::experts::{columns, experts, mixture};
use crate::Error;

pub(super) fn build(builder: &mut Builder<'_>) -> Result<Vec<Value>, Error> {
    let model = builder.model;
    let mut shared_input = builder.whole_input();
    let mut inputs = vec![shared_input; model.tasks.len()];
    for level in 0..model.expert_levels {
        let scope = format!("ple/level_{level}");
        let shared_scope = format!("{scope}/shared");
        let shared = experts(builder, &shared_scope, shared_input, model.experts)?;
        let mut all = Vec::new();
        for (task, input) in model.tasks.iter().zip(&mut inputs) {
            let scope = format!("{scope}/tasks/{}", task.name);
            let own = experts(builder, &scope, *input, model.task_experts)?;
            all.extend(&own);
            let both: Vec<Value> = own.into_iter().chain(shared.iter().copied()).collect();
            let columns = columns(builder, &scope, &both);
            *input = mixture(builder, &scope, *input, columns, both.len());
        }
        if level + 1 < model.expert_levels {
            all.extend(&shared);
            let columns = columns(builder, &shared_scope, &all);
            shared_input = mixture(builder, &shared_scope, shared_input, columns, all.len());
        }
    }
    Ok(vec![builder.logits_of_tasks(&inputs)])
}
