//! The meaning of an epoch in words: the first question of most people who train on a cluster.

use trainyard_run_config::{Sharding, Update};

/// The settings that determine an epoch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EpochSummary {
    pub(crate) sharding: Sharding,
    pub(crate) update: Update,
    /// Tasks that train from the beginning; 0 if all workers join later.
    pub(crate) tasks: u64,
    /// Batches of a synchronous step; 0 if the updates are not synchronous.
    pub(crate) lanes: u64,
    pub(crate) batch_size: u64,
    /// Records of the input.
    pub(crate) rows: u64,
}

impl EpochSummary {
    /// Returns the number of steps of an epoch; if the records are divided over tasks, an upper bound.
    pub(crate) fn steps(&self) -> u64 {
        let batches = self.rows.div_ceil(self.batch_size);
        match self.sharding {
            Sharding::None => batches * self.tasks,
            Sharding::File | Sharding::Row => {
                self.rows.div_ceil(self.tasks).div_ceil(self.batch_size) * self.tasks
            }
            Sharding::Dynamic => batches.div_ceil(self.lanes.max(1)),
        }
    }

    /// Returns the summary in one line.
    pub(crate) fn describe(&self) -> String {
        let Self {
            tasks,
            rows,
            batch_size,
            lanes,
            ..
        } = *self;
        let steps = self.steps();
        let one = tasks <= 1;
        let meaning = match self.sharding {
            Sharding::None if one => format!("one pass is {rows} records: {steps} steps"),
            Sharding::None => format!(
                "each of {tasks} tasks reads all {rows} records: one pass of every task is \
                {steps} steps"
            ),
            Sharding::File => format!(
                "{tasks} tasks share the files: one pass is {rows} records, about {steps} steps"
            ),
            Sharding::Row => format!(
                "{tasks} tasks share the records: one pass is {rows} records, at most {steps} \
                steps"
            ),
            Sharding::Dynamic => format!(
                "the chief assigns data shards: one pass is {rows} records, {steps} steps for \
                any number of tasks"
            ),
        };
        let batch = match self.update {
            Update::Sync => format!(
                "a step is the mean of {lanes} batches of {batch_size}: the effective batch size is {}",
                lanes * batch_size
            ),
            Update::Async | Update::StaleSynchronous { .. } if one => {
                format!("a step is a batch of {batch_size}")
            }
            Update::Async | Update::StaleSynchronous { .. } => format!(
                "a step is a batch of {batch_size} of one task; {} other tasks compute at the \
                same time: {} records in progress",
                tasks - 1,
                tasks * batch_size
            ),
        };
        format!("{meaning}; {batch}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(sharding: Sharding, update: Update, lanes: u64) -> EpochSummary {
        EpochSummary {
            sharding,
            update,
            tasks: 5,
            lanes,
            batch_size: 128,
            rows: 650_000,
        }
    }

    #[test]
    fn an_epoch_is_one_pass_or_one_of_each_task() {
        let dynamic = epoch(Sharding::Dynamic, Update::Async, 0);
        let none = epoch(Sharding::None, Update::Async, 0);
        assert_eq!((dynamic.steps(), none.steps()), (5079, 5 * 5079));
        assert_eq!(
            dynamic.describe(),
            "the chief assigns data shards: one pass is 650000 records, 5079 steps for any \
            number of tasks; a step is a batch of 128 of one task; 4 other tasks compute at the \
            same time: 640 records in progress"
        );
        assert_eq!(
            none.describe(),
            "each of 5 tasks reads all 650000 records: one pass of every task is 25395 steps; a \
            step is a batch of 128 of one task; 4 other tasks compute at the same time: 640 \
            records in progress"
        );
        let nobody = EpochSummary {
            tasks: 0,
            ..dynamic
        };
        assert!(
            nobody
                .describe()
                .ends_with("for any number of tasks; a step is a batch of 128")
        );
        let sync = epoch(Sharding::Dynamic, Update::Sync, 5);
        assert_eq!(sync.steps(), 1016);
        assert!(
            sync.describe().ends_with(
                "a step is the mean of 5 batches of 128: the effective batch size is 640"
            )
        );
    }
}
