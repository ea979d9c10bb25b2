//! Estimators (`tf.estimator.Estimator`): training, evaluation and prediction as calls of a program.

use std::ops::ControlFlow;
use std::sync::Arc;

use clap::Parser;
use trainyard_checkpoint::Origin;
use trainyard_chief::Report;
use trainyard_daemon::{Arguments, Context, LogFormat, StopSource, report};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model::{
    AnyModel, Build, Error, Model, Part, Scores, Shard, any_of, input_options, with_constants,
};
use trainyard_predictor::{Predicted, Predictor};
use trainyard_run_config::Job;

use crate::evaluate::scores;
use crate::progress::Show;
use crate::run::run_task;
use crate::times_of_files::{Labels, warn_of_times};
use crate::train::{in_one_process, is_alone, look_before_training};
use crate::trained_values::{OF_PREDICTIONS, find, warn_of_other_job};

/// A job and its model. The calls run the same code as the command line. They return problems instead of printing them.
pub struct Estimator {
    job: Job,
    build: Build,
}

impl std::fmt::Debug for Estimator {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Estimator")
            .field("job", &self.job)
            .finish_non_exhaustive()
    }
}

/// Arguments of a task that `TF_CONFIG` names: all come from environment variables, or are defaults.
#[derive(Debug, Parser)]
struct TaskArguments {
    #[command(flatten)]
    arguments: Arguments,
}

impl Estimator {
    /// Makes an estimator of a job. `build` makes its model.
    pub fn new<M: Model>(job: Job, build: fn(&Job) -> Result<M, Error>) -> Self {
        Self {
            job,
            build: any_of(build),
        }
    }

    /// Returns the job.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Trains in this process, without evaluations (`tf.estimator.Estimator.train`). An interrupt ends training with a
    /// checkpoint.
    ///
    /// # Errors
    /// The model cannot be built, or the run fails.
    pub fn train(&self) -> Result<Report, Vec<Diagnostic>> {
        let mut job = self.job.clone();
        job.input.eval = None;
        self.run(job)
    }

    /// Evaluates the newest checkpoint on the job's evaluation inputs (`tf.estimator.Estimator.evaluate`).
    ///
    /// # Errors
    /// There is no checkpoint of the model, or the input cannot be read.
    pub fn evaluate(&self) -> Result<Scores, Diagnostic> {
        let model = (self.build)(&self.job)?;
        let scores = scores(&self.job, &*model, &self.newest()?, &StopSource::Signals)?;
        Ok(scores.expect("no caller asks to stop"))
    }

    /// Predicts each record of the job's evaluation input by the newest checkpoint (`tf.estimator.Estimator.predict`), and
    /// passes the result to `sink`, in order. Stops when `sink` breaks.
    ///
    /// # Errors
    /// There is no checkpoint of the model, the input cannot be read, or `sink` fails.
    pub fn predict(
        &self,
        sink: impl FnMut(Predicted) -> Result<ControlFlow<()>, Diagnostic>,
    ) -> Result<(), Diagnostic> {
        let model: Arc<AnyModel> = Arc::from((self.build)(&self.job)?);
        let origin = self.newest()?;
        warn_of_other_job(
            &with_constants(&self.job, &*model),
            origin.job(),
            &OF_PREDICTIONS,
        );
        let predictor = Predictor::open(&origin, model)?;
        let input = input_options(&self.job, Part::Eval, Shard::WHOLE, None)?;
        warn_of_times(&self.job, origin.job(), &input, Labels::Unread)?;
        trainyard_predictor::predict(&predictor, input, Vec::new(), sink)
    }

    fn newest(&self) -> Result<Origin, Diagnostic> {
        Ok(Origin::Own(Arc::new(find(&self.job, None)?)))
    }

    fn run(&self, job: Job) -> Result<Report, Vec<Diagnostic>> {
        let told = look_before_training(&job, self.build).map_err(|problem| vec![problem])?;
        report(&told, LogFormat::Text);
        let context = Context::alone(job, None, LogFormat::Text);
        let trained = in_one_process(context, self.build, Show::Nothing);
        trained
            .map(|trained| trained.report)
            .map_err(|problem| vec![problem])
    }
}

/// Trains, evaluates and exports a job (`tf.estimator.train_and_evaluate`). Without `TF_CONFIG`, or with one that names
/// no other task, the whole job runs in this process. Otherwise the process is the task that `TF_CONFIG` names, and the
/// other tasks are more processes of the same program.
///
/// Returns the report of a whole job, and `None` for a task.
///
/// # Errors
/// `TF_CONFIG` cannot be read, the model cannot be built, or the run fails.
pub fn train_and_evaluate(estimator: &Estimator) -> Result<Option<Report>, Vec<Diagnostic>> {
    if is_alone(std::env::var("TF_CONFIG").ok().as_deref()) {
        return estimator.run(estimator.job.clone()).map(Some);
    }
    let job = estimator.job.clone();
    let path = job.path.clone().into_os_string();
    let arguments = TaskArguments::try_parse_from(["estimator".into(), "--job".into(), path]);
    let TaskArguments { arguments } = arguments.map_err(|error| {
        let message = format!("a variable of the environment cannot be used: {error}");
        vec![Diagnostic::error(Code::E1002, message)]
    })?;
    let context = Context::of_job(job, &arguments)?;
    run_task(context, estimator.build).map_err(|problem| vec![problem])?;
    Ok(None)
}
