//! Saves of all servers at the same synchronous step.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use trainyard_cluster_client::{Error, ServerClient};
use trainyard_parameter_server::{Saved, SnapshotRequest};
use trainyard_parameter_store::{Identity, State};
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
        let versions = || told.iter().map(|status| status.store.version);
        let lowest = versions().min().unwrap_or(0);
        let highest = versions().max().unwrap_or(0);
        if told.iter().any(|status| status.store.state == State::Empty) {
            // A server was restarted: there is nothing to save before all are restored.
            break;
        }
        // No server makes progress, perhaps because the last step is over: no later one will come.
        let still = seen.replace(highest) == Some(highest);
        let ahead = if still { 0 } else { ahead };
        if ahead == 0 && lowest != highest {
            if still {
                tokio::time::sleep(STANDSTILL_AFTER).await;
            }
            continue;
        }
        let version = Some(highest + ahead);
        let saved = try_join_all(shards.iter().enumerate().map(|(ps, shard)| {
            let request = SnapshotRequest {
                version,
                ..request_of(ps)
            };
            shard.save(identity, folder, request)
        }));
        let saved = tokio::select! {
            saved = saved => saved,
            () = standstill(shards, highest + ahead), if ahead > 0 => continue,
        };
        match saved {
            Err(error) if error.reason() == Some(Reason::NotReady) => {
                tracing::debug!(%error, version, "a server cannot save that step");
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

/// Waits until training stands still, while no server has reached a version.
async fn standstill(shards: &[Arc<dyn ServerClient>], version: u64) {
    let mut seen = None;
    loop {
        let told = try_join_all(shards.iter().map(|shard| shard.status())).await;
        let versions = told.ok().map(|told| {
            told.iter()
                .map(|status| status.store.version)
                .collect::<Vec<_>>()
        });
        let before = versions
            .as_ref()
            .is_some_and(|versions| versions.iter().all(|reached| *reached < version));
        if before && seen == versions {
            return;
        }
        seen = versions;
        tokio::time::sleep(STANDSTILL_AFTER).await;
    }
}
