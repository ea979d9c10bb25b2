//! The summary writer: training events for TensorBoard, written where and when TensorFlow's chief does: `loss` every
//! `save_summary_steps`, `global_step/sec` every `log_step_count_steps`, checkpoints (`SummarySaverHook`,
//! `StepCounterHook`, `CheckpointSaverHook`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::{debug, warn};
use trainyard_checkpoint::{Checkpoint, Error};
use trainyard_run_config::Job;
use trainyard_runtime::apart;
use trainyard_tensorflow_formats::event_file::{Event, EventWriter, Histogram};

use crate::clock::Clock;

/// Largest number of events that wait for the disk. Further events are dropped.
const QUEUE_EVENTS_MAX: usize = 1024;
/// Pause after a failed write, before a new file is begun.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);
/// Longest wait for the disk at the end.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
/// Largest number of values of a variable in its histogram. Larger variables are sampled by evenly spaced chunks.
const HISTOGRAM_VALUES_MAX: usize = 4 << 20;
/// Values that are read at a time.
const CHUNK_VALUES: usize = 256 << 10;

enum Note {
    Event(Event),
    /// The event of a checkpoint. All earlier events become visible with it.
    Saved(Event),
    /// The histograms of the checkpoint at this path.
    Histograms(f64, PathBuf),
    End,
}

/// The steps between two events of a kind, and the step and time of the last one.
#[derive(Debug)]
struct Timer {
    every: u64,
    last: Option<(u64, Instant)>,
}

impl Timer {
    fn due(&self) -> u64 {
        match (self.every, self.last) {
            (0, _) => u64::MAX,
            (_, None) => 0,
            (every, Some((step, _))) => step.saturating_add(every),
        }
    }
}

#[derive(Debug)]
struct Timers {
    summary: Timer,
    rate: Timer,
    started: bool,
}

/// The events of a run. Callers do not wait: a task of its own writes the events.
#[derive(Debug)]
pub struct SummaryWriter {
    sender: mpsc::Sender<Note>,
    /// The next step at which an event is due. Most steps read only this value.
    due: AtomicU64,
    timers: Mutex<Timers>,
    writing: Mutex<Option<JoinHandle<()>>>,
    clock: Clock,
    prefix: String,
    histograms: bool,
}

impl SummaryWriter {
    /// Starts the writer of a job. The file is created with the first event; a job without summaries gets no file.
    pub fn start(job: &Job, clock: Clock) -> Arc<Self> {
        let run = &job.run;
        let (sender, receiver) = mpsc::channel(QUEUE_EVENTS_MAX);
        let timer = |every| Timer { every, last: None };
        let summary = timer(run.save_summary_steps);
        let rate = timer(run.log_step_count_steps);
        let due = AtomicU64::new(summary.due().min(rate.due()));
        let writing = apart(write(
            receiver,
            job.local_dir(),
            job.model_dir.clone(),
            clock,
        ));
        Arc::new(Self {
            sender,
            due,
            timers: Mutex::new(Timers {
                summary,
                rate,
                started: false,
            }),
            writing: Mutex::new(Some(writing)),
            clock,
            prefix: job.model_dir.join("model.ckpt").display().to_string(),
            histograms: run.summary_histograms,
        })
    }

    fn send(&self, note: Note) {
        // If the disk does not keep up, events are dropped and steps are not delayed.
        if let Err(error) = self.sender.try_send(note) {
            debug!(%error, "the queue of events is full: an event is dropped");
        }
    }

    /// Records a step, and its loss if it is known.
    pub fn step(&self, step: u64, loss: Option<f64>) {
        if step < self.due.load(Ordering::Relaxed) {
            return;
        }
        let now = Instant::now();
        let unix = self.clock.unix_secs();
        let mut timers = self.timers.lock();
        if !std::mem::replace(&mut timers.started, true) {
            self.send(Note::Event(Event::started(unix, step)));
        }
        if step >= timers.rate.due() {
            if let Some((before, at)) = timers.rate.last {
                let rate = (step - before) as f64 / now.duration_since(at).as_secs_f64().max(1e-9);
                self.send(Note::Event(Event::scalars(
                    unix,
                    step,
                    [("global_step/sec", rate as f32)],
                )));
            }
            timers.rate.last = Some((step, now));
        }
        if let Some(loss) = loss
            && step >= timers.summary.due()
        {
            self.send(Note::Event(Event::scalars(
                unix,
                step,
                [("loss", loss as f32)],
            )));
            timers.summary.last = Some((step, now));
        }
        self.due.store(
            timers.summary.due().min(timers.rate.due()),
            Ordering::Relaxed,
        );
    }

    /// Records a checkpoint at `path`.
    pub fn checkpoint(&self, step: u64, path: PathBuf) {
        if self.timers.lock().summary.every == 0 {
            return;
        }
        let unix = self.clock.unix_secs();
        self.send(Note::Saved(Event::checkpoint(
            unix,
            step,
            self.prefix.clone(),
        )));
        if self.histograms {
            self.send(Note::Histograms(unix, path));
        }
    }

    /// Waits for a limited time until all events are written.
    pub async fn end(&self) {
        let writing = self.writing.lock().take();
        let Some(writing) = writing else { return };
        let ended = async {
            drop(self.sender.send(Note::End).await);
            drop(writing.await);
        };
        if tokio::time::timeout(FLUSH_TIMEOUT, ended).await.is_err() {
            warn!(
                "the last events of the run could not be written in time: TensorBoard will not \
                show them"
            );
        }
    }
}

/// Writes events until it receives the end.
async fn write(mut notes: mpsc::Receiver<Note>, folder: PathBuf, model_dir: PathBuf, clock: Clock) {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let mut writer = None::<EventWriter>;
    let mut again = None::<Instant>;
    while let Some(note) = notes.recv().await {
        if again.is_some_and(|at| Instant::now() < at) {
            if matches!(note, Note::End) {
                return;
            }
            continue;
        }
        let written = match note {
            Note::End => {
                show(writer.as_ref(), &model_dir);
                return;
            }
            Note::Saved(event) => {
                let written = append(&mut writer, &folder, &host, clock, [event]);
                show(writer.as_ref(), &model_dir);
                written
            }
            Note::Event(event) => append(&mut writer, &folder, &host, clock, [event]),
            Note::Histograms(unix, path) => match histograms(unix, &path) {
                Ok(events) => append(&mut writer, &folder, &host, clock, events),
                Err(error) => {
                    warn!(%error, "the histograms of this checkpoint could not be computed: \
                        TensorBoard will not show them");
                    Ok(())
                }
            },
        };
        if let Err(error) = written {
            warn!(%error, "events could not be written, and TensorBoard will not show them; \
                training continues, and the chief retries in 60 s");
            (writer, again) = (None, Some(Instant::now() + WARNING_INTERVAL));
        }
    }
}

/// Copies the event file into the model directory, if that is a bucket: an object cannot be appended to.
fn show(writer: Option<&EventWriter>, model_dir: &Path) {
    if let Some(file) = writer.map(EventWriter::path)
        && let Err(error) = trainyard_model_dir::show(file, model_dir)
    {
        warn!(%error, "the event file could not be copied: TensorBoard will show the latest \
            events after the next checkpoint");
    }
}

fn append(
    writer: &mut Option<EventWriter>,
    folder: &Path,
    host: &str,
    clock: Clock,
    events: impl IntoIterator<Item = Event>,
) -> Result<(), trainyard_tensorflow_formats::event_file::Error> {
    for event in events {
        match writer {
            Some(writer) => writer.write(&event)?,
            None => {
                let mut created = EventWriter::create(folder, host, clock.unix_secs())?;
                created.write(&event)?;
                *writer = Some(created);
            }
        }
    }
    Ok(())
}

/// Returns the histograms of the variables of a checkpoint. Dynamic tables are left out, because their rows change.
fn histograms(unix: f64, path: &Path) -> Result<Vec<Event>, Error> {
    let checkpoint = Checkpoint::open(path)?;
    let manifest = checkpoint.manifest();
    let mut chunk = Vec::new();
    let mut events = Vec::new();
    for spec in manifest
        .variables
        .iter()
        .filter(|spec| spec.dynamic().is_none())
    {
        let width = spec.width().max(1);
        let rows = (CHUNK_VALUES / width).clamp(1, spec.rows().max(1));
        let chunks = spec.rows().div_ceil(rows);
        let apart = chunks
            .div_ceil((HISTOGRAM_VALUES_MAX / (rows * width)).max(1))
            .max(1);
        let mut histogram = Histogram::default();
        for begin in (0..chunks).step_by(apart).map(|place| place * rows) {
            let end = (begin + rows).min(spec.rows());
            chunk.resize((end - begin) * width, 0.0);
            checkpoint.read_rows(&spec.name, None, begin..end, &mut chunk)?;
            histogram.add(chunk.iter().copied());
        }
        events.push(Event::histogram(
            unix,
            manifest.global_step,
            &spec.name,
            &histogram,
        ));
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use trainyard_tensorflow_formats::tfrecord::Records;

    use super::*;

    fn job(folder: &Path, run: &str) -> Job {
        let text = format!(
            "model_dir = \"{}\"\n[run]\n{run}\n[input]\nlabel = {{ column = \"y\" }}\n[input.train]\nfiles = [\"a.csv\"]\n\
             batch_size = 1\n[[feature]]\ncolumn = \"x\"\nkind = \"numeric\"\n[model]\nkind = \"linear_regressor\"\n\
             [train]\nmax_steps = 9\n",
            folder.join("model").display()
        );
        let path = folder.join("job.toml");
        std::fs::write(&path, text).expect("written");
        Job::load(&path, &[]).expect("a job")
    }

    /// Returns the messages in the event files of the model directory, in order.
    fn written(folder: &Path) -> Vec<Vec<u8>> {
        let Ok(entries) = std::fs::read_dir(folder.join("model")) else {
            return Vec::new();
        };
        let mut paths: Vec<PathBuf> = entries
            .map(|entry| entry.expect("an entry").path())
            .collect();
        paths.sort();
        let read = |path: &PathBuf| {
            let bytes = std::fs::read(path).expect("read");
            Records::new(&bytes)
                .map(|record| record.expect("whole").to_vec())
                .collect::<Vec<_>>()
        };
        paths.iter().flat_map(read).collect()
    }

    fn holds(record: &[u8], text: &str) -> bool {
        text.is_empty()
            || record
                .windows(text.len())
                .any(|window| window == text.as_bytes())
    }

    #[tokio::test]
    async fn the_first_step_and_every_so_many_are_told_as_the_estimator_tells_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let job = job(
            folder.path(),
            "save_summary_steps = 10\nlog_step_count_steps = 10",
        );
        let events = SummaryWriter::start(&job, Clock::new(SystemTime::now()));
        for step in 1..=25 {
            events.step(step, Some(0.5));
        }
        events.checkpoint(25, folder.path().join("model/model.ckpt-25"));
        events.end().await;
        let records = written(folder.path());
        // The version, the start, loss at 1, rate and loss at 11 and 21, and the checkpoint.
        let tags = [
            "brain.Event:2",
            "",
            "loss",
            "global_step/sec",
            "loss",
            "global_step/sec",
            "loss",
            "model.ckpt",
        ];
        assert_eq!(records.len(), tags.len());
        for (record, tag) in records.iter().zip(tags) {
            assert!(holds(record, tag), "{tag}: {record:?}");
        }
        // Field 2, the step.
        let steps: Vec<u8> = records[1..].iter().map(|record| record[10]).collect();
        assert_eq!(steps, [1, 1, 11, 11, 21, 21, 25]);
    }

    #[tokio::test]
    async fn a_job_that_asks_for_no_summaries_gets_no_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let job = job(
            folder.path(),
            "save_summary_steps = 0\nlog_step_count_steps = 0",
        );
        let events = SummaryWriter::start(&job, Clock::new(SystemTime::now()));
        (1..=25).for_each(|step| events.step(step, Some(0.5)));
        events.checkpoint(25, folder.path().join("model/model.ckpt-25"));
        events.end().await;
        assert_eq!(written(folder.path()), Vec::<Vec<u8>>::new());
    }

    #[tokio::test]
    async fn a_folder_that_cannot_be_written_holds_up_nobody() {
        let folder = tempfile::tempdir().expect("a folder");
        let job = job(folder.path(), "");
        std::fs::write(&job.model_dir, "a file").expect("written");
        let events = SummaryWriter::start(&job, Clock::new(SystemTime::now()));
        (1..=100_000).for_each(|step| events.step(step, Some(0.5)));
        events.end().await;
        assert!(job.model_dir.is_file());
    }
}
