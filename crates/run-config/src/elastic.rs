//! Elasticity: whether workers may join and leave while a job runs.

use crate::{Job, Sharding, StrategyKind};

impl Job {
    /// Returns whether workers may be added and removed while the job runs.
    ///
    /// # Errors
    /// The reason why they may not, as the end of a sentence.
    pub fn elastic(&self) -> Result<(), &'static str> {
        match self.strategy.kind {
            // A new worker copies the parameters from the others.
            StrategyKind::ParameterServer
            | StrategyKind::MultiWorkerMirrored
            | StrategyKind::Hybrid => {}
            StrategyKind::Mirrored | StrategyKind::CentralStorage | StrategyKind::OneDevice => {
                return Err("under this strategy.kind everything runs in one process");
            }
        }
        match self.input.train.sharding {
            Sharding::Dynamic => Ok(()),
            Sharding::None => Err(
                "under input.train.sharding = \"none\" the tasks of the start read all data each",
            ),
            Sharding::File => Err(
                "under input.train.sharding = \"file\" the files are divided among them at the start",
            ),
            Sharding::Row => Err(
                "under input.train.sharding = \"row\" the rows are divided among them at the start",
            ),
        }
    }
}
