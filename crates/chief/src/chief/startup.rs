//! Startup: the chief claims every server, then creates, restores or adopts the values.

use std::collections::BTreeSet;
use std::hash::Hasher as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fnv::FnvHasher;
use futures_util::future::{join_all, try_join_all};
use tokio::time::Instant;
use tracing::{error, info, warn};
use trainyard_checkpoint::{
    Checkpoint, Manifest, PartRead, WarmStart, latest, list, misfit, set_aside, sweep_before,
};
use trainyard_cluster_client::{Error, ServerClient, backoff, prepare as prepare_server, retry};
use trainyard_coordinator::{ShardMap, TablePositions};
use trainyard_daemon::CancellationToken;
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model_dir::{JobPhase, JobState, absolute, note_prepared, prepared_epoch};
use trainyard_parameter_server::{Plan, Provenance, ServerStatus};
use trainyard_parameter_store::{State, StepNumber, Update};
use trainyard_protocol::Reason;
use trainyard_run_config::WarmStartConfig;
use trainyard_runtime::{Backoff, FileWork, blocking, tell_if_slow};
use trainyard_trainer::{GroupStart, LoopStatus, into_diagnostic};

use super::division::are_other_files;
use super::watch::{SAVE_RETRY_INTERVAL, SERVER_POLL_INTERVAL, STATUS_TIMEOUT, WATCH_INTERVAL};
use super::{Chief, Run};
use crate::start_files::at_start;
use crate::warm_start::find_warm_start;

/// Largest model whose initial values are saved before training opens. A larger one is saved right after, so that the
/// first step does not wait for the disk.
const FIRST_SAVE_BYTES: u64 = 16 << 20;

/// Prepares the cluster and opens training. Returns `false` if the token was cancelled.
pub(super) async fn bring_up(
    lead: &mut Chief,
    run: &mut Run,
    stop: &CancellationToken,
) -> Result<bool, Diagnostic> {
    tokio::select! {
        outcome = work(lead, run) => outcome.map(|()| true),
        () = stop.cancelled() => Ok(false),
    }
}

async fn work(lead: &mut Chief, run: &mut Run) -> Result<(), Diagnostic> {
    let start = if run.epoch == 0 {
        Start::OfProcess
    } else if run.plateau.is_some() {
        Start::OtherRates
    } else {
        Start::Again
    };
    let settling = Instant::now() + lead.connect_deadline;
    loop {
        let servers = claim_all(lead, run).await?;
        if start == Start::OfProcess {
            lead.recall_reductions(run).await?;
        }
        lead.set_rates(run);
        let shards = lead.shards.clone();
        let epoch = run.epoch;
        let opening = async {
            match half_step(lead, run, start, &servers).await? {
                Some(step) => step.finish(lead, run, settling).await.map(|()| false),
                None => open(lead, run, start, &servers).await.map(|()| true),
            }
        };
        let lost = tokio::select! {
            opened = opening => match opened {
                Ok(true) => return Ok(()),
                // The servers are claimed again, so that no task trains while they are saved.
                Ok(false) => continue,
                Err(problem) => return Err(problem),
            },
            lost = forgetful(&shards, epoch) => lost,
        };
        warn!(
            "{lost} was restarted before training was open: the chief claims every parameter \
            server again"
        );
    }
}

/// Waits for a server that no longer knows this term, because it has restarted since it was claimed, and returns its
/// name. Such a server would refuse every request of its chief.
async fn forgetful(shards: &[Arc<dyn ServerClient>], epoch: u64) -> String {
    loop {
        tokio::time::sleep(SERVER_POLL_INTERVAL).await;
        for shard in shards {
            let asked = tokio::time::timeout(STATUS_TIMEOUT, shard.status()).await;
            if let Ok(Ok(status)) = asked
                && status.store.epoch < epoch
            {
                return shard.name().to_owned();
            }
        }
    }
}

/// Claims the next term, and every server for it.
async fn claim_all(lead: &Chief, run: &mut Run) -> Result<Vec<ServerStatus>, Diagnostic> {
    #[cfg(feature = "failpoints")]
    fail::fail_point!("chief.epoch.before_claim");
    run.epoch = lead.claim_epoch()?;
    if JobState::is_of_a_term(&lead.job.model_dir) {
        lead.mark(run, JobPhase::Running, "starting");
    }
    if run.opened.is_none() {
        lead.compare_with_earlier_job();
    }
    lead.record_job(run);
    if let Err(error) = sweep_before(&lead.job.model_dir, run.epoch) {
        warn!(%error, "the chief could not remove the unfinished files of earlier chiefs from the bucket");
    }
    #[cfg(feature = "failpoints")]
    fail::fail_point!("chief.epoch.after_claim");
    run.telemetry.epoch.set(run.epoch as f64);
    if let Some(pairs) = &lead.pairs {
        pairs.lead(run.epoch);
    }
    let names: Vec<String> = lead
        .shards
        .iter()
        .map(|shard| shard.name().to_owned())
        .collect();
    lead.coordinator.begin_epoch(run.epoch, names.clone());
    (lead.set_status)(LoopStatus::waiting(names));
    claim(lead, run).await
}

/// Number of a start of training: the first one, or a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// The first one of this process: servers may train already, for an earlier chief.
    OfProcess,
    /// A later one, with other learning rates: the servers have trained until now.
    OtherRates,
    /// A later one, after servers were lost.
    Again,
}

/// The values of the job that the claimed servers hold.
struct ServerValues {
    layout_fingerprint: u64,
    /// Term in which the values of the job were made or restored.
    prepared_epoch: u64,
    /// All parameter servers hold them. Workers that hold parameters themselves say so when they join the process group.
    is_whole: bool,
    /// The servers were prepared with other settings than those of the job.
    is_changed: bool,
}

impl ServerValues {
    fn of(lead: &mut Chief, stores: &[ServerStatus]) -> Result<Self, Diagnostic> {
        lead.plan.settings = settings(&lead.plan);
        let mut values = Self {
            layout_fingerprint: lead.plan.fingerprint,
            prepared_epoch: prepared_epoch(&lead.job.model_dir)?,
            is_whole: false,
            is_changed: false,
        };
        let servers = &stores[lead.first_server()..];
        let was_prepared = lead.mirror.is_none() || values.prepared_epoch > 0;
        values.is_whole = was_prepared && servers.iter().all(|server| values.has_values(server));
        values.is_changed = servers
            .iter()
            .any(|server| server.settings != 0 && server.settings != lead.plan.settings);
        Ok(values)
    }

    /// Returns whether a server holds values of the job. One that has recovered from its log may hold values that the others
    /// do not have.
    fn has_values(&self, server: &ServerStatus) -> bool {
        matches!(server.store.state, State::Open | State::Draining)
            && server.store.layout_fingerprint == self.layout_fingerprint
            && server.store.prepared_epoch == self.prepared_epoch
    }
}

/// A synchronous step that only some servers have completed, of a job whose file has changed. The servers cannot be saved
/// before all have completed it.
struct HalfStep {
    /// Step that some servers have completed.
    step: StepNumber,
}

/// Returns the step that must be finished before the servers can be saved for a job that has changed; `None` if there is
/// none.
async fn half_step(
    lead: &mut Chief,
    run: &Run,
    start: Start,
    servers: &[ServerStatus],
) -> Result<Option<HalfStep>, Diagnostic> {
    lead.plan.provenance = run.provenance.clone();
    let values = ServerValues::of(lead, servers)?;
    let is_due = start != Start::Again && values.is_whole && values.is_changed;
    if !is_due || lead.mirror.is_some() || lead.plan.update != Update::Sync {
        return Ok(None);
    }
    // Of other updates than synchronous ones, each server has a version of its own.
    let steps: Option<BTreeSet<_>> = servers
        .iter()
        .map(|server| server.store.version.steps())
        .collect();
    let steps = steps.filter(|steps| steps.len() > 1);
    Ok(steps
        .and_then(|steps| steps.last().copied())
        .map(|step| HalfStep { step }))
}

impl HalfStep {
    /// Lets the tasks train until all servers have completed the step.
    ///
    /// # Errors
    /// The input has changed too, so that no task can compute what is missing; or no task has done so in time.
    async fn finish(
        &self,
        lead: &mut Chief,
        run: &mut Run,
        deadline: Instant,
    ) -> Result<(), Diagnostic> {
        let step = self.step;
        let of_servers = lead.provenance_of_servers(run).await?;
        let problem = |why: &str| {
            let message = format!(
                "the job file or its learning rates have changed while some servers have completed step {step} and others have \
                 not, and {why}"
            );
            Diagnostic::error(Code::E2010, message)
                .note("nothing was lost: the servers hold all steps")
                .help(
                    "start the job as it was before the change, and stop it; the change then takes effect with the next start",
                )
        };
        if of_servers.input != run.provenance.input {
            return Err(problem(
                "the input has changed too: no task can compute the rest of that step",
            ));
        }
        info!(
            %step,
            "the job file or its learning rates have changed, and only some servers have completed the latest step: the tasks \
             complete it first"
        );
        let reported = lead.positions_from(run, 0).await?;
        let positions: Vec<_> = reported
            .into_iter()
            .map(|status| status.positions)
            .collect();
        if let Some(data) = lead.coordinator.data() {
            data.restart(&positions);
        }
        open_all(lead, run).await?;
        lead.coordinator.with(|membership, _| membership.open());
        loop {
            let statuses = (0..lead.shards.len()).map(|ps| super::watch::status(lead, ps));
            let statuses = join_all(statuses).await;
            let is_finished = statuses.iter().all(|status| {
                status
                    .as_ref()
                    .is_ok_and(|status| status.store.version.steps() >= Some(step))
            });
            if is_finished {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(problem(
                    "no task has computed the rest of that step in time",
                ));
            }
            lead.coordinator
                .with(|membership, now| membership.assign_lanes(now, None));
            tokio::time::sleep(WATCH_INTERVAL).await;
        }
    }
}

/// Opens all stores to the workers.
async fn open_all(lead: &Chief, run: &Run) -> Result<(), Diagnostic> {
    let identity = lead.identity(run);
    let opening = lead.shards.iter().map(|shard| {
        retry(&identity, shard.name(), lead.connect_deadline, move || {
            shard.open(identity)
        })
    });
    let opened = try_join_all(opening).await;
    opened.map(drop).map_err(|error| into_diagnostic(&error))
}

/// Returns the shards that another server had taken over when the job kept two replicas of each, if it keeps them no longer.
///
/// # Errors
/// The shard map cannot be read.
fn moved_shards(lead: &Chief) -> Result<Vec<String>, Diagnostic> {
    if lead.pairs.is_some() || lead.shards.is_empty() {
        return Ok(Vec::new());
    }
    let map = ShardMap::read_any(&lead.job.model_dir).map_err(|problem| {
        Diagnostic::error(
            Code::E9002,
            format!("the shard map of the model directory cannot be read: {problem}"),
        )
        .help("check the disk or the mount of model_dir")
    })?;
    let shards = map.iter().flat_map(|map| map.shards.iter().enumerate());
    let moved = shards.filter(|(shard, entry)| entry.primary != *shard);
    Ok(moved.map(|(shard, _)| format!("ps:{shard}")).collect())
}

/// Prepares the claimed servers, or adopts their values, and opens training.
async fn open(
    lead: &mut Chief,
    run: &mut Run,
    start: Start,
    servers: &[ServerStatus],
) -> Result<(), Diagnostic> {
    let values = ServerValues::of(lead, servers)?;
    let first_server = lead.first_server();
    let servers = &servers[first_server..];
    let moved = moved_shards(lead)?;
    let running = start != Start::Again && values.is_whole && moved.is_empty();
    let is_changed = values.is_changed;
    if running && lead.mirror.is_some() && !is_changed {
        // The chief's replica joins the process group with the values of the latest checkpoint. A member that has come
        // further hands over its own.
        prepare(lead, run, Prepared::Replica).await?;
        info!(
            cluster_epoch = run.epoch,
            step = run.global_step,
            "the tasks that hold parameters continue from theirs"
        );
    } else if running && lead.mirror.is_none() && is_changed {
        let what = match start {
            Start::OtherRates => "the evaluations bring no gain",
            _ => "the job file has changed since the servers were prepared",
        };
        info!(
            cluster_epoch = run.epoch,
            "{what}: the chief saves a checkpoint now, and training continues from it"
        );
        run.global_step = servers.first().map_or(0, |server| server.store.global_step);
        run.versions = servers
            .iter()
            .map(|server| Some(server.store.version))
            .collect();
        run.server_bytes = servers
            .iter()
            .map(|server| server.store.value_bytes)
            .collect();
        // The positions of the servers refer to the input that they were prepared with, whatever was saved last.
        let of_servers = lead.provenance_of_servers(run).await?;
        let provenance = std::mem::replace(&mut run.provenance, of_servers);
        // No task trains meanwhile, so no server changes.
        let saved = lead.save_apart(run).await;
        run.provenance = provenance;
        match saved {
            Ok(()) => prepare(lead, run, Prepared::AllStores).await?,
            Err(problem) if start == Start::OtherRates => {
                let seconds = SAVE_RETRY_INTERVAL.as_secs();
                let problem = problem.note(format!(
                    "training continues with the learning rates that it had, and the chief tries again in {seconds} s"
                ));
                error!("{}", problem.log_line());
                run.plateau = None;
                run.rates_stay_until = Instant::now() + SAVE_RETRY_INTERVAL;
                lead.set_rates(run);
                lead.plan.settings = settings(&lead.plan);
            }
            Err(problem) => return Err(problem),
        }
    } else if running && lead.mirror.is_none() {
        // The job has continued without its chief: it is adopted as it is.
        run.global_step = servers.first().map_or(0, |server| server.store.global_step);
        lead.record_reductions(run).await?;
        info!(
            cluster_epoch = run.epoch,
            step = run.global_step,
            "taking over a job that is running"
        );
    } else {
        if running {
            warn!(
                "the job file has changed since the servers were prepared: all tasks go back to \
                the latest checkpoint, and repeat the steps since then"
            );
        } else if !moved.is_empty() {
            warn!(
                shards = moved.join(" "),
                "another server had taken these shards over while the job kept two replicas of each, which it keeps no \
                longer: their own logs are older, and all servers go back to the latest checkpoint. A job that is \
                stopped before its durability is changed loses no step"
            );
        } else if start == Start::OfProcess {
            let names = lead.shards[first_server..].iter().map(|shard| shard.name());
            warn_of_lost_values(names.zip(servers), &values);
        }
        prepare(lead, run, Prepared::AllStores).await?;
    }
    if lead.pairs.is_none() {
        // Whoever keeps replicas again begins with each shard on its own server, which has the newest log.
        lead.clear_shard_map();
    }
    if let Some(mirror) = &lead.mirror {
        let tables = if running {
            lead.tables(run).await?
        } else {
            None
        };
        let start = GroupStart {
            prepared_epoch: prepared_epoch(&lead.job.model_dir)?,
            // A store without values is at no step.
            step: mirror
                .shard
                .status()
                .store
                .version
                .steps()
                .unwrap_or_default(),
            checkpoint: lead.plan.checkpoint.clone(),
            forget_positions: lead.plan.forget_positions,
        };
        lead.coordinator
            .with(|membership, _| membership.set_start(start, tables));
    }
    if let Some(data) = lead.coordinator.data() {
        let reported = lead.positions_from(run, 0).await?;
        let positions: Vec<_> = reported
            .into_iter()
            .map(|status| status.positions)
            .collect();
        data.restart(&positions);
    }
    #[cfg(feature = "failpoints")]
    fail::fail_point!("restore.before_serve");
    if let Some(pairs) = lead.pairs.as_ref().filter(|_| !running) {
        pairs.wait_until_paired().await;
    }
    open_all(lead, run).await?;
    lead.mark(run, JobPhase::Running, "training");
    lead.coordinator.with(|membership, _| {
        membership.set_global_step(run.global_step);
        membership.open();
    });
    (lead.set_status)(LoopStatus::ready("training"));
    run.opened.get_or_insert_with(Instant::now);
    run.first_step.get_or_insert(run.global_step);
    run.saved.at = Instant::now();
    if lead
        .job
        .train
        .max_steps
        .is_some_and(|most| run.global_step >= most)
    {
        info!(
            step = run.global_step,
            "no training: the checkpoint is at train.max_steps already"
        );
    }
    info!(
        cluster_epoch = run.epoch,
        step = run.global_step,
        servers = lead.shards.len(),
        "training is open"
    );
    Ok(())
}

impl Chief {
    /// Returns the place of the first parameter server among the stores. The chief's replica, if there is one, is the store
    /// before it.
    pub(super) fn first_server(&self) -> usize {
        usize::from(self.mirror.is_some())
    }

    /// Returns the statuses of the stores from `first` on, with their positions in the data. A server may have been replaced
    /// since it was claimed, so the request is retried.
    async fn positions_from(
        &self,
        run: &Run,
        first: usize,
    ) -> Result<Vec<ServerStatus>, Diagnostic> {
        let identity = self.identity(run);
        let reported = self.shards[first..].iter().map(|shard| {
            retry(&identity, shard.name(), self.connect_deadline, move || {
                shard.positions()
            })
        });
        let reported = try_join_all(reported).await;
        reported.map_err(|error| into_diagnostic(&error))
    }

    /// Returns the batches that the servers of tables have applied. `None` if the workers hold all parameters.
    async fn tables(&self, run: &Run) -> Result<Option<TablePositions>, Diagnostic> {
        let reported = self.positions_from(run, self.first_server()).await?;
        let positions = reported.into_iter().map(|status| status.positions);
        Ok(TablePositions::of(positions, self.lanes as u64))
    }

    /// Returns the run that has trained the values of the servers.
    async fn provenance_of_servers(&self, run: &Run) -> Result<Provenance, Diagnostic> {
        let reported = self.positions_from(run, 0).await?;
        let mut all = reported.into_iter().map(|status| status.provenance);
        let first = all.next().unwrap_or_default();
        // Servers of an earlier release do not know it. A division that is not known is not that of any run.
        let is_known = !first.input.is_empty() && all.all(|other| other == first);
        Ok(if is_known {
            first
        } else {
            Provenance {
                input: "not known".to_owned(),
                job: Vec::new(),
            }
        })
    }
}

/// Warns if some servers hold the values of the job and others do not: the steps since the latest checkpoint are repeated.
fn warn_of_lost_values<'a>(
    servers: impl Iterator<Item = (&'a str, &'a ServerStatus)>,
    values: &ServerValues,
) {
    let (whole, lost): (Vec<_>, Vec<_>) =
        servers.partition(|(_, server)| values.has_values(server));
    if !whole.is_empty() {
        let lost: Vec<&str> = lost.into_iter().map(|(name, _)| name).collect();
        warn!(
            lost = lost.join(" "),
            "parameter servers have lost the values of the job: all go back to the latest checkpoint"
        );
    }
}

/// Returns the manifest of the latest checkpoint that is not damaged.
pub(super) fn newest_manifest(model_dir: &Path) -> Result<Option<Manifest>, Diagnostic> {
    for found in list(model_dir)?.into_iter().rev() {
        match Checkpoint::open(&found.path) {
            Ok(checkpoint) => return Ok(Some(checkpoint.manifest().clone())),
            Err(error) if error.is_unreadable() => return Err(error.into()),
            Err(error) => {
                warn!(checkpoint = %found.path.display(), %error, "the manifest of the checkpoint is damaged")
            }
        }
    }
    Ok(None)
}

/// Returns the fingerprint of the settings that servers are prepared with: FNV-1a of their text, which is the same for
/// the same release.
fn settings(plan: &Plan) -> u64 {
    let Plan {
        variables,
        optimizers,
        seed,
        global_step_max,
        update,
        guard,
        hybrid,
        fingerprint,
        ..
    } = plan;
    let input = &plan.provenance.input;
    let rules = (
        optimizers,
        seed,
        global_step_max,
        update,
        guard,
        hybrid,
        fingerprint,
    );
    let mut hash = FnvHasher::default();
    hash.write(format!("{variables:?} {rules:?} {input}").as_bytes());
    hash.finish().max(1)
}

/// Finds the variables that start from another run's checkpoint.
fn warm_start(lead: &Chief, start: &WarmStartConfig) -> Result<WarmStart, Diagnostic> {
    let variables = &lead.plan.variables;
    let (found, absent) = find_warm_start(&lead.job, start, variables)?;
    let from = found.path.display();
    let count = found.names.len();
    info!(%from, variables = count, of = variables.len(), "warm start: the initial values come from another checkpoint");
    for name in absent {
        info!(variable = %name, "warm start: the variable is not in that checkpoint, and starts \
            from its own initial values");
    }
    Ok(found)
}

/// Claims every server for the term, each as soon as it answers. If a server returns with another model directory while
/// the job runs, the chief waits for it: the job need not end because a folder is not mounted on one host.
async fn claim(lead: &Chief, run: &Run) -> Result<Vec<ServerStatus>, Diagnostic> {
    let identity = lead.identity(run);
    let folder = absolute(&lead.job.model_dir);
    let fingerprint = lead.servers.fingerprint();
    let deadline = lead.connect_deadline;
    let folder = &folder;
    let runs = run.opened.is_some();
    let calls = lead.shards.iter().map(|shard| async move {
        let claimed = retry(&identity, shard.name(), deadline, move || async move {
            let claimed = shard.claim(identity, fingerprint, folder).await;
            claimed.map_err(|error| match error {
                Error::Refused { peer, mut refusal }
                    if runs && refusal.reason == Reason::OtherCluster =>
                {
                    refusal.reason = Reason::NotReady;
                    Error::Refused { peer, refusal }
                }
                other => other,
            })
        })
        .await;
        if claimed.is_ok() {
            let name = shard.name().to_owned();
            lead.coordinator
                .with(|membership, _| membership.arrived(&name));
        }
        claimed
    });
    try_join_all(calls)
        .await
        .map_err(|error: Error| into_diagnostic(&error))
}

/// The stores that are prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prepared {
    /// All stores: the values that any of them, or a worker, had before are not those of the job any more.
    AllStores,
    /// The chief's replica alone: the other stores and the workers continue with the values that they have.
    Replica,
}

/// Creates the variables, or restores them from the newest intact checkpoint.
async fn prepare(lead: &mut Chief, run: &mut Run, stores: Prepared) -> Result<(), Diagnostic> {
    let mut reads = Reads::new(lead);
    loop {
        let of = lead.job.model_dir.clone();
        let looked = tell_if_slow(
            FileWork::Start,
            &lead.job.model_dir,
            blocking(move || latest(&of, &mut |warning| warn!("{}", warning.log_line()))),
        );
        let looked = looked.await.map_err(|panic| {
            Diagnostic::error(
                Code::E9001,
                format!("reading the checkpoints has failed: {panic}"),
            )
        })?;
        let checkpoint = match looked {
            Ok(checkpoint) => checkpoint,
            Err(error) => {
                reads.failed(error.into()).await?;
                continue;
            }
        };
        begin_from(lead, run, checkpoint.as_ref())?;
        lead.record_reductions(run).await?;
        lead.plan.settings = settings(&lead.plan);
        if stores == Prepared::AllStores {
            // From now on, a log of earlier values does not belong to this job.
            let epoch = run.epoch;
            lead.folder
                .check("no server is prepared from it")
                .map_err(|problem| problem.help("bring it back, and start the job again"))?;
            let note = move |folder: &Path| note_prepared(folder, epoch);
            at_start(&lead.job.model_dir, note).await?;
        }
        let identity = lead.identity(run);
        let plan = &lead.plan;
        let count = match stores {
            Prepared::AllStores => lead.shards.len(),
            Prepared::Replica => lead.first_server(),
        };
        let calls = lead
            .shards
            .iter()
            .take(count)
            .map(|shard| prepare_server(&identity, &**shard, lead.connect_deadline, plan));
        let prepared = try_join_all(calls).await;
        let Some(checkpoint) = checkpoint else {
            prepared.map_err(|error| into_diagnostic(&error))?;
            break;
        };
        match is_as_written(checkpoint, prepared).await {
            Ok(Restored::Whole) => break,
            Ok(Restored::Damaged) => {}
            Ok(Restored::Unreadable(problem)) => reads.failed(*problem).await?,
            Err(problem) => return Err(problem),
        }
    }
    lead.refresh(run).await;
    let fresh = lead.plan.checkpoint.is_none() && stores == Prepared::AllStores;
    if fresh && run.server_bytes.iter().sum::<u64>() <= FIRST_SAVE_BYTES {
        // As in TensorFlow, the initial values are saved, so that they can be inspected and restored.
        lead.save(run).await?;
    }
    Ok(())
}

/// Sets the start of training in the plan: a checkpoint, or initial values.
fn begin_from(
    lead: &mut Chief,
    run: &mut Run,
    checkpoint: Option<&Checkpoint>,
) -> Result<(), Diagnostic> {
    let manifest = checkpoint.map(Checkpoint::manifest);
    if let Some(problem) =
        manifest.and_then(|manifest| misfit(manifest, &lead.plan.variables, &lead.plan.optimizers))
    {
        return Err(problem);
    }
    run.global_step = manifest.map_or(0, |manifest| manifest.global_step);
    run.saved.step = manifest.map(|manifest| manifest.global_step);
    run.saved.versions = manifest
        .map(|manifest| lead.plan.versions_after(manifest))
        .into_iter()
        .flatten()
        .map(Some)
        .collect();
    lead.plan.forget_positions = manifest.is_some_and(|manifest| {
        // A checkpoint that was imported from TensorFlow has no fingerprint of its input.
        let other = !manifest.input.is_empty() && manifest.input != run.provenance.input;
        if other {
            let was = &manifest.input;
            let is = &run.provenance.input;
            if are_other_files(was, is) {
                info!(%was, %is, "the checkpoint is of other training files: the tasks read these from their start");
            } else {
                warn!(%was, %is, "the division of the input has changed since the checkpoint: the \
                    tasks read the input from its start");
            }
        }
        other
    });
    if let Some(manifest) = manifest.filter(|_| !lead.plan.forget_positions) {
        warn_of_half_applied(manifest, lead.plan.layout.num_ps);
    }
    lead.plan.checkpoint = checkpoint.map(|checkpoint| absolute(checkpoint.path()));
    match &lead.plan.checkpoint {
        Some(path) => info!(step = run.global_step, path = %path.display(), "restoring"),
        None => info!(variables = lead.plan.variables.len(), "creating variables"),
    }
    lead.plan.warm_start = match &lead.job.train.warm_start {
        Some(start) if checkpoint.is_none() => Some(warm_start(lead, start)?),
        Some(start) => {
            info!(
                from = start.from,
                "train.warm_start is not used: the job goes on from a checkpoint of its own"
            );
            None
        }
        None => None,
    };
    Ok(())
}

/// Warns of batches that count twice: some stores of the checkpoint had applied them, and rows move to other stores.
fn warn_of_half_applied(manifest: &Manifest, stores: usize) {
    let batches = manifest.half_applied();
    if batches > 0 && manifest.num_ps != stores {
        warn!(
            batches,
            "the checkpoint has batches that some of its {} stores had applied and others had not, and is restored on \
            {stores} stores: these batches count twice in the values that had them. To avoid it, start the job as it was, \
            stop the workers, then the chief, then the servers, as `trainyard up` does, and change it then",
            manifest.num_ps
        );
    }
}

/// Outcome of the restore of a checkpoint by the servers.
enum Restored {
    /// The servers hold what was written.
    Whole,
    /// The checkpoint is damaged, and has been quarantined.
    Damaged,
    /// A file could not be read, and is not known to be damaged.
    Unreadable(Box<Diagnostic>),
}

/// Compares what servers have read of a checkpoint with its manifest.
///
/// # Errors
/// The checkpoint could not be restored for another reason than its files.
async fn is_as_written(
    checkpoint: Checkpoint,
    prepared: Result<Vec<Vec<PartRead>>, Error>,
) -> Result<Restored, Diagnostic> {
    let refused_for_storage = |error: &Error| matches!(error, Error::Refused { refusal, .. } if refusal.reason == Reason::Storage);
    if let Err(error) = &prepared
        && !refused_for_storage(error)
    {
        return Err(into_diagnostic(error));
    }
    let compare = move || {
        let (compared, refused) = match prepared {
            Ok(parts) => (checkpoint.check_parts(parts.concat()), None),
            // A server could not read the checkpoint. A check of every byte finds the damage.
            Err(error) => (checkpoint.verify(), Some(error)),
        };
        match (compared, refused) {
            (Ok(()), None) => Ok(Restored::Whole),
            (Ok(()), Some(error)) => Ok(Restored::Unreadable(Box::new(into_diagnostic(&error)))),
            (Err(error), _) if error.is_unreadable() => {
                Ok(Restored::Unreadable(Box::new(error.into())))
            }
            (Err(damage), _) => {
                let path = checkpoint.path();
                let model_dir = path.parent().unwrap_or(path);
                set_aside(model_dir, path, damage, &mut |warning| {
                    warn!("{}", warning.log_line())
                })?;
                Ok(Restored::Damaged)
            }
        }
    };
    blocking(compare).await.map_err(|panic| {
        Diagnostic::error(
            Code::E9001,
            format!("reading the checkpoint has failed: {panic}"),
        )
    })?
}

/// Reads of checkpoints that fail, and are tried again: the files may be on a share that is away for a moment.
struct Reads {
    began: Instant,
    deadline: Duration,
    backoff: Backoff,
}

impl Reads {
    fn new(lead: &Chief) -> Self {
        Self {
            began: Instant::now(),
            deadline: lead.connect_deadline,
            backoff: backoff(lead.process.incarnation),
        }
    }

    /// Waits before the next try.
    ///
    /// # Errors
    /// The deadline is over. The error is that of the latest try.
    async fn failed(&mut self, problem: Diagnostic) -> Result<(), Diagnostic> {
        let waited = self.began.elapsed();
        if waited >= self.deadline {
            let seconds = waited.as_secs();
            return Err(problem.note(format!("the chief has tried for {seconds} s")));
        }
        warn!(
            "the latest checkpoint cannot be read, and the chief tries again: {}",
            problem.log_line()
        );
        tokio::time::sleep(self.backoff.next_pause()).await;
        Ok(())
    }
}
