//! The instant of a checkpoint.

use std::sync::Arc;

use super::{Store, check_control};
use crate::dynamic::{DynamicSlice, Frozen};
use crate::snapshot::Turn;
use crate::{Error, Identity, ShardPosition, Snapshot, SnapshotSlice, SnapshotTable, State};

impl Store {
    /// Takes a snapshot: everything that a checkpoint holds of this store, at one instant between pushes. Training is
    /// held up for that instant, and while dynamic tables are copied; what it changes until the snapshot has been read is set aside.
    ///
    /// # Errors
    /// A stale epoch, no variables, or another snapshot that has not been dropped.
    pub fn snapshot(&self, identity: &Identity) -> Result<Snapshot, Error> {
        let control = self.control.read();
        check_control(&control, identity)?;
        if control.state == State::Empty {
            return Err(Error::NotReady("it holds no variables"));
        }
        let turn = Turn::take(&self.snapshot_taken).ok_or(Error::NotReady("it writes another checkpoint"))?;
        let alone = self.cut.write();
        let mut ledger = self.ledger.lock();
        let mut slices: Vec<(u32, SnapshotSlice)> = Vec::with_capacity(self.slices.len());
        for entry in &self.slices {
            let slice = entry.value();
            slice.cut();
            let snapshot = SnapshotSlice {
                variable: control.variables[slice.variable].name.clone(),
                part: slice.part,
                rows: slice.rows.clone(),
                width: slice.width,
                slot_names: slice.optimizer.slots().iter().map(|slot| slot.name).collect(),
                slice: Arc::clone(slice),
            };
            slices.push((*entry.key(), snapshot));
        }
        slices.sort_by_key(|(number, _)| *number);
        ledger.saved_version = Some(ledger.version);
        let positions = ledger
            .sessions
            .positions()
            .map(|(shard, pass, batch, ahead)| ShardPosition { shard, pass, batch, ahead })
            .collect();
        let (version, global_step) = (ledger.version, ledger.steps.global_step());
        let frozen = self.tables.freeze(self.moment(version));
        drop((ledger, alone));
        // Only the copy holds training up; putting it in order does not.
        let table = |(slice, frozen): (Arc<DynamicSlice>, Frozen)| SnapshotTable {
            variable: control.variables[slice.variable].name.clone(),
            part: slice.part,
            width: slice.width,
            slot_names: slice.optimizer.slots().iter().map(|slot| slot.name).collect(),
            rows: frozen.into_rows(),
        };
        Ok(Snapshot {
            version,
            global_step,
            positions,
            slices: slices.into_iter().map(|(_, slice)| slice).collect(),
            tables: frozen.into_iter().map(table).collect(),
            _turn: turn,
        })
    }
}
