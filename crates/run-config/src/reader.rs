//! Parser of job files, from text to [`Job`].

use std::path::Path;

use trainyard_diagnostic::{Code, Diagnostic, Document, Place, Problems, Section};
use trainyard_storage::read_regular_text;

use crate::analysis::FilesNeeded;
use crate::job::{Analyses, Warnings, Written};
use crate::keys::TopKeys;
use crate::section::input::Labels;
use crate::without_effect::warn_of_idle_keys;
use crate::{HeadKind, Job, StrategyKind, foreign_names, section};

/// Longest job file, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

impl Job {
    /// Reads a job file, and applies `overrides` (`section.key=value`).
    ///
    /// # Errors
    /// Returns every mistake in the file and the overrides.
    pub fn load(path: &Path, overrides: &[String]) -> Result<Self, Vec<Diagnostic>> {
        Self::load_with(path, overrides, FilesNeeded::Now)
    }

    /// Reads a job file as [`Job::load`] does, before its analysis: files that [`Job::analyses`] describes need not be there, and
    /// features have values that stand for theirs.
    ///
    /// # Errors
    /// Returns every other mistake in the file and the overrides.
    pub fn load_before_analysis(
        path: &Path,
        overrides: &[String],
    ) -> Result<Self, Vec<Diagnostic>> {
        Self::load_with(path, overrides, FilesNeeded::NotYet)
    }

    fn load_with(
        path: &Path,
        overrides: &[String],
        needs: FilesNeeded,
    ) -> Result<Self, Vec<Diagnostic>> {
        let text = read_regular_text(path, FILE_BYTES_MAX).map_err(|error| {
            let message = format!("job file {} cannot be read: {error}", path.display());
            vec![
                Diagnostic::error(Code::E1201, message)
                    .help("give the path of a job file, such as configs/iris.toml"),
            ]
        })?;
        Self::parse_with(path, &text, overrides, needs)
    }

    /// Parses the text of a job file. `path` is used in messages, and to resolve relative files.
    ///
    /// # Errors
    /// Returns every mistake in the text and the overrides.
    pub fn parse(path: &Path, text: &str, overrides: &[String]) -> Result<Self, Vec<Diagnostic>> {
        Self::parse_with(path, text, overrides, FilesNeeded::Now)
    }

    fn parse_with(
        path: &Path,
        text: &str,
        overrides: &[String],
        needs: FilesNeeded,
    ) -> Result<Self, Vec<Diagnostic>> {
        let mut document = Document::parse(path, text)?;
        let problems = Problems::with_hint(foreign_names::hint);
        let key = |assignment: &String| {
            assignment
                .split('=')
                .next()
                .map(str::trim)
                .map(str::to_owned)
        };
        for (place, assignment) in overrides.iter().enumerate() {
            let earlier = overrides[..place]
                .iter()
                .find(|other| key(other) == key(assignment));
            if let Some(earlier) = earlier {
                let message =
                    format!("--set gives one key twice: `{assignment}` replaces `{earlier}`");
                let warning = Diagnostic::warning(Code::E1006, message);
                problems.warn(warning.help("leave one of them out"));
            }
            document
                .set(assignment)
                .unwrap_or_else(|problem| problems.push(problem));
        }
        let place = Place::Named(path.display().to_string());
        let root = || Section::new("", &document.root, Some(place.clone()), &problems);
        let job = read(path, root(), needs);
        if let Some(job) = job.as_ref().filter(|_| problems.is_empty()) {
            warn_of_idle_keys(&root(), job);
        }
        let job = job.map(|job| Job {
            written: Written(document.clone()),
            warnings: Warnings(problems.take_warnings()),
            ..job
        });
        let found = problems.into_vec();
        match job {
            Some(job) if found.is_empty() => Ok(job),
            _ if found.is_empty() => {
                let message = format!("job file {} could not be read", path.display());
                Err(vec![
                    Diagnostic::error(Code::E9001, message)
                        .help("this is a fault in the reader, not in the file"),
                ])
            }
            _ => Err(found),
        }
    }
}

fn read(path: &Path, root: Section<'_>, needs: FilesNeeded) -> Option<Job> {
    let top = TopKeys::read_keys(&root)?;
    let run = section::run::read(root.section_or_empty("run"));
    let model = match root.section("model") {
        Some(model) => section::model::read(model),
        None => {
            root.missing_section("model", "[model]", "kind = \"dnn_classifier\"");
            None
        }
    };
    let input = match root.section("input") {
        Some(input) => {
            let tasks = model.as_ref().map_or(&[][..], |model| &model.tasks);
            let labels = if section::model::has_tasks(&root) {
                Labels::OfTasks(tasks)
            } else {
                Labels::OfInput
            };
            section::input::read(input, labels)
        }
        None => {
            root.missing_section("input", "[input]", "format = \"csv\"");
            None
        }
    };
    let kind = model.as_ref().map(|model| model.kind);
    let (features, analyses) =
        section::feature::read_all(path, &root, kind, input.as_ref(), needs).unzip();
    let train = section::train::read(root.section_or_empty("train"));
    let eval = section::eval::read(root.section_or_empty("eval"));
    let evaluations = section::evaluation::read_all(&root);
    let exporters = section::exporter::read_all(&root);
    let strategy = section::strategy::read(root.section_or_empty("strategy"));
    let parameter_servers =
        section::parameter_servers::read(root.section_or_empty("parameter_servers"));
    let publish = section::publish::read(root.section_or_empty("publish"));
    let mut features = features;
    if let (Some(model), Some(features)) = (&model, &mut features) {
        section::feature::settle_initial_values(&root, model, features);
        section::attention::settle(&root, model, features);
    }
    let mut model = model;
    if let (Some(model), Some(input)) = (&mut model, &input) {
        section::model::settle(&root, model, input);
        section::input::check_classes(&root, model, input);
    }
    if let (Some(input), Some(strategy)) = (&input, &strategy) {
        section::strategy::settle(&root, strategy, input);
    }
    if let (Some(input), Some(train)) = (&input, &train)
        && input.train.epochs.is_none()
        && train.max_steps.is_none()
        && train.early_stopping.is_none()
        // An invalid bound has been reported already.
        && root.problems().is_empty()
    {
        let message = "training would never end: set train.max_steps, input.train.epochs or [train.early_stopping]";
        root.problems().push(
            Diagnostic::error(Code::E1005, message).help("for example --set train.max_steps=1000"),
        );
    }
    if let (Some(input), Some(train)) = (&input, &train)
        && input.eval.is_none()
    {
        let rules = [
            ("early_stopping", train.early_stopping.is_some()),
            ("reduce_on_plateau", train.reduce_on_plateau.is_some()),
        ];
        for (rule, _) in rules.into_iter().filter(|(_, is_given)| *is_given) {
            let message = format!(
                "[train.{rule}] goes by evaluations, and the job has no section [input.eval]"
            );
            root.problems().push(
                Diagnostic::error(Code::E1005, message).help("add it, with files = [\"eval.csv\"]"),
            );
        }
    }
    if let (Some(strategy), Some(train)) = (&strategy, &train)
        && train.reduce_on_plateau.is_some()
        && (strategy.kind.is_mirrored() || strategy.kind == StrategyKind::Mirrored)
    {
        let message = format!(
            "[train.reduce_on_plateau] needs parameters that servers or one process update, and under strategy.kind = \"{}\" \
             every worker updates its own copy",
            strategy.kind.name()
        );
        root.problems().push(Diagnostic::error(Code::E1006, message).help(
            "use kind = \"parameter_server\", \"central_storage\" or \"one_device\", or a schedule of the learning rate by steps",
        ));
    }
    if let (Some(model), Some(eval)) = (&model, &eval)
        && model.head == HeadKind::Binary
        && !model.top_k.is_empty()
        && eval.group_auc_column.is_none()
    {
        let message =
            "top_k of a binary head counts the highest of each group, and the job names no groups";
        root.problems().push(
            Diagnostic::error(Code::E1005, message)
                .help("set eval.group_auc_column, for example to the user's column"),
        );
    }
    if let (Some(model), Some(evaluations)) = (&model, &evaluations) {
        section::task::check_evaluations(&root, &model.tasks, evaluations);
    }
    if section::model::has_tasks(&root) {
        section::task::refuse_groups(&root);
    }
    if let (Some(input), Some(evaluations)) = (&input, &evaluations)
        && input.eval.is_none()
        && !evaluations.is_empty()
    {
        let message = "[[evaluation]] comes on top of the evaluation of [input.eval], and the job has no such section";
        root.problems().push(
            Diagnostic::error(Code::E1005, message).help("add it, with files = [\"eval.csv\"]"),
        );
    }
    root.finish();
    Some(Job {
        path: path.to_owned(),
        model_dir: top.model_dir?.into(),
        local_dir: top.local_dir.map(Into::into),
        run: run?,
        input: input?,
        features: features?,
        model: model?,
        train: train?,
        eval: eval?,
        evaluations: evaluations?,
        exporters: exporters?,
        strategy: strategy?,
        parameter_servers: parameter_servers?,
        publish: publish?,
        written: Written::default(),
        warnings: Warnings::default(),
        analyses: Analyses(analyses.unwrap_or_default()),
    })
}
