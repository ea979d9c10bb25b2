//! Rendezvous: forms the process groups that add up gradients, as a pure state machine. Time is an argument.
//!
//! A group is formed of all present tasks that request one. The members of the previous group have a grace period for
//! their requests. A member without a request is left out, and joins later like a new task. The first group waits for
//! every task of the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use trainyard_cluster_spec::Task;

use crate::TablePositions;

/// Time that the members of the previous group have for their requests, from the first such request on.
const GRACE: Duration = Duration::from_secs(1);

/// A request to join the next group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JoinRequest {
    pub(crate) task: Task,
    pub(crate) session: u64,
    /// Generation of the task's previous group; 0 = none.
    pub(crate) from: u64,
    /// Batches that the task's copy of the parameters has had, if it is one of the job.
    pub(crate) batches_applied: Option<u64>,
}

/// The process groups of a job, one at a time.
#[derive(Debug, Default)]
pub(crate) struct Rendezvous {
    generation: u64,
    members: Vec<(Task, u64)>,
    asking: BTreeMap<Task, JoinRequest>,
    /// Time of the first request by a member of the previous group.
    since: Option<Duration>,
    /// Positions of the tables that the copies of the dense variables must fit in the first group of the term; absent = any.
    tables: Option<TablePositions>,
    /// Reason why no copy of the dense variables fits the tables.
    misfit: Option<String>,
}

/// A process group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    pub generation: u64,
    pub members: Vec<Task>,
}

impl Rendezvous {
    /// Begins a term: there is no group. Generations continue.
    pub(crate) fn restart(&mut self) {
        *self = Self {
            generation: self.generation,
            ..Self::default()
        };
    }

    /// Sets the positions of the tables at the beginning of the term, if tables and tasks continue with the values that
    /// they have.
    pub(crate) fn set_tables(&mut self, tables: Option<TablePositions>) {
        self.tables = tables;
        self.misfit = None;
    }

    /// Returns why the job must go back to a checkpoint: all tasks of the next group are present, and none of them holds
    /// dense variables that fit the tables.
    pub(crate) fn misfit(&self) -> Option<&str> {
        self.misfit.as_deref()
    }

    /// Handles a request to join the next group. `here` are the sessions that train, `expected` all tasks of the
    /// cluster. Returns the group if it is formed, otherwise the tasks that are missing.
    pub(crate) fn ask(
        &mut self,
        now: Duration,
        request: JoinRequest,
        here: &[(Task, u64)],
        expected: &[Task],
    ) -> Result<Group, Vec<Task>> {
        let JoinRequest {
            task,
            session,
            from,
            ..
        } = request;
        if self.generation > from && self.members.contains(&(task, session)) {
            return Ok(self.current());
        }
        self.asking
            .retain(|task, asking| here.contains(&(*task, asking.session)));
        self.asking.insert(task, request);
        // The grace period is for members of the previous group. A new task waits for them without limit.
        let broken = self.asking.values().any(|asking| asking.from > 0);
        let patient = if broken {
            now.saturating_sub(*self.since.get_or_insert(now)) < GRACE
        } else {
            true
        };
        let first = if self.members.is_empty() {
            expected
        } else {
            &[]
        };
        let awaited: BTreeSet<Task> = here
            .iter()
            .map(|(task, _)| *task)
            .chain(first.iter().copied())
            .collect();
        let missing: Vec<Task> = awaited
            .into_iter()
            .filter(|task| !self.asking.contains_key(task))
            .collect();
        if !missing.is_empty() && patient {
            return Err(missing);
        }
        let newest = self
            .asking
            .values()
            .filter_map(|asking| asking.batches_applied)
            .max();
        self.misfit = self
            .tables
            .and_then(|tables| tables.misfit(newest.unwrap_or(0)));
        if self.misfit.is_some() {
            // The chief restores all stores in another term.
            return Err(Vec::new());
        }
        // From its first step on, the tables are beyond these positions, and have all rows of each dense step.
        self.tables = None;
        self.generation += 1;
        self.members = self
            .asking
            .iter()
            .map(|(task, asking)| (*task, asking.session))
            .collect();
        (self.asking, self.since) = (BTreeMap::new(), None);
        Ok(self.current())
    }

    /// Returns the generation of the group that a task waits to join; 0 = no task waits.
    pub(crate) fn awaited(&self) -> u64 {
        if self.asking.is_empty() {
            0
        } else {
            self.generation
        }
    }

    fn current(&self) -> Group {
        let members = self.members.iter().map(|(task, _)| *task).collect();
        Group {
            generation: self.generation,
            members,
        }
    }
}

#[cfg(test)]
mod tests {
    use trainyard_cluster_spec::Role;

    use super::*;

    const MOMENT: Duration = Duration::from_millis(10);

    fn task(index: usize) -> Task {
        Task {
            role: Role::Worker,
            index,
        }
    }

    /// Returns the request of a task whose previous group has generation `from`; 0 = none.
    fn request(index: usize, session: u64, from: u64) -> JoinRequest {
        JoinRequest {
            task: task(index),
            session,
            from,
            batches_applied: None,
        }
    }

    fn here(indices: &[usize]) -> Vec<(Task, u64)> {
        indices.iter().map(|index| (task(*index), 1)).collect()
    }

    #[test]
    fn the_first_group_waits_for_every_task() {
        let mut groups = Rendezvous::default();
        let expected = [task(0), task(1), task(2)];
        let mut ask =
            |index: usize, now| groups.ask(now, request(index, 1, 0), &here(&[0, 1, 2]), &expected);
        assert_eq!(ask(1, MOMENT), Err(vec![task(0), task(2)]));
        assert_eq!(ask(0, 100 * GRACE), Err(vec![task(2)]));
        let formed = Group {
            generation: 1,
            members: expected.to_vec(),
        };
        assert_eq!(ask(2, 100 * GRACE), Ok(formed.clone()));
        assert_eq!(
            (ask(0, 100 * GRACE), ask(1, 100 * GRACE)),
            (Ok(formed.clone()), Ok(formed))
        );
    }

    #[test]
    fn dense_variables_are_compared_with_the_tables_once_a_term() {
        let position = trainyard_parameter_store::ShardPosition {
            shard: 0,
            pass: 0,
            batch: 30,
            ahead: Vec::new(),
        };
        let tables = TablePositions::of([vec![position]].into_iter(), 3);
        let (all, expected) = (here(&[0, 1]), [task(0), task(1)]);
        let had = |index, session, from, batches| JoinRequest {
            batches_applied: batches,
            ..request(index, session, from)
        };
        let mut groups = Rendezvous::default();
        groups.set_tables(tables);
        assert!(
            groups
                .ask(MOMENT, had(0, 1, 0, Some(33)), &all, &expected)
                .is_err()
        );
        assert!(
            groups
                .ask(MOMENT, had(1, 1, 0, Some(30)), &all, &expected)
                .is_err()
        );
        let why = groups.misfit().expect("the tables lack a batch");
        assert!(why.contains("batch 30"), "{why}");

        let mut groups = Rendezvous::default();
        groups.set_tables(tables);
        assert!(
            groups
                .ask(MOMENT, had(0, 1, 0, Some(30)), &all, &expected)
                .is_err()
        );
        let first = groups.ask(MOMENT, had(1, 1, 0, None), &all, &expected);
        assert_eq!(first.map(|group| group.generation), Ok(1));
        // Task 1 dies after further steps, and comes back.
        let all = [(task(0), 1), (task(1), 2)];
        assert!(
            groups
                .ask(MOMENT, had(1, 2, 0, None), &all, &expected)
                .is_err()
        );
        let second = groups.ask(MOMENT, had(0, 1, 1, Some(90)), &all, &expected);
        assert_eq!(second.map(|group| group.generation), Ok(2));
        assert_eq!(groups.misfit(), None);
    }

    #[test]
    fn a_dead_member_is_left_out_after_a_moment_and_comes_back_at_a_step() {
        let mut groups = Rendezvous::default();
        let expected = [task(0), task(1), task(2)];
        for index in 0..3 {
            drop(groups.ask(MOMENT, request(index, 1, 0), &here(&[0, 1, 2]), &expected));
        }
        // Task 2 dies. The others request a group while its lease has not expired.
        let all = here(&[0, 1, 2]);
        assert_eq!(
            groups.ask(MOMENT, request(0, 1, 1), &all, &expected),
            Err(vec![task(1), task(2)])
        );
        assert_eq!(
            groups.ask(2 * MOMENT, request(1, 1, 1), &all, &expected),
            Err(vec![task(2)])
        );
        let later = 2 * GRACE;
        let formed = groups
            .ask(later, request(0, 1, 1), &all, &expected)
            .expect("formed");
        assert_eq!(
            formed,
            Group {
                generation: 2,
                members: vec![task(0), task(1)]
            }
        );
        assert_eq!(
            groups.ask(later, request(1, 1, 1), &all, &expected),
            Ok(formed)
        );
        // Task 2 is back in another session, and waits for the others without limit.
        let all = [(task(0), 1), (task(1), 1), (task(2), 2)];
        assert_eq!(
            groups.ask(9 * GRACE, request(2, 2, 0), &all, &expected),
            Err(vec![task(0), task(1)])
        );
        assert_eq!(groups.awaited(), 2);
        assert!(
            groups
                .ask(99 * GRACE, request(2, 2, 0), &all, &expected)
                .is_err()
        );
        let waits = groups.ask(99 * GRACE, request(0, 1, 2), &all, &expected);
        assert_eq!(waits, Err(vec![task(1)]));
        let formed = groups
            .ask(99 * GRACE, request(1, 1, 2), &all, &expected)
            .expect("formed");
        assert_eq!(formed.members, [task(0), task(1), task(2)]);
    }
}
