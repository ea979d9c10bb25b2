//! Having a server prepared: asked for until it is done, however long that takes.

use std::time::Duration;

use tokio::time::Instant;
use tracing::info;
use trainyard_checkpoint::PartRead;
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_parameter_store::{Identity, Progress};

use crate::{Error, Plan, Shard, retry};

/// Time between two lines of the log that say how much of its values a server has ready.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// How many of the values that it is to hold a server has made or restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Preparation {
    /// All of them. These parts it has read of tensors of the checkpoint that other servers have read too.
    Done(Vec<PartRead>),
    /// As many as this says; it goes on.
    UnderWay(Progress),
}

/// Has a server make or restore everything that it is to hold. A server that gets on with it may take as long as it
/// needs; every ten seconds a line says how far it has come. Returns what it has read of tensors of the checkpoint that other
/// servers have read too: only all of them together know whether these are as they were written.
///
/// # Errors
/// Refused; the checkpoint cannot be read; or for `deadline` there was no answer or no progress.
pub async fn prepare(
    identity: &Identity,
    shard: &Shard,
    deadline: Duration,
    plan: &Plan,
) -> Result<Vec<PartRead>, Error> {
    let mut progress = Progress::default();
    let mut moved = Instant::now();
    let mut tell_at = moved + TELL_EVERY;
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
            let help = "look at its log, and at the store that it reads the checkpoint from";
            return Err(Error::Deadline(Box::new(
                Diagnostic::error(Code::E2003, message).help(help),
            )));
        }
        if Instant::now() >= tell_at {
            tell_at += TELL_EVERY;
            info!(server = shard.name(), ready = %progress, "preparing");
        }
    }
}
