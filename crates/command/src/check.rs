//! `trainyard check`: all checks that need no running task.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use serde_json::json;
use trainyard_checkpoint::{Checkpoint, list, misfit};
use trainyard_chief::find_warm_start;
use trainyard_cluster_spec::{ClusterSpec, LocalCounts, Role, TfConfig};
use trainyard_diagnostic::{Code, Diagnostic, Severity};
use trainyard_input::{Alike, BadRow, Checked};
use trainyard_model::{AnyModel, Build, Part, Shard, input_options};
use trainyard_model_dir::durable::check_folder;
use trainyard_model_dir::{JobPhase, JobState};
use trainyard_optimizer::{LearningRate, OptimizerConfig};
use trainyard_run_config::{BadRows, Job, LabelConfig, LossReduction, files_in_both};
use trainyard_storage::is_remote;
use trainyard_variable::{Access, FROZEN, MOVING_AVERAGE, VariableSpec};

use crate::arguments::{Format, JobArguments};
use crate::data_sample::{Extent, profile};
use crate::data_warnings::{Findings, look, look_at_labels_of_evaluation, look_at_length};
use crate::disk_space::{CheckpointBytes, check_space};
use crate::folder_columns::warn_of_folder_columns;
use crate::limits::{limits, small_limits};
use crate::output::print;
use crate::repeated_rows::repeated_rows;
use crate::times_of_files::{compare_times_of_evaluations, compare_times_of_training};
use crate::trained_values::{OF_SCORES, other_job};

#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) job: JobArguments,
    /// A cluster file. Without it, the environment variable TF_CONFIG is read, if it is set.
    #[arg(long, value_name = "CLUSTER.toml")]
    pub(crate) cluster: Option<PathBuf>,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
}

/// The findings in JSON. It is written as it is, because a job with its vocabularies would take many times its memory as a
/// [`serde_json::Value`].
#[derive(Debug, Serialize)]
struct Found<'a> {
    ok: bool,
    job: Option<&'a Job>,
    place: serde_json::Value,
    warnings: Vec<serde_json::Value>,
}

/// Records that are read from each file.
const ROWS: usize = 1000;

/// Checks a job, and a cluster if one is given, and prints the findings.
pub(crate) fn check(arguments: &Check, build: Build) -> Result<(), Vec<Diagnostic>> {
    let mut problems = Vec::new();
    let job = arguments
        .job
        .load()
        .map_err(|found| problems.extend(found))
        .ok();
    let tf_config = std::env::var("TF_CONFIG")
        .ok()
        .filter(|_| arguments.cluster.is_none());
    let mut place = json!({"cluster": null, "task": null});
    let local = arguments.cluster.as_ref().and_then(|path| path.to_str());
    if let Some(counts) = local.and_then(|text| LocalCounts::parse(text, 1)) {
        // `up` chooses the ports.
        problems.extend(counts.err());
    } else if let Some(path) = &arguments.cluster {
        match ClusterSpec::load(path) {
            Ok(cluster) => {
                check_ports(&cluster, &mut problems);
                place["cluster"] = json!(cluster);
            }
            Err(found) => problems.extend(found),
        }
    } else if let Some(text) = &tf_config {
        match TfConfig::parse(text) {
            Ok(config) => {
                place = json!({
                    "cluster": config.cluster, "task": {"type": config.task.role, "index": config.task.index},
                    "is_chief": config.is_chief(), "num_worker_replicas": config.num_worker_replicas(),
                    "num_ps_replicas": config.num_ps_replicas(), "global_id_in_cluster": config.global_id_in_cluster(),
                    "model_dir": config.model_dir, "service": config.service,
                });
            }
            Err(problem) => problems.push(problem),
        }
    }
    let mut lines = Vec::new();
    let mut warnings = job
        .as_ref()
        .map_or(Vec::new(), |job| job.warnings().to_vec());
    warnings.extend(job.iter().flat_map(Job::warnings_of_folders));
    if let Some(job) = &job {
        match build(job) {
            Ok(model) => {
                check_inputs(job, &*model, &mut lines, &mut problems);
                look_at_space(job, &*model, &mut lines, &mut problems);
                lines.extend(limits(job, &*model));
                warnings.extend(small_limits());
                warnings.extend(check_model_dir(job, &*model, &mut lines, &mut problems));
                problems.extend(trainyard_evaluator::check_metrics(job, &*model).err());
                lines.push(("defaults".to_owned(), defaults_told(job, &*model)));
                warnings.extend(slow_rows(job, &*model));
                check_warm_start(job, &*model, &mut lines, &mut problems);
            }
            Err(error) => problems.push(error.into()),
        }
    }
    // Records that training leaves out end no job.
    let (told, problems): (Vec<_>, Vec<_>) = problems
        .into_iter()
        .partition(|found| found.severity == Severity::Warning);
    warnings.extend(told);
    if !problems.is_empty() {
        return Err(problems);
    }
    if let Some(job) = &job {
        let found = look_at_data(job).map_err(|problem| vec![problem])?;
        lines.extend(found.lines);
        warnings.extend(found.warnings);
    }
    if warnings
        .iter()
        .any(|found| found.severity == Severity::Error)
    {
        warnings.sort_by_key(|found| found.severity != Severity::Error);
        return Err(warnings);
    }
    let printed = match arguments.format {
        Format::Json => {
            let found = Found {
                ok: true,
                job: job.as_ref(),
                place,
                warnings: warnings.iter().map(Diagnostic::to_json).collect(),
            };
            let text = serde_json::to_string(&found).expect("JSON can express every job");
            print(&format!("{text}\n"))
        }
        Format::Text => {
            let mut text: String = lines
                .iter()
                .map(|(what, found)| format!("ok  {what:<18} {found}\n"))
                .collect();
            if let Some(cluster) = place["cluster"].as_object() {
                text.push_str(&format!("ok  {:<18} {}\n", "cluster", cluster["tasks"]));
            }
            let printed = print(&text);
            trainyard_daemon::report(&warnings, arguments.job.log_format);
            printed
        }
    };
    printed.map_err(|problem| vec![problem])
}

/// Reads the first records of each input of a job, and adds a line or the problems of each.
pub(crate) fn check_inputs(
    job: &Job,
    model: &AnyModel,
    lines: &mut Vec<(String, String)>,
    problems: &mut Vec<Diagnostic>,
) {
    let mut parts = vec![(Part::Train, "training input".to_owned())];
    if job.input.eval.is_some() {
        parts.push((Part::Eval, "evaluation input".to_owned()));
    }
    let further = job.evaluations.iter().enumerate();
    parts.extend(
        further.map(|(place, one)| (Part::Evaluation(place), format!("evaluation {}", one.name))),
    );
    for (part, name) in parts {
        match input_options(job, part, Shard::WHOLE, None) {
            Ok(options) => {
                let found = trainyard_input::check(&options, model.schema(), ROWS);
                if found.errors.is_empty() && found.bad.is_empty() {
                    lines.push((
                        name,
                        format!(
                            "{}: the first {ROWS} records of each file are good",
                            named(&options.files)
                        ),
                    ));
                }
                problems.extend(told(job, found).take(20));
            }
            Err(problem) => problems.push(problem),
        }
    }
}

/// Names the first file, and counts the others.
fn named(files: &[PathBuf]) -> String {
    match files {
        [] => "no file".to_owned(),
        [file] => file.display().to_string(),
        [first, others @ ..] => format!("{} and {} more", first.display(), others.len()),
    }
}

/// Returns one diagnostic for each kind of mistake in the records, with its cure.
fn told(job: &Job, found: Checked) -> impl Iterator<Item = Diagnostic> {
    let labels: Vec<&LabelConfig> = job.labels().into_iter().map(|(label, _)| label).collect();
    let key = if job.model.tasks.is_empty() {
        "input.label"
    } else {
        "model.task.label"
    };
    let skips = job.input.bad_rows == BadRows::Skip;
    let Checked { read, errors, bad } = found;
    let of_files = errors.into_iter().map(|(error, files)| {
        let problem = Diagnostic::from(error);
        if files > 1 {
            problem.note(format!("the same is wrong with {} more files", files - 1))
        } else {
            problem
        }
    });
    let of_records = bad.into_iter().map(move |Alike { first, count }| {
        let problem = Diagnostic::error(Code::E4004, first.to_string());
        let problem = match count {
            1 => problem,
            count if count == read => problem.note(format!(
                "all {read} records of the sample have this problem"
            )),
            count => problem.note(format!(
                "{count} of {read} records of the sample have this problem"
            )),
        };
        let share = if count == read {
            BadShare::All
        } else {
            BadShare::Some
        };
        if skips && share == BadShare::Some {
            return Diagnostic {
                severity: Severity::Warning,
                ..problem.help("training leaves such records out, by input.bad_rows = \"skip\"")
            };
        }
        problem.help(cure((&labels, key), &first, share))
    });
    of_files.chain(of_records)
}

/// Share of bad records among those that were looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BadShare {
    /// All of them: then the job is wrong, not the records.
    All,
    Some,
}

/// Returns the cure for bad records, given the labels and the key that has them.
fn cure((labels, key): (&[&LabelConfig], &str), first: &BadRow, share: BadShare) -> String {
    let is_text = first.reason.ends_with("is not a number");
    let is_without_texts = |label: &&&LabelConfig| {
        first.column.as_ref() == Some(&label.column)
            && label.positive.is_none()
            && label.vocabulary.is_none()
    };
    if is_text && labels.iter().any(|label| is_without_texts(&label)) {
        return format!(
            "the label is a text: name the positive class with {key}.positive, or all classes in their order with \
             {key}.vocabulary"
        );
    }
    match first.cause() {
        Some(cause) => cause,
        None if share == BadShare::All => {
            "correct the job: the kind, the shape or the column of the feature, or the input's delimiter"
                .to_owned()
        }
        None => first.help(),
    }
}

/// Compares the job with the first records of its input files.
fn look_at_data(job: &Job) -> Result<Findings, Diagnostic> {
    let extent = Extent::OfEachFile(ROWS as u64);
    let input = input_options(job, Part::Train, Shard::WHOLE, None)?;
    let training = match profile(&input, extent) {
        Ok(training) => training,
        // The columns that the job reads were checked before, so another one has two columns of its name.
        Err(problem) if problem.code == Code::E4003 => {
            return Ok(Findings {
                warnings: vec![Diagnostic {
                    severity: Severity::Warning,
                    ..problem
                }],
                ..Findings::default()
            });
        }
        Err(problem) => return Err(problem),
    };
    let mut findings = look(job, &training);
    findings.warnings.extend(look_at_length(job, &training));
    findings
        .warnings
        .extend(warn_of_folder_columns(&input.files, &training));
    match compare_times_of_training(job, usize::MAX) {
        Ok(warnings) => findings.warnings.extend(warnings),
        Err(problem) => findings.warnings.push(problem),
    }
    if let Some(eval) = &job.input.eval {
        let evaluation = input_options(job, Part::Eval, Shard::WHOLE, None)?;
        let found = look_at_labels_of_evaluation(job, &profile(&evaluation, extent)?);
        findings.lines.extend(found.lines);
        findings.warnings.extend(found.warnings);
        match compare_times_of_evaluations(job) {
            Ok(warnings) => findings.warnings.extend(warnings),
            Err(problem) => findings.warnings.push(problem),
        }
        // Files of both inputs have a warning of their own.
        if files_in_both(job, eval).unwrap_or_default().is_empty() {
            let repeated = repeated_rows(&input, &evaluation, extent)?;
            findings.warnings.extend(repeated);
        }
    }
    Ok(findings)
}

/// Checks the disk, and adds a line of the model and of the disk, or the problem.
fn look_at_space(
    job: &Job,
    model: &AnyModel,
    lines: &mut Vec<(String, String)>,
    problems: &mut Vec<Diagnostic>,
) {
    let bytes = CheckpointBytes::of(model);
    let variables = model.variables().len();
    lines.push((
        "model".to_owned(),
        format!("{variables} variables, {}", bytes.told()),
    ));
    match check_space(job, bytes) {
        Ok(space) => {
            lines.extend(space.line.map(|line| ("space".to_owned(), line)));
            problems.extend(space.warning);
        }
        Err(problem) => problems.push(problem),
    }
}

/// Checks that the checkpoints of the model directory belong to this model, and describes the state of the job there.
/// Returns a warning if another job has trained them.
fn check_model_dir(
    job: &Job,
    model: &AnyModel,
    lines: &mut Vec<(String, String)>,
    problems: &mut Vec<Diagnostic>,
) -> Option<Diagnostic> {
    let folder = &job.model_dir;
    let mut warning = None;
    let mut look = || -> Result<String, Diagnostic> {
        if !is_remote(folder) {
            check_folder(folder)?;
        }
        let checkpoints = list(folder)?;
        let Some(latest) = checkpoints.last() else {
            return Ok(format!(
                "{} holds no checkpoint: training starts from the beginning",
                folder.display()
            ));
        };
        let checkpoint = Checkpoint::open(&latest.path)?;
        problems.extend(misfit(
            checkpoint.manifest(),
            model.variables(),
            &model.optimizers(),
        ));
        if checkpoint.manifest().global_step > 0 {
            warning = other_job(job, &checkpoint.manifest().job, &OF_SCORES);
        }
        let count = checkpoints.len();
        let step = latest.step;
        let stands = match JobState::read(folder)? {
            Some(state) if state.phase == JobPhase::Done => {
                match job.train.max_steps.filter(|most| *most > step) {
                    Some(most) => format!("the job was done: it continues to step {most}"),
                    None if step == 0 => "the job is done, and no batch has updated its model: correct the job, and train in another model_dir"
                        .to_owned(),
                    None => "the job is done: a larger train.max_steps or input.train.epochs continues it"
                        .to_owned(),
                }
            }
            Some(state) if state.phase == JobPhase::Failed => {
                format!(
                    "the job continues from there; it had failed: {}",
                    state.reason
                )
            }
            _ => "training continues from there".to_owned(),
        };
        let checkpoints = if count == 1 {
            "checkpoint"
        } else {
            "checkpoints"
        };
        Ok(format!(
            "{} holds {count} {checkpoints}, the latest of step {step}: {stands}",
            folder.display()
        ))
    };
    match look() {
        Ok(found) => lines.push(("model_dir".to_owned(), found)),
        Err(problem) => problems.push(problem),
    }
    warning
}

/// Says whose defaults a job has, and which optimizers they and its own keys come to.
fn defaults_told(job: &Job, model: &AnyModel) -> String {
    let optimizers = model.optimizers();
    let mut told: Vec<String> = optimizers
        .iter()
        .filter(|(group, _)| !RULES_OF_THE_MODEL.contains(&group.as_str()))
        .map(|(group, config)| format!("{group} {}", optimizer_told(config)))
        .collect();
    told.push(
        match job.model.loss_reduction {
            LossReduction::Sum => "the summed loss of a batch",
            LossReduction::SumOverBatchSize => "the mean loss of a batch",
        }
        .to_owned(),
    );
    format!(
        "of {}, and so: {}",
        job.model.defaults.name(),
        told.join("; ")
    )
}

/// Returns an optimizer with what differs most from one to another.
fn optimizer_told(config: &OptimizerConfig) -> String {
    let json = serde_json::to_value(config).expect("JSON can express every optimizer");
    let mut text = json["kind"].as_str().unwrap_or_default().to_owned();
    text += &match config.learning_rate() {
        LearningRate::Constant(rate) => format!(" at {rate}"),
        LearningRate::Scheduled(_) => " by a schedule".to_owned(),
    };
    if let OptimizerConfig::Adam(adam) = config
        && adam.lazy
    {
        text += ", lazy";
    }
    if let Some(accumulator) = accumulator(config) {
        text += &format!(", accumulators from {accumulator}");
    }
    text
}

/// Returns the first value of the sum of squared gradients.
fn accumulator(config: &OptimizerConfig) -> Option<f32> {
    match config {
        OptimizerConfig::Adagrad(rule) => Some(rule.initial_accumulator_value),
        OptimizerConfig::ProximalAdagrad(rule) => Some(rule.initial_accumulator_value),
        OptimizerConfig::Ftrl(rule) => Some(rule.initial_accumulator_value),
        OptimizerConfig::AdagradDa(rule) => Some(rule.initial_gradient_squared_accumulator_value),
        _ => None,
    }
}

/// Groups of variables that no optimizer of the job updates.
const RULES_OF_THE_MODEL: [&str; 2] = [FROZEN, MOVING_AVERAGE];

/// Least part of its learning rate by which the row of an id should move that one record of a batch has.
const SHARE_OF_RATE_MIN: f64 = 0.01;

/// Warns of tables whose rare rows stay where they began. With a mean loss, a row that one record of a batch has gets a gradient of
/// about 0.5 / batch, and its first step is `rate * gradient / sqrt(accumulator + gradient^2)`.
fn slow_rows(job: &Job, model: &AnyModel) -> Vec<Diagnostic> {
    if job.model.loss_reduction == LossReduction::Sum {
        return Vec::new();
    }
    let batch = job.input.train.batch_size;
    let gradient = 0.5 / batch.max(1) as f64;
    let optimizers = model.optimizers();
    let slow = optimizers.iter().filter_map(|(group, config)| {
        let accumulator = accumulator(config)?;
        let is_table = |spec: &&VariableSpec| {
            spec.optimizer_group == *group && spec.access != Access::Whole
        };
        let table = model.variables().iter().find(is_table)?;
        let share = gradient / (f64::from(accumulator) + gradient * gradient).sqrt();
        (share < SHARE_OF_RATE_MIN).then(|| {
            let message = format!(
                "a row of `{}` that one record of a batch of {batch} has moves by {:.1} % of its learning rate at first: the loss is \
                 a mean, and the accumulators begin at {accumulator}",
                table.name,
                100.0 * share
            );
            Diagnostic::warning(Code::E4005, message).help(format!(
                "set initial_accumulator_value = 1e-4 in the optimizer of the {group} part, or model.loss_reduction = \"sum\" as in \
                 TensorFlow 1; without an optimizer in the job, the defaults fit"
            ))
        })
    });
    slow.collect()
}

/// Checks that the values exist from which training would start. A run whose model directory has a checkpoint goes on from that.
fn check_warm_start(
    job: &Job,
    model: &AnyModel,
    lines: &mut Vec<(String, String)>,
    problems: &mut Vec<Diagnostic>,
) {
    let Some(start) = &job.train.warm_start else {
        return;
    };
    // A model directory that cannot be read is told by its own check.
    let is_begun = list(&job.model_dir).is_ok_and(|found| !found.is_empty());
    if is_begun {
        let found = "not read: training continues from the checkpoint of model_dir";
        lines.push(("train.warm_start".to_owned(), found.to_owned()));
    } else {
        problems.extend(find_warm_start(job, start, model.variables()).err());
    }
}

/// Checks that the ports of this machine are free.
fn check_ports(cluster: &ClusterSpec, problems: &mut Vec<Diagnostic>) {
    for (task, address) in &cluster.tasks {
        if task.role != Role::Evaluator
            && address.starts_with("127.0.0.1:")
            && let Err(error) = std::net::TcpListener::bind(address)
        {
            let message = format!("{task} cannot listen on {address}: {error}");
            problems.push(
                Diagnostic::error(Code::E2001, message)
                    .help("stop the other program, or choose another port"),
            );
        }
    }
}
