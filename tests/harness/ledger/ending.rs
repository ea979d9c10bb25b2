//! The end of a counting job whose data has none. How fast a machine is does not matter to what lasts until it is told to end.

use std::time::Duration;

use trainyard_checkpoint::{Checkpoint, latest_good};
use trainyard_cluster_spec::Role;

use super::{Account, Ledger};
use crate::Supervisor;

/// The data that a chief hands out.
const DATA_SHARD: u64 = 0;

impl Ledger {
    /// Passes over the data that no test lives to see.
    pub const ENDLESS: u64 = 1_000_000;

    /// Waits for the end of a job, and returns what it has counted. One of [`Ledger::ENDLESS`] passes is brought to it: all
    /// tasks stop, and then train one pass more than any that was begun. Tasks that were lost stay away.
    ///
    /// # Errors
    /// Something was not done within `limit`, a task that was told to stop ended with another code than 0, or there is no
    /// good checkpoint.
    pub fn end(mut self, tasks: &mut Supervisor, limit: Duration) -> Result<Account, String> {
        let model_dir = tasks.folder().join("model");
        if self.epochs == Self::ENDLESS {
            // As service managers do it: the last checkpoint holds the last step.
            for role in [Role::Worker, Role::Evaluator, Role::Chief, Role::Ps] {
                tasks.stop(role, limit)?;
            }
            let found = latest_good(&model_dir, &mut |_| ()).map_err(|error| error.to_string())?;
            let checkpoint =
                found.ok_or_else(|| format!("{} holds no checkpoint", model_dir.display()))?;
            self.epochs = passes_to_go(&checkpoint, self.batches_of_epoch());
            tasks.set(&format!("input.train.epochs={}", self.epochs));
            tasks.start_all();
        }
        for chief in tasks.of_role(Role::Chief) {
            if !tasks.is_lost(chief) && !tasks.wait_for_end_of(chief, limit) {
                return Err(format!(
                    "{chief} did not end within {limit:?}: {}",
                    tasks.last_lines()
                ));
            }
        }
        match &*tasks.finish(limit) {
            [] => Account::of_model_dir(&model_dir, &self),
            late => Err(format!(
                "{late:?} did not end within {limit:?}: {}",
                tasks.last_lines()
            )),
        }
    }
}

/// Returns one pass of so many batches more than any that a server has begun, of the data that a chief hands out.
pub fn passes_to_go(checkpoint: &Checkpoint, batches_of_epoch: u64) -> u64 {
    let known = checkpoint
        .manifest()
        .shards
        .iter()
        .flat_map(|shard| &shard.positions);
    let known = known.filter(|known| known.shard == DATA_SHARD);
    let ends = known.map(|known| known.ahead.last().map_or(known.batch, |range| range.end));
    ends.max().unwrap_or(0).div_ceil(batches_of_epoch) + 1
}
