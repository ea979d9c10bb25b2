//! Sessions that have ended and of which the parameter servers have not been told.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use trainyard_cluster_spec::Task;

/// The latest session of each task that has ended. To close a session closes the earlier ones of its task, so that one
/// entry a task says all: none is lost, however long the servers are away. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct EndedSessions(Arc<Mutex<BTreeMap<Task, u64>>>);

impl EndedSessions {
    /// Adds a session that has ended.
    pub fn add(&self, task: Task, session: u64) {
        let mut latest = self.0.lock();
        let known = latest.entry(task).or_insert(session);
        *known = session.max(*known);
    }

    /// Takes out all that were added since the last call.
    pub fn take(&self) -> BTreeMap<Task, u64> {
        std::mem::take(&mut *self.0.lock())
    }
}
