//! Ended sessions that have yet to be closed on the parameter servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use trainyard_cluster_spec::Task;

/// The latest ended session of each task. Closing a session closes the earlier ones of its task, so one entry per task
/// is enough: no session is lost, however long the servers are away. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct EndedSessions(Arc<Mutex<BTreeMap<Task, u64>>>);

impl EndedSessions {
    /// Adds a session that has ended.
    pub fn add(&self, task: Task, session: u64) {
        let mut latest = self.0.lock();
        let known = latest.entry(task).or_insert(session);
        *known = session.max(*known);
    }

    /// Takes all sessions that were added since the last call.
    pub fn take(&self) -> BTreeMap<Task, u64> {
        std::mem::take(&mut *self.0.lock())
    }
}
