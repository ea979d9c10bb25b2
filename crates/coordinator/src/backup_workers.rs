//! Assignment of lanes to owners and backup workers in synchronous training, as a pure state machine.
//!
//! A step takes one batch of each lane. Each lane has an owner; tasks beyond the lanes are backup workers, which
//! compute the slowest lane as well. The assignment only affects speed: a micro-batch is the same on every task.

use std::collections::BTreeMap;

use trainyard_cluster_spec::Task;

/// Factor by which all votes decay at each vote.
const DECAY: f64 = 0.95;
/// Ratio of votes above which a backup worker changes to a slower lane.
const WORSE: f64 = 2.0;
/// Votes below which a lane does not count as slow.
const VOTES_MIN: f64 = 3.0;

/// Owners and backup workers of the lanes of a job.
#[derive(Debug, Default)]
pub(crate) struct LaneAssignment {
    owners: Vec<Option<Task>>,
    backups: BTreeMap<Task, u32>,
    /// Number of steps in which each lane was the last one, decayed over time.
    votes: Vec<f64>,
}

impl LaneAssignment {
    /// Returns `count` lanes, the first of which belong to `tasks`, one each.
    pub(crate) fn new(count: usize, tasks: &[Task]) -> Self {
        let owners = (0..count).map(|lane| tasks.get(lane).copied()).collect();
        Self {
            owners,
            backups: BTreeMap::new(),
            votes: vec![0.0; count],
        }
    }

    /// Returns the lanes that a task computes.
    pub(crate) fn of(&self, task: Task) -> Vec<u32> {
        let own = (0_u32..)
            .zip(&self.owners)
            .filter(|(_, owner)| **owner == Some(task));
        own.map(|(lane, _)| lane)
            .chain(self.backups.get(&task).copied())
            .collect()
    }

    /// Records the lane that the latest step waited for.
    pub(crate) fn vote(&mut self, slowest: u32) {
        self.votes.iter_mut().for_each(|votes| *votes *= DECAY);
        if let Some(votes) = self.votes.get_mut(slowest as usize) {
            *votes += 1.0;
        }
    }

    /// Assigns every lane to one of the present tasks, and a lane to back up to each present task without one. Lanes of
    /// tasks in `through`, which have computed all of theirs, keep their owner.
    pub(crate) fn assign(&mut self, here: &[Task], through: &[Task]) {
        self.backups.retain(|task, _| here.contains(task));
        for lane in 0..self.owners.len() {
            if self.owners[lane]
                .is_some_and(|owner| here.contains(&owner) || through.contains(&owner))
            {
                continue;
            }
            // The task with the fewest lanes comes first; among equals, a backup worker that knows the lane.
            let load = |task: &Task| {
                let knows = self.backups.get(task) == Some(&(lane as u32));
                (self.owned(*task), !knows, *task)
            };
            self.owners[lane] = here.iter().copied().min_by_key(load);
            if let Some(owner) = self.owners[lane] {
                self.backups.remove(&owner);
            }
        }
        // A task that has returned takes a lane over from a task with several.
        for &idle in here {
            let busiest = here.iter().copied().max_by_key(|task| self.owned(*task));
            let Some(busiest) =
                busiest.filter(|busiest| self.owned(*busiest) > self.owned(idle) + 1)
            else {
                continue;
            };
            if let Some(lane) = self
                .owners
                .iter()
                .rposition(|owner| *owner == Some(busiest))
            {
                self.owners[lane] = Some(idle);
                self.backups.remove(&idle);
            }
        }
        for &task in here {
            if self.owned(task) == 0 {
                self.choose(task);
            }
        }
    }

    /// Chooses the lane that a backup worker computes.
    fn choose(&mut self, task: Task) {
        let current = self.backups.get(&task).copied();
        let helpers = |lane: u32| {
            self.backups
                .iter()
                .filter(|(other, own)| **other != task && **own == lane)
                .count()
        };
        let votes = |lane: u32| self.votes.get(lane as usize).copied().unwrap_or(0.0);
        let lanes = 0..self.owners.len() as u32;
        let Some(least) = lanes.clone().map(helpers).min() else {
            return;
        };
        let free = lanes.filter(|lane| helpers(*lane) == least);
        let slowest =
            free.max_by(|one, other| votes(*one).total_cmp(&votes(*other)).then(other.cmp(one)));
        let Some(slowest) = slowest else { return };
        let worse = current.is_none_or(|current| {
            votes(slowest) >= VOTES_MIN && votes(slowest) > WORSE * votes(current)
        });
        if worse {
            self.backups.insert(task, slowest);
        }
    }

    fn owned(&self, task: Task) -> usize {
        self.owners
            .iter()
            .filter(|owner| **owner == Some(task))
            .count()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use trainyard_cluster_spec::Role;

    use super::*;

    fn task(index: usize) -> Task {
        Task {
            role: Role::Worker,
            index,
        }
    }

    #[test]
    fn lanes_of_a_dead_task_go_to_backup_workers_and_back() {
        let tasks: Vec<Task> = (0..4).map(task).collect();
        let mut lanes = LaneAssignment::new(3, &tasks);
        lanes.assign(&tasks, &[]);
        assert_eq!((lanes.of(task(0)), lanes.of(task(2))), (vec![0], vec![2]));
        (0..20).for_each(|_| lanes.vote(1));
        lanes.assign(&tasks, &[]);
        assert_eq!(
            lanes.of(task(3)),
            [1],
            "the backup worker helps the slowest"
        );
        lanes.assign(&[task(0), task(2), task(3)], &[]);
        assert_eq!(lanes.of(task(3)), [1], "it takes the lane over");
        lanes.assign(&[task(0), task(2)], &[]);
        assert_eq!(lanes.of(task(0)), [0, 1]);
        lanes.assign(&tasks, &[]);
        let owned: Vec<usize> = (0..4).map(|index| lanes.owned(task(index))).collect();
        assert_eq!(owned.iter().sum::<usize>(), 3);
        assert!(owned.iter().all(|owned| *owned <= 1), "{owned:?}");
    }

    #[test]
    fn a_task_that_is_through_keeps_its_lanes_and_gets_no_others() {
        let tasks: Vec<Task> = (0..3).map(task).collect();
        let mut lanes = LaneAssignment::new(3, &tasks);
        lanes.assign(&[task(1)], &[task(0)]);
        assert_eq!(
            (lanes.of(task(0)), lanes.of(task(1))),
            (vec![0], vec![1, 2])
        );
        lanes.assign(&[task(1)], &[]);
        assert_eq!(lanes.of(task(1)), [0, 1, 2], "nobody computes it any more");
    }

    proptest! {
        #[test]
        fn every_lane_has_one_owner_that_is_here(
            count in 1_usize..6, steps in prop::collection::vec((prop::collection::vec(any::<bool>(), 7), 0_u32..6), 1..40),
        ) {
            let all: Vec<Task> = (0..7).map(task).collect();
            let mut lanes = LaneAssignment::new(count, &all);
            for (here, slowest) in steps {
                let here: Vec<Task> = all.iter().copied().zip(here).filter(|(_, is)| *is).map(|(task, _)| task).collect();
                lanes.vote(slowest);
                lanes.assign(&here, &[]);
                let covered: Vec<u32> = here.iter().flat_map(|task| lanes.of(*task)).collect();
                if !here.is_empty() {
                    prop_assert!((0..count as u32).all(|lane| covered.contains(&lane)), "{covered:?}");
                    prop_assert!(lanes.owners.iter().all(|owner| owner.is_some_and(|owner| here.contains(&owner))));
                    let loads: Vec<usize> = here.iter().map(|task| lanes.owned(*task)).collect();
                    prop_assert_eq!(loads.iter().sum::<usize>(), count);
                    prop_assert!(here.iter().all(|task| !lanes.of(*task).is_empty()), "nobody is idle");
                }
            }
        }
    }
}
