//! The parameters of a checkpoint in memory, read as a training step reads a parameter server.

use trainyard_checkpoint::{Checkpoint, Error};
use trainyard_variable::{Read, Reads, Values, VariableSpec};

/// Every variable of a checkpoint.
#[derive(Debug)]
pub struct CheckpointParameters {
    variables: Vec<(usize, Vec<f32>)>,
}

impl CheckpointParameters {
    /// Reads the variables of a model.
    ///
    /// # Errors
    /// The checkpoint lacks one, or a file cannot be read.
    pub fn read(checkpoint: &Checkpoint, variables: &[VariableSpec]) -> Result<Self, Error> {
        let read = variables.iter().map(|spec| Ok((spec.width(), checkpoint.read(&spec.name)?)));
        Ok(Self { variables: read.collect::<Result<_, Error>>()? })
    }

    /// Copies what a step reads into `values`.
    pub fn gather(&self, reads: &Reads, values: &mut Values) {
        values.resize_with(reads.len(), Vec::new);
        for ((read, (width, all)), out) in reads.iter().zip(&self.variables).zip(values) {
            out.clear();
            match read {
                Read::Nothing => {}
                Read::Whole => out.extend_from_slice(all),
                Read::Rows(rows) => {
                    rows.iter()
                        .for_each(|row| out.extend_from_slice(&all[*row as usize * width..][..*width]));
                }
            }
        }
    }
}
