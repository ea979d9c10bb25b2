//! The global step and the tickets for the steps that remain, so that the last step is never overshot.

use std::collections::BTreeSet;

use trainyard_cluster_spec::Task;

use crate::clocks::Clocks;
use crate::{Identity, Standing, Update};

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
    update: Update,
    outstanding: BTreeSet<(Task, u64, u64)>,
    /// Steps that were asked for and have to wait: for slower tasks, or for a step of another task that may come back.
    waiting: BTreeSet<(Task, u64, u64)>,
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

    /// Takes a task in, whose earlier sessions are over.
    pub(crate) fn join(&mut self, task: Task, session: u64) {
        self.release_below(task, session);
        // Nobody waits for it before it asks for its first step: it may have no data for a long time.
        self.clocks.rest(task);
    }

    /// Lets a task rest that has nothing under way: it waits for data, perhaps for that of those who would wait for it.
    /// Returns whether that changed anything.
    pub(crate) fn rest(&mut self, task: Task) -> bool {
        !self.outstanding.iter().any(|(owner, ..)| *owner == task) && self.clocks.rest(task)
    }

    /// Lets all tasks go: their sessions are over.
    pub(crate) fn clear(&mut self) {
        self.outstanding.clear();
        self.waiting.clear();
        self.clocks.clear();
    }

    /// Takes up what another had come to.
    pub(crate) fn resume(&mut self, standing: &Standing) {
        self.global_step = standing.global_step;
        self.outstanding = standing.tickets.iter().copied().collect();
        self.clocks = Clocks::at(&standing.clocks);
    }

    /// Tells what [`Steps::resume`] takes up.
    pub(crate) fn stand(&self, standing: &mut Standing) {
        standing.global_step = self.global_step;
        standing.tickets = self.outstanding.iter().copied().collect();
        standing.clocks = self.clocks.standing();
    }

    /// Lets a task go, whose sessions up to this one are over.
    pub(crate) fn leave(&mut self, task: Task, session: u64) {
        self.release_below(task, session.saturating_add(1));
        self.clocks.leave(task);
    }

    /// Gives the session the right to push its `seq`, once: asking again returns the same ticket. Tells whether
    /// anything changed, too.
    pub(crate) fn reserve(&mut self, identity: &Identity) -> (Ticket, bool) {
        let key = (identity.task, identity.session, identity.seq);
        if self.outstanding.contains(&key) {
            return (Ticket::Granted, false);
        }
        if self.has_ended() {
            return (Ticket::Finished, false);
        }
        let joined = self.clocks.join(identity.task);
        match self.update {
            // All parts of a step are the same step: whoever comes too late is told when it pushes.
            Update::Sync => {}
            Update::Async | Update::StaleSynchronous { .. } => {
                let none_is_left =
                    self.max > 0 && self.global_step + (self.outstanding.len() as u64) >= self.max;
                if none_is_left || self.would_overtake(key) {
                    self.waiting.insert(key);
                    return (Ticket::Wait, joined);
                }
            }
        }
        if let Update::StaleSynchronous { staleness_max } = self.update
            && self.lead(identity) > staleness_max
        {
            self.waiting.insert(key);
            return (Ticket::Wait, joined);
        }
        self.waiting.remove(&key);
        self.outstanding.insert(key);
        (Ticket::Granted, true)
    }

    /// Gives the session the right to push its `seq`, also behind the last step and however far ahead it is: its batch has been
    /// applied on other servers already.
    pub(crate) fn reserve_beyond(&mut self, identity: &Identity) -> (Ticket, bool) {
        let key = (identity.task, identity.session, identity.seq);
        let joined = self.clocks.join(identity.task);
        self.waiting.remove(&key);
        (Ticket::Granted, self.outstanding.insert(key) || joined)
    }

    /// Whether an earlier step of the same session waits. A session pushes its steps in order: one that is given the last ticket
    /// before the step in front of it could use it never.
    fn would_overtake(&self, (task, session, seq): (Task, u64, u64)) -> bool {
        self.waiting
            .range((task, session, 0)..(task, session, seq))
            .next()
            .is_some()
    }

    /// Returns by how many steps a task is ahead of the slowest live one where it begins this one.
    pub(crate) fn lead(&self, identity: &Identity) -> u64 {
        let this = (identity.task, identity.session, identity.seq);
        // One that was asked for earlier comes first, although it waits: the task waits for it, too.
        let before = self.outstanding.iter().chain(&self.waiting);
        let own = before
            .filter(|ticket| ticket.0 == identity.task && **ticket < this)
            .count();
        self.clocks.lead(identity.task, own as u64)
    }

    /// Returns whether the push holds a ticket.
    pub(crate) fn holds(&self, identity: &Identity) -> bool {
        self.outstanding
            .contains(&(identity.task, identity.session, identity.seq))
    }

    /// Counts a push that is about to be applied. Its task has come on by a step when it has been: see [`Steps::tick`].
    pub(crate) fn advance(&mut self, identity: &Identity) {
        let key = (identity.task, identity.session, identity.seq);
        self.outstanding.remove(&key);
        self.waiting.remove(&key);
        self.global_step += 1;
    }

    /// Takes note that a push which was counted has been applied: others may go on because of it.
    pub(crate) fn tick(&mut self, task: Task) {
        self.clocks.tick(task);
    }

    /// Counts a step of all together.
    pub(crate) fn advance_all(&mut self) {
        self.global_step += 1;
    }

    /// Takes one ticket back. The task has come on by a step, whether it counts or somebody else has done the same.
    /// Returns whether there was one.
    pub(crate) fn give_back(&mut self, identity: &Identity) -> bool {
        let key = (identity.task, identity.session, identity.seq);
        self.waiting.remove(&key);
        let held = self.outstanding.remove(&key);
        if held {
            self.clocks.tick(identity.task);
        }
        held
    }

    /// Takes back all tickets of a task's sessions below `session`.
    fn release_below(&mut self, task: Task, session: u64) {
        for steps in [&mut self.outstanding, &mut self.waiting] {
            steps.retain(|&(owner, number, _)| owner != task || number >= session);
        }
    }
}

#[cfg(test)]
mod tests {
    use trainyard_cluster_spec::Role;

    use super::*;

    fn step(seq: u64) -> Identity {
        let task = Task {
            role: Role::Worker,
            index: 0,
        };
        Identity {
            cluster_id: 1,
            epoch: 1,
            task,
            incarnation: 1,
            session: 1,
            seq,
        }
    }

    #[test]
    fn a_batch_that_other_servers_have_applied_is_given_a_ticket_behind_the_last_step() {
        let mut steps = Steps::new(0, 1, Update::StaleSynchronous { staleness_max: 0 });
        assert_eq!(steps.reserve(&step(1)).0, Ticket::Granted);
        steps.advance(&step(1));
        assert_eq!(steps.reserve(&step(2)).0, Ticket::Finished);
        assert_eq!(steps.reserve_beyond(&step(2)), (Ticket::Granted, true));
        assert_eq!(
            steps.reserve_beyond(&step(2)),
            (Ticket::Granted, false),
            "asked again"
        );
        assert!(steps.holds(&step(2)));
        // Of this server, the batch was missing.
        steps.advance(&step(2));
        assert_eq!((steps.global_step(), steps.holds(&step(2))), (2, false));
        // Of this one, it was not.
        assert_eq!(steps.reserve_beyond(&step(3)).0, Ticket::Granted);
        assert!(steps.give_back(&step(3)));
        assert_eq!(steps.global_step(), 2);
    }

    #[test]
    fn the_last_ticket_goes_to_the_first_step_that_waits_of_a_task_and_not_to_the_one_behind_it() {
        let of = |index: usize, seq: u64| {
            let task = Task {
                role: Role::Worker,
                index,
            };
            Identity {
                cluster_id: 1,
                epoch: 1,
                task,
                incarnation: 1,
                session: 1,
                seq,
            }
        };
        let mut steps = Steps::new(0, 1, Update::Async);
        assert_eq!(steps.reserve(&of(1, 1)).0, Ticket::Granted);
        assert_eq!(steps.reserve(&of(0, 1)).0, Ticket::Wait);
        // Somebody else had that batch, and the ticket comes back.
        assert!(steps.give_back(&of(1, 1)));
        assert_eq!(
            steps.reserve(&of(0, 2)).0,
            Ticket::Wait,
            "its first step waits: nothing behind it can be pushed"
        );
        assert_eq!(steps.reserve(&of(0, 1)).0, Ticket::Granted);
        steps.advance(&of(0, 1));
        assert_eq!(steps.reserve(&of(0, 2)).0, Ticket::Finished);
        // One that is used up without a ticket holds nobody up.
        let mut steps = Steps::new(0, 1, Update::Async);
        assert_eq!(steps.reserve(&of(1, 1)).0, Ticket::Granted);
        assert_eq!(steps.reserve(&of(0, 1)).0, Ticket::Wait);
        assert!(!steps.give_back(&of(0, 1)));
        assert!(steps.give_back(&of(1, 1)));
        assert_eq!(steps.reserve(&of(0, 2)).0, Ticket::Granted);
    }

    #[test]
    fn a_step_that_waits_is_not_overtaken_by_the_next_one_of_its_task() {
        let mut steps = Steps::new(0, 0, Update::StaleSynchronous { staleness_max: 0 });
        steps.join(step(1).task, 1);
        assert_eq!(steps.reserve(&step(1)).0, Ticket::Granted);
        assert_eq!(
            steps.reserve(&step(2)).0,
            Ticket::Wait,
            "the first is under way"
        );
        steps.advance(&step(1));
        steps.tick(step(1).task);
        assert_eq!(
            steps.reserve(&step(3)).0,
            Ticket::Wait,
            "the second comes first"
        );
        assert_eq!(steps.reserve(&step(2)).0, Ticket::Granted);
        steps.advance(&step(2));
        steps.tick(step(2).task);
        assert_eq!(steps.reserve(&step(3)).0, Ticket::Granted);
    }
}
