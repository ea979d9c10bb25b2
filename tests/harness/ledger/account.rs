//! What the checkpoint of a counting job says: every update that was lost, applied twice or applied by halves.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use trainyard_checkpoint::{Checkpoint, Error, latest_good};

use super::model::{cells_name, count_name};
use super::{CELLS, Ledger};

/// Steps behind the last one, at most: so many of the tasks of a test die with a step under way.
const BEYOND_MAX: u64 = 8;

/// Mismatches that are shown; the others are counted.
const SHOWN_MAX: usize = 10;

/// A counter that is not what it must be.
#[derive(Debug, Clone, PartialEq)]
pub struct Mismatch {
    /// Index of the server that holds it.
    pub server: usize,
    /// The row id, or the cell of the dense counter.
    pub counter: Counter,
    /// What it must be.
    pub expected: u64,
    /// What it is.
    pub found: f64,
}

/// Which counter of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counter {
    /// Of one row id.
    Row(u32),
    /// Of all row ids with this remainder.
    Cell(u32),
}

impl fmt::Display for Mismatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counter = self.counter;
        let difference = self.found - self.expected as f64;
        match counter {
            Counter::Row(row) => write!(formatter, "row {row}"),
            Counter::Cell(cell) => write!(formatter, "cell {cell}"),
        }?;
        let word = if difference < 0.0 { "lost" } else { "too many" };
        let server = self.server;
        let found = self.found;
        let expected = self.expected;
        write!(
            formatter,
            " on ps:{server}: {found}, expected {expected}: {} {word}",
            difference.abs()
        )
    }
}

/// What a checkpoint says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Account {
    /// Global step of the checkpoint.
    pub global_step: u64,
    /// Counters that were looked at.
    pub counters: u64,
    /// Counters below what they must be.
    pub lost: Vec<Mismatch>,
    /// Counters above what they must be.
    pub duplicated: Vec<Mismatch>,
    /// Row ids whose counters differ from server to server.
    pub half_steps: Vec<u32>,
    /// What else does not hold: the step, the place of a counter, the data that a server says it has applied.
    pub other: Vec<String>,
}

impl Account {
    /// Reads the newest checkpoint of a model folder that must be the end of a job.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn of_model_dir(model_dir: &Path, ledger: &Ledger) -> Result<Self, String> {
        let told = |error: Error| format!("{}: {error}", model_dir.display());
        let mut damaged = Vec::new();
        let found =
            latest_good(model_dir, &mut |warning| damaged.push(warning.render())).map_err(told)?;
        let checkpoint =
            found.ok_or_else(|| format!("{} holds no checkpoint", model_dir.display()))?;
        let mut account = Self::of(&checkpoint, ledger).map_err(told)?;
        account.other.extend(damaged);
        Ok(account)
    }

    /// Reads the newest checkpoint of a model folder that must be the end of a job that `max_steps` has ended before its data
    /// did. Which batches have counted is nobody's promise: that each has counted once on every server, or on none, is.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn of_limited(model_dir: &Path, ledger: &Ledger, max_steps: u64) -> Result<Self, String> {
        let told = |error: Error| format!("{}: {error}", model_dir.display());
        let found = latest_good(model_dir, &mut |_| ()).map_err(told)?;
        let checkpoint =
            found.ok_or_else(|| format!("{} holds no checkpoint", model_dir.display()))?;
        let mut account = Self::of(&checkpoint, ledger).map_err(told)?;
        account.lost.clear();
        account.other.clear();
        // Each batch of a task that died which only the first server had not applied is a step more.
        if !(max_steps..max_steps + BEYOND_MAX).contains(&account.global_step) {
            account.other.push(format!(
                "step {}, expected {max_steps} or some more",
                account.global_step
            ));
        }
        let (first, others) = checkpoint
            .manifest()
            .shards
            .split_first()
            .ok_or("no server's part")?;
        for other in others
            .iter()
            .filter(|other| other.positions != first.positions)
        {
            let one = &first.positions;
            let two = &other.positions;
            account.other.push(format!(
                "ps:{} has applied {one:?}, ps:{} {two:?}",
                first.ps, other.ps
            ));
        }
        Ok(account)
    }

    /// Compares a checkpoint with what a job that has ended must have counted.
    ///
    /// # Errors
    /// It cannot be read, or is of another job.
    pub fn of(checkpoint: &Checkpoint, ledger: &Ledger) -> Result<Self, Error> {
        let manifest = checkpoint.manifest();
        let mut account = Self {
            global_step: manifest.global_step,
            ..Self::default()
        };
        if manifest.global_step != ledger.steps() {
            account.other.push(format!(
                "step {}, expected {}",
                manifest.global_step,
                ledger.steps()
            ));
        }
        let mut cells = vec![0_u64; CELLS as usize];
        for row in 0..ledger.rows {
            cells[(row % CELLS) as usize] += ledger.epochs * u64::from(Ledger::lines_of(row));
        }
        let mut servers = Vec::new();
        for server in 0..ledger.servers {
            let counts = checkpoint.read(&count_name(server))?;
            for (row, found) in (0..).zip(&counts) {
                let expected = ledger.epochs * u64::from(Ledger::lines_of(row));
                account.compare(server, Counter::Row(row), expected, *found);
            }
            for (cell, found) in (0..).zip(checkpoint.read(&cells_name(server))?) {
                account.compare(server, Counter::Cell(cell), cells[cell as usize], found);
            }
            servers.push(counts);
        }
        if let Some((first, others)) = servers.split_first() {
            let rows = others
                .iter()
                .flat_map(|counts| (0..).zip(first.iter().zip(counts)));
            let apart: BTreeSet<u32> = rows
                .filter(|(_, (one, other))| one != other)
                .map(|(row, _)| row)
                .collect();
            account.half_steps = apart.into_iter().collect();
        }
        // In a hybrid job the chief's store comes first, and has no table.
        let is_hybrid = |line: &String| line == "strategy.kind=\"hybrid\"";
        let has_dense_store = manifest.job.iter().any(is_hybrid);
        for shard in &manifest.shards {
            let is_dense_store = has_dense_store && shard.ps == 0;
            // Of a variable, a file may have values and the list of their rows.
            let held: BTreeSet<&str> = shard
                .tensors
                .iter()
                .map(|tensor| tensor.variable.as_str())
                .collect();
            let tables = held
                .iter()
                .filter(|name| name.starts_with("count/"))
                .count();
            let expected = usize::from(!is_dense_store);
            if tables != expected {
                account.other.push(format!(
                    "ps:{} holds {tables} tables of counters, expected {expected}",
                    shard.ps
                ));
            }
            // The tables of a hybrid job count batches, all other stores count steps.
            let expected = if has_dense_store && !is_dense_store {
                ledger.batches()
            } else {
                ledger.steps()
            };
            if shard.version != expected {
                account.other.push(format!(
                    "ps:{} has version {}, expected {expected}",
                    shard.ps, shard.version
                ));
            }
            let applied: Vec<(u64, bool)> = shard
                .positions
                .iter()
                .map(|known| (known.batch, known.ahead.is_empty()))
                .collect();
            if applied != [(ledger.batches(), true)] {
                let wanted = ledger.batches();
                account.other.push(format!(
                    "ps:{} says that it has applied {:?}, expected {wanted} batches",
                    shard.ps, shard.positions
                ));
            }
        }
        Ok(account)
    }

    fn compare(&mut self, server: usize, counter: Counter, expected: u64, found: f32) {
        self.counters += 1;
        let found = f64::from(found);
        let mismatch = Mismatch {
            server,
            counter,
            expected,
            found,
        };
        if found < expected as f64 {
            self.lost.push(mismatch);
        } else if found != expected as f64 {
            self.duplicated.push(mismatch);
        }
    }

    /// Whether every update was applied exactly once on every server.
    pub fn is_exact(&self) -> bool {
        self.counters > 0
            && self.lost.is_empty()
            && self.duplicated.is_empty()
            && self.half_steps.is_empty()
            && self.other.is_empty()
    }
}

impl fmt::Display for Account {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = self.global_step;
        let counters = self.counters;
        let [lost, duplicated, half] = [
            self.lost.len(),
            self.duplicated.len(),
            self.half_steps.len(),
        ];
        writeln!(
            formatter,
            "step {step}: {counters} counters, lost {lost}, duplicated {duplicated}, half steps {half}"
        )?;
        for mismatch in self
            .lost
            .iter()
            .take(SHOWN_MAX)
            .chain(self.duplicated.iter().take(SHOWN_MAX))
        {
            writeln!(formatter, "  {mismatch}")?;
        }
        for row in self.half_steps.iter().take(SHOWN_MAX) {
            writeln!(formatter, "  row {row}: servers differ")?;
        }
        self.other
            .iter()
            .try_for_each(|line| writeln!(formatter, "  {line}"))
    }
}

#[cfg(test)]
mod tests {
    use trainyard::{Access, Initializer, VariableSpec};
    use trainyard_checkpoint::{
        InMemory, Manifest, PositionRecord, ShardState, SliceView, begin, commit, write_shard,
    };

    use super::*;

    const LEDGER: Ledger = Ledger {
        rows: 20,
        epochs: 3,
        batch_size: 4,
        lanes: 1,
        servers: 2,
    };

    /// Writes the checkpoint of a job that has ended, with some counters changed: (server, row, by).
    fn account(changes: &[(usize, u32, f32)]) -> Account {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let temporary = begin(folder.path(), LEDGER.steps(), "1", 0).expect("a folder");
        let mut manifest = Manifest::new("1".to_owned(), 1, LEDGER.steps(), 0);
        for server in 0..LEDGER.servers {
            let epochs = LEDGER.epochs as f32;
            let mut counts: Vec<f32> = (0..LEDGER.rows)
                .map(|row| epochs * Ledger::lines_of(row) as f32)
                .collect();
            let mut cells = counts.clone();
            cells.resize(CELLS as usize, 0.0);
            for (_, row, by) in changes.iter().filter(|(at, ..)| *at == server) {
                counts[*row as usize] += by;
                cells[*row as usize] += by;
            }
            let views = [(count_name(server), counts), (cells_name(server), cells)];
            let sources = views.each_ref().map(|(_, values)| InMemory {
                values,
                slots: Vec::new(),
            });
            let slices: Vec<SliceView<'_>> = views
                .iter()
                .zip(&sources)
                .map(|((name, values), source)| SliceView {
                    variable: name,
                    part: 0,
                    rows: 0..values.len(),
                    width: 1,
                    slot_names: Vec::new(),
                    held: None,
                    source,
                })
                .collect();
            manifest
                .variables
                .extend(views.iter().map(|(name, values)| VariableSpec {
                    name: name.clone(),
                    shape: vec![values.len(), 1],
                    access: Access::Rows,
                    initializer: Initializer::Zeros,
                    optimizer_group: "ledger".to_owned(),
                }));
            let position = PositionRecord {
                shard: 0,
                pass: 2,
                batch: LEDGER.steps(),
                ahead: Vec::new(),
            };
            let state = ShardState {
                ps: server,
                num_ps: 2,
                version: LEDGER.steps(),
                positions: vec![position],
                ..ShardState::default()
            };
            manifest
                .shards
                .push(write_shard(&temporary, &state, &slices, &[]).expect("a shard"));
        }
        manifest.num_ps = 2;
        commit(folder.path(), &temporary, &manifest).expect("a checkpoint");
        Account::of_model_dir(folder.path(), &LEDGER).expect("an account")
    }

    #[test]
    fn a_job_in_which_each_line_counted_once_is_exact() {
        let account = account(&[]);
        assert!(account.is_exact(), "{account}");
        assert_eq!(account.counters, 2 * (20 + u64::from(CELLS)));
    }

    #[test]
    fn a_lost_update_is_named_by_row_and_server_and_is_a_half_step() {
        let account = account(&[(1, 7, -1.0)]);
        let found = Mismatch {
            server: 1,
            counter: Counter::Row(7),
            expected: 3,
            found: 2.0,
        };
        assert_eq!(
            (account.lost.first(), account.duplicated.len()),
            (Some(&found), 0)
        );
        assert_eq!(account.half_steps, [7]);
        assert!(!account.is_exact());
        assert!(
            account
                .to_string()
                .contains("row 7 on ps:1: 2, expected 3: 1 lost"),
            "{account}"
        );
    }

    #[test]
    fn an_update_that_was_applied_twice_on_every_server_is_named_and_is_no_half_step() {
        let account = account(&[(0, 9, 1.0), (1, 9, 1.0)]);
        assert_eq!(
            (account.lost.len(), account.duplicated.len()),
            (0, 4),
            "two rows, two cells"
        );
        assert!(account.half_steps.is_empty() && !account.is_exact());
        assert!(
            account
                .to_string()
                .contains("row 9 on ps:0: 7, expected 6: 1 too many"),
            "{account}"
        );
    }

    #[test]
    fn a_lost_and_a_double_update_of_one_group_of_rows_do_not_make_up_for_each_other() {
        let account = account(&[(0, 3, 1.0), (0, 4, -1.0)]);
        assert_eq!(
            (account.half_steps.len(), account.is_exact()),
            (2, false),
            "{account}"
        );
    }
}
