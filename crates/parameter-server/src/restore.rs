//! The part of a checkpoint that a server reads, and the position from which the server continues.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use trainyard_checkpoint::{Checkpoint, Origin, PartRead, PositionRecord, ShardRecord};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_parameter_store::{Lots, Restore, ShardPosition, TensorSource, Update};
use trainyard_variable::{DynamicRows, FirstRows, InitialRows};

use crate::LocalServer;
use crate::error::chain;
use crate::plan::unit_of;

/// Parallel reads of a checkpoint in an object store. Each read waits for a reply and computes nothing.
const READS_OF_STORE_MAX: usize = 32;

impl LocalServer {
    /// Returns the values and counters to restore. If the number of servers has changed, the position of a single
    /// server does not apply to the rows that it now holds. The store then starts from the batches that all servers
    /// have applied, so that no batch is lost. After an orderly stop all servers have applied the same batches, so
    /// that none counts twice.
    pub(crate) fn restore<'a>(
        &self,
        checkpoint: &Checkpoint,
        source: &'a Source<'a>,
        update: Update,
    ) -> Restore<'a> {
        let manifest = checkpoint.manifest();
        let (place, num_ps) = *self.place.lock();
        let own = manifest
            .shards
            .iter()
            .find(|shard| shard.ps == place && manifest.num_ps == num_ps);
        let of = |shard: &ShardRecord| -> Vec<ShardPosition> {
            let position = |PositionRecord {
                                shard,
                                pass,
                                batch,
                                ahead,
                            }| ShardPosition {
                shard,
                pass,
                batch,
                ahead,
            };
            shard.positions.iter().cloned().map(position).collect()
        };
        let all: Vec<_> = own
            .map_or(manifest.shards.as_slice(), std::slice::from_ref)
            .iter()
            .map(of)
            .collect();
        let positions = ShardPosition::of_all(all.iter().map(Vec::as_slice));
        Restore {
            source,
            version: manifest.version_of(place, num_ps, unit_of(update)),
            global_step: manifest.global_step,
            positions,
        }
    }
}

/// Returns the number of parallel reads of a checkpoint.
fn reads_at_once(checkpoint: &Checkpoint) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if checkpoint.is_remote() {
        READS_OF_STORE_MAX.max(cores)
    } else {
        cores
    }
}

/// The origin of initial values: another run, or files of tensors. Its values must be finite: training would spread one that is
/// not, and would not name the file.
pub(crate) struct FirstSource<'a> {
    origin: &'a Origin,
    path: &'a Path,
    /// The values were read, and no model may begin with them.
    is_unfit: AtomicBool,
}

impl<'a> FirstSource<'a> {
    pub(crate) fn new(origin: &'a Origin, path: &'a Path) -> Self {
        let is_unfit = AtomicBool::new(false);
        Self {
            origin,
            path,
            is_unfit,
        }
    }

    /// Returns whether values were refused for what they are. The next attempt would find the same.
    pub(crate) fn is_unfit(&self) -> bool {
        self.is_unfit.load(Ordering::Relaxed)
    }

    fn refuse(&self, variable: &str, row: impl Display, value: f32) -> String {
        self.is_unfit.store(true, Ordering::Relaxed);
        format!(
            "the values of `{variable}` in {} must be finite float32 numbers, given {value} for {row}",
            self.path.display()
        )
    }

    /// Returns the message of a problem with the files.
    fn failed(&self, problem: Diagnostic) -> String {
        if is_final(&problem) {
            self.is_unfit.store(true, Ordering::Relaxed);
        }
        problem.message
    }

    /// Checks the values of rows, which all have as many. `rows` gives their numbers.
    fn check(
        &self,
        variable: &str,
        values: &[f32],
        rows: impl FnOnce() -> Result<Vec<Range<usize>>, String>,
    ) -> Result<(), String> {
        let Some(place) = values.iter().position(|value| !value.is_finite()) else {
            return Ok(());
        };
        let rows: Vec<usize> = rows()?.into_iter().flatten().collect();
        let width = (values.len() / rows.len().max(1)).max(1);
        let row = rows.get(place / width);
        let row = row.map_or("a row".to_owned(), |row| format!("row {row}"));
        Err(self.refuse(variable, row, values[place]))
    }

    fn check_lot(&self, variable: &str, lot: DynamicRows) -> Result<DynamicRows, String> {
        let Some(place) = lot.values.iter().position(|value| !value.is_finite()) else {
            return Ok(lot);
        };
        let width = (lot.values.len() / lot.ids.len().max(1)).max(1);
        let id = lot.ids.get(place / width);
        let id = id.map_or("an id".to_owned(), |id| format!("id {id}"));
        Err(self.refuse(variable, id, lot.values[place]))
    }
}

/// Returns whether the next attempt to read values would have the same problem: what was read does not fit, or nothing is there.
pub(crate) fn is_final(problem: &Diagnostic) -> bool {
    [Code::E3002, Code::E3004].contains(&problem.code)
}

impl TensorSource for FirstSource<'_> {
    fn read(
        &self,
        variable: &str,
        _slot: Option<&str>,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), String> {
        self.origin
            .read_rows(variable, rows.clone(), out)
            .map_err(|problem| self.failed(problem))?;
        self.check(variable, out, || Ok(vec![rows]))
    }

    fn held(&self, variable: &str, rows: Range<usize>) -> Result<Vec<Range<usize>>, String> {
        self.origin
            .held(variable, rows)
            .map_err(|problem| self.failed(problem))
    }

    fn read_held(
        &self,
        variable: &str,
        _slot: Option<&str>,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), String> {
        self.origin
            .read_held(variable, rows.clone(), out)
            .map_err(|problem| self.failed(problem))?;
        self.check(variable, out, || self.held(variable, rows))
    }

    fn first_rows(&self, variable: &str) -> Option<FirstRows> {
        self.origin.first_rows(variable)
    }

    fn read_dynamic<'a>(
        &'a self,
        variable: &'a str,
        _slots: &'a [&'a str],
        ids: Range<u128>,
    ) -> Result<Lots<'a>, String> {
        let lots = self
            .origin
            .lots(variable, ids)
            .map_err(|problem| self.failed(problem))?;
        Ok(Box::new(lots.map(|lot| {
            self.check_lot(variable, lot.map_err(|problem| chain(&problem))?)
        })))
    }

    fn reads_at_once(&self) -> usize {
        match self.origin {
            Origin::Own(checkpoint) => reads_at_once(checkpoint),
            Origin::TensorFlow(_) | Origin::Tensors(_) => {
                std::thread::available_parallelism().map_or(1, usize::from)
            }
        }
    }
}

/// Initial values by rules that are not those of the job.
pub(crate) struct InitialSource(pub(crate) BTreeMap<String, FirstRows>);

impl TensorSource for InitialSource {
    fn read(
        &self,
        variable: &str,
        slot: Option<&str>,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), String> {
        // Slots have their initial values already.
        if slot.is_none() {
            let rule = self.first_rows(variable);
            let rule =
                rule.ok_or_else(|| format!("no rule for the initial values of `{variable}`"))?;
            InitialRows::of(rule).fill_rows(rows.map(|row| row as u64), out);
        }
        Ok(())
    }

    fn held(&self, _variable: &str, _rows: Range<usize>) -> Result<Vec<Range<usize>>, String> {
        Ok(Vec::new())
    }

    fn read_held(
        &self,
        _variable: &str,
        _slot: Option<&str>,
        _rows: Range<usize>,
        _out: &mut [f32],
    ) -> Result<(), String> {
        Ok(())
    }

    fn first_rows(&self, variable: &str) -> Option<FirstRows> {
        self.0.get(variable).cloned()
    }

    fn read_dynamic<'a>(
        &'a self,
        _variable: &'a str,
        _slots: &'a [&'a str],
        _ids: Range<u128>,
    ) -> Result<Lots<'a>, String> {
        Ok(Box::new(std::iter::empty()))
    }
}

/// A checkpoint, and the parts that were read of tensors which other servers have read too.
pub(crate) struct Source<'a> {
    checkpoint: &'a Checkpoint,
    pub(crate) parts_read: Mutex<Vec<PartRead>>,
}

impl<'a> Source<'a> {
    pub(crate) fn of(checkpoint: &'a Checkpoint) -> Self {
        Self {
            checkpoint,
            parts_read: Mutex::default(),
        }
    }
}

impl TensorSource for Source<'_> {
    fn read(
        &self,
        variable: &str,
        slot: Option<&str>,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), String> {
        #[cfg(feature = "failpoints")]
        fail::fail_point!("ps.restore.read");
        self.checkpoint
            .read_rows(variable, slot, rows, out)
            .map_err(|error| chain(&error))
    }

    fn held(&self, variable: &str, rows: Range<usize>) -> Result<Vec<Range<usize>>, String> {
        self.checkpoint
            .held(variable, rows)
            .map_err(|error| chain(&error))
    }

    fn read_held(
        &self,
        variable: &str,
        slot: Option<&str>,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), String> {
        #[cfg(feature = "failpoints")]
        fail::fail_point!("ps.restore.read");
        self.checkpoint
            .read_held(variable, slot, rows, out)
            .map_err(|error| chain(&error))
    }

    fn first_rows(&self, variable: &str) -> Option<FirstRows> {
        self.checkpoint.first_rows(variable)
    }

    fn read_dynamic<'a>(
        &'a self,
        variable: &'a str,
        slots: &'a [&'a str],
        ids: Range<u128>,
    ) -> Result<Lots<'a>, String> {
        let lots = self
            .checkpoint
            .lots(variable, slots, ids)
            .map_err(|error| chain(&error))?;
        Ok(Box::new(lots.map(|lot| lot.map_err(|error| chain(&error)))))
    }

    fn reads_at_once(&self) -> usize {
        reads_at_once(self.checkpoint)
    }

    fn check_read(&self) -> Result<(), String> {
        *self.parts_read.lock() = self
            .checkpoint
            .check_read()
            .map_err(|error| chain(&error))?;
        Ok(())
    }
}
