//! Tables of categorical features: with a row for each bucket, or dynamic tables.

use std::collections::BTreeMap;

use trainyard_feature_column::{Categorical, Ids};
use trainyard_optimizer::OptimizerConfig;
use trainyard_variable::{Access, DynamicTable, Read, VariableSpec};

use crate::Error;

/// Returns how a step accesses the table of a feature.
pub(crate) fn access(column: &Categorical) -> Access {
    match column.dynamic() {
        None => Access::Rows,
        Some(rules) => Access::Dynamic(DynamicTable {
            admit_after: rules.admit_after,
            expire_after_steps: rules.expire_after_steps,
            expire_after_secs: rules.expire_after_secs,
            shared_row: rules.shared_row,
        }),
    }
}

/// Returns the rows that a batch reads from the table of these ids.
pub(crate) fn lookup(ids: &Ids) -> Read {
    match &ids.fingerprints {
        None => Read::Rows(ids.unique.clone()),
        Some(fingerprints) => Read::Ids(fingerprints.clone()),
    }
}

/// Refuses optimizers that move all rows of a dynamic table at each step. They would touch rows that are not in use,
/// and rows that return would have missed steps.
///
/// # Errors
/// Names the first such table, its rule, and a remedy.
pub(crate) fn check_rules(
    variables: &[VariableSpec],
    optimizers: &BTreeMap<String, OptimizerConfig>,
) -> Result<(), Error> {
    for spec in variables.iter().filter(|spec| spec.dynamic().is_some()) {
        let Some(rule) = optimizers
            .get(&spec.optimizer_group)
            .filter(|rule| rule.moves_all_rows())
        else {
            continue;
        };
        let (kind, remedy) = match rule {
            OptimizerConfig::Adam(_) => ("adam", "set lazy = true"),
            OptimizerConfig::KerasRmsProp(_) => ("keras_rmsprop", "set a momentum, or use rmsprop"),
            _ => ("the optimizer", "use another"),
        };
        let name = &spec.name;
        let section = match spec.optimizer_group.as_str() {
            part @ ("linear" | "dnn") => format!("{part}_optimizer"),
            // Custom models have one optimizer.
            _ => "optimizer".to_owned(),
        };
        return Err(Error::Invalid(format!(
            "{kind} moves all rows at each step, which the dynamic table `{name}` cannot take: {remedy} in \
             [model.{section}]"
        )));
    }
    Ok(())
}
