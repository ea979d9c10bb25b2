//! Brings all members of a new process group to the same parameters, before its first step.
//!
//! The members exchange how far each has come. Members without parameters, and members that are behind, take those of a
//! member that has come furthest: from the checkpoint that the job started from if there has been no step since, otherwise
//! through the model directory. Reading and writing may take minutes, so members exchange signs of life meanwhile.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout};
use tracing::{info, warn};
use trainyard_diagnostic::{Action, Code, Diagnostic, Waiting};
use trainyard_parameter_store::Identity;
use trainyard_variable::StepNumber;

use crate::Config;
use crate::exchange::ProcessGroup;
use crate::failure::Failure;
use crate::replica::{Replica, clear_handover};

/// Step number of the exchanges before the first step of a group.
const HANDSHAKE_STEP: u64 = 0;
/// Interval of the signs of life of members that read or write parameters. It is far below the silence after which a
/// member counts as gone.
const SIGN_OF_LIFE_INTERVAL: Duration = Duration::from_secs(5);
/// Time for reading or writing the parameters of a small model.
const TRANSFER_TIMEOUT_MIN: Duration = Duration::from_secs(60);
/// Slowest rate at which parameters of a large model are expected to be read or written.
const TRANSFER_BYTES_PER_SEC_MIN: u64 = 4 << 20;
/// Report of a member that has no parameters of the job.
const NO_STEP: u64 = u64::MAX;
/// First byte of the report of a member whose work is in progress.
const BUSY: u8 = 0;
/// First byte of the report of a member whose work has ended.
const DONE: u8 = 1;

/// Reason why the members do not have the same parameters.
pub(crate) enum Disagreement {
    /// The group has broken. Another one is formed.
    Broken(Diagnostic),
    /// This member cannot take the parameters.
    Failed(Failure),
}

impl From<Diagnostic> for Disagreement {
    fn from(problem: Diagnostic) -> Self {
        Self::Broken(problem)
    }
}

/// Gives every member the parameters of the member that has come furthest.
///
/// # Errors
/// The group breaks, or this member cannot take the parameters.
pub(crate) async fn agree(
    config: &Config,
    replica: &mut Replica,
    identity: Identity,
    group: &ProcessGroup,
) -> Result<(), Disagreement> {
    let formed = &group.formed;
    let start = &formed.start;
    let mut handshake = Handshake {
        config,
        group,
        bucket: 0,
        // A member without parameters learns their size when it has them.
        timeout: transfer_timeout(replica.bytes()),
    };
    let values = replica.values().filter(|values| values.belong_to(start));
    let step = values.map(|values| values.step);
    let report = step.map_or(NO_STEP, StepNumber::get);
    let reported = handshake
        .gather(Bytes::copy_from_slice(&report.to_le_bytes()))
        .await?;
    let steps: Vec<_> = reported.iter().map(|bytes| step_in(bytes)).collect();
    let Some(newest) = steps.iter().copied().flatten().max() else {
        let message = "no member of the process group holds the parameters of the job";
        return Err(Diagnostic::error(Code::E9001, message).into());
    };
    let behind = steps.iter().filter(|step| **step != Some(newest)).count();
    info!(
        generation = formed.generation,
        members = steps.len(),
        step = %newest,
        behind,
        "the process group is formed"
    );
    if behind == 0 {
        return Ok(());
    }
    let mut lacks = step != Some(newest);
    let starts = lacks && newest == start.step;
    let starting = async {
        if starts && let Err(error) = replica.start(config, identity, start).await {
            warn!(%error, "the parameters from which the job has started cannot be read: another member hands over its parameters");
        }
        let has_newest = |replica: &Replica| {
            let values = replica.values().filter(|values| values.belong_to(start));
            values.is_some_and(|values| values.step == newest)
        };
        lacks && !has_newest(replica)
    };
    let report = |lacks: &bool| Bytes::copy_from_slice(&[u8::from(*lacks)]);
    let lacking;
    (lacks, lacking) = handshake.together(starting, report).await?;
    if lacking.iter().all(|report| report[..] == [0]) {
        return Ok(());
    }
    let root = steps.iter().position(|step| *step == Some(newest));
    let gives = root == Some(formed.rank);
    let handed_over = hand_over_and_take(
        &mut handshake,
        replica,
        identity,
        Part { gives, lacks, root },
    )
    .await;
    if gives {
        clear_handover(config, identity.epoch, formed.generation);
    }
    handed_over
}

/// Part of a member in a handover.
#[derive(Clone, Copy)]
struct Part {
    /// The member hands over its parameters.
    gives: bool,
    /// The member takes the parameters.
    lacks: bool,
    /// Rank of the member that hands over its parameters.
    root: Option<usize>,
}

async fn hand_over_and_take(
    handshake: &mut Handshake<'_>,
    replica: &mut Replica,
    identity: Identity,
    part: Part,
) -> Result<(), Disagreement> {
    let config = handshake.config;
    let generation = handshake.group.formed.generation;
    let writing = async {
        if part.gives {
            replica
                .hand_over(config, identity, generation)
                .await
                .map(Some)
        } else {
            Ok(None)
        }
    };
    let report = |written: &Result<Option<String>, Diagnostic>| match written {
        Ok(Some(name)) => Bytes::from(name.clone()),
        _ => Bytes::new(),
    };
    let (written, names) = handshake.together(writing, report).await?;
    // The parameters of the job are those of this member. It retries with the next group instead of leaving the job.
    written?;
    let name = part
        .root
        .and_then(|root| names.get(root))
        .filter(|name| !name.is_empty());
    let Some(name) = name else {
        let message = "the member with the newest parameters could not hand them over";
        return Err(Diagnostic::error(Code::E3003, message).into());
    };
    let name = String::from_utf8_lossy(name).into_owned();
    let taking = async {
        if part.lacks {
            replica.take_over(config, identity, generation, &name).await
        } else {
            Ok(())
        }
    };
    let (taken, _) = handshake.together(taking, |_| Bytes::new()).await?;
    taken.map_err(|error| Disagreement::Failed(error.into()))
}

/// Returns the longest time for reading or writing this number of bytes.
fn transfer_timeout(bytes: u64) -> Duration {
    TRANSFER_TIMEOUT_MIN + Duration::from_secs(bytes / TRANSFER_BYTES_PER_SEC_MIN)
}

fn step_in(bytes: &[u8]) -> Option<StepNumber> {
    let reported = u64::from_le_bytes(*bytes.first_chunk()?);
    (reported != NO_STEP).then(|| StepNumber::new(reported))
}

/// The exchanges of a new group before its first step.
struct Handshake<'a> {
    config: &'a Config,
    group: &'a ProcessGroup,
    /// Number of the next exchange.
    bucket: u32,
    timeout: Duration,
}

impl Handshake<'_> {
    async fn gather(&mut self, bytes: Bytes) -> Result<Vec<Bytes>, Diagnostic> {
        let bucket = self.bucket;
        self.bucket += 1;
        self.group
            .collective
            .all_gather(HANDSHAKE_STEP, bucket, bytes)
            .await
            .map_err(|error| error.diagnostic())
    }

    /// Does this member's work while the other members do theirs. Returns its result, and the reports of all members by
    /// rank, when the work of every member has ended.
    ///
    /// # Errors
    /// The group breaks, or the work of a member takes too long.
    async fn together<T>(
        &mut self,
        work: impl Future<Output = T>,
        report: impl FnOnce(&T) -> Bytes,
    ) -> Result<(T, Vec<Bytes>), Diagnostic> {
        let started = Instant::now();
        let mut waiting = Waiting::new(
            self.config.task.to_string(),
            "the parameters of other members",
            self.timeout,
        );
        let mut work = pin!(work);
        let mut report = Some(report);
        let mut done: Option<(T, Bytes)> = None;
        loop {
            if done.is_none()
                && let Ok(result) = timeout(SIGN_OF_LIFE_INTERVAL, work.as_mut()).await
                && let Some(report) = report.take()
            {
                let mut message = vec![DONE];
                message.extend_from_slice(&report(&result));
                done = Some((result, Bytes::from(message)));
            }
            let message = done.as_ref().map_or_else(
                || Bytes::from_static(&[BUSY]),
                |(_, message)| message.clone(),
            );
            let reports = self.gather(message).await?;
            let members = self.group.formed.members.iter();
            let busy: Vec<String> = members
                .zip(&reports)
                .filter(|(_, report)| report.first() != Some(&DONE))
                .map(|((task, _), _)| task.to_string())
                .collect();
            if busy.is_empty()
                && let Some((result, _)) = done
            {
                let reports = reports.into_iter().map(|report| report.slice(1..));
                return Ok((result, reports.collect()));
            }
            let state = format!("{} reads or writes them", busy.join(", "));
            match waiting.tick(started.elapsed(), &state) {
                Action::Wait => {}
                Action::Notice(notice) => warn!("{notice}"),
                Action::GiveUp(problem) => return Err(*problem),
            }
        }
    }
}
