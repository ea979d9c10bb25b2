//! The sources of a task's batches: its own share of the input, or data shards that the chief hands out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};
use trainyard_cluster_client::Error;
use trainyard_diagnostic::{Code, Diagnostic, system_problem};
use trainyard_input::{Batch, Batches, Dataset, Position, Prefetch, ShardReader};
use trainyard_model::{AnyModel, Own, Part, Shard, inline_options, input_options};
use trainyard_parameter_store::MicroBatch;
use trainyard_run_config::Replication;
use trainyard_runtime::has_threads;
use trainyard_variable::StepNumber;

use crate::failure::Failure;
use crate::label_watch::LabelWatch;
use crate::session::Session;
use crate::shard_client::{OutstandingShards, ShardClient};
use crate::{Config, Coordinator, GrantedShard};

/// A batch that is ready for computing.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) position: Position,
    /// Synchronous step of the data, counted from its start, and the batch's place in the step.
    pub(crate) place: Option<(u64, MicroBatch)>,
    /// Some parameter servers have applied the batch and others have not.
    pub(crate) half_applied: bool,
    /// Features; absent if every record of the batch was bad. Its step then updates nothing.
    pub(crate) features: Option<Own>,
}

/// Properties of the latest batch that was read, besides its position.
#[derive(Debug, Clone, Copy, Default)]
struct Read {
    /// Synchronous step of the data, counted from its start, and the batch's place in the step.
    place: Option<(u64, MicroBatch)>,
    half_applied: bool,
}

/// A sequence of batches.
#[derive(Debug)]
pub(crate) struct BatchSource {
    queue: Prefetch<Prepared, trainyard_model::Error>,
    granting: Option<DispatchedSource>,
}

/// The part of a batch source that requests data shards from the chief.
#[derive(Debug)]
struct DispatchedSource {
    shard_client: AbortOnDropHandle<Result<(), Error>>,
    open: Arc<OutstandingShards>,
    /// First synchronous step that is still needed.
    floor: Arc<AtomicU64>,
}

impl BatchSource {
    /// Reads the task's own share of the input, from the session's first batch on.
    pub(crate) fn fixed(
        config: &Config,
        model: &Arc<AnyModel>,
        session: &Session,
    ) -> Result<Self, Diagnostic> {
        let shard = Shard {
            index: session.joined.data_shard_index,
            count: session.joined.data_shard_count,
            skip_batches: session.opened.batches_applied,
        };
        let options = input_options(&config.job, Part::Train, shard, Some(dead_letter(config)))?;
        let files = options.files.len();
        let skipped = shard.skip_batches;
        info!(
            files,
            shard = shard.index,
            of = shard.count,
            skipped_batches = skipped,
            "reading"
        );
        let dataset = Dataset::open(options, model.schema().clone()).map_err(Diagnostic::from)?;
        let model = Arc::clone(model);
        let mut labels = LabelWatch::of(&config.job, model.schema());
        let prepare = move |batch: &Batch| {
            warn_of_labels(&mut labels, batch);
            let features = Some(model.features(batch)?);
            Ok(Prepared {
                position: batch.position,
                place: None,
                half_applied: false,
                features,
            })
        };
        Ok(Self {
            queue: read_ahead(config, dataset, prepare)?,
            granting: None,
        })
    }

    /// Reads the data shards that the chief hands out; those of one lane, if the updates are synchronous.
    pub(crate) fn granted(
        config: &Config,
        model: &Arc<AnyModel>,
        session: &Session,
        coordinator: &Arc<dyn Coordinator>,
        lane: Option<u32>,
    ) -> Result<Self, Diagnostic> {
        let dead_letter = Some(dead_letter(config));
        let options = match config.job.strategy.replication {
            Replication::BetweenGraph => {
                input_options(&config.job, Part::Train, Shard::WHOLE, dead_letter)?
            }
            Replication::InGraph => inline_options(&config.job, dead_letter),
        };
        let (sender, receiver) = mpsc::channel(1);
        let open = Arc::<OutstandingShards>::default();
        let floor = Arc::<AtomicU64>::default();
        let shard_client = ShardClient {
            coordinator: Arc::clone(coordinator),
            heartbeat: session.request.clone(),
            deadline: config.connect_deadline,
            // Offline shards are useless if the chief reads the records.
            reserves: config.job.strategy.replication == Replication::BetweenGraph,
            open: Arc::clone(&open),
            standstill: Arc::clone(&session.standstill),
            sender,
        };
        let lane = lane.map(|lane| (lane, session.opened.batches_applied));
        let shard_client = AbortOnDropHandle::new(tokio::spawn(shard_client.run(lane)));
        let latest = Arc::<Mutex<Read>>::default();
        let source = GrantedBatches {
            reader: ShardReader::new(options, model.schema().clone()),
            receiver,
            current: None,
            latest: Arc::clone(&latest),
            floor: Arc::clone(&floor),
        };
        let model = Arc::clone(model);
        let mut labels = LabelWatch::of(&config.job, model.schema());
        let prepare = move |batch: &Batch| {
            warn_of_labels(&mut labels, batch);
            let features = (batch.rows > 0)
                .then(|| model.features(batch))
                .transpose()?;
            let Read {
                place,
                half_applied,
            } = *latest.lock();
            Ok(Prepared {
                position: batch.position,
                place,
                half_applied,
                features,
            })
        };
        let queue = read_ahead(config, source, prepare)?;
        Ok(Self {
            queue,
            granting: Some(DispatchedSource {
                shard_client,
                open,
                floor,
            }),
        })
    }

    /// Returns the next batch. `None` at the end of the input.
    pub(crate) async fn next(&mut self) -> Result<Option<Prepared>, Failure> {
        match self.queue.next().await {
            Some(Ok((_, prepared))) => Ok(Some(prepared)),
            Some(Err(error)) => Err(Failure::Local(error.into())),
            None => match self.granting.as_mut() {
                // The input thread ends when no further shard is granted. The shard client knows why.
                Some(granting) => match (&mut granting.shard_client).await {
                    Ok(asked) => asked.map(|()| None).map_err(Failure::Cluster),
                    Err(error) => {
                        let message = format!("the task that asks for data has failed: {error}");
                        Err(Failure::Local(Diagnostic::error(Code::E9001, message)))
                    }
                },
                None => Ok(None),
            },
        }
    }

    /// Returns whether the chief hands out the data.
    pub(crate) fn is_granted(&self) -> bool {
        self.granting.is_some()
    }

    /// Returns whether [`BatchSource::next`] would return at once.
    pub(crate) fn is_ready(&self) -> bool {
        self.queue.is_ready()
    }

    /// Returns the number of batches that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.fill().0
    }

    /// Records that a batch has been applied.
    pub(crate) fn applied(&self, position: Position) {
        if let Some(granting) = &self.granting {
            granting.open.applied(position.batch);
        }
    }

    /// Returns the synchronous step of the data at which the session begins, once there is a batch.
    fn origin(&self) -> u64 {
        self.granting
            .as_ref()
            .and_then(|granting| granting.open.origin())
            .unwrap_or(0)
    }

    /// Returns the number of synchronous steps from the start of the session to the end of the data, which must have
    /// been reached.
    pub(crate) fn steps_in_all(&self) -> u64 {
        let steps = self
            .granting
            .as_ref()
            .map_or(0, |granting| granting.open.steps());
        steps.saturating_sub(self.origin())
    }

    /// Returns the number of the synchronous step of this step of the data. The session was opened at `opened`, which is
    /// the number of its first step.
    pub(crate) fn step_number(&self, step: u64, opened: StepNumber) -> StepNumber {
        opened.after(step.saturating_sub(self.origin()))
    }

    /// Marks batches of the steps before this one as no longer needed.
    pub(crate) fn skip_to(&self, useful: StepNumber, opened: StepNumber) {
        if let Some(granting) = &self.granting {
            let step = self.origin() + useful.since(opened);
            granting.floor.fetch_max(step, Ordering::Relaxed);
        }
    }
}

fn dead_letter(config: &Config) -> std::path::PathBuf {
    let name = config.task.to_string().replace(':', "-");
    config
        .job
        .local_dir()
        .join("dead_letter")
        .join(format!("{name}.jsonl"))
}

/// Logs a warning for each label of which all are the same.
fn warn_of_labels(labels: &mut [LabelWatch], batch: &Batch) {
    for warning in labels.iter_mut().filter_map(|label| label.see(batch)) {
        warn!("{warning}");
    }
}

/// Starts to read and prepare batches ahead of the steps.
fn read_ahead<T: Send + 'static, E: Send + 'static>(
    config: &Config,
    source: impl Batches + Send + 'static,
    prepare: impl FnMut(&Batch) -> Result<T, E> + Send + 'static,
) -> Result<Prefetch<T, E>, Diagnostic> {
    let depth = config.job.input.train.prefetch_batches;
    if !has_threads() {
        return Ok(Prefetch::spawn_task(source, depth, prepare));
    }
    Prefetch::spawn(source, depth, prepare).map_err(|error| {
        let message = format!("the input thread cannot start: {error}");
        system_problem(&error, message, (Code::E9002, "start the program again"))
    })
}

/// Batches of the granted data shards, read on the input thread.
struct GrantedBatches {
    reader: ShardReader,
    receiver: mpsc::Receiver<Box<GrantedShard>>,
    /// The data shard that is being read.
    current: Option<Box<GrantedShard>>,
    latest: Arc<Mutex<Read>>,
    floor: Arc<AtomicU64>,
}

impl GrantedBatches {
    /// Reads the next batch of the current data shard. Returns `false` if there is no other.
    fn read_current(&mut self, batch: &mut Batch) -> Result<bool, trainyard_input::Error> {
        let Some(current) = &self.current else {
            return Ok(false);
        };
        let shard = &current.shard;
        let stale = shard.step(shard.batches - 1) < self.floor.load(Ordering::Relaxed);
        if stale || !self.reader.read(batch)? {
            return Ok(false);
        }
        let nth =
            batch.position.batch.saturating_sub(shard.first_batch) / u64::from(shard.lanes.max(1));
        // The number is less than the number of batches of the shard, which fits.
        let nth = nth as u32;
        let micro_batch = MicroBatch {
            lane: shard.lane,
            lanes: shard.slots(nth),
        };
        let place = Some((shard.step(nth), micro_batch));
        *self.latest.lock() = Read {
            place,
            half_applied: current.half_applied,
        };
        Ok(true)
    }

    /// Begins to read a data shard.
    fn begin(&mut self, mut granted: Box<GrantedShard>) -> Result<(), trainyard_input::Error> {
        let shard = granted.shard.clone();
        let direction = granted.direction;
        let useless = self
            .floor
            .load(Ordering::Relaxed)
            .saturating_sub(shard.first_step);
        let first = granted
            .batches
            .start
            .max(useless.try_into().unwrap_or(u32::MAX));
        let batches = first..granted.batches.end.max(first);
        match granted.inline_records.take() {
            Some(inline_records) => {
                self.reader
                    .begin_inline(shard, inline_records, batches, direction)?
            }
            None => self.reader.begin(shard, batches, direction)?,
        }
        self.current = Some(granted);
        Ok(())
    }
}

impl Batches for GrantedBatches {
    fn read(&mut self, batch: &mut Batch) -> Result<bool, trainyard_input::Error> {
        while !self.read_current(batch)? {
            let Some(granted) = self.receiver.blocking_recv() else {
                return Ok(false);
            };
            self.begin(granted)?;
        }
        Ok(true)
    }

    async fn read_beside(&mut self, batch: &mut Batch) -> Result<bool, trainyard_input::Error> {
        while !self.read_current(batch)? {
            let Some(granted) = self.receiver.recv().await else {
                return Ok(false);
            };
            self.begin(granted)?;
        }
        Ok(true)
    }
}
