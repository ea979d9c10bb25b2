//! The watch over a running job: checkpoints, leases, lost servers, the end.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;
use tracing::{error, info, warn};
use trainyard_cluster_client::Error;
use trainyard_cluster_spec::Task;
use trainyard_daemon::CancellationToken;
use trainyard_diagnostic::{Action, Code, Diagnostic, Waiting};
use trainyard_parameter_server::ServerStatus;
use trainyard_parameter_store::{Identity, Rejections, ShardPosition, State, Update, Version};
use trainyard_trainer::{Outcome, into_diagnostic};

use super::{Chief, LEAVE_TIMEOUT, Run};
use crate::plateau::Plateau;
use crate::telemetry::Telemetry;
use trainyard_coordinator::{Dispatcher, Liveness};

/// Interval between polls of the membership and of the first server, which counts the steps.
pub(super) const WATCH_INTERVAL: Duration = Duration::from_millis(25);
/// Interval between polls of all servers.
pub(super) const SERVER_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Wait before a failed checkpoint of a running job is retried. Each attempt stalls training for a moment.
pub(super) const SAVE_RETRY_INTERVAL: Duration = Duration::from_secs(30);
/// Time after which a checkpoint is retried for which the disk had no room: there may be room again at any time.
const ROOM_RETRY_INTERVAL: Duration = Duration::from_secs(3);
/// Absence after which, at the end of the input, the chief stops waiting for a task that was present before.
const RETURN_TIMEOUT: Duration = Duration::from_secs(60);
/// Absence after which a missing task is logged.
const MISSING_NOTICE_AFTER: Duration = Duration::from_secs(2);
/// Interval between checks whether all data has been applied, while tasks train.
const DATA_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Time after which, once all data has been applied, the chief stops waiting for tasks that have not left.
const IDLE_TASK_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of a status request to a server.
pub(super) const STATUS_TIMEOUT: Duration = Duration::from_secs(2);

/// Log message when no task trains.
const DESERTED: &str = "no task trains: the job waits for a worker to join";

/// The reason why the watch ended.
pub(super) enum Seen {
    /// A server has lost its values.
    Lost(String),
    /// The job has reached its end.
    Ended,
    /// The evaluations or the callbacks have ended the job.
    EndedEarly(String),
    /// The evaluations bring no gain: the learning rates fall.
    Plateau(Plateau),
    /// The token was cancelled.
    Stopped,
    /// The job cannot continue.
    Failed(Diagnostic),
}

/// The process and the values of a server, as last reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    incarnation: u64,
    prepared_epoch: u64,
}

/// An ended session that a server has yet to close.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unclosed {
    ps: usize,
    task: Task,
    session: u64,
    tried: Option<Instant>,
}

type Trainer = Option<JoinHandle<Result<Outcome, Diagnostic>>>;

/// Watches the job until the watch ends for one of the reasons in [`Seen`].
pub(super) async fn watch(
    lead: &mut Chief,
    run: &mut Run,
    trainer: &mut Trainer,
    outcome: &mut Option<Outcome>,
    stop: &CancellationToken,
) -> Seen {
    let mut known: Vec<Option<Known>> = vec![None; lead.shards.len()];
    let mut silence: Vec<Option<(Instant, Waiting)>> = vec![None; lead.shards.len()];
    let mut servers_at = Instant::now();
    let mut save_again = None::<Instant>;
    let mut save_failed = false;
    let mut save_told = None::<(Instant, Code)>;
    let mut told = Vec::new();
    let mut missing = Vec::new();
    loop {
        if stop.is_cancelled() {
            return Seen::Stopped;
        }
        // The failure of the dispatcher comes first: the tasks that were refused know less of its cause.
        if let Some(failure) = lead.coordinator.data().and_then(|data| data.failure()) {
            return Seen::Failed(failure);
        }
        if let Some(failure) = look_at_trainer(trainer, outcome).await {
            // The chief's own loop is quarantined. The chief still leads the other tasks.
            if failure.code != Code::E5002 {
                return Seen::Failed(failure);
            }
            error!("{}", failure.log_line());
        }
        let all = servers_at.elapsed() >= SERVER_POLL_INTERVAL
            || known.contains(&None)
            || lead.is_at_last_step(run);
        if all {
            servers_at = Instant::now();
        }
        let mut draining = false;
        let mut wanted = None;
        let polled = if all { lead.shards.len() } else { 1 };
        let told_by_servers = tokio::select! {
            told = join_all((0..polled).map(|ps| status(lead, ps))) => told,
            () = stop.cancelled() => return Seen::Stopped,
        };
        for (ps, told) in told_by_servers.into_iter().enumerate() {
            match told {
                Ok(status) => {
                    let over = silence[ps]
                        .take()
                        .and_then(|(since, waiting)| waiting.over(since.elapsed()));
                    if let Some(over) = over {
                        info!("{over}");
                    }
                    draining |= status.store.state == State::Draining;
                    if status.wants_checkpoint {
                        wanted = Some(ps);
                    }
                    let before = known[ps];
                    if let Some(seen) = look_at_server(lead, run, ps, &status, &mut known[ps]) {
                        return seen;
                    }
                    if before.is_some() && before != known[ps] {
                        // A server has returned whose loss may have failed the checkpoint.
                        save_again = None;
                    }
                }
                Err(error) => {
                    if let Some(seen) = look_at_silence(lead, ps, &error, &mut silence[ps]) {
                        return seen;
                    }
                }
            }
        }
        close_sessions(lead, lead.identity(run), &run.telemetry, &mut run.unclosed).await;
        lead.tell_of_missing(&mut missing);
        if !lead
            .coordinator
            .with(|membership, _| membership.trains(lead.task))
        {
            lead.tell_step(run);
        }
        lead.looked
            .send_modify(|looked| looked.seen = run.global_step);
        // A server that was asked for its part does not request a checkpoint again, so a failed checkpoint stays due.
        let due = draining || save_failed || wanted.is_some() || lead.save_is_due(run);
        if due && save_again.is_none_or(|at| Instant::now() >= at) {
            save_again = None;
            if let Some(ps) = wanted {
                info!(
                    "{} requests a checkpoint: its log is near parameter_servers.log_bytes_max, \
                    or its disk is almost full",
                    lead.shards[ps].name()
                );
            }
            let saved = tokio::select! {
                saved = lead.save(run) => saved,
                () = lead.out_of_time.cancelled() => return Seen::Stopped,
            };
            save_failed = saved.is_err();
            if let Err(problem) = saved {
                let pause = if problem.code == Code::E3006 {
                    ROOM_RETRY_INTERVAL
                } else {
                    SAVE_RETRY_INTERVAL
                };
                save_again = Some(Instant::now() + pause);
                let is_told = |(at, code): (Instant, Code)| {
                    code == problem.code && at.elapsed() < SAVE_RETRY_INTERVAL
                };
                if !save_told.is_some_and(is_told) {
                    save_told = Some((Instant::now(), problem.code));
                    let problem = if draining {
                        problem
                    } else {
                        let seconds = pause.as_secs();
                        problem.note(format!(
                            "training continues, and the chief tries again in {seconds} s"
                        ))
                    };
                    error!("{}", problem.log_line());
                }
            }
        }
        if let Some(problem) = run.callback_failure.take() {
            return Seen::Failed(problem);
        }
        if let Some(why) = lead.model.callbacks().and_then(|callbacks| callbacks.end()) {
            return Seen::EndedEarly(why);
        }
        if let Some(requests) = &mut run.end_requests
            && let Some(why) = requests.poll(run.epoch).await
        {
            return Seen::EndedEarly(why);
        }
        let is_awaited = run
            .evaluated
            .as_ref()
            .is_some_and(|evaluated| evaluated.is_awaited(run.saved.step));
        if !is_awaited {
            // A checkpoint that failed, or whose retry is not due, must not block the chief's own loop.
            lead.looked
                .send_modify(|looked| looked.saved = run.global_step);
        }
        if let Some(seen) = lead.look_at_tasks(run, &mut told).await {
            return seen;
        }
        if let Some(evaluated) = &mut run.evaluated {
            evaluated.poll(run.saved.step).await;
            if let Some(why) = evaluated.verdict.stop.clone() {
                return Seen::EndedEarly(why);
            }
            let made = &run.reductions.reductions;
            if let Some(plateau) = evaluated.plateau(made, run.global_step)
                && !lead.is_at_last_step(run)
                && Instant::now() >= run.rates_stay_until
            {
                return Seen::Plateau(plateau);
            }
        }
        tokio::select! {
            () = tokio::time::sleep(WATCH_INTERVAL) => {}
            () = stop.cancelled() => {}
        }
    }
}

/// Takes the outcome of the chief's own loop, if it has ended. Returns its failure.
async fn look_at_trainer(
    trainer: &mut Trainer,
    outcome: &mut Option<Outcome>,
) -> Option<Diagnostic> {
    if !trainer.as_ref().is_some_and(JoinHandle::is_finished) {
        return None;
    }
    taken(trainer.take()?.await, outcome)
}

/// Waits for the end of the chief's own loop, which has been told to end, and takes its outcome. Returns its failure. A loop that does not
/// end in time stays.
pub(super) async fn wait_for_trainer(
    trainer: &mut Trainer,
    outcome: &mut Option<Outcome>,
) -> Option<Diagnostic> {
    let handle = trainer.as_mut()?;
    let joined = tokio::time::timeout(LEAVE_TIMEOUT, handle).await.ok()?;
    // Its outcome is there once.
    *trainer = None;
    taken(joined, outcome)
}

fn taken(
    joined: Result<Result<Outcome, Diagnostic>, JoinError>,
    outcome: &mut Option<Outcome>,
) -> Option<Diagnostic> {
    match joined {
        Ok(Ok(trained)) => {
            *outcome = Some(trained);
            None
        }
        Ok(Err(problem)) => Some(problem),
        Err(panic) => Some(Diagnostic::error(
            Code::E9001,
            format!("the training loop has failed: {panic}"),
        )),
    }
}

pub(super) async fn status(lead: &Chief, ps: usize) -> Result<ServerStatus, Error> {
    let shard = &lead.shards[ps];
    tokio::time::timeout(STATUS_TIMEOUT, shard.status())
        .await
        .unwrap_or_else(|_| {
            Err(Error::Unreachable {
                peer: shard.name().to_owned(),
                message: "no answer within 2 s".to_owned(),
            })
        })
}

fn look_at_server(
    lead: &Chief,
    run: &mut Run,
    ps: usize,
    status: &ServerStatus,
    known: &mut Option<Known>,
) -> Option<Seen> {
    let name = lead.shards[ps].name();
    if status.store.epoch > run.epoch {
        let message = format!(
            "{name} was claimed for cluster_epoch {}, this chief has cluster_epoch {}",
            status.store.epoch, run.epoch
        );
        let problem = Diagnostic::error(Code::E2009, message)
            .help("another chief has taken over the job: this chief ends");
        return Some(Seen::Failed(problem));
    }
    let is_replica = ps < lead.first_server();
    if is_replica && !matches!(status.store.state, State::Open | State::Draining) {
        // The chief's own copy takes over the parameters of another member of the process group.
        return None;
    }
    let now = Known {
        incarnation: status.incarnation,
        prepared_epoch: status.store.prepared_epoch,
    };
    let before = known.replace(now).unwrap_or(now);
    let is_lost = before.prepared_epoch != now.prepared_epoch || status.store.state == State::Empty;
    if is_lost && !is_replica {
        return Some(Seen::Lost(format!("{name} was restarted")));
    }
    if before.incarnation != now.incarnation && lead.pairs.is_some() {
        info!(
            ps = name,
            version = %status.store.version,
            "another process serves {name} now, with all updates: training continues"
        );
    } else if before.incarnation != now.incarnation {
        info!(
            ps = name,
            version = %status.store.version,
            "{name} was restarted, and has recovered all updates: training continues"
        );
    }
    quarantine(lead, run, name, &status.store.rejections);
    run.server_bytes[ps] = status.store.value_bytes;
    let before_version = run.versions[ps].replace(status.store.version);
    lead.observe_server(ps, status);
    if ps == 0 {
        run.global_step = status.store.global_step;
        run.telemetry.global_step.set(run.global_step as f64);
        // A step that was seen before carries no new information about the slowest lane.
        let slowest = status
            .store
            .slowest_lane
            .filter(|_| before_version != Some(status.store.version));
        lead.coordinator.with(|membership, now| {
            membership.set_global_step(status.store.global_step);
            membership.assign_lanes(now, slowest);
        });
    }
    None
}

/// Quarantines tasks whose pushes are refused too often. Under dynamic sharding, other tasks get their data shards.
fn quarantine(lead: &Chief, run: &Run, server: &str, rejections: &[Rejections]) {
    let most = lead.job.parameter_servers.guard.quarantine_after;
    for Rejections {
        task,
        session,
        recent,
        latest,
        reason,
    } in rejections.iter().filter(|_| most > 0)
    {
        if *recent < most {
            continue;
        }
        let batches: Vec<String> = latest.iter().map(ToString::to_string).collect();
        let name = |place: usize| {
            lead.plan
                .variables
                .get(place)
                .map(|spec| spec.name.as_str())
        };
        let reason =
            reason.map(|reason| format!(", the last one because {}", reason.describe(name)));
        let why = format!(
            "{task} is quarantined: {server} refused {recent} of the latest 64 pushes of {task} \
            for their values, most recently those of batches {}{}",
            batches.join(", "),
            reason.unwrap_or_default()
        );
        if lead.coordinator.quarantine(*task, *session, why.clone()) {
            run.telemetry.quarantined.increment(1);
            error!("{why}");
        }
    }
}

fn look_at_silence(
    lead: &Chief,
    ps: usize,
    error: &Error,
    silence: &mut Option<(Instant, Waiting)>,
) -> Option<Seen> {
    if !error.may_pass() {
        return Some(Seen::Failed(into_diagnostic(error)));
    }
    lead.observe_silence(ps, error);
    let subject = lead.shards[ps].name().to_owned();
    let (since, waiting) = silence.get_or_insert_with(|| {
        (
            Instant::now(),
            Waiting::new(lead.task.to_string(), subject, lead.connect_deadline),
        )
    });
    match waiting.tick(since.elapsed(), &error.to_string()) {
        Action::Wait => None,
        Action::Notice(notice) => {
            warn!("{notice}");
            None
        }
        Action::GiveUp(problem) => Some(Seen::Failed(*problem)),
    }
}

/// Closes ended sessions on the servers: sessions that left, and sessions whose lease has expired. A server that does
/// not answer is retried, because it returns with all sessions that it had.
pub(super) async fn close_sessions(
    lead: &Chief,
    identity: Identity,
    telemetry: &Telemetry,
    unclosed: &mut Vec<Unclosed>,
) {
    let mut ended = lead
        .coordinator
        .with(|membership, now| membership.expire(now));
    for (task, session) in &ended {
        if let Some(data) = lead.coordinator.data() {
            data.release((*task, *session));
        }
        telemetry.leases_lost.increment(1);
        if lead.is_cut_off() {
            warn!(
                %task,
                "{task} and all parameter servers are silent: the network of this chief may be \
                cut. This chief has ended the session of {task}"
            );
        } else {
            warn!(%task, "{task} is silent: the chief has ended its session, and the other tasks continue");
        }
    }
    ended.extend(lead.ended.take());
    let (active, done) = lead
        .coordinator
        .with(|membership, _| (membership.active(), membership.done()));
    telemetry.active_tasks.set(active as f64);
    telemetry
        .expected_tasks
        .set(lead.tasks.saturating_sub(done) as f64);
    let fresh = ended.into_iter().flat_map(|(task, session)| {
        (0..lead.shards.len()).map(move |ps| Unclosed {
            ps,
            task,
            session,
            tried: None,
        })
    });
    unclosed.extend(fresh);
    // A session stays in the list until it has been closed, so that none is lost if this future is dropped: a server that
    // is told twice has closed it already.
    let due = |of: &Unclosed| {
        of.tried
            .is_none_or(|tried| tried.elapsed() >= SERVER_POLL_INTERVAL)
    };
    let closing = (0..lead.shards.len()).map(|ps| {
        let sessions = unclosed.iter().enumerate();
        let sessions = sessions.filter(|(_, of)| of.ps == ps && due(of));
        let sessions = sessions.map(|(place, of)| (place, *of)).collect();
        close_on(lead, identity, ps, sessions)
    });
    let closed = join_all(closing).await;
    let closed: HashSet<usize> = closed.into_iter().flatten().collect();
    let now = Instant::now();
    let mut place = 0;
    unclosed.retain_mut(|of| {
        let is_closed = closed.contains(&place);
        if due(of) {
            of.tried = Some(now);
        }
        place += 1;
        !is_closed
    });
}

/// Closes sessions on a server, one after the other, until it does not answer. Returns the places of those that need no
/// further attempt.
async fn close_on(
    lead: &Chief,
    identity: Identity,
    ps: usize,
    sessions: Vec<(usize, Unclosed)>,
) -> Vec<usize> {
    let mut closed = Vec::with_capacity(sessions.len());
    for (place, Unclosed { task, session, .. }) in sessions {
        let closing = lead.shards[ps].close_session(identity, task, session);
        match tokio::time::timeout(STATUS_TIMEOUT, closing).await {
            Err(_) => break,
            Ok(Err(error)) if error.may_pass() => break,
            Ok(Err(error)) => {
                warn!(%task, session, %error, "ps:{ps} could not close the session of {task}");
            }
            Ok(Ok(_)) => {}
        }
        closed.push(place);
    }
    closed
}

impl Chief {
    /// Polls the versions, the sizes and the global step of the servers once more. Returns the names of those that do not
    /// answer.
    pub(super) async fn refresh(&self, run: &mut Run) -> Vec<String> {
        let told = join_all((0..self.shards.len()).map(|ps| status(self, ps))).await;
        let mut silent = Vec::new();
        for (ps, status) in told.into_iter().enumerate() {
            let Ok(status) = status else {
                silent.push(self.shards[ps].name().to_owned());
                continue;
            };
            run.versions[ps] = Some(status.store.version);
            run.server_bytes[ps] = status.store.value_bytes;
            if ps == 0 {
                run.global_step = status.store.global_step;
            }
        }
        silent
    }

    fn save_is_due(&self, run: &Run) -> bool {
        let settings = &self.job.run;
        // The first checkpoint of a large model: close to the initial values.
        if run.saved.step.is_none() {
            return true;
        }
        let by_steps = settings.save_checkpoints_steps.is_some_and(|steps| {
            run.global_step >= run.saved.step.map_or(0, |saved| saved / steps * steps) + steps
        });
        let by_time = settings
            .save_checkpoints_secs
            .is_some_and(|secs| run.saved.at.elapsed().as_secs() >= secs);
        (by_steps || by_time) && run.saved.step != Some(run.global_step)
    }

    pub(super) fn is_at_last_step(&self, run: &Run) -> bool {
        self.job
            .train
            .max_steps
            .is_some_and(|most| run.global_step >= most)
    }

    /// Checks which tasks are present, and whether the last step or all input has been applied.
    async fn look_at_tasks(&self, run: &mut Run, told: &mut Vec<String>) -> Option<Seen> {
        if self.is_at_last_step(run) {
            // A synchronous step is over when all servers have applied it.
            let together = self.plan.update == Update::Sync && !self.plan.hybrid;
            let over = if together {
                let mut steps = run
                    .versions
                    .iter()
                    .map(|version| version.and_then(Version::steps));
                let first = steps.next().flatten();
                steps.all(|step| step >= first)
            } else {
                self.is_complete(run).await
            };
            return over.then_some(Seen::Ended);
        }
        let mut notice = |text: String| {
            if !told.contains(&text) {
                warn!("{text}");
                told.push(text);
            }
        };
        if let Some(why) = self.coordinator.with(|membership, _| membership.misfit()) {
            return Some(Seen::Lost(why));
        }
        let (liveness, failure, stranded) = self.coordinator.with(|membership, now| {
            (
                membership.liveness(now),
                membership.failure(),
                membership.stranded(),
            )
        });
        if let Some((task, message)) = failure {
            notice(format!(
                "{task} cannot continue: {message}; the other tasks continue"
            ));
        }
        if let Some(why) = stranded {
            let help = "lower learning_rate, look for extreme values in the data, or change parameter_servers.guard";
            let problem =
                Diagnostic::error(Code::E5001, format!("no task is left that trains: {why}"));
            return Some(Seen::Failed(problem.help(help)));
        }
        match liveness {
            Liveness::Training => {
                told.retain(|text| text != DESERTED);
                self.look_at_idle_tasks(run).await
            }
            Liveness::Finished => {
                self.refresh(run).await;
                if self.is_at_last_step(run) {
                    // The next poll checks whether all servers have applied the same.
                    return None;
                }
                if self.all_applied().await? {
                    return Some(Seen::Ended);
                }
                let (data, positions) = self.positions().await?;
                if let Some(problem) = run.rereads.again(&positions, &self.shards) {
                    return Some(Seen::Failed(problem));
                }
                warn!(
                    "the tasks that read the input to its end have left, and the servers have \
                    not applied all of it"
                );
                // A server may have lost, with its machine, batches that it had reported as applied: they are handed
                // out again.
                data.restart(&positions);
                self.coordinator.with(|membership, _| membership.reopen());
                None
            }
            Liveness::Missed(absent) => {
                // All present tasks have finished. The absent ones may return within a limited time.
                let was_here = |task| {
                    self.coordinator
                        .with(|membership, _| membership.was_here(task))
                };
                let patience = |task| {
                    if was_here(task) {
                        RETURN_TIMEOUT
                    } else {
                        self.connect_deadline
                    }
                };
                let given_up = absent
                    .iter()
                    .all(|(task, missed)| *missed >= patience(*task));
                for (task, _) in absent
                    .iter()
                    .filter(|(_, missed)| *missed >= MISSING_NOTICE_AFTER)
                {
                    let state = if given_up {
                        "has not come back in time: no task reads its part of the input"
                    } else {
                        "is missing: the other tasks have finished, and the job waits for it"
                    };
                    notice(format!("{task} {state}"));
                }
                if given_up {
                    info!("the job ends without the missing tasks");
                }
                given_up.then_some(Seen::Ended)
            }
            Liveness::Deserted(missed) => {
                if missed >= MISSING_NOTICE_AFTER
                    && run
                        .data_at
                        .is_none_or(|at| at.elapsed() >= SERVER_POLL_INTERVAL)
                {
                    run.data_at = Some(Instant::now());
                    // The tasks that applied it may have left before this chief started.
                    if self
                        .positions()
                        .await
                        .is_some_and(|(data, positions)| data.is_over(&positions))
                    {
                        info!("no task trains, and all input records are applied");
                        self.refresh(run).await;
                        run.epochs = self.job.input.train.epochs;
                        return Some(Seen::Ended);
                    }
                }
                if missed >= MISSING_NOTICE_AFTER {
                    notice(DESERTED.to_owned());
                }
                if missed < self.connect_deadline {
                    return None;
                }
                if let Err(problem) = self.save(run).await {
                    error!("{}", problem.log_line());
                }
                let seconds = self.connect_deadline.as_secs();
                let message = format!(
                    "no task has trained for {seconds} s, and a part of the input is not applied"
                );
                let help =
                    "start a worker and this job again: the job continues from its last checkpoint";
                Some(Seen::Failed(
                    Diagnostic::error(Code::E2003, message).help(help),
                ))
            }
        }
    }

    /// Ends the job without the tasks that have not left long after the servers have applied all data: a task whose process
    /// lives and whose training loop hangs keeps its lease.
    async fn look_at_idle_tasks(&self, run: &mut Run) -> Option<Seen> {
        if run
            .data_at
            .is_some_and(|at| at.elapsed() < DATA_POLL_INTERVAL)
        {
            return None;
        }
        run.data_at = Some(Instant::now());
        let is_over = self
            .positions()
            .await
            .is_some_and(|(data, positions)| data.is_over(&positions));
        if !is_over {
            run.applied_since = None;
            return None;
        }
        let since = *run.applied_since.get_or_insert_with(Instant::now);
        if since.elapsed() < IDLE_TASK_TIMEOUT {
            return None;
        }
        let tasks = self
            .coordinator
            .with(|membership, _| membership.active_tasks());
        let names: Vec<String> = tasks.iter().map(Task::to_string).collect();
        warn!(
            tasks = names.join(" "),
            "all input records are applied, and these tasks have not left for {} s: the job ends without them",
            IDLE_TASK_TIMEOUT.as_secs()
        );
        self.refresh(run).await;
        run.epochs = self.job.input.train.epochs;
        Some(Seen::Ended)
    }

    /// Returns whether all servers have applied the same batches, once the last step has been applied. A batch that
    /// only some servers have applied is handed out until all have. Gives up when no task has been present for a long
    /// time.
    async fn is_complete(&self, run: &mut Run) -> bool {
        if self.plan.hybrid || self.coordinator.data().is_none() {
            return true;
        }
        // A server that does not answer may have applied less than the others.
        let Some((data, positions)) = self.positions().await else {
            return false;
        };
        if data.complete(&positions) {
            return true;
        }
        if self.coordinator.with(|membership, _| membership.active()) > 0 {
            run.deserted_at_last_step = None;
            return false;
        }
        let deserted = run
            .deserted_at_last_step
            .get_or_insert_with(Instant::now)
            .elapsed()
            >= RETURN_TIMEOUT;
        if deserted {
            warn!(
                "some parameter servers lack the last batches of a task that is gone, and no \
                task has joined within {} s to train these batches again",
                RETURN_TIMEOUT.as_secs()
            );
        }
        deserted
    }

    /// Returns whether every server has applied all data that is handed out, `None` if a server does not answer.
    async fn all_applied(&self) -> Option<bool> {
        if self.coordinator.data().is_none() {
            return Some(true);
        }
        let (data, positions) = self.positions().await?;
        Some(data.is_applied(&positions))
    }

    /// Returns the dispatcher, and the data positions of each server. Returns `None` if there is no dispatcher, or a
    /// server does not answer.
    async fn positions(&self) -> Option<(&Dispatcher, Vec<Vec<ShardPosition>>)> {
        let data = self.coordinator.data()?;
        let told = try_join_all(self.shards.iter().map(|shard| shard.positions()));
        let told = tokio::time::timeout(STATUS_TIMEOUT, told)
            .await
            .ok()?
            .ok()?;
        Some((
            data,
            told.into_iter().map(|status| status.positions).collect(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_outcome_of_a_loop_that_ended_before_the_stop_is_taken_once() {
        let problem = || Diagnostic::error(Code::E3009, "no memory");
        let mut trainer = Some(tokio::spawn(async move { Err(problem()) }));
        let mut outcome = None;
        let failed = wait_for_trainer(&mut trainer, &mut outcome).await;
        assert_eq!(failed.map(|failed| failed.code), Some(Code::E3009));
        // Whoever waits at the end finds none.
        assert!(trainer.is_none());
        assert!(wait_for_trainer(&mut trainer, &mut outcome).await.is_none());
        assert!(outcome.is_none());
    }
}
