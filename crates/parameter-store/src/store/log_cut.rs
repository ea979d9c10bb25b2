//! Cuts of the log: what has changed since the cut before is written, and the log before it is not needed any more.

use trainyard_variable::DynamicRows;

use super::Store;
use crate::extent::Extent;
use crate::lru::Timestamp;
use crate::touched::Use;
use crate::{Error, Snapshot, State};

/// Rows that a cut of the log holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogCut {
    /// Everything.
    Whole,
    /// What has changed since the cut before.
    Increment,
}

/// Bytes that a cut of the log would write now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogCutBytes {
    /// Bytes of an increment.
    pub increment: u64,
    /// Bytes of everything.
    pub whole: u64,
}

/// Rows of a slice in a cut of the log.
#[derive(Debug)]
pub struct CutRows<'a> {
    /// Number of the slice.
    pub slice: u32,
    /// Rows of the variable, ascending.
    pub rows: &'a [u32],
    /// Values, then each slot, as many as the rows have.
    pub parts: &'a [&'a [f32]],
}

impl Store {
    /// Makes the values of now those of the latest cut of the log. No push may be in progress.
    pub fn begin_log_cuts(&self) {
        for entry in &self.slices {
            entry.value().begin_log_cut();
        }
        self.tables.begin_log_cut();
    }

    /// Returns the bytes that a cut of the log would write now.
    pub fn log_cut_bytes(&self) -> LogCutBytes {
        let (increment, whole) = self.increment_bytes(Use::Log);
        LogCutBytes { increment, whole }
    }

    /// Takes a snapshot for the log, as [`Store::snapshot`] does for a checkpoint.
    ///
    /// # Errors
    /// No variables, or another snapshot that has not been dropped, or that a chief waits for.
    pub fn log_snapshot(&self, cut: LogCut) -> Result<Snapshot, Error> {
        if matches!(self.control.read().state, State::Empty | State::Preparing) {
            return Err(Error::NotReady("it holds no variables"));
        }
        let _alone = self.cut.write();
        let aggregation = self.aggregation.lock();
        if self.awaited.lock().step.is_some() {
            return Err(Error::NotReady("a checkpoint is due"));
        }
        let extent = match cut {
            LogCut::Whole => Extent::LogWhole,
            LogCut::Increment => Extent::LogIncrement,
        };
        self.cut_of(&aggregation, || (extent, None, None))
    }

    /// Replaces rows by those of a cut of the log. The store has been prepared with the state before, and serves nobody.
    ///
    /// # Errors
    /// The rows do not fit the store.
    pub fn lay_over(&self, cut: &CutRows<'_>) -> Result<(), Error> {
        let number = cut.slice;
        let slice = self.slices.get(&number);
        let slice = slice.ok_or_else(|| Error::Restore(format!("slice {number} is not held")))?;
        slice.lay_over(number, cut.rows, cut.parts)
    }

    /// Prepares the slice of a dynamic table for the rows of a cut of the log, which was made at `version` and `secs`.
    /// `gone` are the ids that have lost their rows since the cut before; `None` if the cut has all rows of the table.
    ///
    /// # Errors
    /// The store does not hold the slice.
    pub fn begin_lay_over_table(
        &self,
        number: u32,
        (version, secs): (u64, i64),
        gone: Option<&[u64]>,
    ) -> Result<(), Error> {
        let now = Timestamp {
            pushes: version,
            secs,
        };
        self.table(number)?.begin_lay_over(now, gone);
        Ok(())
    }

    /// Replaces rows of a dynamic table by those of a cut of the log.
    ///
    /// # Errors
    /// The rows do not fit the table.
    pub fn lay_over_table(&self, number: u32, rows: &DynamicRows) -> Result<(), Error> {
        self.table(number)?.lay_over(rows)
    }

    /// Completes the rows of a table.
    ///
    /// # Errors
    /// The store does not hold the slice.
    pub fn end_lay_over_table(&self, number: u32) -> Result<(), Error> {
        self.table(number)?.has_loaded();
        Ok(())
    }

    fn table(&self, number: u32) -> Result<std::sync::Arc<crate::dynamic::DynamicSlice>, Error> {
        let table = self.tables.get(number);
        table
            .ok_or_else(|| Error::Restore(format!("slice {number} of a dynamic table is not held")))
    }
}
