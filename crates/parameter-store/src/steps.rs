//! The global step and the tickets for the steps that remain, so that the last step is never overshot.

use std::collections::BTreeSet;

use trainyard_cluster_spec::Task;

use crate::Identity;

/// Answer to the wish to push one more step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ticket {
    /// The step may be pushed.
    Granted,
    /// All remaining steps are in others' hands; one of them may come back.
    Wait,
    /// The last step has been applied.
    Finished,
}

/// Counts applied steps and hands out the right to push the next ones. Lives on `ps:0`.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    global_step: u64,
    /// Last step; 0 = no bound.
    max: u64,
    outstanding: BTreeSet<(Task, u64, u64)>,
}

impl Steps {
    pub(crate) fn new(global_step: u64, max: u64) -> Self {
        Self { global_step, max, outstanding: BTreeSet::new() }
    }

    pub(crate) fn global_step(&self) -> u64 {
        self.global_step
    }

    /// Gives the session the right to push its `seq`, once: asking again returns the same ticket.
    pub(crate) fn reserve(&mut self, identity: &Identity) -> Ticket {
        let key = (identity.task, identity.session, identity.seq);
        if self.outstanding.contains(&key) {
            return Ticket::Granted;
        }
        if self.max == 0 || self.global_step + (self.outstanding.len() as u64) < self.max {
            self.outstanding.insert(key);
            return Ticket::Granted;
        }
        if self.global_step >= self.max { Ticket::Finished } else { Ticket::Wait }
    }

    /// Returns whether the push holds a ticket.
    pub(crate) fn holds(&self, identity: &Identity) -> bool {
        self.outstanding.contains(&(identity.task, identity.session, identity.seq))
    }

    /// Counts an applied push.
    pub(crate) fn advance(&mut self, identity: &Identity) {
        self.outstanding.remove(&(identity.task, identity.session, identity.seq));
        self.global_step += 1;
    }

    /// Takes one ticket back without a step.
    pub(crate) fn give_back(&mut self, identity: &Identity) {
        self.outstanding.remove(&(identity.task, identity.session, identity.seq));
    }

    /// Takes back all tickets of a task's sessions below `session`.
    pub(crate) fn release_below(&mut self, task: Task, session: u64) {
        self.outstanding.retain(|&(owner, number, _)| owner != task || number >= session);
    }
}
