//! Pulls of one task whose pushes have not arrived yet.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::StepId;
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
    /// Remembers the selection of the pull of a step.
    pub(crate) fn remember(&mut self, step: StepId, resolved: Arc<Resolved>) {
        if step.session < self.session {
            // The pull waited for an earlier push while the task opened a new session.
            return;
        }
        if self.session != step.session {
            *self = Self {
                session: step.session,
                pulls: VecDeque::new(),
            };
        }
        self.pulls.retain(|(seq, _)| *seq != step.seq);
        if self.pulls.len() == PULLS_MAX {
            self.pulls.pop_front();
        }
        self.pulls.push_back((step.seq, resolved));
    }

    /// Returns the selection of the pull of a step.
    pub(crate) fn recall(&self, step: StepId) -> Option<Arc<Resolved>> {
        let mut pulls = self.pulls.iter().filter(|_| self.session == step.session);
        pulls
            .find(|(seq, _)| *seq == step.seq)
            .map(|(_, resolved)| Arc::clone(resolved))
    }

    /// Forgets a pull whose push has been applied.
    pub(crate) fn forget(&mut self, step: StepId) {
        self.pulls.retain(|(seq, _)| *seq != step.seq);
    }
}
