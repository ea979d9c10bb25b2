//! Preparing a server: the request is repeated until the server is done.

use std::time::Duration;

use tokio::time::Instant;
use tracing::info;
use trainyard_checkpoint::PartRead;
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_parameter_server::Plan;
use trainyard_parameter_store::{Identity, Progress};

use crate::{Error, Preparation, ServerClient, retry};

/// Time between two log lines about the progress of a server.
const NOTICE_INTERVAL: Duration = Duration::from_secs(10);

/// Makes a server initialize or restore all of its values. A server may take any time as long as it makes progress;
/// every ten seconds a log line reports it. Returns the parts that the server has read of checkpoint tensors which
/// other servers have read too: only the checksums of all parts together can be verified.
///
/// # Errors
/// The server refuses, the checkpoint cannot be read, or no reply or progress came for `deadline`.
pub async fn prepare(
    identity: &Identity,
    shard: &dyn ServerClient,
    deadline: Duration,
    plan: &Plan,
) -> Result<Vec<PartRead>, Error> {
    let mut progress = Progress::default();
    let mut moved = Instant::now();
    let mut tell_at = moved + NOTICE_INTERVAL;
    loop {
        let now = match retry(identity, shard.name(), deadline, move || {
            shard.prepare(*identity, plan)
        })
        .await?
        {
            Preparation::Done(parts) => return Ok(parts),
            Preparation::UnderWay(now) => now,
        };
        if now != progress {
            progress = now;
            moved = Instant::now();
        }
        if moved.elapsed() >= deadline {
            let name = shard.name();
            let seconds = deadline.as_secs();
            let message =
                format!("{name} has made no progress for {seconds} s: it has {progress} ready");
            let help = "read its log, and check the store that holds the checkpoint";
            return Err(Error::Deadline(Box::new(
                Diagnostic::error(Code::E2003, message).help(help),
            )));
        }
        if Instant::now() >= tell_at {
            tell_at += NOTICE_INTERVAL;
            info!(server = shard.name(), ready = %progress, "preparing");
        }
    }
}
