//! Measurements of `trainyard init`: trains each candidate of the search on a sample, in this process, and describes the results.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use trainyard_daemon::{CancellationToken, Context, LogFormat, StopSource, supervise};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_input::Profile;
use trainyard_model::PREMADE;
use trainyard_model_dir::write_result;
use trainyard_run_config::Job;

use super::cannot_write;
use super::design::{Design, Family};
use super::job_file::{
    EVALUATIONS_WITHOUT_A_BETTER_ONE, JobFile, MEASURED_EPOCHS, MEASURED_EPOCHS_OF_MANY, Purpose,
    vocabularies,
};
use super::plan::{Plan, Shape, Task};
use super::sample::Sample;
use super::search::{Candidate, Doubt, Failure, Measured, Metric, Search, Space, Trial};
use super::source::Source;
use super::split::Parts;
use crate::progress::Show;
use crate::train::alone;

/// Most characters of the table's first column; longer names shift the figures of their row.
const NAME_WIDTH_MAX: usize = 60;

/// What a measurement needs.
pub(super) struct Bench<'a> {
    pub(super) source: &'a Source,
    /// Plan of the rules.
    pub(super) plan: &'a Plan,
    /// Plan of a factorized model, if the rules choose none and it is possible.
    pub(super) factorized: Option<&'a Plan>,
    pub(super) profile: &'a Profile,
    pub(super) sample: &'a Sample,
    /// Folder for files of the candidates.
    pub(super) folder: &'a Path,
    pub(super) stop: &'a StopSource,
    /// There is more time than usual.
    pub(super) further_kinds: bool,
    /// What is compared.
    pub(super) stage: Stage,
    pub(super) total: Duration,
}

/// What is compared.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Stage {
    /// All candidates, of which the best is chosen.
    Only,
    /// All candidates, of which the best are compared again on more records.
    First,
    /// The best of another search, on more records than that had.
    Last(Vec<Candidate>),
}

/// The end of a search.
pub(super) struct Choice {
    pub(super) plan: Plan,
    pub(super) design: Design,
    /// The best candidates, the winner first.
    pub(super) finalists: Vec<Candidate>,
    /// Time ended the search, or a candidate of it.
    pub(super) is_cut: bool,
    /// The table and its caption, one entry per line.
    pub(super) lines: Vec<String>,
    /// No candidate is better than the baseline.
    pub(super) is_no_better: Option<String>,
}

/// The values of a model that predicts the same for each record.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Baseline {
    value: f64,
    beside: Option<f64>,
}

impl Bench<'_> {
    /// Trains candidates until the search ends, and returns its choice.
    ///
    /// # Errors
    /// The files of a candidate cannot be written, or the process was told to stop.
    pub(super) fn choose(&self) -> Result<Choice, Diagnostic> {
        let rules = Candidate {
            shape: self.plan.shape,
            design: Design::by_rules(self.plan),
            readings: Vec::new(),
        };
        let doubts = self.factorized.unwrap_or(self.plan).features.iter();
        let doubts = doubts
            .filter(|feature| !feature.others.is_empty())
            .map(|feature| Doubt {
                column: feature.column.clone(),
                others: feature.others.iter().map(|(way, _)| *way).collect(),
            })
            .collect();
        let (metric, deviation) = self.metric();
        let space = Space {
            rules: rules.clone(),
            factorized: self.plan.shape == Shape::Factorized || self.factorized.is_some(),
            samples_a_part: self.sample.is_part,
            further_kinds: self.further_kinds,
            has_numbers: self.factorized.unwrap_or(self.plan).has_ranges(),
            has_histories: !self.factorized.unwrap_or(self.plan).histories.is_empty(),
            one_logit: !matches!(self.plan.label.task, Task::Classes { .. }),
            doubts,
        };
        let first = match &self.stage {
            Stage::Only | Stage::First => rules.clone(),
            Stage::Last(finalists) => finalists.first().unwrap_or(&rules).clone(),
        };
        let mut search = match &self.stage {
            Stage::Only | Stage::First => Search::new(space, metric, deviation, self.total),
            Stage::Last(finalists) => {
                Search::among(finalists.clone(), space, metric, deviation, self.total)
            }
        };
        let job = self.write(&first)?;
        let mut context = Context::alone(job, None, LogFormat::Text);
        context.stop = self.stop.clone();
        let searched = &mut search;
        supervise(context, async move |_, stop| self.run(searched, stop).await)?;
        Ok(self.choice(&search, &first))
    }

    async fn run(&self, search: &mut Search, stop: CancellationToken) -> Result<(), Diagnostic> {
        let started = Instant::now();
        loop {
            let left = self.total.saturating_sub(started.elapsed());
            let Some((candidate, most)) = search.next(left) else {
                return Ok(());
            };
            let begun = Instant::now();
            let outcome = match self.write(&candidate) {
                Ok(job) => measure(job, self.metric().0, most, &stop).await,
                Err(problem) => Err(Failure::Problem(problem.message)),
            };
            if stop.is_cancelled() {
                let message = "init was told to stop, and has written no job";
                return Err(Diagnostic::error(Code::E9003, message)
                    .help("`--seconds 0` writes a job without training"));
            }
            search.record(Trial {
                candidate,
                outcome,
                seconds: begun.elapsed().as_secs_f64(),
            });
        }
    }

    /// Returns the plan of a candidate.
    fn plan_of(&self, candidate: &Candidate) -> Plan {
        let plan = match self.factorized {
            Some(factorized) if candidate.shape == Shape::Factorized => factorized,
            _ => self.plan,
        };
        let plan = plan.reading(&candidate.readings);
        match candidate.design.family {
            Family::Din => plan.attending(),
            Family::Dlrm => plan.multiplying(),
            _ => plan,
        }
    }

    fn purpose(&self) -> Purpose<'static> {
        Purpose::Measurement {
            epochs: match self.stage {
                Stage::Only | Stage::First => MEASURED_EPOCHS,
                Stage::Last(_) => MEASURED_EPOCHS_OF_MANY,
            },
        }
    }

    fn parts(&self) -> Parts {
        Parts {
            train: vec![self.sample.train.clone()],
            eval: Some(vec![self.sample.held_out.clone()]),
            train_rows: Some(self.sample.train_rows),
            columns: None,
            style: self.source.written_style(),
            told: Vec::new(),
        }
    }

    /// Writes the files of a candidate over those of the one before, and loads its job.
    fn write(&self, candidate: &Candidate) -> Result<Job, Diagnostic> {
        let folder = self.folder.join("candidate");
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(cannot_write(&folder, &error));
            }
            _ => {}
        }
        let plan = self.plan_of(candidate);
        let parts = self.parts();
        let file = JobFile {
            source: self.source,
            plan: &plan,
            design: &candidate.design,
            purpose: self.purpose(),
            parts: &parts,
            folder: &folder,
            profile: self.profile,
        };
        let mut files: Vec<(PathBuf, String)> = vocabularies(&plan);
        files.push((PathBuf::from("job.toml"), file.text()));
        for (name, text) in files {
            let path = folder.join(name);
            let parent = path.parent().unwrap_or(&folder);
            std::fs::create_dir_all(parent).map_err(|error| cannot_write(parent, &error))?;
            write_result(&path, text.as_bytes())?;
        }
        Job::load(&folder.join("job.toml"), &[]).map_err(|mut problems| problems.swap_remove(0))
    }

    /// Returns the metric that decides, and the standard deviation of its estimate.
    fn metric(&self) -> (Metric, f64) {
        let rows = self.sample.held_out_rows.max(1) as f64;
        match &self.plan.label.task {
            // The deviation of the Mann-Whitney statistic of a model without knowledge.
            Task::Binary { share, .. } => {
                let classes = 1.0 / (share * (1.0 - share)).max(1.0 / rows);
                (Metric::Auc, (classes / (12.0 * rows)).sqrt())
            }
            // About that of the losses of a constant.
            Task::Classes { .. } | Task::Number { .. } => {
                (Metric::Loss, self.baseline().value / rows.sqrt())
            }
        }
    }

    fn baseline(&self) -> Baseline {
        let label = self.profile.column(&self.plan.label.column);
        match &self.plan.label.task {
            Task::Binary { share, .. } => Baseline {
                value: 0.5,
                beside: Some(entropy([*share, 1.0 - share])),
            },
            Task::Classes { .. } => {
                let values = label.map_or(1, |label| label.values).max(1) as f64;
                let shares: Vec<f64> = label.map_or(Vec::new(), |label| {
                    let counts = label.counts().into_iter();
                    counts.map(|(_, count)| count as f64 / values).collect()
                });
                Baseline {
                    beside: Some(shares.iter().copied().fold(0.0, f64::max)),
                    value: entropy(shares),
                }
            }
            Task::Number { .. } => Baseline {
                value: label.map_or(0.0, |label| label.numbers.stddev().powi(2)),
                beside: None,
            },
        }
    }

    fn choice(&self, search: &Search, first: &Candidate) -> Choice {
        let baseline = self.baseline();
        let winner = search.chosen(baseline.value);
        let chosen = winner.map_or(first, |trial| &trial.candidate);
        let is_no_better = match winner.map(|trial| &trial.outcome) {
            Some(Ok(measured))
                if search.is_better_than_constant(measured.value, baseline.value) =>
            {
                None
            }
            Some(Ok(measured)) => Some(format!(
                "no model is better than the baseline, which predicts the same for each record: {} {} against {}",
                self.heads()[0],
                self.shown(measured.value),
                self.shown(baseline.value)
            )),
            Some(Err(_)) | None if search.lacks_rules() => None,
            Some(Err(_)) | None => Some("no model could be measured".to_owned()),
        };
        Choice {
            plan: self.plan_of(chosen),
            design: chosen.design,
            finalists: search.finalists(),
            is_cut: search.is_cut(),
            lines: self.table(search, baseline),
            is_no_better,
        }
    }

    /// Returns the captions of the two values.
    fn heads(&self) -> [&'static str; 2] {
        match self.plan.label.task {
            Task::Binary { .. } => ["AUC", "log loss"],
            Task::Classes { .. } => ["log loss", "accuracy"],
            Task::Number { .. } => ["RMSE", ""],
        }
    }

    /// Returns a value of the deciding metric, as it is shown.
    fn shown(&self, value: f64) -> String {
        match self.plan.label.task {
            Task::Binary { .. } | Task::Classes { .. } => format!("{value:.4}"),
            Task::Number { .. } => {
                let root = value.sqrt();
                if (0.01..1e5).contains(&root) {
                    format!("{root:.4}")
                } else {
                    format!("{root:.3e}")
                }
            }
        }
    }

    fn table(&self, search: &Search, baseline: Baseline) -> Vec<String> {
        let batch_size = JobFile {
            source: self.source,
            plan: self.plan,
            design: &Design::by_rules(self.plan),
            purpose: self.purpose(),
            parts: &self.parts(),
            folder: self.folder,
            profile: self.profile,
        }
        .batch_size();
        let seconds: f64 = search.trials().iter().map(|trial| trial.seconds).sum();
        let mut lines = vec![format!(
            "{} models, each trained on {} records of the training part and measured on {} others, in {seconds:.0} s:",
            search.trials().len(),
            self.sample.train_rows,
            self.sample.held_out_rows
        )];
        let beside =
            |beside: Option<f64>| beside.map_or(String::new(), |value| format!("{value:.4}"));
        let [first, second] = self.heads().map(str::to_owned);
        let mut rows = vec![
            (
                "model".to_owned(),
                [first, second, "seconds".to_owned()],
                String::new(),
            ),
            (
                "baseline: the same for each record".to_owned(),
                [
                    self.shown(baseline.value),
                    beside(baseline.beside),
                    String::new(),
                ],
                String::new(),
            ),
        ];
        let winner = search.chosen(baseline.value);
        for trial in search.trials() {
            let Candidate {
                shape,
                design,
                readings,
            } = &trial.candidate;
            let mut name = design.describe(*shape, batch_size);
            for (column, reading) in readings {
                name += &format!(", `{column}` {}", reading.name());
            }
            let seconds = format!("{:.1}", trial.seconds);
            rows.push(match &trial.outcome {
                Ok(measured) => {
                    let mut notes = Vec::new();
                    if winner == Some(trial) {
                        notes.push(match self.stage {
                            Stage::First => "ahead",
                            Stage::Only | Stage::Last(_) => "chosen",
                        });
                    }
                    if measured.is_cut {
                        notes.push("time ended it");
                    }
                    let values = [self.shown(measured.value), beside(measured.beside), seconds];
                    (name, values, notes.join(", "))
                }
                Err(why) => (
                    name,
                    [String::new(), String::new(), seconds],
                    format!("failed: {why}"),
                ),
            });
        }
        let width = rows.iter().map(|(name, ..)| name.chars().count()).max();
        let width = width.unwrap_or(0).min(NAME_WIDTH_MAX);
        for (name, [value, beside, seconds], note) in rows {
            let line = format!("{name:<width$} {value:>9} {beside:>9} {seconds:>8}  {note}");
            lines.push(line.trim_end().to_owned());
        }
        if search.is_cautious() {
            lines.push(
                "The sample is a part of the data, or time ended the chosen model: only a model far ahead would have replaced it."
                    .to_owned(),
            );
        }
        if search.is_cut() {
            lines.push(
                "Time ended the search: another run may choose otherwise; --seconds gives it more."
                    .to_owned(),
            );
        }
        lines
    }
}

/// Trains a job, and returns its best result.
async fn measure(
    job: Job,
    metric: Metric,
    most: Duration,
    stop: &CancellationToken,
) -> Result<Measured, Failure> {
    let stops_early = job.train.early_stopping.is_some();
    let model_dir = job.model_dir.clone();
    let context = Context::alone(job, None, LogFormat::Text);
    let ending = stop.child_token();
    let mut is_cut = false;
    let training = alone(context, PREMADE, Show::Nothing, ending.clone());
    tokio::pin!(training);
    let trained = tokio::select! {
        trained = &mut training => trained,
        () = tokio::time::sleep(most) => {
            is_cut = true;
            ending.cancel();
            training.await
        }
    };
    trained.map_err(|problem| Failure::Problem(problem.message))?;
    let text = match std::fs::read_to_string(model_dir.join("eval/metrics.jsonl")) {
        Ok(text) => text,
        Err(_) if is_cut => return Err(Failure::Time),
        Err(error) => {
            let why = format!("its evaluations cannot be read: {error}");
            return Err(Failure::Problem(why));
        }
    };
    let results = text.lines().filter_map(|line| {
        let result: Value = serde_json::from_str(line).ok()?;
        result_of(&result["metrics"], metric)
    });
    let results: Vec<(f64, Option<f64>)> = results.collect();
    let last = results.last().copied();
    let best = if stops_early {
        best(results, |new, old| match metric {
            Metric::Auc => new > old,
            Metric::Loss => new < old,
        })
    } else {
        last
    };
    let not_finite = || Failure::Problem("its results are not finite".to_owned());
    let (value, beside) = best.ok_or_else(not_finite)?;
    Ok(Measured {
        value,
        beside,
        is_cut,
        is_learning: best == last,
    })
}

/// Returns the two values of an evaluation, if they are finite.
fn result_of(metrics: &Value, metric: Metric) -> Option<(f64, Option<f64>)> {
    let loss = metrics["average_loss"].as_f64();
    match metric {
        Metric::Auc => {
            let auc = metrics["auc_exact"].as_f64().or(metrics["auc"].as_f64())?;
            // A model whose loss is no number predicts nothing.
            loss.map(|loss| (auc, Some(loss)))
        }
        Metric::Loss => Some((loss?, metrics["accuracy"].as_f64())),
    }
}

/// Returns the best of the results up to the one at which early stopping ends a job. Evaluations that were still under way then do
/// not count, so that the result is the same in each run.
fn best(
    results: Vec<(f64, Option<f64>)>,
    is_better: impl Fn(f64, f64) -> bool,
) -> Option<(f64, Option<f64>)> {
    let mut best: Option<(f64, Option<f64>)> = None;
    let mut since_best = 0;
    for result in results {
        if best.is_none_or(|best| is_better(result.0, best.0)) {
            best = Some(result);
            since_best = 0;
        } else {
            since_best += 1;
            if since_best >= EVALUATIONS_WITHOUT_A_BETTER_ONE {
                break;
            }
        }
    }
    best
}

/// Returns the cross entropy of a model that predicts these shares.
fn entropy(shares: impl IntoIterator<Item = f64>) -> f64 {
    let terms = shares.into_iter().filter(|share| *share > 0.0);
    terms.map(|share| -share * share.ln()).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn evaluations_after_the_one_that_ends_training_do_not_count() {
        let values = |values: &[f64]| values.iter().map(|value| (*value, None)).collect();
        let higher = |new: f64, old: f64| new > old;
        assert_eq!(best(values(&[0.5, 0.7, 0.6]), higher), Some((0.7, None)));
        let mut late = vec![0.7];
        late.extend([0.6; EVALUATIONS_WITHOUT_A_BETTER_ONE]);
        late.push(0.9);
        assert_eq!(best(values(&late), higher), Some((0.7, None)));
        assert_eq!(best(Vec::new(), higher), None);
    }

    #[test]
    fn a_result_that_is_no_number_is_none() {
        let metrics = json!({"auc": 0.7, "auc_exact": 0.71, "average_loss": 0.6});
        assert_eq!(result_of(&metrics, Metric::Auc), Some((0.71, Some(0.6))));
        let metrics = json!({"auc": 0.5, "average_loss": null});
        assert_eq!(result_of(&metrics, Metric::Auc), None);
        assert_eq!(result_of(&metrics, Metric::Loss), None);
    }

    #[test]
    fn a_constant_has_the_entropy_of_the_label() {
        assert!((entropy([0.5, 0.5]) - 2_f64.ln()).abs() < 1e-12);
        assert_eq!(entropy([1.0, 0.0]), 0.0);
    }
}
