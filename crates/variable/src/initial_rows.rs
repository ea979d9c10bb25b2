//! First values of the rows of a dynamic table.

use rand_chacha::ChaCha8Rng;

use crate::{Initializer, VariableSpec};

/// Gives each id the first values of its row: a function of seed, variable name and id alone, so that they are the
/// same on any number of parameter servers, and in training, evaluation and prediction.
///
/// It is also what an id without a row reads.
#[derive(Debug, Clone)]
pub struct InitialRows {
    initializer: Initializer,
    shape: Vec<usize>,
    random: ChaCha8Rng,
}

impl InitialRows {
    /// Returns the first values of a variable's rows.
    pub fn new(spec: &VariableSpec, seed: u64) -> Self {
        let random = Initializer::random(seed, &spec.name);
        Self { initializer: spec.initializer.clone(), shape: spec.shape.clone(), random }
    }

    /// Writes the first values of an id's row into `out`, which is as long as a row.
    pub fn fill(&self, id: u64, out: &mut [f32]) {
        self.initializer.fill_streams(&mut self.random.clone(), &self.shape, std::iter::once(id), out);
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
        assert_eq!(first, row("a", 99, 1, u64::MAX - 5), "not of the room in the table");
        for other in [row("b", 10, 1, u64::MAX - 5), row("a", 10, 2, u64::MAX - 5), row("a", 10, 1, 5)] {
            assert!(other != first && other.iter().all(|value| value.abs() <= 1.0), "{other:?}");
        }
    }

    #[test]
    fn they_do_not_depend_on_what_was_asked_before() {
        let values = InitialRows::new(&spec("a", 10), 1);
        let (mut once, mut again) = ([0.0; 4], [0.0; 4]);
        values.fill(7, &mut once);
        values.fill(8, &mut again);
        values.fill(7, &mut again);
        assert_eq!(once, again);
    }
}
