//! Having a server prepared: asked for until it is done, however long that takes.

use std::time::Duration;

use tokio::time::Instant;
use tracing::info;
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_parameter_store::{Identity, Progress};

use crate::{Error, Plan, Shard, retry};

/// Time between two lines on how far a server has come.
const TELL: Duration = Duration::from_secs(10);

/// How far a server has come with what it is to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preparation {
    /// It holds all of it.
    Done,
    /// It has come so far.
    UnderWay(Progress),
}

/// Has a server make or restore everything that it is to hold. A server that gets on with it may take as long as it
/// needs; every ten seconds a line says how far it has come.
///
/// # Errors
/// Refused; the checkpoint cannot be read; or for `deadline` there was no answer or no progress.
pub async fn prepare(
    identity: &Identity,
    shard: &Shard,
    deadline: Duration,
    plan: &Plan,
) -> Result<(), Error> {
    let (mut progress, mut moved) = (Progress::default(), Instant::now());
    let mut tell_at = moved + TELL;
    loop {
        let now =
            match retry(identity, shard.name(), deadline, move || shard.prepare(*identity, plan)).await? {
                Preparation::Done => return Ok(()),
                Preparation::UnderWay(now) => now,
            };
        if now != progress {
            (progress, moved) = (now, Instant::now());
        }
        if moved.elapsed() >= deadline {
            let (name, seconds) = (shard.name(), deadline.as_secs());
            let message = format!("{name} has made no progress for {seconds} s: it has {progress} ready");
            let help = "look at its log, and at the store that it reads the checkpoint from";
            return Err(Error::Deadline(Box::new(Diagnostic::error(Code::E2003, message).help(help))));
        }
        if Instant::now() >= tell_at {
            tell_at += TELL;
            info!(server = shard.name(), ready = %progress, "preparing");
        }
    }
}
