//! The parameters of a checkpoint in memory, read as a training step reads a parameter server.

use trainyard_checkpoint::{Checkpoint, Error};
use trainyard_variable::{Access, InitialRows, Read, Reads, Values, VariableSpec};

/// Every id there is.
pub(crate) const ALL_IDS: std::ops::Range<u128> = 0..1 << 64;

/// Every variable of a checkpoint.
#[derive(Debug)]
pub struct CheckpointParameters {
    variables: Vec<Variable>,
}

#[derive(Debug)]
struct Variable {
    width: usize,
    /// All of them, or those of the rows that are held.
    values: Vec<f32>,
    held: Option<Held>,
}

/// What a variable adds to its values, of which the checkpoint does not hold all rows, and a dynamic table.
#[derive(Debug)]
struct Held {
    /// Rows, or ids, that are held, ascending.
    rows: Vec<u64>,
    /// What the others read, as they do in training.
    first: InitialRows,
}

impl CheckpointParameters {
    /// Reads the variables of a model.
    ///
    /// # Errors
    /// The checkpoint lacks one, or a file cannot be read.
    pub fn read(checkpoint: &Checkpoint, variables: &[VariableSpec]) -> Result<Self, Error> {
        let read = variables.iter().map(|spec| {
            let width = spec.width();
            let first = checkpoint.first_rows(&spec.name).map(InitialRows::of);
            let Some(first) = first.filter(|_| spec.access != Access::Whole) else {
                return Ok(Variable { width, values: checkpoint.read(&spec.name)?, held: None });
            };
            let (rows, values) = if spec.dynamic().is_some() {
                let table = checkpoint.read_dynamic(&spec.name, &[], ALL_IDS)?;
                (table.ids, table.values)
            } else {
                let rows = checkpoint.held(&spec.name, 0..spec.rows())?.into_iter().flatten();
                let rows: Vec<u64> = rows.map(|row| row as u64).collect();
                let mut values = vec![0.0; rows.len() * width];
                checkpoint.read_held(&spec.name, None, 0..spec.rows(), &mut values)?;
                (rows, values)
            };
            Ok(Variable { width, values, held: Some(Held { rows, first }) })
        });
        Ok(Self { variables: read.collect::<Result<_, Error>>()? })
    }

    /// Copies what a step reads into `values`.
    pub fn gather(&self, reads: &Reads, values: &mut Values) {
        values.resize_with(reads.len(), Vec::new);
        for ((read, variable), out) in reads.iter().zip(&self.variables).zip(values) {
            out.clear();
            match read {
                Read::Nothing => {}
                Read::Whole => out.extend_from_slice(&variable.values),
                Read::Rows(rows) => rows.iter().for_each(|row| variable.row((*row).into(), out)),
                Read::Ids(ids) => ids.iter().for_each(|id| variable.row(*id, out)),
            }
        }
    }
}

impl Variable {
    /// Appends the values of a row, or of an id.
    fn row(&self, row: u64, out: &mut Vec<f32>) {
        let place = match &self.held {
            None => row as usize,
            Some(Held { rows, first }) => match rows.binary_search(&row) {
                Ok(place) => place,
                Err(_) => {
                    let begin = out.len();
                    out.resize(begin + self.width, 0.0);
                    first.fill(row, &mut out[begin..]);
                    return;
                }
            },
        };
        out.extend_from_slice(&self.values[place * self.width..][..self.width]);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use trainyard_checkpoint::{Manifest, ShardState, TableView, begin, commit, write_shard};
    use trainyard_variable::{DynamicRows, DynamicTable, Idle, Initializer};

    use super::*;

    #[test]
    fn ids_without_a_row_read_the_first_values_that_training_reads() {
        let spec = VariableSpec {
            name: "user".into(),
            shape: vec![9, 2],
            access: Access::Dynamic(DynamicTable::KEEP_ALL),
            initializer: Initializer::Uniform { low: 1.0, high: 2.0 },
            optimizer_group: "g".into(),
        };
        let rows = DynamicRows {
            ids: vec![3, u64::MAX],
            idle: vec![Idle::default(); 2],
            values: vec![10.0, 11.0, 12.0, 13.0],
            ..DynamicRows::default()
        };
        let folder = tempfile::tempdir().expect("a temporary folder");
        let temporary = begin(folder.path(), 1, "test", 0).expect("a checkpoint begins");
        let state = ShardState { ps: 0, num_ps: 1, version: 1, positions: Vec::new() };
        let (variable, slot_names) = (spec.name.as_str(), Vec::new());
        let view = TableView { variable, part: 0, width: 2, slot_names, first: None, source: &rows };
        let shard = write_shard(&temporary, &state, &[], &[view]).expect("a shard");
        let (seed, shards, variables) = (7, vec![shard], vec![spec.clone()]);
        let manifest = Manifest { seed, shards, variables, ..Manifest::new("c".into(), 1, 1, 0) };
        let checkpoint = commit(folder.path(), &temporary, &manifest).expect("a checkpoint");
        let parameters =
            CheckpointParameters::read(&checkpoint, std::slice::from_ref(&spec)).expect("parameters");
        let mut values = Values::new();
        parameters.gather(&vec![Read::Ids(Arc::from([3, 4, u64::MAX]))], &mut values);
        let mut first = [0.0; 2];
        InitialRows::new(&spec, seed).fill(4, &mut first);
        assert_eq!(values, [[10.0, 11.0, first[0], first[1], 12.0, 13.0]]);
    }
}
