//! The linear part: `logits = Σ weights of a row's ids + Σ x w + bias` (`tf.compat.v1.feature_column.linear_model`).

use trainyard_feature_column::{FeatureColumns, Features};
use trainyard_run_config::{Combiner, Regularizer};
use trainyard_tensor::{add_bias, add_column_sums};
use trainyard_variable::{Access, Gradients, Initializer, Reads, Values, VariableSpec};

use crate::regularizer::add_penalty;
use crate::table::{access, lookup};

/// Scope of the variables that a part of a model adds (`tf.compat.v1.variable_scope`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VariableScope<'a> {
    /// First part of their names.
    pub name: &'a str,
    /// Optimizer group that updates them.
    pub optimizer_group: &'a str,
}

/// Indices of the variables of the linear part.
#[derive(Debug, Clone)]
pub struct LinearModel {
    units: usize,
    pub(crate) combiner: Combiner,
    pub(crate) numeric: Vec<Dense>,
    /// Index of the ids, and variable.
    pub(crate) categorical: Vec<(usize, usize)>,
    pub(crate) bias: usize,
}

/// The numbers of a feature: first column, width, variable.
#[derive(Debug, Clone)]
pub(crate) struct Dense {
    pub(crate) begin: usize,
    width: usize,
    pub(crate) variable: usize,
}

impl LinearModel {
    /// Adds the variables of the `wide` features, `<scope>/<column>/weights`, and the bias, `<scope>/bias_weights`. All
    /// start at zero.
    pub fn new(
        columns: &FeatureColumns,
        units: usize,
        combiner: Combiner,
        scope: VariableScope<'_>,
        variables: &mut Vec<VariableSpec>,
    ) -> Self {
        let VariableScope {
            name: scope,
            optimizer_group,
        } = scope;
        let mut numeric = Vec::new();
        let mut categorical = Vec::new();
        let mut add = |feature: &str, rows: usize, access: Access| {
            let name = format!("{scope}/{feature}/weights");
            variables.push(zeros(name, vec![rows, units], access, optimizer_group));
            variables.len() - 1
        };
        for column in columns.numeric.iter().filter(|column| column.wide) {
            let variable = add(&column.name, column.width, Access::Whole);
            numeric.push(Dense {
                begin: column.begin,
                width: column.width,
                variable,
            });
        }
        for (place, column) in columns
            .categorical
            .iter()
            .enumerate()
            .filter(|(_, column)| column.wide)
        {
            let variable = add(&column.name, column.buckets as usize, access(column));
            categorical.push((place, variable));
        }
        let bias = format!("{scope}/bias_weights");
        Self {
            combiner,
            numeric,
            categorical,
            ..Self::bias_only(units, bias, optimizer_group, variables)
        }
    }

    /// Makes a linear part that has only a bias of this name.
    pub(crate) fn bias_only(
        units: usize,
        name: String,
        optimizer_group: &str,
        variables: &mut Vec<VariableSpec>,
    ) -> Self {
        variables.push(zeros(name, vec![units], Access::Whole, optimizer_group));
        let numeric = Vec::new();
        let categorical = Vec::new();
        Self {
            units,
            combiner: Combiner::Sum,
            numeric,
            categorical,
            bias: variables.len() - 1,
        }
    }

    /// Adds the gradients of a penalty of all weights that a batch reads, but not of the bias.
    pub(crate) fn add_penalties(
        &self,
        regularizer: Option<Regularizer>,
        values: &Values,
        gradients: &mut Gradients,
    ) {
        let categorical = self.categorical.iter().map(|(_, variable)| *variable);
        let numeric = self.numeric.iter().map(|dense| dense.variable);
        for variable in categorical.chain(numeric) {
            add_penalty(regularizer, &values[variable], &mut gradients[variable]);
        }
    }

    /// Writes the rows that a batch reads into `reads`.
    pub fn reads(&self, features: &Features, reads: &mut Reads) {
        for &(ids, variable) in &self.categorical {
            reads[variable] = lookup(&features.ids[ids]);
        }
    }

    /// Adds the logits of the linear part, `rows x units`.
    pub fn forward(&self, features: &Features, values: &Values, logits: &mut [f32]) {
        let units = self.units;
        let width = features
            .numbers
            .len()
            .checked_div(features.rows)
            .unwrap_or(0);
        add_bias(logits, &values[self.bias]);
        for &(ids, variable) in &self.categorical {
            let ids = &features.ids[ids];
            let weights = &values[variable];
            if let (1, Some(places)) = (units, ids.one_of_each(0..features.rows)) {
                for (logit, place) in logits.iter_mut().zip(places) {
                    *logit += weights[*place as usize];
                }
                continue;
            }
            for (row, logits) in logits.chunks_exact_mut(units).enumerate() {
                ids.shares(row, self.combiner, |place, share| {
                    let weights = &weights[place * units..][..units];
                    logits
                        .iter_mut()
                        .zip(weights)
                        .for_each(|(logit, weight)| *logit += share * weight);
                });
            }
        }
        for dense in &self.numeric {
            if units == 1 && width > 0 {
                for (place, weight) in values[dense.variable].iter().enumerate() {
                    let numbers = features.numbers[dense.begin + place..]
                        .iter()
                        .step_by(width);
                    logits
                        .iter_mut()
                        .zip(numbers)
                        .for_each(|(logit, x)| *logit += x * weight);
                }
                continue;
            }
            for (row, logits) in logits.chunks_exact_mut(units).enumerate() {
                let numbers = &features.numbers[row * width + dense.begin..][..dense.width];
                for (x, weights) in numbers
                    .iter()
                    .zip(values[dense.variable].chunks_exact(units))
                {
                    logits
                        .iter_mut()
                        .zip(weights)
                        .for_each(|(logit, weight)| *logit += x * weight);
                }
            }
        }
    }

    /// Adds the gradients of the linear part, given the gradient of the logits.
    pub fn backward(&self, features: &Features, delta: &[f32], gradients: &mut Gradients) {
        let units = self.units;
        let width = features
            .numbers
            .len()
            .checked_div(features.rows)
            .unwrap_or(0);
        add_column_sums(delta, &mut gradients[self.bias]);
        for &(ids, variable) in &self.categorical {
            let ids = &features.ids[ids];
            let gradient = &mut gradients[variable];
            if let (1, Some(places)) = (units, ids.one_of_each(0..features.rows)) {
                for (delta, place) in delta.iter().zip(places) {
                    gradient[*place as usize] += delta;
                }
                continue;
            }
            for (row, delta) in delta.chunks_exact(units).enumerate() {
                ids.shares(row, self.combiner, |place, share| {
                    let gradient = &mut gradient[place * units..][..units];
                    gradient
                        .iter_mut()
                        .zip(delta)
                        .for_each(|(sum, delta)| *sum += share * delta);
                });
            }
        }
        for dense in &self.numeric {
            let gradient = &mut gradients[dense.variable];
            if units == 1 && width > 0 {
                for (place, sum) in gradient.iter_mut().enumerate() {
                    let numbers = features.numbers[dense.begin + place..]
                        .iter()
                        .step_by(width);
                    *sum += delta
                        .iter()
                        .zip(numbers)
                        .map(|(delta, x)| x * delta)
                        .sum::<f32>();
                }
                continue;
            }
            for (row, delta) in delta.chunks_exact(units).enumerate() {
                let numbers = &features.numbers[row * width + dense.begin..][..dense.width];
                for (x, gradient) in numbers.iter().zip(gradient.chunks_exact_mut(units)) {
                    gradient
                        .iter_mut()
                        .zip(delta)
                        .for_each(|(sum, delta)| *sum += x * delta);
                }
            }
        }
    }
}

fn zeros(name: String, shape: Vec<usize>, access: Access, optimizer_group: &str) -> VariableSpec {
    let optimizer_group = optimizer_group.to_owned();
    VariableSpec {
        name,
        shape,
        access,
        initializer: Initializer::Zeros,
        optimizer_group,
    }
}
