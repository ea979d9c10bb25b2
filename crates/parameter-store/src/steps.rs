//! The global step, and tickets for the remaining steps, so that the last step is never overshot.

use std::collections::BTreeSet;

use trainyard_cluster_spec::Task;

use crate::staleness_clocks::Clocks;
use crate::{StepId, StoreMetadata, Update};

/// Reply to a request for a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ticket {
    /// The step may be pushed.
    Granted,
    /// The step must wait for slower tasks, or for a ticket that another task may return.
    Wait,
    /// The last step has been applied.
    Finished,
}

/// Counts applied steps and grants tickets for the next ones. Only `ps:0` counts.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    global_step: u64,
    /// Last step; 0 = no bound.
    max: u64,
    update: Update,
    outstanding: BTreeSet<StepId>,
    /// Steps that were requested and must wait: for slower tasks, or for a ticket that another task may return.
    waiting: BTreeSet<StepId>,
    clocks: Clocks,
}

impl Steps {
    pub(crate) fn new(global_step: u64, max: u64, update: Update) -> Self {
        Self {
            global_step,
            max,
            update,
            ..Self::default()
        }
    }

    pub(crate) fn global_step(&self) -> u64 {
        self.global_step
    }

    /// Returns whether the last step has been applied.
    pub(crate) fn has_ended(&self) -> bool {
        self.max > 0 && self.global_step >= self.max
    }

    /// Adds a task whose earlier sessions have ended.
    pub(crate) fn join(&mut self, task: Task, session: u64) {
        self.release_below(task, session);
        // The task is idle until it requests its first step, because it may have no data for a long time.
        self.clocks.rest(task);
    }

    /// Excludes an idle task from the staleness bound, unless it holds a ticket. An idle task waits for input, so
    /// waiting for its clock could deadlock. Returns whether anything changed.
    pub(crate) fn rest(&mut self, task: Task) -> bool {
        !self.outstanding.iter().any(|step| step.task == task) && self.clocks.rest(task)
    }

    /// Removes all tasks, because their sessions have ended.
    pub(crate) fn clear(&mut self) {
        self.outstanding.clear();
        self.waiting.clear();
        self.clocks.clear();
    }

    /// Restores the steps from `metadata`.
    pub(crate) fn resume(&mut self, metadata: &StoreMetadata) {
        self.global_step = metadata.global_step;
        self.outstanding = metadata.tickets.iter().copied().collect();
        self.clocks = Clocks::at(&metadata.clocks);
    }

    /// Writes the state that [`Steps::resume`] restores into `metadata`.
    pub(crate) fn stand(&self, metadata: &mut StoreMetadata) {
        metadata.global_step = self.global_step;
        metadata.tickets = self.outstanding.iter().copied().collect();
        metadata.clocks = self.clocks.metadata();
    }

    /// Removes a task whose sessions up to this one have ended.
    pub(crate) fn leave(&mut self, task: Task, session: u64) {
        self.release_below(task, session.saturating_add(1));
        self.clocks.leave(task);
    }

    /// Grants a session a ticket for its step. A repeated request gets the same ticket. Also returns whether
    /// anything changed.
    pub(crate) fn reserve(&mut self, step: StepId) -> (Ticket, bool) {
        if self.outstanding.contains(&step) {
            return (Ticket::Granted, false);
        }
        if self.has_ended() {
            return (Ticket::Finished, false);
        }
        let joined = self.clocks.join(step.task);
        match self.update {
            // All micro-batches of a step are one global step. A late micro-batch is found stale when it is pushed.
            Update::Sync => {}
            Update::Async | Update::StaleSynchronous { .. } => {
                let none_is_left =
                    self.max > 0 && self.global_step + (self.outstanding.len() as u64) >= self.max;
                if none_is_left || self.would_overtake(step) {
                    self.waiting.insert(step);
                    return (Ticket::Wait, joined);
                }
            }
        }
        if let Update::StaleSynchronous {
            staleness_steps_max,
        } = self.update
            && self.lead(step) > staleness_steps_max
        {
            self.waiting.insert(step);
            return (Ticket::Wait, joined);
        }
        self.waiting.remove(&step);
        self.outstanding.insert(step);
        (Ticket::Granted, true)
    }

    /// Grants a session a ticket for its step, even beyond the last step and the staleness bound, because other
    /// servers have already applied its batch.
    pub(crate) fn reserve_beyond(&mut self, step: StepId) -> (Ticket, bool) {
        let joined = self.clocks.join(step.task);
        self.waiting.remove(&step);
        (Ticket::Granted, self.outstanding.insert(step) || joined)
    }

    /// Returns whether an earlier step of the same session is waiting. A session pushes its steps in order, so a step
    /// could never use the last ticket while an earlier one has none.
    fn would_overtake(&self, step: StepId) -> bool {
        let first = StepId { seq: 0, ..step };
        self.waiting.range(first..step).next().is_some()
    }

    /// Returns by how many steps a task is ahead of the slowest live task when it begins this step.
    pub(crate) fn lead(&self, step: StepId) -> u64 {
        // Earlier requests of the task count even if they wait, because the task must push them first.
        let before = self.outstanding.iter().chain(&self.waiting);
        let own = before
            .filter(|other| other.task == step.task && **other < step)
            .count();
        self.clocks.lead(step.task, own as u64)
    }

    /// Returns whether the push holds a ticket.
    pub(crate) fn holds(&self, step: StepId) -> bool {
        self.outstanding.contains(&step)
    }

    /// Counts a push that is about to be applied. The clock of its task advances afterwards, by [`Steps::tick`].
    pub(crate) fn advance(&mut self, step: StepId) {
        self.outstanding.remove(&step);
        self.waiting.remove(&step);
        self.global_step += 1;
    }

    /// Advances the clock of a task after its push has been applied. Other tasks may then continue.
    pub(crate) fn tick(&mut self, task: Task) {
        self.clocks.tick(task);
    }

    /// Counts a synchronous step.
    pub(crate) fn advance_all(&mut self) {
        self.global_step += 1;
    }

    /// Takes a ticket back. The clock of the task advances, whether its own push was applied or another push of the
    /// same batch. Returns whether there was a ticket.
    pub(crate) fn give_back(&mut self, step: StepId) -> bool {
        self.waiting.remove(&step);
        let held = self.outstanding.remove(&step);
        if held {
            self.clocks.tick(step.task);
        }
        held
    }

    /// Takes back all tickets of a task's sessions below `session`.
    fn release_below(&mut self, task: Task, session: u64) {
        for steps in [&mut self.outstanding, &mut self.waiting] {
            steps.retain(|step| step.task != task || step.session >= session);
        }
    }
}

#[cfg(test)]
mod tests {
    use trainyard_cluster_spec::Role;

    use super::*;

    fn of(index: usize, seq: u64) -> StepId {
        let task = Task {
            role: Role::Worker,
            index,
        };
        StepId {
            task,
            session: 1,
            seq,
        }
    }

    fn step(seq: u64) -> StepId {
        of(0, seq)
    }

    #[test]
    fn a_batch_that_other_servers_have_applied_is_given_a_ticket_behind_the_last_step() {
        let mut steps = Steps::new(
            0,
            1,
            Update::StaleSynchronous {
                staleness_steps_max: 0,
            },
        );
        assert_eq!(steps.reserve(step(1)).0, Ticket::Granted);
        steps.advance(step(1));
        assert_eq!(steps.reserve(step(2)).0, Ticket::Finished);
        assert_eq!(steps.reserve_beyond(step(2)), (Ticket::Granted, true));
        assert_eq!(
            steps.reserve_beyond(step(2)),
            (Ticket::Granted, false),
            "asked again"
        );
        assert!(steps.holds(step(2)));
        // The batch was missing on this server.
        steps.advance(step(2));
        assert_eq!((steps.global_step(), steps.holds(step(2))), (2, false));
        // The batch was not missing on this server.
        assert_eq!(steps.reserve_beyond(step(3)).0, Ticket::Granted);
        assert!(steps.give_back(step(3)));
        assert_eq!(steps.global_step(), 2);
    }

    #[test]
    fn the_last_ticket_goes_to_the_first_step_that_waits_of_a_task_and_not_to_the_one_behind_it() {
        let mut steps = Steps::new(0, 1, Update::Async);
        assert_eq!(steps.reserve(of(1, 1)).0, Ticket::Granted);
        assert_eq!(steps.reserve(of(0, 1)).0, Ticket::Wait);
        // Another task has applied that batch, so the ticket is returned.
        assert!(steps.give_back(of(1, 1)));
        assert_eq!(
            steps.reserve(of(0, 2)).0,
            Ticket::Wait,
            "its first step waits: nothing behind it can be pushed"
        );
        assert_eq!(steps.reserve(of(0, 1)).0, Ticket::Granted);
        steps.advance(of(0, 1));
        assert_eq!(steps.reserve(of(0, 2)).0, Ticket::Finished);
        // A waiting step that is used up without a ticket blocks no other step.
        let mut steps = Steps::new(0, 1, Update::Async);
        assert_eq!(steps.reserve(of(1, 1)).0, Ticket::Granted);
        assert_eq!(steps.reserve(of(0, 1)).0, Ticket::Wait);
        assert!(!steps.give_back(of(0, 1)));
        assert!(steps.give_back(of(1, 1)));
        assert_eq!(steps.reserve(of(0, 2)).0, Ticket::Granted);
    }

    #[test]
    fn a_step_that_waits_is_not_overtaken_by_the_next_one_of_its_task() {
        let mut steps = Steps::new(
            0,
            0,
            Update::StaleSynchronous {
                staleness_steps_max: 0,
            },
        );
        steps.join(step(1).task, 1);
        assert_eq!(steps.reserve(step(1)).0, Ticket::Granted);
        assert_eq!(
            steps.reserve(step(2)).0,
            Ticket::Wait,
            "the first is under way"
        );
        steps.advance(step(1));
        steps.tick(step(1).task);
        assert_eq!(
            steps.reserve(step(3)).0,
            Ticket::Wait,
            "the second comes first"
        );
        assert_eq!(steps.reserve(step(2)).0, Ticket::Granted);
        steps.advance(step(2));
        steps.tick(step(2).task);
        assert_eq!(steps.reserve(step(3)).0, Ticket::Granted);
    }
}
