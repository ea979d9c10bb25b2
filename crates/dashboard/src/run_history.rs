//! The history of a run, for the page: curves, servers and checkpoints, in bounded memory.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use trainyard_cluster_spec::Task;
use trainyard_trainer::StepTotals;

use crate::clock::Clock;
use crate::time_series::{Point, TimeSeries};
use trainyard_coordinator::View;

/// Largest number of points of a curve of the run. After as many seconds, a curve has at least half of them.
const POINTS_MAX: usize = 512;
/// Largest number of points of a curve of a task.
const TASK_POINTS_MAX: usize = 256;
/// Largest number of tasks with curves: the first ones.
const TASK_CURVES_MAX: usize = 64;
/// Largest number of checkpoints in the history: the latest ones.
const CHECKPOINTS_MAX: usize = 64;
/// Silence after which the rates of a task are 0.
const STALE_AFTER: Duration = Duration::from_secs(3);

/// Series of the run, in the order of a point's values.
pub(crate) const RUN_SERIES: [&str; 7] = [
    "loss",
    "steps_per_second",
    "examples_per_second",
    "staleness_steps",
    "input_ms",
    "exchange_ms",
    "compute_ms",
];
/// Series of a task, in the order of a point's values.
pub(crate) const TASK_SERIES: [&str; 3] = ["steps_per_second", "loss", "staleness_steps"];

/// Rates of a task between two heartbeats. Means over its steps are NaN if there was no step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    pub steps_per_second: f64,
    pub examples_per_second: f64,
    /// Mean loss.
    pub loss: f64,
    pub staleness_steps: f64,
    /// Milliseconds of a step.
    pub input_ms: f64,
    pub exchange_ms: f64,
    pub compute_ms: f64,
}

impl Rates {
    /// Rates of a task without steps.
    pub const NONE: Self = Self {
        steps_per_second: 0.0,
        examples_per_second: 0.0,
        loss: f64::NAN,
        staleness_steps: f64::NAN,
        input_ms: f64::NAN,
        exchange_ms: f64::NAN,
        compute_ms: f64::NAN,
    };

    fn between(before: &View, now: &View) -> Option<Self> {
        let seconds = now.told.saturating_sub(before.told).as_secs_f64();
        if now.session != before.session || seconds <= 0.0 {
            return None;
        }
        let steps = now.steps.saturating_sub(before.steps) as f64;
        let examples = now.examples.saturating_sub(before.examples) as f64;
        let per_step = |of: fn(&StepTotals) -> f64| (of(&now.totals) - of(&before.totals)) / steps;
        let none = |value: f64| if steps > 0.0 { value } else { f64::NAN };
        let ms = |of: fn(&StepTotals) -> f64| none(1000.0 * per_step(of));
        Some(Self {
            steps_per_second: steps / seconds,
            examples_per_second: examples / seconds,
            loss: none(per_step(|totals| totals.loss)),
            staleness_steps: none(per_step(|totals| totals.staleness_steps as f64)),
            input_ms: ms(|totals| totals.input.as_secs_f64()),
            exchange_ms: ms(|totals| totals.exchange.as_secs_f64()),
            compute_ms: ms(|totals| totals.compute.as_secs_f64()),
        })
    }
}

/// The history of a task.
#[derive(Debug)]
struct TaskRecord {
    last: View,
    rates: Rates,
    /// Absent if there are too many tasks.
    curve: Option<TimeSeries<{ TASK_SERIES.len() }>>,
}

/// The status of a parameter server.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    pub name: String,
    /// A word: `waiting`, `ready`, `silent`.
    pub state: &'static str,
    /// The reason why the server is silent.
    pub reason: Option<String>,
    /// Updates it has applied.
    pub version: u64,
    /// Bytes of values and slots.
    pub value_bytes: u64,
}

/// A checkpoint.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Saved {
    /// Global step.
    pub step: u64,
    /// Seconds since 1970.
    pub unix_secs: f64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Seconds that the write took; absent if an earlier process wrote it.
    pub seconds: Option<f64>,
}

/// A published cut of the values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Published {
    /// Global step.
    pub step: u64,
    /// Seconds since 1970.
    pub unix_secs: f64,
    /// Bytes of its files.
    pub bytes: u64,
    /// The cut has the values of all rows, and not only changes.
    pub is_base: bool,
}

/// The published cuts of this chief.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Publishing {
    /// Number of cuts.
    pub cuts: u64,
    /// The latest cut.
    pub latest: Option<Published>,
    /// The latest cut with the values of all rows.
    pub base: Option<Published>,
}

#[derive(Debug)]
struct State {
    global_step: u64,
    run: TimeSeries<{ RUN_SERIES.len() }>,
    latest: Rates,
    tasks: BTreeMap<Task, TaskRecord>,
    /// Curves of the previous chief, of tasks that this chief has not seen yet.
    earlier: BTreeMap<Task, Vec<Point<{ TASK_SERIES.len() }>>>,
    servers: Vec<Server>,
    saved: VecDeque<Saved>,
    failures: u64,
    publishing: Publishing,
}

/// The history of a run. Clones share it.
#[derive(Debug, Clone)]
pub struct RunHistory {
    state: Arc<Mutex<State>>,
    /// Clock of the run.
    pub clock: Clock,
}

/// The history without the curves, at one time.
#[derive(Debug, Clone)]
pub struct Observed {
    pub global_step: u64,
    /// Rates of the run.
    pub latest: Rates,
    pub rates: BTreeMap<Task, Rates>,
    pub servers: Vec<Server>,
    pub saved: Vec<Saved>,
    /// Checkpoints that could not be written.
    pub failures: u64,
    /// Published cuts.
    pub publishing: Publishing,
}

/// The curves of the run, and those of its tasks.
pub(crate) type Curves = (
    Vec<Point<{ RUN_SERIES.len() }>>,
    BTreeMap<Task, Vec<Point<{ TASK_SERIES.len() }>>>,
);

impl RunHistory {
    /// Returns an empty history of a run with servers of these names.
    pub fn new(clock: Clock, servers: impl IntoIterator<Item = String>) -> Self {
        let server = |name| Server {
            name,
            state: "waiting",
            reason: None,
            version: 0,
            value_bytes: 0,
        };
        let state = State {
            global_step: 0,
            run: TimeSeries::new(POINTS_MAX),
            latest: Rates::NONE,
            tasks: BTreeMap::new(),
            earlier: BTreeMap::new(),
            servers: servers.into_iter().map(server).collect(),
            saved: VecDeque::new(),
            failures: 0,
            publishing: Publishing::default(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            clock,
        }
    }

    /// Continues the curves of an earlier chief.
    pub fn resume(&self, (run, tasks): Curves) {
        let mut state = self.state.lock();
        state.run = TimeSeries::resumed(run, POINTS_MAX);
        state.earlier = tasks;
    }

    /// Updates the status of a server.
    pub fn server(&self, place: usize, stands: impl FnOnce(&mut Server)) {
        if let Some(server) = self.state.lock().servers.get_mut(place) {
            stands(server);
        }
    }

    /// Records a checkpoint.
    pub fn saved(&self, saved: Saved) {
        let mut state = self.state.lock();
        if state.saved.len() >= CHECKPOINTS_MAX {
            state.saved.pop_front();
        }
        state.saved.push_back(saved);
    }

    /// Records a published cut.
    pub fn published(&self, cut: Published) {
        let mut state = self.state.lock();
        state.publishing.cuts += 1;
        state.publishing.latest = Some(cut);
        if cut.is_base {
            state.publishing.base = Some(cut);
        }
    }

    /// Records a checkpoint that could not be written.
    pub fn not_saved(&self) {
        self.state.lock().failures += 1;
    }

    /// Adds a point to every curve, from the status of the tasks, the global step and the global steps per second.
    pub fn look(&self, global_step: u64, steps_per_second: f64, now: Duration, views: Vec<View>) {
        let unix_secs = self.clock.unix_secs();
        let mut state = self.state.lock();
        let state = &mut *state;
        state.global_step = global_step;
        state
            .tasks
            .retain(|task, _| views.iter().any(|view| view.task == *task));
        let mut curves = state
            .tasks
            .values()
            .filter(|record| record.curve.is_some())
            .count();
        for view in views {
            let record = state.tasks.entry(view.task).or_insert_with(|| {
                curves += 1;
                let earlier = state.earlier.remove(&view.task).unwrap_or_default();
                let curve = (curves <= TASK_CURVES_MAX)
                    .then(|| TimeSeries::resumed(earlier, TASK_POINTS_MAX));
                TaskRecord {
                    last: view.clone(),
                    rates: Rates::NONE,
                    curve,
                }
            });
            if let Some(rates) = Rates::between(&record.last, &view) {
                record.rates = rates;
            } else if view.session != record.last.session
                || now.saturating_sub(view.told) > STALE_AFTER
            {
                record.rates = Rates::NONE;
            }
            record.last = view;
            let Rates {
                steps_per_second,
                loss,
                staleness_steps,
                ..
            } = record.rates;
            if let Some(curve) = &mut record.curve {
                let values = [steps_per_second, loss, staleness_steps].map(|value| value as f32);
                curve.push(&Point {
                    unix_secs,
                    step: global_step,
                    values,
                });
            }
        }
        state.latest = Rates {
            steps_per_second,
            ..together(state.tasks.values().map(|task| &task.rates))
        };
        let Rates {
            loss,
            examples_per_second,
            staleness_steps,
            input_ms,
            exchange_ms,
            compute_ms,
            ..
        } = state.latest;
        let values = [
            loss,
            steps_per_second,
            examples_per_second,
            staleness_steps,
            input_ms,
            exchange_ms,
            compute_ms,
        ];
        state.run.push(&Point {
            unix_secs,
            step: global_step,
            values: values.map(|value| value as f32),
        });
    }

    /// Returns the history without the curves.
    pub fn observed(&self) -> Observed {
        let state = self.state.lock();
        Observed {
            global_step: state.global_step,
            latest: state.latest,
            rates: state
                .tasks
                .iter()
                .map(|(task, record)| (*task, record.rates))
                .collect(),
            servers: state.servers.clone(),
            saved: state.saved.iter().copied().collect(),
            failures: state.failures,
            publishing: state.publishing,
        }
    }

    /// Returns the status of the parameter servers.
    pub fn servers(&self) -> Vec<Server> {
        self.state.lock().servers.clone()
    }

    /// Returns the curves.
    pub fn curves(&self) -> Curves {
        let state = self.state.lock();
        let curve = |(task, record): (&Task, &TaskRecord)| {
            record
                .curve
                .as_ref()
                .map(|curve| (*task, curve.points().to_vec()))
        };
        (
            state.run.points().to_vec(),
            state.tasks.iter().filter_map(curve).collect(),
        )
    }
}

/// Returns the rates of several tasks as one: sums, and means over all their steps.
fn together<'a>(tasks: impl Iterator<Item = &'a Rates> + Clone) -> Rates {
    let steps: f64 = tasks.clone().map(|rates| rates.steps_per_second).sum();
    let mean = |of: fn(&Rates) -> f64| {
        let busy = tasks.clone().filter(|rates| rates.steps_per_second > 0.0);
        busy.map(|rates| of(rates) * rates.steps_per_second)
            .sum::<f64>()
            / steps
    };
    Rates {
        steps_per_second: steps,
        examples_per_second: tasks.clone().map(|rates| rates.examples_per_second).sum(),
        loss: mean(|rates| rates.loss),
        staleness_steps: mean(|rates| rates.staleness_steps),
        input_ms: mean(|rates| rates.input_ms),
        exchange_ms: mean(|rates| rates.exchange_ms),
        compute_ms: mean(|rates| rates.compute_ms),
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use trainyard_cluster_spec::Role;

    use super::*;

    fn view(index: usize, session: u64, told_ms: u64, steps: u64) -> View {
        View {
            task: Task {
                role: Role::Worker,
                index,
            },
            state: "training",
            reason: None,
            address: None,
            process_id: None,
            session,
            silence: Duration::ZERO,
            told: Duration::from_millis(told_ms),
            steps,
            examples: 10 * steps,
            loss: Some(0.5),
            totals: StepTotals {
                loss: 0.25 * steps as f64,
                staleness_steps: 3 * steps,
                compute: Duration::from_millis(2 * steps),
                ..StepTotals::default()
            },
        }
    }

    fn observation() -> RunHistory {
        RunHistory::new(Clock::new(SystemTime::now()), ["ps:0".to_owned()])
    }

    #[tokio::test]
    async fn rates_are_of_the_time_between_two_signs_of_life() {
        let observation = observation();
        let ms = Duration::from_millis;
        observation.look(
            0,
            0.0,
            ms(1000),
            vec![view(0, 1, 1000, 0), view(1, 2, 1000, 0)],
        );
        // The points are 1 s apart, the heartbeats 0.8 s.
        observation.look(
            120,
            120.0,
            ms(2000),
            vec![view(0, 1, 1800, 80), view(1, 2, 1800, 40)],
        );
        let seen = observation.observed();
        let rates: Vec<f64> = seen
            .rates
            .values()
            .map(|rates| rates.steps_per_second)
            .collect();
        assert_eq!(rates, [100.0, 50.0]);
        assert!(
            (seen.latest.loss - 0.25).abs() < 1e-9 && seen.latest.examples_per_second == 1500.0
        );
        assert!((seen.latest.staleness_steps - 3.0).abs() < 1e-9, "{seen:?}");
        assert!((seen.latest.compute_ms - 2.0).abs() < 1e-9, "{seen:?}");
        // Without a heartbeat, the rates stay for a moment, and are then 0. A new session begins without rates.
        observation.look(
            120,
            0.0,
            ms(3000),
            vec![view(0, 1, 1800, 80), view(1, 3, 2900, 7)],
        );
        let seen = observation.observed();
        assert_eq!(
            seen.rates
                .values()
                .map(|rates| rates.steps_per_second)
                .collect::<Vec<_>>(),
            [100.0, 0.0]
        );
        observation.look(120, 0.0, ms(9000), vec![view(0, 1, 1800, 80)]);
        let seen = observation.observed();
        assert_eq!(
            seen.rates
                .values()
                .map(|rates| rates.steps_per_second)
                .collect::<Vec<_>>(),
            [0.0]
        );
        assert!(seen.latest.loss.is_nan());
    }

    #[tokio::test]
    async fn what_is_remembered_is_bounded_however_many_tasks_and_seconds() {
        let observation = observation();
        for second in 1..2000_u64 {
            let views = (0..100)
                .map(|index| view(index, 1, 1000 * second, second))
                .collect();
            observation.look(second, 1.0, Duration::from_secs(second), views);
            observation.saved(Saved {
                step: second,
                unix_secs: second as f64,
                bytes: 1,
                seconds: None,
            });
        }
        let (run, tasks) = observation.curves();
        assert!(run.len() <= POINTS_MAX && tasks.len() == TASK_CURVES_MAX);
        assert!(tasks.values().all(|points| points.len() <= TASK_POINTS_MAX));
        let seen = observation.observed();
        assert_eq!((seen.rates.len(), seen.saved.len()), (100, CHECKPOINTS_MAX));
        assert_eq!(seen.saved.last().map(|saved| saved.step), Some(1999));
    }
}
