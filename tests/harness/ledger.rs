//! A job that counts: what it leaves behind tells whether each update was applied exactly once on every server.

mod account;
mod ending;
mod model;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

pub use account::{Account, Mismatch};
pub use ending::passes_to_go;
pub use model::Counting;
pub(crate) use model::Ids;

/// Cells of the dense counter of each server.
const CELLS: u32 = 1024;
/// Whole numbers up to this one are exact in 32-bit floats, in whatever order ones are added.
const EXACT_MAX: u64 = 1 << 24;

/// The size of a counting job.
///
/// The data is `rows` row ids, each on as many lines as [`Ledger::lines_of`] says. Every server holds a counter of each id and a
/// dense counter of groups of ids; each line that is trained counts one on all of them. So after `epochs` passes each counter
/// is known, and one that is too low or too high names the id and the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ledger {
    /// Row ids, at least 1.
    pub rows: u32,
    /// Passes over the data; [`Ledger::ENDLESS`] for a job that goes on until [`Ledger::end`].
    pub epochs: u64,
    /// Lines of a batch.
    pub batch_size: u32,
    /// Batches of a step: 1, or as many as synchronous updates add up. All steps are to be full, and the mean of so many ones
    /// exact: a power of two that divides the batches of a pass.
    pub lanes: u64,
    /// Stores that hold tables, at least 1: parameter servers, or 1 where workers hold all parameters.
    pub servers: usize,
}

impl Ledger {
    /// Lines of the data that hold a row id: 1, or 2 for every third.
    pub fn lines_of(row: u32) -> u32 {
        if row.is_multiple_of(3) { 2 } else { 1 }
    }

    /// Lines of the data.
    pub fn lines(&self) -> u64 {
        (0..self.rows)
            .map(|row| u64::from(Self::lines_of(row)))
            .sum()
    }

    /// Batches of one pass.
    pub fn batches_of_epoch(&self) -> u64 {
        self.lines().div_ceil(self.batch_size.into())
    }

    /// Batches of the job.
    pub fn batches(&self) -> u64 {
        self.batches_of_epoch() * self.epochs
    }

    /// Steps of the job.
    pub fn steps(&self) -> u64 {
        self.batches() / self.lanes
    }

    /// Writes data and a job that saves every 5 s into a folder, and returns the path of the job.
    ///
    /// # Panics
    /// As [`Ledger::write_saving`].
    pub fn write(&self, folder: &Path) -> PathBuf {
        self.write_saving(folder, "save_checkpoints_secs = 5")
    }

    /// Writes data and job into a folder, and returns the path of the job. `saving` is the line of `[run]` that says when
    /// checkpoints are saved.
    ///
    /// # Panics
    /// A file cannot be written, or a counter would grow beyond what 32-bit floats hold exactly.
    pub fn write_saving(&self, folder: &Path, saving: &str) -> PathBuf {
        let most = self.epochs * self.lines().div_ceil(CELLS.min(self.rows).into()) * 2;
        assert!(
            most <= EXACT_MAX,
            "counters of up to {most} are not exact: fewer epochs, or more rows"
        );
        self.write_rows(&folder.join("rows.csv"));
        std::fs::write(folder.join("one.csv"), "row\n0\n").expect("the data is written");
        let job = format!(
            r#"model_dir = "{}"
[run]
seed = 5
{saving}
[input]
label = {{ column = "row" }}
train = {{ files = ["rows.csv"], batch_size = {}, epochs = {}, shuffle_rows = 1000 }}
eval = {{ files = ["one.csv"] }}
[[feature]]
columns = ["row"]
kind = "identity"
buckets = {}
[model]
kind = "custom_regressor"
hidden_units = [{}]                  # servers: each holds a copy of every counter
optimizer = {{ kind = "sgd", learning_rate = 1.0 }}
[strategy]
partitioner = {{ kind = "fixed", num_shards = 1 }}
[eval]
start_delay_secs = 0
throttle_secs = 0
"#,
            folder.join("model").display(),
            self.batch_size,
            self.epochs,
            self.rows,
            self.servers
        );
        let path = folder.join("job.toml");
        std::fs::write(&path, job).expect("the job is written");
        path
    }

    /// Writes the data.
    ///
    /// # Panics
    /// The file cannot be written.
    pub(crate) fn write_rows(&self, path: &Path) {
        let mut text = "row\n".to_owned();
        // The second lines come behind all first ones, so that a batch may hold an id twice only where it is shuffled.
        for round in 1..=2 {
            for row in (0..self.rows).filter(|row| Self::lines_of(*row) >= round) {
                let _ = writeln!(text, "{row}");
            }
        }
        std::fs::write(path, text).expect("the data is written");
    }
}
