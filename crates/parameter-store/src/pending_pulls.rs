//! Pulls of one task whose pushes have not arrived yet.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::Identity;
use crate::selection::Resolved;

/// Most pending pulls of a task. Beyond it, the oldest is forgotten.
const PULLS_MAX: usize = 32;

/// Pending pulls of one task. A push need not repeat the selection of its pull.
#[derive(Debug, Default)]
pub(crate) struct PendingPulls {
    session: u64,
    pulls: VecDeque<(u64, Arc<Resolved>)>,
}

impl PendingPulls {
    /// Remembers the selection of the pull `identity.seq`.
    pub(crate) fn remember(&mut self, identity: &Identity, resolved: Arc<Resolved>) {
        if identity.session < self.session {
            // The pull waited for an earlier push while the task opened a new session.
            return;
        }
        if self.session != identity.session {
            *self = Self {
                session: identity.session,
                pulls: VecDeque::new(),
            };
        }
        self.pulls.retain(|(seq, _)| *seq != identity.seq);
        if self.pulls.len() == PULLS_MAX {
            self.pulls.pop_front();
        }
        self.pulls.push_back((identity.seq, resolved));
    }

    /// Returns the selection of the pull `identity.seq`.
    pub(crate) fn recall(&self, identity: &Identity) -> Option<Arc<Resolved>> {
        let mut pulls = self
            .pulls
            .iter()
            .filter(|_| self.session == identity.session);
        pulls
            .find(|(seq, _)| *seq == identity.seq)
            .map(|(_, resolved)| Arc::clone(resolved))
    }

    /// Forgets a pull whose push has been applied.
    pub(crate) fn forget(&mut self, identity: &Identity) {
        self.pulls.retain(|(seq, _)| *seq != identity.seq);
    }
}
