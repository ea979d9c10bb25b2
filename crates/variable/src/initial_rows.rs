//! The initial values of rows that have not changed.

use serde::{Deserialize, Serialize};

use crate::streams::Streams;
use crate::{Initializer, VariableSpec};

/// The rule for the initial values of a variable's rows. Equal rules give equal values, on any machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FirstRows {
    /// Seed of all variables of the model.
    pub seed: u64,
    /// Name of the variable.
    pub name: String,
    /// Shape of the variable, which gives the fans of `glorot_uniform`.
    pub shape: Vec<usize>,
    /// Initializer of the variable.
    pub initializer: Initializer,
}

impl FirstRows {
    /// Returns the rule for the initial values of a variable.
    pub fn new(spec: &VariableSpec, seed: u64) -> Self {
        let name = spec.name.clone();
        let shape = spec.shape.clone();
        Self {
            seed,
            name,
            shape,
            initializer: spec.initializer.clone(),
        }
    }
}

/// Computes the initial values of each row, or of each id of a dynamic table. They are a function of seed, variable
/// name and row alone, so that they are the same on any number of parameter servers, and in training, evaluation and
/// prediction.
///
/// Rows that have not changed, and ids without a row, read these values, too.
#[derive(Debug, Clone)]
pub struct InitialRows {
    rule: FirstRows,
    random: Streams,
}

impl InitialRows {
    /// Returns the initial values of a variable's rows.
    pub fn new(spec: &VariableSpec, seed: u64) -> Self {
        Self::of(FirstRows::new(spec, seed))
    }

    /// Returns the initial values that a rule gives.
    pub fn of(rule: FirstRows) -> Self {
        let random = Initializer::random(rule.seed, &rule.name);
        Self { rule, random }
    }

    /// Returns the rule.
    pub fn rule(&self) -> &FirstRows {
        &self.rule
    }

    /// Writes the initial values of the row with this number, or of this id, into `out`, which must be as long as a
    /// row.
    pub fn fill(&self, row: u64, out: &mut [f32]) {
        self.fill_rows(std::iter::once(row), out);
    }

    /// Writes the initial values of these rows into `out`, one row after the other.
    pub fn fill_rows(&self, rows: impl Iterator<Item = u64>, out: &mut [f32]) {
        let FirstRows {
            initializer, shape, ..
        } = &self.rule;
        initializer.fill_streams(&self.random, shape, rows, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, DynamicTable};

    fn spec(name: &str, rows_max: usize) -> VariableSpec {
        VariableSpec {
            name: name.into(),
            shape: vec![rows_max, 4],
            access: Access::Dynamic(DynamicTable::KEEP_ALL),
            initializer: Initializer::TruncatedNormal { stddev: 0.5 },
            optimizer_group: "g".into(),
        }
    }

    fn row(name: &str, rows_max: usize, seed: u64, id: u64) -> [f32; 4] {
        let mut out = [0.0; 4];
        InitialRows::new(&spec(name, rows_max), seed).fill(id, &mut out);
        out
    }

    #[test]
    fn they_are_a_function_of_seed_name_and_id() {
        let first = row("a", 10, 1, u64::MAX - 5);
        assert_eq!(
            first,
            row("a", 99, 1, u64::MAX - 5),
            "not of the room in the table"
        );
        for other in [
            row("b", 10, 1, u64::MAX - 5),
            row("a", 10, 2, u64::MAX - 5),
            row("a", 10, 1, 5),
        ] {
            assert!(
                other != first && other.iter().all(|value| value.abs() <= 1.0),
                "{other:?}"
            );
        }
    }

    #[test]
    fn they_do_not_depend_on_what_was_asked_before() {
        let values = InitialRows::new(&spec("a", 10), 1);
        let mut once = [0.0; 4];
        let mut again = [0.0; 4];
        values.fill(7, &mut once);
        values.fill(8, &mut again);
        values.fill(7, &mut again);
        assert_eq!(once, again);
    }

    #[test]
    fn rows_are_those_of_a_variable_that_is_filled_whole_and_a_rule_survives_being_written_down() {
        for initializer in [
            Initializer::Zeros,
            Initializer::Constant { value: 0.1 },
            Initializer::GlorotUniform,
            Initializer::TruncatedNormal { stddev: 0.1 },
            Initializer::Uniform {
                low: -0.3,
                high: 0.7,
            },
        ] {
            for width in [1, 3, 16, 17] {
                let spec = VariableSpec {
                    initializer: initializer.clone(),
                    shape: vec![50, width],
                    ..spec("t", 50)
                };
                let mut whole = vec![0.0; 50 * width];
                initializer.fill(9, "t", &spec.shape, 0..50, &mut whole);
                let text =
                    serde_json::to_string(&FirstRows::new(&spec, 9)).expect("a rule is written");
                let rule: FirstRows = serde_json::from_str(&text).expect("a rule is read");
                let mut rows = vec![0.0; 3 * width];
                InitialRows::of(rule).fill_rows([2, 3, 49].into_iter(), &mut rows);
                let expected = [2, 3, 49]
                    .map(|row| &whole[row * width..(row + 1) * width])
                    .concat();
                assert_eq!(rows, expected, "{initializer:?}, {width} values a row");
            }
        }
    }
}
