//! `[train]`: end of training, its initial values and its bounds.

use serde::{Deserialize, Serialize};
use trainyard_diagnostic::{Bound, Code, Section, Takes, Value, section};

use super::optimizer::{read_clipping, takes_clipping};
use crate::OptimizerSection;
use crate::metric::direction;

section! {
    /// End of training (`tf.estimator.TrainSpec`).
    #[derive(Debug, Clone, PartialEq, Serialize)]
    pub struct TrainSpec {
        /// global step at which training ends. Tasks do not overshoot it, with one exception: if a task dies after it has
        /// pushed a batch to some parameter servers but not to `ps:0`, another task completes the batch afterwards, as one
        /// more step
        max_steps: Option<u64> = integer(1..=u64::MAX).optional("when the input is used up");
        /// `{ kind = "global_norm", clip = 5.0 }`; also `norm` (of each variable) and `value`
        clip_gradients: Option<OptimizerSection> = custom(read_clipping, takes_clipping, "").optional("none");
        /// `{ from = "runs/old", variables = "dnn/.*", rename = { "new/name" = "old/name" } }`: initial values of a new
        /// model. `variables` is a regular expression that must match whole names. `from` is one of: a model folder or a
        /// checkpoint in it, an export or a folder of exports (the newest is used), a checkpoint of TensorFlow, a
        /// `.safetensors` or `.npy` file, or a folder of such files. The name of an array is its file name without `.npy`,
        /// and in a folder the path below that folder: `dnn/a/weights.npy` is `dnn/a/weights`. 16, 32 and 64-bit floats are
        /// read
        warm_start: Option<WarmStartConfig> = custom(read_warm_start, warm_start_takes, "").optional("none");
        /// evaluations end training before `max_steps` or the end of the input. The job ends at its best checkpoint:
        /// retention never removes that checkpoint, and the later ones are removed at the end. Needs `[input.eval]`; keys
        /// [below](#trainearly_stopping)
        early_stopping: Option<EarlyStoppingConfig> = custom(read_early_stopping, early_stopping_takes, "")
            .optional("none"), serde(skip_serializing_if = "Option::is_none");
        /// learning rates fall when evaluations bring no gain. Needs `[input.eval]`; keys [below](#trainreduce_on_plateau)
        reduce_on_plateau: Option<ReduceOnPlateauConfig> = custom(read_reduce_on_plateau, reduce_on_plateau_takes, "")
            .optional("none"), serde(skip_serializing_if = "Option::is_none");
    }
}

section! {
    /// Keys of `[train.early_stopping]`.
    #[derive(Debug)]
    pub(crate) struct EarlyStoppingKeys {
        /// the job ends after this many evaluations without a better one since the best
        max_evaluations_without_improvement: Option<u64> = integer(1..=u64::MAX).optional("never");
        /// the job ends when no evaluation within this many steps after the best one is better (`stop_if_no_decrease_hook`,
        /// `stop_if_no_increase_hook`)
        max_steps_without_improvement: Option<u64> = integer(1..=u64::MAX).optional("never");
        /// the job ends when an evaluation reaches this value (`stop_if_higher_hook`, `stop_if_lower_hook`)
        stop_at: Option<f64> = number(Bound::None).optional("never");
        /// metric to compare
        metric: String = text().or("loss".to_owned());
        /// direction of the metric
        higher_is_better: Option<bool> = flag().optional("that of the metric; required for metrics that have none");
        /// evaluations before this step do not end the job
        min_steps: u64 = integer(0..=u64::MAX).or(0);
        /// an evaluation is better only if it improves by more than this
        min_delta: f64 = number(Bound::NotNegative).or(0.0);
    }
}

section! {
    /// Keys of `[train.reduce_on_plateau]`.
    #[derive(Debug)]
    pub(crate) struct ReduceOnPlateauKeys {
        /// number by which a reduction multiplies all learning rates, > 0 and < 1
        factor: f64 = number(Bound::ProperFraction).or(0.1);
        /// evaluations without a better one since the best, or since the last reduction, after which the rates fall
        patience: u64 = integer(1..=u64::MAX).or(1);
        /// metric to compare
        metric: String = text().or("loss".to_owned());
        /// direction of the metric
        higher_is_better: Option<bool> = flag().optional("that of the metric; required for metrics that have none");
        /// an evaluation is better only if it improves by more than this
        min_delta: f64 = number(Bound::NotNegative).or(0.0);
        /// evaluations after a reduction that do not count for `patience`
        cooldown: u64 = integer(0..=u64::MAX).or(0);
        /// share of their own values to which the rates fall at most, > 0 and < 1
        min_factor: f64 = number(Bound::ProperFraction).or(0.001);
    }
}

section! {
    /// Keys of `train.warm_start`.
    #[derive(Debug)]
    pub(crate) struct WarmStartKeys {
        /// checkpoint, export, file or folder with the initial values
        from: Option<String> = nonempty_path().required_or_invalid("\"runs/old\"");
        /// regular expression that must match the whole name of a variable
        variables: String = text().or(".*".to_owned());
        /// names in the checkpoint, by the names of this job, if they differ
        rename: Vec<(String, String)> = custom(read_rename, || Takes::TableOf(Box::new(Takes::Text)), "").or(Vec::new()).said("none");
    }
}

/// Evaluations that end training (`tf.estimator.experimental.stop_if_no_decrease_hook` and its siblings). The job ends
/// at its best checkpoint. At least one of the first three bounds is given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EarlyStoppingConfig {
    /// Name of the metric; `loss` by default.
    pub metric: String,
    /// A higher metric is better.
    pub higher_is_better: bool,
    /// Evaluations without improvement after the best one that end the job; at least 1.
    pub max_evaluations_without_improvement: Option<u64>,
    /// Steps without improvement after the best evaluation that end the job; at least 1.
    pub max_steps_without_improvement: Option<u64>,
    /// Value of the metric at which the job ends.
    pub stop_at: Option<f64>,
    /// Steps before which no evaluation ends the job; 0 by default.
    pub min_steps: u64,
    /// Largest gain that does not count as improvement; 0 by default.
    pub min_delta: f64,
}

/// Evaluations that reduce learning rates (`torch.optim.lr_scheduler.ReduceLROnPlateau`,
/// `tf.keras.callbacks.ReduceLROnPlateau`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReduceOnPlateauConfig {
    /// Factor of each reduction, between 0 and 1; 0.1 by default.
    pub factor: f64,
    /// Evaluations without improvement that reduce the rates; at least 1, which is the default.
    pub patience: u64,
    /// Name of the metric; `loss` by default.
    pub metric: String,
    /// A higher metric is better.
    pub higher_is_better: bool,
    /// Largest gain that does not count as improvement; 0 by default.
    pub min_delta: f64,
    /// Evaluations after a reduction that do not count; 0 by default.
    pub cooldown: u64,
    /// Lowest product of all reductions, between 0 and 1; 0.001 by default.
    pub min_factor: f64,
}

/// What makes an evaluation better than the best one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Improvement {
    higher_is_better: bool,
    min_delta: f64,
}

impl Improvement {
    /// Returns whether the value of an evaluation is better than the best one.
    pub fn is_made(self, value: f64, best: f64) -> bool {
        if self.higher_is_better {
            value > best + self.min_delta
        } else {
            value < best - self.min_delta
        }
    }
}

impl EarlyStoppingConfig {
    /// Returns what makes an evaluation better than the best one.
    pub fn improvement(&self) -> Improvement {
        Improvement {
            higher_is_better: self.higher_is_better,
            min_delta: self.min_delta,
        }
    }
}

impl ReduceOnPlateauConfig {
    /// Returns what makes an evaluation better than the best one.
    pub fn improvement(&self) -> Improvement {
        Improvement {
            higher_is_better: self.higher_is_better,
            min_delta: self.min_delta,
        }
    }

    /// Returns the product of `reductions` reductions: what the rates are multiplied by.
    pub fn factor_after(&self, reductions: usize) -> f64 {
        let exponent = i32::try_from(reductions).unwrap_or(i32::MAX);
        self.factor.powi(exponent).max(self.min_factor)
    }
}

/// Source of the initial values of a new model (`tf.estimator.WarmStartSettings`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WarmStartConfig {
    /// A checkpoint of Trainyard (a folder `model.ckpt-<step>`, or a model directory, whose latest checkpoint counts),
    /// or the prefix of a TensorFlow checkpoint. A relative path is relative to the job file, then to the working
    /// folder.
    pub from: String,
    /// Regular expression that must match the whole name of a variable; `.*` by default.
    pub variables: String,
    /// (variable of this job, name in the checkpoint), if the names differ.
    pub rename: Vec<(String, String)>,
}

pub(crate) fn read(section: Section<'_>) -> Option<TrainSpec> {
    let train = TrainSpec::read_keys(&section);
    section.finish();
    train
}

fn warm_start_takes() -> Takes {
    Takes::Table(WarmStartKeys::keys())
}

fn early_stopping_takes() -> Takes {
    Takes::Table(EarlyStoppingKeys::keys())
}

fn reduce_on_plateau_takes() -> Takes {
    Takes::Table(ReduceOnPlateauKeys::keys())
}

fn read_warm_start(section: &Section<'_>, key: &'static str) -> Option<WarmStartConfig> {
    let section = section.section(key)?;
    let keys = WarmStartKeys::read_keys(&section)?;
    if let Err(error) = regex::Regex::new(&keys.variables) {
        let reason = error.to_string();
        let reason = reason.lines().last().unwrap_or_default().to_owned();
        section.fail(
            Code::E1002,
            "variables",
            format!("variables must be a regular expression: {reason}"),
        );
    }
    section.finish();
    Some(WarmStartConfig {
        from: keys.from?,
        variables: keys.variables,
        rename: keys.rename,
    })
}

/// Reads a table of names whose keys the user chooses.
fn read_rename(section: &Section<'_>, key: &'static str) -> Option<Vec<(String, String)>> {
    let mut rename = Vec::new();
    if let Some(table) = section.section(key) {
        for (name, node) in table.entries() {
            match &node.value {
                Value::Text(text) => rename.push((name.to_owned(), text.clone())),
                _ => section.fail(
                    Code::E1002,
                    key,
                    format!("rename of `{name}` must be a string"),
                ),
            }
        }
    }
    Some(rename)
}

fn read_early_stopping(section: &Section<'_>, key: &'static str) -> Option<EarlyStoppingConfig> {
    let section = section.section(key)?;
    let keys = EarlyStoppingKeys::read_keys(&section)?;
    let bounds = [
        "max_evaluations_without_improvement",
        "max_steps_without_improvement",
        "stop_at",
    ];
    if bounds.iter().all(|key| section.node(key).is_none()) {
        section.missing("max_evaluations_without_improvement", "3");
    }
    let higher_is_better = direction(&section, &keys.metric, keys.higher_is_better);
    section.finish();
    Some(EarlyStoppingConfig {
        metric: keys.metric,
        higher_is_better: higher_is_better?,
        max_evaluations_without_improvement: keys.max_evaluations_without_improvement,
        max_steps_without_improvement: keys.max_steps_without_improvement,
        stop_at: keys.stop_at,
        min_steps: keys.min_steps,
        min_delta: keys.min_delta,
    })
}

fn read_reduce_on_plateau(
    section: &Section<'_>,
    key: &'static str,
) -> Option<ReduceOnPlateauConfig> {
    let section = section.section(key)?;
    let keys = ReduceOnPlateauKeys::read_keys(&section)?;
    let higher_is_better = direction(&section, &keys.metric, keys.higher_is_better);
    section.finish();
    Some(ReduceOnPlateauConfig {
        factor: keys.factor,
        patience: keys.patience,
        metric: keys.metric,
        higher_is_better: higher_is_better?,
        min_delta: keys.min_delta,
        cooldown: keys.cooldown,
        min_factor: keys.min_factor,
    })
}
