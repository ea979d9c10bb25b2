//! Reductions of the learning rates that evaluations have brought about. Each chief continues with those of the chief before
//! it.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::claim::refuse_if_deposed;
use crate::files::{self, encode, write_atomically};

/// Name of the file, beside the checkpoints.
const REDUCTIONS: &str = "learning_rate.json";

/// A reduction of the learning rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reduction {
    /// Step of the checkpoint whose evaluation was the last one of the plateau.
    pub evaluated_step: u64,
    /// The updates after this step have the reduced rates.
    pub from_step: u64,
}

/// The reductions of a job, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reductions {
    /// The reductions.
    pub reductions: Vec<Reduction>,
}

impl Reductions {
    /// Reads the reductions; none if there is no file.
    ///
    /// # Errors
    /// The file cannot be read, or holds no reductions.
    pub fn read(model_dir: &Path) -> Result<Self, Error> {
        let path = model_dir.join(REDUCTIONS);
        let parse = |text: Vec<u8>| {
            serde_json::from_slice(&text).map_err(|error| {
                Error::damaged(
                    &path,
                    format!("{error}; without this file, the rates are those of the job again"),
                )
            })
        };
        let found = files::read(&path)?.map(parse).transpose()?;
        Ok(found.unwrap_or_default())
    }

    /// Replaces the reductions, for the chief of a term.
    ///
    /// # Errors
    /// The file cannot be written. [`Error::Deposed`] if another chief leads.
    pub fn write(&self, model_dir: &Path, epoch: u64) -> Result<(), Error> {
        let path = model_dir.join(REDUCTIONS);
        let held = refuse_if_deposed(model_dir, epoch)?;
        let written = write_atomically(&path, &encode(self, &path)?);
        drop(held);
        written
    }

    /// Goes back to a step: a reduction counts there if its evaluation is of this step or an earlier one.
    pub fn go_back_to(&mut self, step: u64) {
        self.reductions
            .retain(|reduction| reduction.evaluated_step <= step);
        for reduction in &mut self.reductions {
            reduction.from_step = reduction.from_step.min(step);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reduction(evaluated_step: u64, from_step: u64) -> Reduction {
        Reduction {
            evaluated_step,
            from_step,
        }
    }

    #[test]
    fn reductions_are_read_as_they_were_written_and_damage_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let none = Reductions::read(folder.path()).expect("there are none");
        assert_eq!(none, Reductions::default());
        let made = Reductions {
            reductions: vec![reduction(100, 120), reduction(200, 200)],
        };
        made.write(folder.path(), 1).expect("there is room");
        assert_eq!(
            Reductions::read(folder.path()).expect("they are read"),
            made
        );
        std::fs::write(folder.path().join(REDUCTIONS), "{").expect("written");
        let problem = Reductions::read(folder.path()).expect_err("damaged");
        assert!(problem.to_string().contains(REDUCTIONS), "{problem}");
    }

    #[test]
    fn a_chief_that_was_deposed_writes_none() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("cluster_epoch"), "7\n").expect("written");
        let none = Reductions::default();
        assert!(matches!(
            none.write(folder.path(), 6),
            Err(Error::Deposed { .. })
        ));
        none.write(folder.path(), 7).expect("it leads");
    }

    #[test]
    fn a_job_that_goes_back_keeps_the_reductions_whose_evaluations_it_still_has() {
        let mut made = Reductions {
            reductions: vec![
                reduction(100, 120),
                reduction(200, 230),
                reduction(300, 300),
            ],
        };
        made.go_back_to(210);
        assert_eq!(made.reductions, [reduction(100, 120), reduction(200, 210)]);
        made.go_back_to(0);
        assert!(made.reductions.is_empty());
    }
}
