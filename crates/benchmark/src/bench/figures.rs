//! Figures of a training job, computed from samples of its tasks before and after the measurement.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use trainyard_cluster_spec::{Role, Task};

use super::samples::Samples;

/// Roles in the order in which they are shown.
const ROLES: [Role; 3] = [Role::Chief, Role::Worker, Role::Ps];

/// State of one task at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    /// Seconds on the benchmark's clock.
    pub(super) at_seconds: f64,
    /// Processor time of the process so far, user and system, in seconds.
    pub(super) cpu_seconds: f64,
    /// Most memory that the process has held, in bytes.
    pub(super) peak_bytes: u64,
    /// Metrics of the task's admin port.
    pub(super) samples: Samples,
}

/// State of one task before and after the measurement.
#[derive(Debug, Clone)]
pub(super) struct Observed {
    pub(super) task: Task,
    pub(super) before: Snapshot,
    pub(super) after: Snapshot,
    /// Seconds from the start of the process to its first applied step. `None` if the task takes part in no step.
    pub(super) first_step_seconds: Option<f64>,
}

/// Result of a measurement. All rates cover the measurement alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Figures {
    /// Length of the measurement.
    pub(super) seconds: f64,
    /// Steps applied in the measurement, by all tasks.
    pub(super) steps: u64,
    /// Steps of all tasks together a second.
    pub(super) steps_per_second: f64,
    /// Examples of all tasks together a second.
    pub(super) examples_per_second: f64,
    /// Processor time of all processes, user and system, per global step.
    pub(super) cpu_ms_per_step: f64,
    /// Processors that all processes kept busy.
    pub(super) cpu_cores: f64,
    /// Cores of the machine that had nothing to do, if the system says it.
    pub(super) idle_cores: Option<f64>,
    /// Figures by role.
    pub(super) roles: BTreeMap<String, RoleFigures>,
    /// Mean time of a step of one training task.
    pub(super) step_ms: f64,
    /// Parts of `step_ms` by name, as the tasks time them; `other` is the remainder.
    pub(super) phases: BTreeMap<String, Phase>,
}

/// The tasks of one role together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct RoleFigures {
    pub(super) tasks: usize,
    /// Processor time of the role's processes per global step, whichever task computed the step.
    pub(super) cpu_ms_per_step: f64,
    /// Processors that its processes kept busy.
    pub(super) cpu_cores: f64,
    /// Processors that the busiest of its processes kept busy.
    pub(super) busiest_cores: f64,
    /// Most memory that one of its processes has held since its start.
    pub(super) peak_bytes: u64,
    /// Bytes of variables and slots that all of its tasks hold; parameter servers only.
    pub(super) value_bytes: Option<u64>,
    /// Seconds from the start of a process to its first applied step: the slowest task of the role.
    pub(super) first_step_seconds: Option<f64>,
}

/// A part of a training step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Phase {
    /// Mean time of this part in a step.
    pub(super) ms: f64,
    /// Share of this part in the time of a step, 0 to 1.
    pub(super) share: f64,
}

impl Observed {
    fn gain(&self, name: &str) -> f64 {
        self.after.samples.get(name) - self.before.samples.get(name)
    }

    fn seconds(&self) -> f64 {
        (self.after.at_seconds - self.before.at_seconds).max(1e-9)
    }

    fn cpu_seconds(&self) -> f64 {
        (self.after.cpu_seconds - self.before.cpu_seconds).max(0.0)
    }
}

impl Figures {
    /// Computes the figures. Returns `None` if no step was applied in the measurement.
    pub(super) fn new(observed: &[Observed], idle_cores: Option<f64>) -> Option<Self> {
        let steps: f64 = observed
            .iter()
            .map(|task| task.gain("trainyard_steps_total"))
            .sum();
        if steps < 1.0 {
            return None;
        }
        // Tasks are polled one after another, so each task has its own moments.
        let rate = |name: &str| {
            observed
                .iter()
                .map(|task| task.gain(name) / task.seconds())
                .sum::<f64>()
        };
        let seconds = observed.iter().map(Observed::seconds).sum::<f64>() / observed.len() as f64;
        let steps_per_second = rate("trainyard_steps_total");
        let cores = |tasks: &[&Observed]| {
            tasks
                .iter()
                .map(|task| task.cpu_seconds() / task.seconds())
                .sum::<f64>()
        };
        let roles = ROLES.iter().filter_map(|role| {
            let tasks: Vec<&Observed> = observed
                .iter()
                .filter(|task| task.task.role == *role)
                .collect();
            let peak_bytes = tasks.iter().map(|task| task.after.peak_bytes).max()?;
            let held = tasks
                .iter()
                .map(|task| task.after.samples.get("trainyard_ps_value_bytes") as u64)
                .sum();
            let figures = RoleFigures {
                tasks: tasks.len(),
                cpu_ms_per_step: cores(&tasks) / steps_per_second * 1e3,
                cpu_cores: cores(&tasks),
                busiest_cores: tasks.iter().map(|task| cores(&[*task])).fold(0.0, f64::max),
                peak_bytes,
                value_bytes: (*role == Role::Ps).then_some(held),
                first_step_seconds: tasks
                    .iter()
                    .filter_map(|task| task.first_step_seconds)
                    .max_by(f64::total_cmp),
            };
            Some((role.to_string(), figures))
        });
        let all: Vec<&Observed> = observed.iter().collect();
        let training: Vec<&Observed> = observed
            .iter()
            .filter(|task| task.after.samples.get("trainyard_steps_total") > 0.0)
            .collect();
        let trained_seconds: f64 = training.iter().map(|task| task.seconds()).sum();
        Some(Self {
            seconds,
            steps: steps as u64,
            steps_per_second,
            examples_per_second: rate("trainyard_examples_total"),
            cpu_ms_per_step: cores(&all) / steps_per_second * 1e3,
            cpu_cores: cores(&all),
            idle_cores,
            roles: roles.collect(),
            step_ms: trained_seconds / steps * 1e3,
            phases: phases(&training, trained_seconds, steps),
        })
    }

    /// Returns the figures as text, with their meaning spelled out for a first-time reader.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "global steps/s    {:.1}", self.steps_per_second);
        let _ = writeln!(text, "examples/s        {:.0}", self.examples_per_second);
        let _ = writeln!(
            text,
            "CPU per step      {:.3} ms of all processes ({:.2} cores busy)\n",
            self.cpu_ms_per_step, self.cpu_cores
        );
        let _ = writeln!(
            text,
            "role    tasks  CPU ms/step  cores  peak MB/task  first step after"
        );
        for role in ROLES
            .iter()
            .filter_map(|role| self.roles.get_key_value(role.as_str()))
        {
            let (name, figures) = role;
            let first = figures
                .first_step_seconds
                .map_or("-".to_owned(), |seconds| format!("{seconds:.2} s"));
            let held = figures.value_bytes.map_or(String::new(), |bytes| {
                format!(
                    "  holds {:.1} MB of variables and slots",
                    bytes as f64 / 1e6
                )
            });
            let _ = writeln!(
                text,
                "{name:6}  {:5}  {:11.3}  {:5.2}  {:12.1}  {first:>16}{held}",
                figures.tasks,
                figures.cpu_ms_per_step,
                figures.cpu_cores,
                figures.peak_bytes as f64 / 1e6
            );
        }
        let mut phases: Vec<(&String, &Phase)> = self.phases.iter().collect();
        phases.sort_by(|(_, left), (_, right)| right.share.total_cmp(&left.share));
        let phases: Vec<String> = phases
            .iter()
            .map(|(name, phase)| format!("{name} {:.0} %", phase.share * 100.0))
            .collect();
        let _ = writeln!(
            text,
            "\nA step of one task takes {:.3} ms: {}.",
            self.step_ms,
            phases.join(", ")
        );
        text
    }
}

/// Divides the time of the training tasks into the parts of a step.
fn phases(training: &[&Observed], seconds: f64, steps: f64) -> BTreeMap<String, Phase> {
    let mut spent: BTreeMap<String, f64> = BTreeMap::new();
    for task in training {
        let before: BTreeMap<&str, f64> = task.before.samples.step_phases().collect();
        for (name, after) in task.after.samples.step_phases() {
            *spent.entry(name.to_owned()).or_default() +=
                after - before.get(name).copied().unwrap_or(0.0);
        }
    }
    let other = (seconds - spent.values().sum::<f64>()).max(0.0);
    spent.insert("other".to_owned(), other);
    let phase = |spent: f64| Phase {
        ms: spent / steps * 1e3,
        share: spent / seconds.max(1e-9),
    };
    spent
        .into_iter()
        .map(|(name, spent)| (name, phase(spent)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(at_seconds: f64, cpu_seconds: f64, page: &str) -> Snapshot {
        let samples = Samples::parse(page);
        Snapshot {
            at_seconds,
            cpu_seconds,
            peak_bytes: 5_000_000,
            samples,
        }
    }

    fn observed(role: Role, before: Snapshot, after: Snapshot) -> Observed {
        Observed {
            task: Task { role, index: 0 },
            before,
            after,
            first_step_seconds: Some(0.25),
        }
    }

    /// A chief that made 100 steps in 2 s, a worker that made 300, and their server.
    fn cluster() -> Vec<Observed> {
        let trained = |steps: u64, pull: f64| {
            format!(
                "trainyard_steps_total {steps}\ntrainyard_examples_total {}\ntrainyard_step_pull_seconds_sum {pull}\n",
                steps * 10
            )
        };
        vec![
            observed(
                Role::Chief,
                snapshot(1.0, 0.5, &trained(50, 0.5)),
                snapshot(3.0, 1.5, &trained(150, 1.0)),
            ),
            observed(
                Role::Worker,
                snapshot(1.0, 1.0, &trained(10, 0.0)),
                snapshot(3.0, 3.0, &trained(310, 0.5)),
            ),
            observed(
                Role::Ps,
                snapshot(1.0, 0.0, "trainyard_ps_value_bytes 12"),
                snapshot(3.0, 1.0, "trainyard_ps_value_bytes 4000000"),
            ),
        ]
    }

    #[test]
    fn figures_are_of_the_measurement_alone() {
        let figures = Figures::new(&cluster(), Some(0.5)).expect("steps were made");
        assert_eq!(
            (
                figures.steps,
                figures.steps_per_second,
                figures.examples_per_second
            ),
            (400, 200.0, 2000.0)
        );
        assert!(
            (figures.cpu_ms_per_step - 10.0).abs() < 1e-9,
            "4 s of processor time for 400 steps"
        );
        assert_eq!(figures.cpu_cores, 2.0);
        assert!((figures.roles["worker"].cpu_ms_per_step - 5.0).abs() < 1e-9);
        assert_eq!(figures.roles["ps"].value_bytes, Some(4_000_000));
        assert_eq!(figures.roles["chief"].value_bytes, None);
        assert!(
            (figures.step_ms - 10.0).abs() < 1e-9,
            "two tasks trained for 2 s each"
        );
        assert!(
            (figures.phases["pull"].share - 0.25).abs() < 1e-9,
            "1 s of 4"
        );
        assert!((figures.phases["other"].ms - 7.5).abs() < 1e-9);
    }

    #[test]
    fn the_text_names_every_role_and_phase() {
        let text = Figures::new(&cluster(), Some(0.5))
            .expect("steps were made")
            .text();
        for part in [
            "global steps/s    200.0",
            "chief ",
            "worker ",
            "ps ",
            "holds 4.0 MB",
            "0.25 s",
            "other 75 %, pull 25 %",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn without_a_step_there_are_no_figures() {
        let mut still = cluster();
        for task in &mut still {
            task.after.samples = task.before.samples.clone();
        }
        assert_eq!(Figures::new(&still, None), None);
    }
}
