//! Saves of all servers at the same synchronous step.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use trainyard_cluster_client::{Error, ServerClient};
use trainyard_parameter_server::{Saved, ServerStatus, SnapshotRequest};
use trainyard_parameter_store::{Identity, State, StepNumber, Version};
use trainyard_protocol::Reason;

/// Steps from the present one to the one that is saved, for each attempt. The first attempt saves the present step, in
/// case no task trains.
const STEPS_AHEAD: [u64; 8] = [0, 4, 16, 64, 256, 1024, 0, 0];
/// Time without progress of any server after which training counts as stopped.
const STANDSTILL_AFTER: Duration = Duration::from_millis(500);

/// Saves the parts of all servers at the same synchronous step: a step that is about to come, or the latest one if training
/// stands still. `request_of` returns the request to a server, without the version.
pub(crate) async fn save_together(
    shards: &[Arc<dyn ServerClient>],
    identity: Identity,
    folder: &Path,
    request_of: impl Fn(usize) -> SnapshotRequest,
) -> Result<Vec<Saved>, Error> {
    let mut refused = None;
    let mut seen = None;
    for ahead in STEPS_AHEAD {
        let told = try_join_all(shards.iter().map(|shard| shard.status())).await?;
        if told.iter().any(|status| status.store.state == State::Empty) {
            // A server was restarted: there is nothing to save before all are restored.
            break;
        }
        let Some((lowest, highest)) = lowest_and_highest(&told) else {
            break;
        };
        // No server makes progress, perhaps because the last step is over: no later one will come.
        let still = seen.replace(highest) == Some(highest);
        let ahead = if still { 0 } else { ahead };
        if ahead == 0 && lowest != highest {
            if still {
                tokio::time::sleep(STANDSTILL_AFTER).await;
            }
            continue;
        }
        let step = highest.after(ahead);
        let saved = try_join_all(shards.iter().enumerate().map(|(ps, shard)| {
            let request = SnapshotRequest {
                step: Some(step),
                ..request_of(ps)
            };
            shard.save(identity, folder, request)
        }));
        let saved = tokio::select! {
            saved = saved => saved,
            () = standstill(shards, step), if ahead > 0 => continue,
        };
        match saved {
            Err(error) if error.reason() == Some(Reason::NotReady) => {
                tracing::debug!(%error, %step, "a server cannot save that step");
                refused = Some(error);
            }
            saved => return saved,
        }
    }
    Err(refused.unwrap_or_else(|| Error::Protocol {
        peer: "the servers".to_owned(),
        message: "the servers are at different steps, and none of them makes progress".to_owned(),
    }))
}

/// Returns the steps of the slowest and of the fastest server; `None` if one of them does not count steps.
fn lowest_and_highest(told: &[ServerStatus]) -> Option<(StepNumber, StepNumber)> {
    let steps: Option<Vec<_>> = told
        .iter()
        .map(|status| status.store.version.steps())
        .collect();
    let steps = steps?;
    Some((*steps.iter().min()?, *steps.iter().max()?))
}

/// Waits until training stands still, while no server has reached a step.
async fn standstill(shards: &[Arc<dyn ServerClient>], step: StepNumber) {
    let mut seen = None;
    loop {
        let told = try_join_all(shards.iter().map(|shard| shard.status())).await;
        let reached = told.ok().map(|told| {
            told.iter()
                .map(|status| status.store.version)
                .collect::<Vec<_>>()
        });
        let is_before = |version: &Version| version.steps().is_some_and(|reached| reached < step);
        let before = reached
            .as_ref()
            .is_some_and(|versions| versions.iter().all(is_before));
        if before && seen == reached {
            return;
        }
        seen = reached;
        tokio::time::sleep(STANDSTILL_AFTER).await;
    }
}
