//! The parameters of a checkpoint in memory, read as a training step reads a parameter server.

use trainyard_checkpoint::{Checkpoint, Error};
use trainyard_variable::{InitialRows, Read, Reads, Values, VariableSpec};

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
    values: Vec<f32>,
    table: Option<Table>,
}

/// What a dynamic table adds to the values of its rows.
#[derive(Debug)]
struct Table {
    /// Ids that have a row, ascending.
    ids: Vec<u64>,
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
            if spec.dynamic().is_none() {
                return Ok(Variable { width, values: checkpoint.read(&spec.name)?, table: None });
            }
            let rows = checkpoint.read_dynamic(&spec.name, &[], ALL_IDS)?;
            let first = InitialRows::new(spec, checkpoint.manifest().seed);
            Ok(Variable { width, values: rows.values, table: Some(Table { ids: rows.ids, first }) })
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
                Read::Rows(rows) => rows.iter().for_each(|row| variable.row(*row as usize, out)),
                Read::Ids(ids) => ids.iter().for_each(|id| variable.id(*id, out)),
            }
        }
    }
}

impl Variable {
    fn row(&self, row: usize, out: &mut Vec<f32>) {
        out.extend_from_slice(&self.values[row * self.width..][..self.width]);
    }

    fn id(&self, id: u64, out: &mut Vec<f32>) {
        let Some(Table { ids, first }) = &self.table else { return };
        match ids.binary_search(&id) {
            Ok(row) => self.row(row, out),
            Err(_) => {
                let begin = out.len();
                out.resize(begin + self.width, 0.0);
                first.fill(id, &mut out[begin..]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use trainyard_checkpoint::{Manifest, ShardState, TableView, begin, commit, write_shard};
    use trainyard_variable::{Access, DynamicRows, DynamicTable, Idle, Initializer};

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
        let view = TableView { variable, part: 0, width: 2, slot_names, rows: &rows };
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
