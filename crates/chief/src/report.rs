//! The report of a run, as `--report` writes it.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use trainyard_diagnostic::Diagnostic;
use trainyard_model_dir::{encode, write_result};

/// The results of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Global step: the steps applied since the very first.
    pub global_step: u64,
    /// The reason why evaluations ended the job, if they did: `global_step` is then the step of the best checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_early: Option<String>,
    /// Examples in this run's steps, of all tasks. Batches that no task has reported, because it was killed, count with
    /// the mean size of the others.
    pub examples: u64,
    /// Seconds from the opening of training to its end.
    pub train_seconds: f64,
    /// This run's steps, of all tasks, per second.
    pub steps_per_second: f64,
    /// Examples per second.
    pub examples_per_second: f64,
    /// Seconds from the start of the chief's process to its first applied step.
    pub first_step_seconds: Option<f64>,
    /// Loss of the latest step that a task reported.
    pub final_loss: Option<f64>,
    /// Metrics of the last evaluation.
    pub eval: BTreeMap<String, f64>,
    /// Exit code of each task; empty where everything ran in one process.
    pub exit: BTreeMap<String, i32>,
}

/// Returns the examples in the applied batches, from the batches and the examples that tasks have reported. A task that
/// is killed has not reported its last batches; a task that trained before this chief led has reported more.
pub(crate) fn examples_in(applied: u64, reported: (u64, u64), batch_size: usize) -> u64 {
    match reported {
        (batches, examples) if batches == applied => examples,
        (0, _) => applied * batch_size as u64,
        (batches, examples) => {
            (u128::from(examples) * u128::from(applied) / u128::from(batches)) as u64
        }
    }
}

impl Report {
    /// Writes the report as one JSON object.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Diagnostic> {
        let mut text = encode(self, path)?;
        text.push(b'\n');
        write_result(path, &text).map_err(|problem| problem.note("--report names the file"))
    }
}

#[cfg(test)]
mod tests {
    use trainyard_diagnostic::Code;

    use super::*;

    #[test]
    fn a_report_that_cannot_be_written_is_told_with_the_cure() {
        let folder = tempfile::tempdir().expect("a folder");
        let problem = Report::default()
            .write(folder.path())
            .expect_err("a folder is no file");
        assert_eq!(problem.code, Code::E1000);
        assert!(problem.render().contains("--report"), "{problem:?}");
        let path = folder.path().join("report.json");
        Report {
            global_step: 7,
            ..Report::default()
        }
        .write(&path)
        .expect("there is room");
        let text = std::fs::read_to_string(&path).expect("written");
        assert!(
            text.ends_with("}\n") && text.contains("\"global_step\":7"),
            "{text}"
        );
    }

    #[test]
    fn batches_that_a_killed_task_has_not_reported_count_with_the_mean_size() {
        assert_eq!(examples_in(10, (10, 157), 16), 157, "nothing is missing");
        assert_eq!(examples_in(10, (8, 128), 16), 160);
        assert_eq!(examples_in(10, (0, 0), 16), 160, "nobody has reported");
        assert_eq!(
            examples_in(10, (20, 320), 16),
            160,
            "of the time before this chief"
        );
    }
}
