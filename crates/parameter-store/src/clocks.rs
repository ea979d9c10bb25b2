//! Clocks of stale-synchronous training: how far each task has come, and who may go on.
//!
//! Q. Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server", 2013: a task at
//! clock `c` may begin its next step while `c` is at most the bound ahead of the slowest live task. What it then reads
//! holds all updates of clocks below `c - bound`.

use std::collections::BTreeMap;

use trainyard_cluster_spec::Task;

/// Steps that each live task has finished, counted on from where the slowest was when it joined.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clocks {
    by_task: BTreeMap<Task, u64>,
}

impl Clocks {
    /// Takes a task in. It starts at the slowest clock, so that it neither holds the others up nor runs ahead. One that
    /// is here already keeps its clock.
    pub(crate) fn join(&mut self, task: Task) {
        let slowest = self.slowest().unwrap_or(0);
        self.by_task.entry(task).or_insert(slowest);
    }

    /// Lets a task go: nobody waits for it any more.
    pub(crate) fn leave(&mut self, task: Task) {
        self.by_task.remove(&task);
    }

    /// Counts a finished step.
    pub(crate) fn tick(&mut self, task: Task) {
        if let Some(clock) = self.by_task.get_mut(&task) {
            *clock += 1;
        }
    }

    /// Returns by how many steps a task that has begun `outstanding` others is ahead of the slowest.
    pub(crate) fn lead(&self, task: Task, outstanding: u64) -> u64 {
        let clock = self.by_task.get(&task).copied().unwrap_or(0) + outstanding;
        clock - self.slowest().unwrap_or(0).min(clock)
    }

    fn slowest(&self) -> Option<u64> {
        self.by_task.values().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use trainyard_cluster_spec::Role;

    use super::*;

    fn task(index: usize) -> Task {
        Task { role: Role::Worker, index }
    }

    proptest! {
        /// Tasks join, leave, begin and finish in any order.
        #[test]
        fn nobody_who_begins_is_farther_ahead_than_the_bound(
            bound in 0_u64..4, events in prop::collection::vec((0_usize..5, 0_u8..4), 1..400),
        ) {
            let mut clocks = Clocks::default();
            // Steps begun and not finished, of those who are here.
            let mut here: BTreeMap<usize, u64> = BTreeMap::new();
            let mut finished: BTreeMap<usize, u64> = BTreeMap::new();
            for (index, event) in events {
                match event {
                    0 => {
                        let slowest = finished.values().min().copied().unwrap_or(0);
                        clocks.join(task(index));
                        here.entry(index).or_insert(0);
                        finished.entry(index).or_insert(slowest);
                    }
                    1 => {
                        clocks.leave(task(index));
                        (here.remove(&index), finished.remove(&index));
                    }
                    2 => {
                        let Some(begun) = here.get(&index).copied() else { continue };
                        if clocks.lead(task(index), begun) <= bound {
                            let slowest = finished.values().min().copied().expect("it is here itself");
                            prop_assert!(finished[&index] + begun - slowest <= bound, "{finished:?} {here:?}");
                            here.insert(index, begun + 1);
                        }
                    }
                    _ => {
                        let Some(begun) = here.get_mut(&index).filter(|begun| **begun > 0) else { continue };
                        *begun -= 1;
                        clocks.tick(task(index));
                        *finished.entry(index).or_default() += 1;
                    }
                }
                // Somebody may always begin: the slowest, if it has nothing under way.
                if let Some((slowest, _)) = finished.iter().min_by_key(|(_, clock)| **clock) {
                    prop_assert_eq!(clocks.lead(task(*slowest), 0), 0);
                }
            }
        }
    }
}
