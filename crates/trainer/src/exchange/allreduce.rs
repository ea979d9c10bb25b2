//! Allreduce: all members of a process group sum their gradients, and each applies the mean to its own copy.
//!
//! Under the hybrid strategy, the rows of tables are updates of their own, at the parameter servers.

mod gradient_reducer;
mod row_pushes;

use std::ops::ControlFlow;
use std::sync::Arc;

use tokio::time::Instant;
use trainyard_cluster_client::{
    CachedParameters, Error, OpenParameters, Parameters, Returned, SequenceNumbers, ServerClient,
    Step,
};
use trainyard_collective::Collective;
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_parameter_store::{BatchId, MicroBatch, Opened};
use trainyard_variable::{Gradients, Layout, StepNumber};

use self::gradient_reducer::{AfterStep, GradientReducer, RowGradients};
use self::row_pushes::RowPushes;
use super::lane::{Lane, LaneBatch};
use super::{ComputedBatch, Exchange, PulledBatch, Turn, push_of_batch};
use crate::batch_source::Prepared;
use crate::compute::reads;
use crate::failure::Failure;
use crate::replica::Replica;
use crate::session::Session;
use crate::sparse::{MeanGradients, SparsePart};
use crate::step_metrics::{Sent, StepMetrics};
use crate::training_task::TrainingTask;
use crate::{GroupAssignment, LeaveReason};

/// A push to the member's own copy is a whole step.
const WHOLE_STEP: MicroBatch = MicroBatch { lane: 0, lanes: 1 };

/// A task as the member of one process group after another.
pub(crate) struct Member<'a> {
    pub(crate) task: TrainingTask<'a>,
    pub(crate) layout: &'a Arc<Layout>,
    pub(crate) fingerprint: u64,
    /// Servers of the variables that are not read whole, under the hybrid strategy.
    pub(crate) tables: &'a [Arc<dyn ServerClient>],
}

/// A process group, and this member's assignment to it.
pub(crate) struct ProcessGroup {
    pub(crate) formed: GroupAssignment,
    pub(crate) collective: Arc<Collective>,
}

/// The reason why the steps of a group have ended.
pub(crate) enum Ended {
    /// The task leaves.
    Leave(LeaveReason),
    /// A task waits to join, or leaves. All members have agreed on it at a step.
    Regroup,
    /// A member is lost.
    Broken(Diagnostic),
}

/// The lane of a batch, and its place among those of the member's step.
pub(crate) struct MemberPart {
    place: usize,
    lane: u32,
}

/// The step that the group computes.
struct CurrentStep {
    began: Instant,
    /// The batches of this member that are left, each with its place and its lane.
    left: std::vec::IntoIter<MemberBatch>,
    /// The batches that were computed, as one.
    own: Option<Sent>,
    pushes: RowPushes<Result<Returned, Error>>,
}

struct MemberBatch {
    place: usize,
    lane: u32,
    batch: Prepared,
}

/// The steps of one process group.
pub(crate) struct Allreduce<'a> {
    task: TrainingTask<'a>,
    session: &'a mut Session,
    group: &'a ProcessGroup,
    /// Number of servers of tables.
    tables: usize,
    lanes: Vec<Lane>,
    reducer: GradientReducer<'a>,
    held: CachedParameters,
    step: StepNumber,
    global_step: u64,
    next_batch: u64,
    current: Option<CurrentStep>,
}

impl<'a> Allreduce<'a> {
    /// Opens the member's own copy and the servers of tables as the stores of the session.
    ///
    /// # Errors
    /// A server refuses or does not reply, or the input cannot be read.
    pub(crate) async fn open(
        member: &Member<'a>,
        replica: &Replica,
        session: &'a mut Session,
        group: &'a ProcessGroup,
    ) -> Result<Self, Failure> {
        let task = member.task;
        let config = task.config;
        let own: Arc<dyn ServerClient> = Arc::new(replica.shard().clone());
        let mut shards = vec![own];
        shards.extend_from_slice(member.tables);
        // The session continues, and so do its sequence numbers.
        let latest = session.parameters.latest();
        let opening = OpenParameters {
            latest: SequenceNumbers {
                whole_step: Some(latest.whole_step.unwrap_or(0)),
                ..latest
            },
            layout_fingerprint: member.fingerprint,
            data_shard: 0,
        };
        let opening = Parameters::open(
            shards,
            Arc::clone(member.layout),
            session.identity,
            opening,
            config.connect_deadline,
        );
        let (parameters, _) = opening.await?;
        let opened = replica.values().map_or(
            Opened {
                version: 0,
                batches_applied: 0,
            },
            |values| Opened {
                version: values.step.get(),
                batches_applied: values.batches_applied,
            },
        );
        session.parameters = parameters.with_encoding(config.job.strategy.payload);
        session.opened = opened;
        let formed = &group.formed;
        let count = formed.lanes as usize;
        let members = formed.members.len().max(1);
        // Lanes are distributed to members in the order of ranks.
        let own = count * formed.rank / members..count * (formed.rank + 1) / members;
        let mut lanes = Vec::new();
        for number in own.map(|lane| lane as u32) {
            lanes.push(Lane::open(task, session, number)?);
        }
        let rows = if member.tables.is_empty() {
            RowGradients::Gathered
        } else {
            RowGradients::Pushed
        };
        let reducer = GradientReducer::new(task.model.variables(), &group.collective, rows)?;
        Ok(Self {
            task,
            session,
            group,
            tables: member.tables.len(),
            lanes,
            reducer,
            held: CachedParameters::default(),
            step: StepNumber::new(opened.version),
            global_step: replica.global_step(),
            next_batch: opened.batches_applied,
            current: None,
        })
    }

    /// Reads the batches of the next step. Returns the reason why there is none.
    async fn begin_step(&mut self, metrics: &StepMetrics<'_>) -> Result<Option<Ended>, Failure> {
        let max_steps = self.task.config.job.train.max_steps;
        if max_steps.is_some_and(|most| self.global_step >= most) {
            return Ok(Some(Ended::Leave(LeaveReason::Finished)));
        }
        let collective = &self.group.collective;
        let told = if metrics.callbacks_end() {
            Some(self.session.end_of_job(self.task.stop).await?)
        } else {
            self.session.told()?
        };
        if let Some(told) = told {
            collective.abort("the job has ended");
            return Ok(Some(Ended::Leave(told)));
        }
        let began = Instant::now();
        let mut batches = Vec::with_capacity(self.lanes.len());
        for lane in &mut self.lanes {
            tokio::select! {
                filled = fill(lane) => filled?,
                error = collective.ended() => return Ok(Some(Ended::Broken(error.diagnostic()))),
            }
            match lane.next.take_if(|next| next.step <= self.step) {
                Some(LaneBatch { step, .. }) if step < self.step => {
                    let lane = lane.number;
                    let group = self.step;
                    return Err(fault(format!(
                        "lane {lane} is at step {step}, its process group is at step {group}"
                    )));
                }
                Some(LaneBatch { batch, .. }) => batches.push(MemberBatch {
                    place: batches.len(),
                    lane: lane.number,
                    batch,
                }),
                None => {}
            }
        }
        metrics.waited_for_input(began.elapsed());
        self.reducer.begin(self.step.next(), batches.len());
        self.current = Some(CurrentStep {
            began,
            left: batches.into_iter(),
            own: None,
            pushes: RowPushes::new(),
        });
        Ok(None)
    }

    /// Pulls the parameters of a batch from the member's own copy and the servers of tables.
    async fn pull(&mut self, next: MemberBatch) -> Result<Turn<MemberPart, Ended>, Failure> {
        let reads = reads(&**self.task.model, &next.batch);
        let step = self.session.parameters.plan(&reads);
        let held = std::mem::take(&mut self.held);
        let returned = self
            .session
            .parameters
            .call(None, Some((step, held)))
            .await?;
        Ok(match returned.pulled {
            None => ControlFlow::Break(Ended::Leave(LeaveReason::Finished)),
            Some(pulled) => ControlFlow::Continue(PulledBatch {
                batch: next.batch,
                step: pulled.step,
                held: pulled.held,
                part: MemberPart {
                    place: next.place,
                    lane: next.lane,
                },
            }),
        })
    }

    /// Pushes the rows of a batch, which are an update of their own. While they are sent, the other gradients are
    /// summed.
    async fn push_rows(
        &mut self,
        step: Step,
        sent: Sent,
        rows: Gradients,
        metrics: &StepMetrics<'_>,
    ) -> Result<(), Failure> {
        let mut push = push_of_batch(step, sent.batch(), rows);
        push.stores = Some(1..1 + self.tables);
        push.optimizer_step = Some(self.step.next());
        let push = self.session.parameters.call(Some(push), None);
        let Some(current) = &mut self.current else {
            return Ok(());
        };
        let pushed = current.pushes.begin(push).await;
        if let Some(pushed) = pushed.map_err(|error| broken_push(&error))? {
            metrics.exchanged(current.began.elapsed(), &pushed?.traffic);
        }
        Ok(())
    }

    /// Sums the gradients over all members and applies their mean. Returns the reason why no step follows.
    async fn finish_step(
        &mut self,
        step: CurrentStep,
        metrics: &mut StepMetrics<'_>,
    ) -> Result<Option<Ended>, Failure> {
        let stop = self.task.stop;
        let mut pushes = step.pushes;
        let began = Instant::now();
        let generation = self.group.formed.generation;
        let leaves = stop.is_cancelled() || self.session.heartbeat.regroup() == generation;
        let after = if leaves {
            AfterStep::Regroup
        } else {
            AfterStep::Continue
        };
        // The counts of the step are sent last. With them, a member vouches that the servers of tables have all of its
        // rows: no member can finish a step of which a row would be lost with the member that has computed it.
        while let Some(pushed) = pushes.next().await.map_err(|error| broken_push(&error))? {
            metrics.exchanged(step.began.elapsed(), &pushed?.traffic);
        }
        let summed = self.reducer.finish(after).await;
        metrics.waited_for_servers(began.elapsed());
        let summed = match summed {
            Ok(summed) => summed,
            Err(error) => return Ok(Some(Ended::Broken(error.diagnostic()))),
        };
        let count = summed.count;
        let regroup = summed.regroup;
        if count == 0 {
            return Ok(Some(Ended::Leave(LeaveReason::InputExhausted)));
        }
        let MeanGradients {
            reads,
            counted,
            gradients,
        } = self
            .reducer
            .mean(summed)
            .map_err(|problem| broken_message(&problem))?;
        let step_of_all = self
            .session
            .parameters
            .plan_whole_step(reads, counted, self.step);
        let first = BatchId {
            pass: 0,
            shard: 0,
            batch: self.next_batch,
        };
        let mut push = push_of_batch(step_of_all, first, gradients);
        push.batches = count as u32;
        push.micro_batch = Some(WHOLE_STEP);
        push.stores = Some(0..1);
        let returned = self.session.parameters.call(Some(push), None).await?;
        self.next_batch += count;
        self.step = self.step.next();
        if let Some((pushed, gradients)) = returned.pushed {
            if pushed.duplicate {
                let step = self.step;
                return Err(fault(format!(
                    "this replica has applied step {step} before"
                )));
            }
            self.reducer.keep(gradients);
            self.global_step = pushed.global_step;
            match step.own {
                Some(sent) => metrics.count(&pushed, sent),
                None => metrics.telemetry.global_step.set(pushed.global_step as f64),
            }
        }
        if !regroup {
            return Ok(None);
        }
        Ok(Some(if stop.is_cancelled() {
            Ended::Leave(LeaveReason::Shutdown)
        } else {
            Ended::Regroup
        }))
    }
}

impl Exchange for Allreduce<'_> {
    type Part = MemberPart;
    type End = Ended;

    async fn next(
        &mut self,
        metrics: &mut StepMetrics<'_>,
    ) -> Result<Turn<MemberPart, Ended>, Failure> {
        loop {
            let Some(mut step) = self.current.take() else {
                match self.begin_step(metrics).await? {
                    Some(end) => return Ok(ControlFlow::Break(end)),
                    None => continue,
                }
            };
            if let Some(next) = step.left.next() {
                self.current = Some(step);
                return self.pull(next).await;
            }
            if let Some(end) = self.finish_step(step, metrics).await? {
                return Ok(ControlFlow::Break(end));
            }
        }
    }

    fn spare_gradients(&mut self) -> Gradients {
        self.reducer.memory()
    }

    fn has_calls(&self) -> bool {
        true
    }

    fn gradient_ready(&mut self, part: &MemberPart, variable: usize, gradient: &[f32]) {
        self.reducer.take(part.place, variable, gradient);
    }

    /// Adds the gradients to the sums of the step.
    async fn computed(
        &mut self,
        computed: ComputedBatch<MemberPart>,
        metrics: &mut StepMetrics<'_>,
    ) -> Result<(), Failure> {
        let MemberPart { place, lane } = computed.part;
        let sent = computed.sent;
        self.held = computed.held;
        let part = SparsePart {
            lane,
            reads: computed.step.reads().clone(),
            counted: computed.step.counted().to_vec(),
            gradients: computed.gradients,
        };
        let rows = self.reducer.add(place, part);
        if self.tables > 0 {
            self.push_rows(computed.step, sent, rows, metrics).await?;
        }
        if let Some(current) = &mut self.current {
            let examples = current.own.map_or(0, |own| own.examples) + sent.examples;
            current.own = Some(Sent { examples, ..sent });
        }
        Ok(())
    }
}

/// Reads the next batch of a lane, which may belong to a later step.
async fn fill(lane: &mut Lane) -> Result<(), Failure> {
    while lane.next.is_none() && !lane.is_ended {
        let read = lane.source.next().await?;
        lane.receive(read);
    }
    Ok(())
}

/// Returns the error for a state that must never occur: the copies would no longer be equal.
fn fault(what: String) -> Failure {
    Failure::Local(
        Diagnostic::error(Code::E9001, what)
            .help("please report this, with the log of every worker"),
    )
}

fn broken_push(error: &tokio::task::JoinError) -> Failure {
    Failure::Local(Diagnostic::error(
        Code::E9001,
        format!("a push to the servers has failed: {error}"),
    ))
}

fn broken_message(problem: &str) -> Failure {
    let message = format!("this worker cannot read the gradients of another worker: {problem}");
    Failure::Local(
        Diagnostic::error(Code::E2007, message)
            .help("run the same release and the same job file on every host"),
    )
}
