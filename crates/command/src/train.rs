//! `trainyard train`: chief, parameter store and evaluator in one process, without sockets.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::task::JoinHandle;
use trainyard_chief::{Chief, Ending, Report, run_job};
use trainyard_cluster_spec::{ClusterSpec, Role, Task, TfConfig};
use trainyard_daemon::{CancellationToken, Context, DiskWatch, StopSource, report, supervise};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_evaluator::{check_metrics, not_finite};
use trainyard_model::{Build, Part, Scores, Shard, add_constants, input_options};
use trainyard_parameter_server::LocalServer;
use trainyard_run_config::{Family, HeadKind, Job, LossConfig, StrategyKind};
use trainyard_trainer::{LocalRendezvous, Mirror, Rendezvous};

use crate::arguments::JobArguments;
use crate::data_warnings::report_at_start;
use crate::disk_space::{CheckpointBytes, check_space};
use crate::output::{STOPPED, print, refuse_absent_folder, refuse_untrained, result_line, table};
use crate::output_form::{JSON, refuse_other_ending};
use crate::progress::{Show, console_steps, progress_line};
use crate::targets::refuse_own_file;
use crate::times_of_files::{compare_times_of_evaluations, compare_times_of_training};
use crate::unseen_columns::unseen_columns;
use crate::up::{read_evaluation, share_of_cores};

#[derive(Debug, Args)]
pub(crate) struct Train {
    #[command(flatten)]
    pub(crate) job: JobArguments,
    /// Writes a JSON object about the run to this file at its end. A file of that name is replaced then.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Disables evaluation: the job's evaluation input is not read, and nothing is exported.
    #[arg(long)]
    pub(crate) no_evaluation: bool,
    /// Address of the admin port: the page of the run, its API, /metrics, /healthz, /readyz. Without it, there is no
    /// admin port.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) admin_listen: Option<String>,
}

/// Time in which the other replicas may end after the chief.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(3);

/// Trains a job to its end, or until `stop` asks for the end: then with a checkpoint.
pub(crate) fn train(
    arguments: &Train,
    build: Build,
    show: Show,
    stop: StopSource,
) -> Result<(), Vec<Diagnostic>> {
    let watch = DiskWatch::begin();
    let mut job = arguments.job.load()?;
    if std::env::var("TF_CONFIG").is_ok_and(|text| !is_alone(Some(&text))) {
        let problem = Diagnostic::warning(
            Code::E1003,
            "TF_CONFIG names other tasks, and `trainyard train` runs the whole job in this process",
        )
        .help("`trainyard run --job JOB` takes the part that TF_CONFIG names");
        report(&[problem], arguments.job.log_format);
    }
    if arguments.no_evaluation {
        job.input.eval = None;
    }
    if let Some(path) = &arguments.report {
        refuse_own_file(path, &job).map_err(|problem| vec![problem])?;
        refuse_absent_folder(path).map_err(|problem| vec![problem])?;
        refuse_other_ending(path, &JSON).map_err(|problem| vec![problem])?;
    }
    report_at_start(&job, arguments.job.log_format);
    let told = look_before_training(&job, build).map_err(|problem| vec![problem])?;
    report(&told, arguments.job.log_format);
    report(&job.warnings_in_one_process(), arguments.job.log_format);
    // From now on, whoever works on files tells of them.
    drop(watch);
    let mut context = Context::alone(job, arguments.report.clone(), arguments.job.log_format);
    context.stop = stop;
    context.serves_admin = arguments.admin_listen.is_some();
    context.admin_listen.clone_from(&arguments.admin_listen);
    let job = Arc::clone(&context.job);
    let trained = in_one_process(context, build, show).map_err(|problem| vec![problem])?;
    let told = print(&trained.text(&job));
    if let Some(problem) = no_better_than_a_constant(&job, &trained.report.eval) {
        report(&[problem], arguments.job.log_format);
    }
    let outcome = told.and_then(|()| not_finite(&trained.report.eval).map_or(Ok(()), Err));
    let outcome = outcome.and_then(|()| match trained.ending {
        Ending::Done => refuse_untrained(&trained.report),
        _ => Ok(()),
    });
    outcome.map_err(|problem| vec![problem])
}

/// Asks what `check` asks, as far as it would end training late or pass without a word. Returns warnings.
///
/// # Errors
/// The disk has no space for checkpoints, or two training files, or an evaluation input and the training files, have times of two units in a column.
pub(crate) fn look_before_training(job: &Job, build: Build) -> Result<Vec<Diagnostic>, Diagnostic> {
    let mut warnings = compare_times_of_training(job, trainyard_input::COMPARED_AT_START_MAX)?;
    warnings.extend(compare_times_of_evaluations(job)?);
    // A model that cannot be built is an error of training.
    if let Ok(model) = build(job) {
        warnings.extend(check_space(job, CheckpointBytes::of(&*model))?.warning);
        // Files that are not there are an error of their reader.
        let input = input_options(job, Part::Train, Shard::WHOLE, None).ok();
        warnings.extend(input.and_then(|input| unseen_columns(&input, model.schema())));
    }
    Ok(warnings)
}

/// The end of a job in one process.
pub(crate) struct Trained {
    ending: Ending,
    pub(crate) report: Report,
    /// Steps that were evaluated.
    evaluated: Vec<u64>,
}

impl Trained {
    fn text(&self, job: &Job) -> String {
        let verb = if self.ending == Ending::Done {
            "trained to"
        } else {
            STOPPED
        };
        let mut text = result_line(verb, &self.report, job.train.max_steps);
        if !self.report.eval.is_empty() {
            text.push_str(&format!(
                "evaluation at step {}:\n{}",
                self.evaluated.last().unwrap_or(&0),
                table(&self.report.eval)
            ));
        }
        text.push_str(&format!("model: {}\n", job.model_dir.display()));
        text
    }
}

/// Returns the warning that a model of two classes predicts no better than the mean of the labels, if the metrics of its evaluation
/// say so. Other losses than cross entropy, and weights of classes, have other constants.
fn no_better_than_a_constant(job: &Job, scores: &Scores) -> Option<Diagnostic> {
    let model = &job.model;
    let is_likelihood = matches!(model.head, HeadKind::Binary | HeadKind::LogisticRegression)
        && model.loss == LossConfig::CrossEntropy
        && model.class_weights.is_empty()
        && model.kind.family != Family::Baseline;
    let mean = *scores.get("label/mean")?;
    let loss = *scores.get("average_loss")?;
    let has_both_classes = mean > 0.0 && mean < 1.0;
    if !(is_likelihood && has_both_classes) {
        return None;
    }
    let of_constant = -(mean * mean.ln() + (1.0 - mean) * (1.0 - mean).ln());
    (loss >= of_constant).then(|| {
        let message = format!(
            "the model predicts no better than a constant: the average_loss of its evaluation is {loss:.4}, and {of_constant:.4} if \
             the mean of the labels, {mean:.4}, is predicted for each record"
        );
        let auc = scores.get("auc").copied().unwrap_or(0.5);
        let help = if auc > 0.55 {
            "it ranks the records, and its probabilities are too extreme: give [train.early_stopping], model.embedding_regularizer or \
             fewer passes"
        } else {
            "look at the label and at the features, whether ids are read as numbers: `trainyard init` compares models by measurement"
        };
        Diagnostic::warning(Code::E4005, message).help(help)
    })
}

/// Trains, evaluates and exports the job of a context that is alone, in this process.
pub(crate) fn in_one_process(
    mut context: Context,
    build: Build,
    show: Show,
) -> Result<Trained, Diagnostic> {
    let mut job = Job::clone(&context.job);
    let replicas = replicas(&mut job);
    context.job = Arc::new(job);
    let mut cluster = ClusterSpec::clone(&context.cluster);
    let others = (1..replicas).map(|index| Task {
        role: Role::Worker,
        index: index - 1,
    });
    cluster
        .tasks
        .extend(others.map(|task| (task, "this process".to_owned())));
    context.cluster = Arc::new(cluster);
    let mut trained = None;
    supervise(context, async |context, stop| {
        trained = Some(alone(context, build, show, stop).await?);
        Ok(())
    })?;
    trained.ok_or_else(|| Diagnostic::error(Code::E9001, "training has ended without a result"))
}

/// Returns the number of replicas that train, and divides the cores among them.
fn replicas(job: &mut Job) -> usize {
    let strategy = &job.strategy;
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let replicas = if strategy.kind.has_replicas() {
        strategy.replicas.unwrap_or_else(cores)
    } else {
        1
    };
    if replicas > 1 && job.run.intra_op_parallelism_threads == 0 {
        job.run.intra_op_parallelism_threads = share_of_cores(replicas);
    }
    replicas
}

/// As [`in_one_process`], within a supervision that the caller has.
pub(crate) async fn alone(
    mut context: Context,
    build: Build,
    show: Show,
    stop: CancellationToken,
) -> Result<Trained, Diagnostic> {
    if context.job.strategy.kind == StrategyKind::Hybrid {
        let message = "strategy `hybrid` needs parameter servers, this is one process";
        return Err(Diagnostic::error(Code::E1006, message).help(
            "run `trainyard up JOB.toml --cluster local:ps=1,worker=1`, or use another kind",
        ));
    }
    let model = build(&context.job)?;
    add_constants(&mut context.job, &*model);
    let job = Arc::clone(&context.job);
    if job.input.eval.is_some() {
        check_metrics(&job, &*model)?;
    }
    let store = || LocalServer::new(0, 1, context.incarnation, context.cluster.fingerprint());
    let shard = store();
    let kind = job.strategy.kind;
    let rendezvous = matches!(
        kind,
        StrategyKind::Mirrored | StrategyKind::MultiWorkerMirrored
    )
    .then(|| Rendezvous::Local(LocalRendezvous::default()));
    let mirror = |shard| {
        rendezvous
            .clone()
            .map(|rendezvous| Mirror { shard, rendezvous })
    };
    let (draw, bar) = progress_line(job.train.max_steps);
    let draw = match show {
        Show::Line => draw,
        Show::Console => console_steps(job.train.max_steps),
        Show::Nothing => Arc::new(|_: &_| {}),
    };
    let own = mirror(shard.clone());
    let mut leading = Chief::new(
        &context,
        model,
        vec![Arc::new(shard)],
        Arc::new(|_| {}),
        draw,
    )
    .await?;
    leading.mirror = own;
    // The other replicas. Under `mirrored`, each replica has its own copy of the parameters; otherwise all use the
    // chief's.
    let ending = CancellationToken::new();
    let others: Vec<_> = context
        .cluster
        .of_role(Role::Worker)
        .map(|(task, _)| {
            let mut config = leading.trainer(task, mirror(store()));
            // Only the chief shows the progress.
            config.progress = Arc::new(|_: &_| {});
            leading.spawn_trainer(config, ending.clone())
        })
        .collect();
    let halt = CancellationToken::new();
    let mut evaluating = job.input.eval.is_some().then(|| {
        let config = trainyard_evaluator::Config::new(Arc::clone(&job));
        tokio::spawn(trainyard_evaluator::run(config, build, halt.clone()))
    });
    let mut leading = run_job(leading, stop.clone());
    let mut evaluated = None;
    let outcome = loop {
        tokio::select! {
            biased;
            outcome = &mut leading => break outcome,
            ended = ended(&mut evaluating) => {
                evaluating = None;
                // Of a job that has failed, the chief tells it. Otherwise training may go on for hours.
                if let Err(problem) = &ended && problem.code != Code::E2010 {
                    let told = problem.clone().note("training goes on to its end, without evaluations and exports");
                    tracing::error!("{}", told.log_line());
                }
                evaluated = Some(ended);
            }
        }
    };
    ending.cancel();
    for other in others {
        if let Ok(Ok(Err(problem))) = tokio::time::timeout(SHUTDOWN_GRACE, other).await {
            tracing::warn!("{}", problem.log_line());
        }
    }
    bar.finish_and_clear();
    if !matches!(outcome, Ok((Ending::Done, _))) {
        halt.cancel();
    }
    let evaluation = match evaluated {
        Some(evaluated) => evaluated,
        None if evaluating.is_some() => ended(&mut evaluating).await,
        None => Ok(trainyard_evaluator::Report::default()),
    };
    let (ending, report) = outcome?;
    let mut evaluation = evaluation?;
    if evaluation.steps.is_empty() && job.input.eval.is_some() {
        // A run that adds no step evaluates none: an earlier run has evaluated the last one.
        match read_evaluation(&job.model_dir) {
            Ok(Some((step, scores))) if step == report.global_step => {
                evaluation.steps.push(step);
                evaluation.scores = scores;
            }
            Ok(_) => {}
            Err(problem) => tracing::warn!(%problem, "the last evaluation cannot be read"),
        }
    }
    let report = Report {
        eval: evaluation.scores.clone(),
        ..report
    };
    if let Some(path) = &context.report {
        let _watch = DiskWatch::begin();
        report.write(path)?;
    }
    Ok(Trained {
        ending,
        report,
        evaluated: evaluation.steps,
    })
}

/// Waits for the end of an evaluator; for ever without one.
async fn ended(
    evaluating: &mut Option<JoinHandle<Result<trainyard_evaluator::Report, Diagnostic>>>,
) -> Result<trainyard_evaluator::Report, Diagnostic> {
    match evaluating {
        None => std::future::pending().await,
        Some(handle) => handle.await.map_err(|error| {
            Diagnostic::error(Code::E9001, format!("the evaluator has failed: {error}"))
        })?,
    }
}

/// Returns whether this process runs the whole job: without `TF_CONFIG`, without a cluster in it, or with a chief as
/// its only task.
pub(crate) fn is_alone(tf_config: Option<&str>) -> bool {
    match tf_config.map(TfConfig::parse) {
        None => true,
        Some(Ok(config)) => config
            .cluster
            .is_none_or(|cluster| cluster.tasks.len() == 1 && config.task.role == Role::Chief),
        Some(Err(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_of_two_classes_that_is_worse_than_a_constant_is_told() {
        let job = |model: &str| {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("job.toml");
            let text = format!(
                "model_dir = \"/models/job\"\n[input]\nlabel = {{ column = \"y\" }}\ntrain = {{ files = [\"t.csv\"], epochs = 1 }}\n\
                 [[feature]]\ncolumn = \"x\"\nkind = \"numeric\"\n[model]\n{model}\n"
            );
            std::fs::write(&path, text).expect("written");
            Job::load(&path, &[]).expect("a job")
        };
        let scores = |loss: f64, auc: f64, mean: f64| -> Scores {
            let all = [("average_loss", loss), ("auc", auc), ("label/mean", mean)];
            all.map(|(name, value)| (name.to_owned(), value)).into()
        };
        let linear = job("kind = \"linear_classifier\"");
        let help = |scores: &Scores| no_better_than_a_constant(&linear, scores)?.help;
        let unlearned = help(&scores(0.6932, 0.5, 0.5)).expect("a warning");
        assert!(unlearned.contains("look at the label"), "{unlearned}");
        let extreme = help(&scores(0.9, 0.7, 0.5)).expect("a warning");
        assert!(extreme.contains("too extreme"), "{extreme}");
        assert_eq!(help(&scores(0.69, 0.55, 0.5)), None);
        assert_eq!(help(&scores(0.0, 0.5, 0.0)), None, "all labels are equal");
        let weighted = job("kind = \"linear_classifier\"\nclass_weights = [1.0, 5.0]");
        assert!(no_better_than_a_constant(&weighted, &scores(0.9, 0.7, 0.5)).is_none());
        let baseline = job("kind = \"baseline_classifier\"");
        assert!(no_better_than_a_constant(&baseline, &scores(0.6932, 0.5, 0.5)).is_none());
    }

    #[test]
    fn a_job_without_a_cluster_runs_alone() {
        assert!(is_alone(None) && is_alone(Some("{}")));
        assert!(is_alone(Some(
            r#"{"cluster": {"chief": ["a:1"]}, "task": {"type": "chief", "index": 0}}"#
        )));
        assert!(!is_alone(Some(
            r#"{"cluster": {"chief": ["a:1"], "ps": ["b:1"]}, "task": {"type": "chief", "index": 0}}"#
        )));
        assert!(
            !is_alone(Some("not JSON")),
            "the mistake is told, not passed over"
        );
    }
}
