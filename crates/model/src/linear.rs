//! The linear part: `logits = Σ weights of a row's ids + Σ x w + bias` (`tf.compat.v1.feature_column.linear_model`).

use trainyard_feature_column::{FeatureColumns, Features};
use trainyard_tensor::{add_bias, add_column_sums};
use trainyard_variable::{Access, Gradients, Initializer, Read, Reads, Values, VariableSpec};

/// Optimizer group of the linear part.
pub(crate) const GROUP: &str = "linear";

/// Which variables the linear part has, by index.
#[derive(Debug, Clone)]
pub(crate) struct Linear {
    units: usize,
    /// (numeric feature, variable).
    numeric: Vec<(usize, usize)>,
    /// (categorical feature, variable).
    categorical: Vec<(usize, usize)>,
    bias: usize,
}

impl Linear {
    /// Adds the variables of the part, zeros all, in order of name.
    pub(crate) fn new(columns: &FeatureColumns, units: usize, variables: &mut Vec<VariableSpec>) -> Self {
        let mut add = |name: String, rows: usize, access: Access| {
            let shape = vec![rows, units];
            let optimizer_group = GROUP.to_owned();
            variables.push(VariableSpec {
                name,
                shape,
                access,
                initializer: Initializer::Zeros,
                optimizer_group,
            });
            variables.len() - 1
        };
        let name = |feature: &str| format!("linear/linear_model/{feature}/weights");
        let numeric = columns.numeric.iter().enumerate().filter(|(_, column)| column.wide);
        let numeric =
            numeric.map(|(place, column)| (place, add(name(&column.name), 1, Access::Whole))).collect();
        let categorical = columns.categorical.iter().enumerate().filter(|(_, column)| column.wide);
        let categorical = categorical
            .map(|(place, column)| (place, add(name(&column.name), column.buckets as usize, Access::Rows)))
            .collect();
        let shape = vec![units];
        variables.push(VariableSpec {
            name: "linear/linear_model/bias_weights".to_owned(),
            shape,
            access: Access::Whole,
            initializer: Initializer::Zeros,
            optimizer_group: GROUP.to_owned(),
        });
        Self { units, numeric, categorical, bias: variables.len() - 1 }
    }

    pub(crate) fn reads(&self, features: &Features, reads: &mut Reads) {
        for &(feature, variable) in &self.categorical {
            reads[variable] = Read::Rows(features.ids[feature].unique.clone());
        }
    }

    /// Adds the part's logits, `rows x units`.
    pub(crate) fn forward(&self, features: &Features, values: &Values, logits: &mut [f32]) {
        let (units, width) = (self.units, features.numbers.len().checked_div(features.rows).unwrap_or(0));
        add_bias(logits, &values[self.bias]);
        for &(feature, variable) in &self.categorical {
            let (ids, weights) = (&features.ids[feature], &values[variable]);
            for (row, logits) in logits.chunks_exact_mut(units).enumerate() {
                for &place in ids.of_row(row) {
                    let weights = &weights[place as usize * units..][..units];
                    logits.iter_mut().zip(weights).for_each(|(logit, weight)| *logit += weight);
                }
            }
        }
        for &(feature, variable) in &self.numeric {
            for (row, logits) in logits.chunks_exact_mut(units).enumerate() {
                let x = features.numbers[row * width + feature];
                logits.iter_mut().zip(&values[variable]).for_each(|(logit, weight)| *logit += x * weight);
            }
        }
    }

    /// Writes the part's gradients, given that of the logits.
    pub(crate) fn backward(&self, features: &Features, delta: &[f32], gradients: &mut Gradients) {
        let (units, width) = (self.units, features.numbers.len().checked_div(features.rows).unwrap_or(0));
        add_column_sums(delta, &mut gradients[self.bias]);
        for &(feature, variable) in &self.categorical {
            let (ids, gradient) = (&features.ids[feature], &mut gradients[variable]);
            for (row, delta) in delta.chunks_exact(units).enumerate() {
                for &place in ids.of_row(row) {
                    let gradient = &mut gradient[place as usize * units..][..units];
                    gradient.iter_mut().zip(delta).for_each(|(sum, delta)| *sum += delta);
                }
            }
        }
        for &(feature, variable) in &self.numeric {
            let gradient = &mut gradients[variable];
            for (row, delta) in delta.chunks_exact(units).enumerate() {
                let x = features.numbers[row * width + feature];
                gradient.iter_mut().zip(delta).for_each(|(sum, delta)| *sum += x * delta);
            }
        }
    }
}
