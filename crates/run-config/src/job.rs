//! A job after validation: every value is in range, and every cross reference holds.

use std::path::PathBuf;

use serde::Serialize;
use trainyard_diagnostic::{Diagnostic, Document};

use crate::analysis::Analysis;
use crate::{
    EvalSpec, EvaluationConfig, ExporterConfig, FeatureConfig, HeadKind, InputConfig, LabelConfig,
    ModelConfig, ParameterServersConfig, PublishConfig, RunConfig, StrategyConfig, TrainSpec,
};

/// One training run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Job {
    /// The job file, for messages.
    pub path: PathBuf,
    /// Directory of checkpoints, evaluations and exports. A relative path is relative to the working folder.
    pub model_dir: PathBuf,
    /// Folder of this machine for files that cannot be in a bucket; see [`Job::local_dir`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_dir: Option<PathBuf>,
    /// Operation of the run.
    pub run: RunConfig,
    /// Input of training and evaluation.
    pub input: InputConfig,
    /// Feature columns, in file order.
    pub features: Vec<FeatureConfig>,
    /// The model.
    pub model: ModelConfig,
    /// End of training.
    pub train: TrainSpec,
    /// Schedule and kind of evaluations.
    pub eval: EvalSpec,
    /// Further evaluations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evaluations: Vec<EvaluationConfig>,
    /// Exports after evaluations.
    pub exporters: Vec<ExporterConfig>,
    /// Distribution of training.
    pub strategy: StrategyConfig,
    /// Durability and memory of parameter servers.
    pub parameter_servers: ParameterServersConfig,
    /// Publication of the values of a running job.
    pub publish: PublishConfig,
    /// The job file with the changes of `--set`.
    #[serde(skip)]
    pub(crate) written: Written,
    /// Warnings of the reader.
    #[serde(skip)]
    pub(crate) warnings: Warnings,
    /// Files that are made of the training data.
    #[serde(skip)]
    pub(crate) analyses: Analyses,
}

impl Job {
    /// Returns the labels with their heads: one, or one for each task of the model.
    pub fn labels(&self) -> Vec<(&LabelConfig, HeadKind)> {
        if self.model.tasks.is_empty() {
            return vec![(&self.input.label, self.model.head)];
        }
        let tasks = self.model.tasks.iter();
        tasks.map(|task| (&task.label, task.head)).collect()
    }

    /// Returns the files that `trainyard analyze` makes of the training data.
    pub fn analyses(&self) -> &[Analysis] {
        &self.analyses.0
    }

    /// Returns the warnings about the job file: keys and features that its kind of model does not use.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings.0
    }
}

/// Files that are made of the training data. As [`Written`], they take no part in comparisons: what is in the files does.
#[derive(Debug, Clone, Default)]
pub(crate) struct Analyses(pub(crate) Vec<Analysis>);

impl PartialEq for Analyses {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

/// Warnings about a job file. As [`Written`], they take no part in comparisons.
#[derive(Debug, Clone, Default)]
pub(crate) struct Warnings(pub(crate) Vec<Diagnostic>);

impl PartialEq for Warnings {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

/// The document of a job file. It does not take part in comparisons, so that jobs with the same settings are equal.
#[derive(Clone, Default)]
pub(crate) struct Written(pub(crate) Document);

impl PartialEq for Written {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl std::fmt::Debug for Written {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("..")
    }
}
