//! Clocks of stale-synchronous training: the finished steps of each task, and the staleness bound.
//!
//! Q. Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server", 2013: a task at
//! clock `c` may begin its next step while `c` is at most the bound ahead of the slowest live task. The values that it
//! then reads include all updates of clocks below `c - bound`.

use std::collections::BTreeMap;

use trainyard_cluster_spec::Task;

/// Finished steps of each live task, counted from the slowest clock when the task joined.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clocks {
    by_task: BTreeMap<Task, Clock>,
}

#[derive(Debug, Clone, Copy)]
struct Clock {
    steps: u64,
    /// The task is idle: it has no step in progress and requests none, so it holds no values that could become stale.
    rests: bool,
}

impl Clocks {
    /// Adds a task, or ends its idle time. Its clock becomes at least that of the slowest task, so that it does not
    /// hold up the others. It never decreases, so that the task does not run ahead.
    ///
    /// Returns whether anything changed.
    pub(crate) fn join(&mut self, task: Task) -> bool {
        let slowest = self.slowest().unwrap_or(0);
        let clock = self.by_task.entry(task).or_insert(Clock {
            steps: slowest,
            rests: true,
        });
        if !clock.rests {
            return false;
        }
        *clock = Clock {
            steps: clock.steps.max(slowest),
            rests: false,
        };
        true
    }

    /// Excludes an idle task from the staleness bound until it joins again. Returns whether anything changed.
    pub(crate) fn rest(&mut self, task: Task) -> bool {
        self.by_task
            .get_mut(&task)
            .is_some_and(|clock| !std::mem::replace(&mut clock.rests, true))
    }

    /// Removes all tasks.
    pub(crate) fn clear(&mut self) {
        self.by_task.clear();
    }

    /// Returns every task with its finished steps, and whether it is idle.
    pub(crate) fn metadata(&self) -> Vec<(Task, u64, bool)> {
        self.by_task
            .iter()
            .map(|(task, clock)| (*task, clock.steps, clock.rests))
            .collect()
    }

    /// Restores the clocks from `metadata`.
    pub(crate) fn at(metadata: &[(Task, u64, bool)]) -> Self {
        let clock = |&(task, steps, rests): &(Task, u64, bool)| (task, Clock { steps, rests });
        Self {
            by_task: metadata.iter().map(clock).collect(),
        }
    }

    /// Removes a task, so that no other task waits for it.
    pub(crate) fn leave(&mut self, task: Task) {
        self.by_task.remove(&task);
    }

    /// Counts a finished step.
    pub(crate) fn tick(&mut self, task: Task) {
        if let Some(clock) = self.by_task.get_mut(&task) {
            clock.steps += 1;
        }
    }

    /// Returns by how many steps a task is ahead of the slowest, if it has begun `outstanding` further steps.
    pub(crate) fn lead(&self, task: Task, outstanding: u64) -> u64 {
        let clock = self.by_task.get(&task).map_or(0, |clock| clock.steps) + outstanding;
        clock - self.slowest().unwrap_or(0).min(clock)
    }

    fn slowest(&self) -> Option<u64> {
        self.by_task
            .values()
            .filter(|clock| !clock.rests)
            .map(|clock| clock.steps)
            .min()
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

    proptest! {
        /// Tasks join, become idle, leave, begin steps and finish steps in any order.
        #[test]
        fn nobody_who_begins_is_farther_ahead_than_the_bound(
            bound in 0_u64..4, events in prop::collection::vec((0_usize..5, 0_u8..5), 1..400),
        ) {
            let mut clocks = Clocks::default();
            // Steps begun and steps finished of the active tasks, and steps finished of the idle tasks.
            let mut here: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
            let mut resting: BTreeMap<usize, u64> = BTreeMap::new();
            for (index, event) in events {
                let slowest = here.values().map(|(_, finished)| *finished).min();
                match event {
                    0 => {
                        clocks.join(task(index));
                        let back = resting.remove(&index).unwrap_or(0).max(slowest.unwrap_or(0));
                        here.entry(index).or_insert((0, back));
                    }
                    1 => {
                        clocks.leave(task(index));
                        here.remove(&index);
                        resting.remove(&index);
                    }
                    2 => {
                        let Some((begun, finished)) = here.get_mut(&index) else { continue };
                        if clocks.lead(task(index), *begun) <= bound {
                            let slowest = slowest.expect("it is here itself");
                            prop_assert!(*finished + *begun - slowest <= bound, "{here:?}");
                            *begun += 1;
                        }
                    }
                    3 => {
                        let Some((0, finished)) = here.get(&index).copied() else { continue };
                        clocks.rest(task(index));
                        here.remove(&index);
                        resting.insert(index, finished);
                    }
                    _ => {
                        let Some((begun, finished)) = here.get_mut(&index).filter(|(begun, _)| *begun > 0) else {
                            continue;
                        };
                        (*begun, *finished) = (*begun - 1, *finished + 1);
                        clocks.tick(task(index));
                    }
                }
                // The slowest task may always begin a step, if it has none in progress.
                if let Some((slowest, _)) = here.iter().min_by_key(|(_, (_, finished))| *finished) {
                    prop_assert_eq!(clocks.lead(task(*slowest), 0), 0);
                }
            }
        }
    }
}
