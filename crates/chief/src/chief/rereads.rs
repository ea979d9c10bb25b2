//! The bound on reading the end of the input again, when tasks have read all of it and servers have not applied all of it.

use std::sync::Arc;

use trainyard_cluster_client::ServerClient;
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_parameter_store::ShardPosition;

/// Number of times that tasks read the input again without any effect, before the job ends. A server may be away the first
/// time.
const FRUITLESS_MAX: u32 = 3;

/// The times at which tasks were told to read the input again.
#[derive(Debug, Default)]
pub(super) struct Rereads {
    /// Positions of each store at the latest time.
    positions: Vec<Vec<ShardPosition>>,
    /// Number of times at which the positions were the same.
    fruitless: u32,
}

impl Rereads {
    /// Records that tasks are about to read the input again. Returns an error if that has had no effect several times: the
    /// job would never end.
    pub(super) fn again(
        &mut self,
        positions: &[Vec<ShardPosition>],
        stores: &[Arc<dyn ServerClient>],
    ) -> Option<Diagnostic> {
        if self.positions != positions {
            self.positions = positions.to_vec();
            self.fruitless = 0;
            return None;
        }
        self.fruitless += 1;
        if self.fruitless < FRUITLESS_MAX {
            return None;
        }
        let missing = |(positions, store): (&Vec<ShardPosition>, &Arc<dyn ServerClient>)| {
            let batch = positions.iter().find(|position| position.shard == 0);
            let batch = batch.map_or(0, |position| position.batch);
            (
                batch,
                format!("{} has not applied batch {batch}", store.name()),
            )
        };
        let mut missing: Vec<(u64, String)> = positions.iter().zip(stores).map(missing).collect();
        missing.sort();
        let (_, first) = missing.into_iter().next()?;
        let message = format!(
            "the tasks have read the input to its end {} times, and {first}: no task computes that batch again",
            self.fruitless + 1
        );
        Some(Diagnostic::error(Code::E3001, message).help(
            "the values that the servers hold lack the update of this batch; remove the newest checkpoints and start the job \
             again, to continue from one that has no such gap",
        ))
    }
}

#[cfg(test)]
mod tests {
    use trainyard_parameter_server::LocalServer;

    use super::*;

    fn position(batch: u64) -> Vec<ShardPosition> {
        vec![ShardPosition {
            shard: 0,
            pass: 0,
            batch,
            ahead: Vec::new(),
        }]
    }

    #[test]
    fn a_job_whose_end_is_read_again_without_effect_ends_and_names_batch_and_store() {
        let stores: Vec<Arc<dyn ServerClient>> = (0..2)
            .map(|ps| Arc::new(LocalServer::new(ps, 2, 1, 1)) as Arc<dyn ServerClient>)
            .collect();
        let mut rereads = Rereads::default();
        for batch in 7..20 {
            let progress = [position(20), position(batch)];
            assert_eq!(rereads.again(&progress, &stores), None, "there is progress");
        }
        let stuck = [position(20), position(19)];
        let ended = (0..FRUITLESS_MAX).find_map(|_| rereads.again(&stuck, &stores));
        let message = ended.expect("the job ends").message;
        assert!(
            message.contains("ps:1 has not applied batch 19"),
            "{message}"
        );
    }
}
