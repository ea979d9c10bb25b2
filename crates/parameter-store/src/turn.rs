//! What the store keeps for one task while its session lasts.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::Identity;
use crate::selection::Resolved;

/// Pulls of a task that may wait for their pushes; of more, the oldest is forgotten.
const PULLS_MAX: usize = 32;

/// The pulls of a task whose pushes have not come: a push need not name again what its pull has named.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    session: u64,
    pulls: VecDeque<(u64, Arc<Resolved>)>,
}

impl Turn {
    /// Remembers what the pull of `identity.seq` reads.
    pub(crate) fn remember(&mut self, identity: &Identity, resolved: Arc<Resolved>) {
        if identity.session < self.session {
            // It waited for an earlier push while the task began anew.
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

    /// Returns what the pull of `identity.seq` read.
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
