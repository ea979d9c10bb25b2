//! Warnings about keys that are read and change nothing, because another key of the job decides.

use std::fmt::Display;
use std::ops::RangeInclusive;

use regex::Regex;
use trainyard_diagnostic::{Code, Diagnostic, Problems, Section};
use trainyard_storage::is_remote;

use self::length::{Length, warn_by_length};
use self::reach::{OF_CLIPPING, OF_PLATEAU, warn_of_tables};
use crate::metric::{bounds, of_no_learning};
mod length;
mod reach;

use crate::{
    BadRows, Deep, Durability, EarlyStoppingConfig, Embedding, ExporterKind, HeadKind, Job,
    StrategyKind, Update,
};

/// Keys of one table of a job that other keys may make idle.
struct Row {
    /// Path of the table.
    table: &'static [&'static str],
    keys: &'static [&'static str],
    /// Returns what the keys do in a job instead of what they say, as the end of a sentence; `None` where they have their effect.
    outcome: fn(&Job) -> Option<String>,
}

/// Keys that a strategy ignores.
const BY_STRATEGY: [Row; 6] = [
    Row {
        table: &["parameter_servers"],
        keys: &["guard"],
        // Gradients of a batch are on their way before all of them are known.
        outcome: |job| {
            let halts = "training ends at the first gradient that is no number";
            nothing_if(!has_guard(job), format!("{}: {halts}", under(job)))
        },
    },
    Row {
        table: &["strategy"],
        keys: &["payload"],
        outcome: |job| {
            let is_alone = is_in_one_process(job.strategy.kind);
            nothing_if(is_alone, format!("{}, which has no network", under(job)))
        },
    },
    Row {
        table: &["strategy"],
        keys: &["partitioner", "placement"],
        outcome: without_servers,
    },
    Row {
        table: &["parameter_servers"],
        keys: &[
            "durability",
            "shared_memory_bytes_max",
            "log_bytes_max",
            "memory_bytes_max",
        ],
        outcome: without_servers,
    },
    Row {
        table: &["strategy"],
        keys: &["scale_learning_rate"],
        outcome: |job| {
            let is_alone = job.strategy.kind == StrategyKind::OneDevice;
            let scales = job.strategy.scale_learning_rate;
            let why = format!("{}: a step is one batch", under(job));
            nothing_if(is_alone && scales, why)
        },
    },
    Row {
        table: &["run"],
        keys: &["session_creation_timeout_secs"],
        outcome: |job| {
            let is_alone = is_in_one_process(job.strategy.kind);
            nothing_if(
                is_alone,
                format!("{}, which has no other tasks", under(job)),
            )
        },
    },
];

/// Exclusive bound on the absolute values of gradients, whatever a job says: 2^50, as in `parameter-store/src/gradients.rs`.
const GRADIENT_ABS_BOUND: f32 = 1_125_899_906_842_624.0;

/// Bounds of the guard that no gradient reaches.
const OF_GUARD: [Row; 1] = [Row {
    table: &["parameter_servers", "guard"],
    keys: &["max_abs"],
    outcome: |job| {
        let max_abs = job.parameter_servers.guard.bounds.max_abs?;
        let is_beyond = has_guard(job) && max_abs >= GRADIENT_ABS_BOUND;
        let why = format!("at {max_abs:e}: no gradient of 2^50, about 1.1e15, or more is accepted");
        nothing_if(is_beyond, why)
    },
}];

/// Keys of what is kept on disk, where everything or nothing is.
const OF_STORAGE: [Row; 2] = [
    Row {
        table: &["run"],
        keys: &["keep_checkpoint_every_n_hours"],
        outcome: |job| {
            let keeps_all = job.run.keep_checkpoint_max == 0;
            nothing_if(keeps_all, "with keep_checkpoint_max = 0, which keeps all")
        },
    },
    Row {
        table: &["parameter_servers"],
        keys: &["shared_memory_bytes_max", "log_bytes_max"],
        outcome: |job| {
            let has_servers = without_servers(job).is_none();
            let why = "with durability = \"none\", which keeps no log";
            nothing_if(has_servers && !has_log(job), why)
        },
    },
];

/// Keys of the input that others of them, or the model's head, make idle.
const OF_INPUT: [Row; 6] = [
    Row {
        table: &["input"],
        keys: &["bad_rows_max"],
        outcome: |job| {
            let fails = job.input.bad_rows == BadRows::Fail;
            nothing_if(fails, "with bad_rows = \"fail\"")
        },
    },
    Row {
        table: &["input"],
        keys: &["bad_rows_max"],
        outcome: |job| {
            let skips = job.input.bad_rows == BadRows::Skip;
            (skips && job.input.bad_rows_max == 0).then(|| {
                "is 0, and the first bad row ends a task, as with bad_rows = \"fail\"".to_owned()
            })
        },
    },
    Row {
        table: &["input"],
        keys: &["missing"],
        outcome: |job| of_blanks(job, &job.input.missing.everywhere),
    },
    Row {
        table: &["input"],
        keys: &["missing_of"],
        outcome: |job| of_blanks(job, job.input.missing.of_columns.values().flatten()),
    },
    Row {
        table: &["input", "train"],
        keys: &["shuffle_rows"],
        outcome: |job| {
            let is_one = job.input.train.shuffle_rows == 1;
            nothing_if(is_one, "at 1: one record has one order")
        },
    },
    Row {
        table: &["input", "label"],
        keys: &["separator"],
        outcome: |job| {
            let has_several = job.model.head == HeadKind::MultiLabel
                || !job.model.head.has_classes() && job.model.label_dimension > 1;
            nothing_if(!has_several, "without several labels in a field")
        },
    },
];

/// Keys of the model, and of evaluations, that the model's head does not have.
const BY_HEAD: [Row; 5] = [
    Row {
        table: &["model"],
        keys: &["thresholds"],
        outcome: |job| {
            let of_heads = [HeadKind::Binary, HeadKind::MultiLabel];
            nothing_if(!of_heads.contains(&job.model.head), for_head(job))
        },
    },
    Row {
        table: &["model"],
        keys: &["classes_for_class_based_metrics"],
        outcome: |job| nothing_if(job.model.head != HeadKind::MultiLabel, for_head(job)),
    },
    Row {
        table: &["model"],
        keys: &["n_classes"],
        outcome: |job| nothing_if(!job.model.head.has_classes(), for_head(job)),
    },
    Row {
        table: &["model"],
        keys: &["label_dimension"],
        outcome: |job| nothing_if(job.model.head.has_classes(), for_head(job)),
    },
    Row {
        table: &["eval"],
        keys: &["group_auc_column"],
        outcome: |job| {
            // A custom model may have metrics of its own.
            let has_groups = job.model.head == HeadKind::Binary || job.model.kind.is_custom();
            nothing_if(!has_groups, for_head(job))
        },
    },
];

fn for_head(job: &Job) -> String {
    format!("for a {} head", job.model.head.name())
}

/// Keys of the parts of a model that a job does not give it.
const OF_MODEL: [Row; 4] = [
    Row {
        table: &["model"],
        keys: &["batch_norm"],
        outcome: |job| {
            let is_alone = job.model.batch_norm && job.input.train.batch_size == 1;
            is_alone.then(|| {
                "makes 0 of every hidden unit with input.train.batch_size = 1: a value less the mean of its batch, which is itself. The \
                 hidden layers learn nothing of the records"
                    .to_owned()
            })
        },
    },
    Row {
        table: &["model"],
        keys: &["activation", "dropout", "batch_norm"],
        outcome: |job| {
            let kind = job.model.kind;
            let has_none = job.model.hidden_units.is_empty() && job.model.tower_units.is_empty();
            let is_idle = kind.has_dnn() && !kind.is_custom() && has_none;
            nothing_if(is_idle, "without hidden_units")
        },
    },
    Row {
        table: &["model"],
        keys: &["embedding_initializer"],
        outcome: |job| {
            let of_model = &job.model.embedding_initializer;
            let has_taken = |embedding: &Embedding| embedding.initializer == *of_model;
            without_embedding(job, has_taken)
        },
    },
    Row {
        table: &["model"],
        keys: &["embedding_regularizer"],
        outcome: |job| {
            let of_model = job.model.embedding_regularizer;
            // Training does not change a frozen embedding, so no penalty does.
            let has_taken =
                |embedding: &Embedding| embedding.trainable && embedding.regularizer == of_model;
            without_embedding(job, has_taken)
        },
    },
];

/// Returns the outcome of a key of embeddings if no embedding has taken its value. A kind of model without embeddings does not use
/// the key at all, and the program of a custom model may read it.
fn without_embedding(job: &Job, has_taken: impl Fn(&Embedding) -> bool) -> Option<String> {
    let kind = job.model.kind;
    let is_taken = job.features.iter().any(
        |feature| matches!(&feature.deep, Some(Deep::Embedding(embedding)) if has_taken(embedding)),
    );
    let is_idle = kind.has_deep() && !kind.is_custom() && !is_taken;
    nothing_if(is_idle, "without an embedding that names none of its own")
}

/// Keys of evaluations in a job that evaluates nothing. `trainyard evaluate` takes files of its own, and `eval.steps` of them.
const OF_EVALUATIONS: [Row; 3] = [
    Row {
        table: &["eval"],
        keys: &["start_delay_secs", "throttle_secs", "on_training_data"],
        outcome: without_evaluations,
    },
    Row {
        table: &["eval"],
        keys: &["every_checkpoint"],
        outcome: |job| {
            let waits = job.eval.every_checkpoint && job.input.eval.is_none();
            waits.then(|| {
                "keeps checkpoints for evaluations: without [input.eval] there are none".to_owned()
            })
        },
    },
    Row {
        table: &[],
        keys: &["exporter"],
        outcome: without_evaluations,
    },
];

fn without_evaluations(job: &Job) -> Option<String> {
    nothing_if(job.input.eval.is_none(), "without [input.eval]")
}

/// Path of the table of early stopping.
const EARLY_STOPPING: &[&str] = &["train", "early_stopping"];

/// Bounds of early stopping that no evaluation reaches, and keys of bounds that are not there.
const OF_EARLY_STOPPING: [Row; 4] = [
    Row {
        table: EARLY_STOPPING,
        keys: &["min_delta"],
        outcome: |job| {
            let is_compared = compares_with_best(job.train.early_stopping.as_ref()?);
            let of_improvement =
                "max_evaluations_without_improvement or max_steps_without_improvement";
            nothing_if(!is_compared, format!("without {of_improvement}"))
        },
    },
    Row {
        table: EARLY_STOPPING,
        keys: &["min_delta"],
        outcome: |job| {
            let stopping = job.train.early_stopping.as_ref()?;
            compares_with_best(stopping).then_some(())?;
            wider_than_range(job, &stopping.metric, stopping.min_delta)
        },
    },
    Row {
        table: EARLY_STOPPING,
        keys: &["stop_at"],
        // On the other side of its range, a bound ends training at the first evaluation.
        outcome: |job| {
            let stopping = job.train.early_stopping.as_ref()?;
            let metric = &stopping.metric;
            let range = bounds(metric, &job.model)?;
            let stop_at = stopping.stop_at?;
            let is_beyond = if stopping.higher_is_better {
                stop_at > *range.end()
            } else {
                stop_at < *range.start()
            };
            nothing_if(
                is_beyond,
                format!("at {stop_at}: `{metric}` is {}", shown(&range)),
            )
        },
    },
    Row {
        table: EARLY_STOPPING,
        keys: &["stop_at"],
        outcome: |job| {
            let stopping = job.train.early_stopping.as_ref()?;
            let metric = &stopping.metric;
            let stop_at = stopping.stop_at?;
            let of_nothing = of_no_learning(metric, &job.model)?;
            let is_reached = if stopping.higher_is_better {
                stop_at <= of_nothing
            } else {
                stop_at >= of_nothing
            };
            is_reached.then(|| {
                format!(
                    "is {stop_at}, which ends training at its first evaluation: a model that has learnt nothing may have the `{metric}` {of_nothing:.4}"
                )
            })
        },
    },
];

/// Names of variables that the initial values leave out.
const OF_WARM_START: [Row; 1] = [Row {
    table: &["train", "warm_start"],
    keys: &["rename"],
    outcome: |job| {
        let start = job.train.warm_start.as_ref()?;
        let pattern = &start.variables;
        let variables = Regex::new(&format!("^(?:{pattern})$")).ok()?;
        let mut renamed = start.rename.iter();
        let (name, _) = renamed.find(|(name, _)| !variables.is_match(name))?;
        Some(format!(
            "does nothing to `{name}`, which variables = \"{pattern}\" leaves out"
        ))
    },
}];

/// Returns whether evaluations end training that are no better than the best one.
fn compares_with_best(stopping: &EarlyStoppingConfig) -> bool {
    stopping.max_evaluations_without_improvement.is_some()
        || stopping.max_steps_without_improvement.is_some()
}

/// Returns the outcome of an improvement that is wider than the range of its metric.
fn wider_than_range(job: &Job, metric: &str, min_delta: f64) -> Option<String> {
    let range = bounds(metric, &job.model)?;
    (min_delta >= range.end() - range.start()).then(|| {
        format!(
            "is {min_delta}, and no evaluation is better than the first: `{metric}` is {}",
            shown(&range)
        )
    })
}

/// Returns a range of a metric for a message.
fn shown(range: &RangeInclusive<f64>) -> String {
    if range.end().is_finite() {
        format!("from {} to {}", range.start(), range.end())
    } else {
        format!("{} or more", range.start())
    }
}

/// Says which of the texts no field is, because fields are read without the blanks around them.
fn of_blanks<'a>(job: &Job, texts: impl IntoIterator<Item = &'a String>) -> Option<String> {
    // The values of a list keep the blanks around them.
    let mut features = job.features.iter();
    if !job.input.trims() || features.any(|feature| feature.separator.is_some()) {
        return None;
    }
    let is_blank = |text: &&String| text.trim_ascii().len() != text.len();
    let text = texts.into_iter().find(is_blank)?;
    Some(format!(
        "has {text:?}, which no field is: input.trim removes the blanks around the fields"
    ))
}

/// Returns the outcome of keys that do nothing, if they are idle.
fn nothing_if(is_idle: bool, why: impl Display) -> Option<String> {
    is_idle.then(|| format!("does nothing {why}"))
}

/// Keys that a job has for a cluster, in one process. [`BY_STRATEGY`] has those of strategies of one process.
const IN_ONE_PROCESS: [Row; 8] = [
    Row {
        table: &["strategy"],
        keys: &["payload"],
        outcome: |job| nothing_alone(of_cluster(job), "no network"),
    },
    Row {
        table: &["strategy"],
        keys: &["update", "staleness_steps_max"],
        outcome: |job| {
            let has_mode = job.strategy.update.mode != Update::Async;
            nothing_alone(of_cluster(job) && has_mode, "one task")
        },
    },
    Row {
        table: &["strategy"],
        keys: &["scale_learning_rate"],
        outcome: |job| {
            let scales = job.strategy.scale_learning_rate;
            nothing_alone(of_cluster(job) && scales, "one task")
        },
    },
    Row {
        table: &["run"],
        keys: &["session_creation_timeout_secs"],
        outcome: |job| nothing_alone(of_cluster(job), "one task"),
    },
    Row {
        table: &["strategy"],
        keys: &["placement"],
        outcome: |job| nothing_alone(without_servers(job).is_none(), NO_SERVERS),
    },
    Row {
        table: &["parameter_servers"],
        keys: &["memory_bytes_max"],
        outcome: |job| nothing_alone(without_servers(job).is_none(), NO_SERVERS),
    },
    Row {
        table: &["parameter_servers"],
        keys: &["shared_memory_bytes_max", "log_bytes_max"],
        outcome: |job| nothing_alone(has_log(job), NO_SERVERS),
    },
    Row {
        table: &["parameter_servers"],
        keys: &["durability"],
        outcome: |job| {
            let lost = "what its last checkpoint lacks is lost with it";
            nothing_alone(has_log(job), &format!("{NO_SERVERS}: {lost}"))
        },
    },
];

const NO_SERVERS: &str = "no parameter servers";

/// Returns whether the guard of a job may reject a batch.
fn has_guard(job: &Job) -> bool {
    matches!(
        job.strategy.kind,
        StrategyKind::ParameterServer | StrategyKind::OneDevice
    )
}

/// Returns whether the parameter servers of a job keep a log.
fn has_log(job: &Job) -> bool {
    without_servers(job).is_none() && job.parameter_servers.durability != Durability::None
}

/// Returns whether a job may be trained in a cluster.
fn of_cluster(job: &Job) -> bool {
    !is_in_one_process(job.strategy.kind)
}

fn nothing_alone(is_idle: bool, what: &str) -> Option<String> {
    nothing_if(is_idle, format!("in one process, which has {what}"))
}

fn under(job: &Job) -> String {
    format!("under strategy.kind = \"{}\"", job.strategy.kind.name())
}

/// Returns whether everything runs in one process under a strategy.
fn is_in_one_process(kind: StrategyKind) -> bool {
    kind.has_replicas() || kind == StrategyKind::OneDevice
}

fn without_servers(job: &Job) -> Option<String> {
    let kind = job.strategy.kind;
    let has_none = is_in_one_process(kind) || kind == StrategyKind::MultiWorkerMirrored;
    let why = format!("{}, which has no parameter servers", under(job));
    nothing_if(has_none, why)
}

/// Warns about the keys of a job that others of its keys make idle.
pub(crate) fn warn_of_idle_keys(root: &Section<'_>, job: &Job) {
    let tables: [&[Row]; 11] = [
        &BY_STRATEGY,
        &OF_GUARD,
        &OF_STORAGE,
        &OF_MODEL,
        &BY_HEAD,
        &OF_INPUT,
        &OF_EVALUATIONS,
        &OF_EARLY_STOPPING,
        &OF_PLATEAU,
        &OF_CLIPPING,
        &OF_WARM_START,
    ];
    for rows in tables {
        warn_of_rows(root, rows, job);
    }
    warn_of_tables(root, job);
    if let Some(length) = Length::of(job) {
        warn_by_length(root, job, &length);
    }
}

/// Keys of folders, which the command line may change.
const OF_FOLDERS: [Row; 1] = [Row {
    table: &[],
    keys: &["local_dir"],
    outcome: |job| {
        let is_local = !is_remote(&job.model_dir);
        nothing_if(
            is_local,
            "without a model_dir in a bucket: all files are in model_dir",
        )
    },
}];

impl Job {
    /// Returns the further warnings of a job whose `model_dir` is settled, by the job file or the command line.
    pub fn warnings_of_folders(&self) -> Vec<Diagnostic> {
        self.warnings_of(&OF_FOLDERS)
    }

    /// Returns the further warnings of a job that is trained in one process: keys that only tasks of a cluster use.
    pub fn warnings_in_one_process(&self) -> Vec<Diagnostic> {
        let help = "`trainyard up --cluster local:ps=2,worker=1` trains with several tasks";
        let warnings = self.warnings_of(&IN_ONE_PROCESS).into_iter();
        warnings.map(|warning| warning.help(help)).collect()
    }

    /// Returns the further warnings of a job whose passes over the training input have at most this many steps together: keys that
    /// come into play after them. `train.max_steps` within them has its warnings already.
    pub fn warnings_of_passes(&self, steps: u64) -> Vec<Diagnostic> {
        let length = Length::of_passes(self, steps);
        self.warned(|root| {
            if let Some(length) = &length {
                warn_by_length(root, self, length);
            }
        })
    }

    fn warnings_of(&self, rows: &[Row]) -> Vec<Diagnostic> {
        self.warned(|root| warn_of_rows(root, rows, self))
    }

    fn warned(&self, warn: impl FnOnce(&Section<'_>)) -> Vec<Diagnostic> {
        let problems = Problems::default();
        warn(&Section::new("", &self.written.0.root, None, &problems));
        problems.take_warnings()
    }
}

fn warn_of_rows(root: &Section<'_>, rows: &[Row], job: &Job) {
    for row in rows {
        if let Some(outcome) = (row.outcome)(job) {
            warn_at(root, row.table, row.keys, &outcome);
        }
    }
}

/// Warns of the outcome of those keys that are given in the table at `path` of `section`.
fn warn_at(section: &Section<'_>, path: &[&'static str], keys: &[&str], outcome: &str) {
    match path.split_first() {
        None => warn_of(section, keys, outcome),
        Some((table, rest)) => {
            if let Some(inner) = section.section(table) {
                warn_at(&inner, rest, keys, outcome);
            }
        }
    }
}

/// Warns that a key does nothing, for this reason.
pub(crate) fn warn_of_key(section: &Section<'_>, key: &str, why: &str) {
    warn_of(section, &[key], &format!("does nothing {why}"));
}

/// Warns of the outcome of those keys of `section` that are given.
fn warn_of(section: &Section<'_>, keys: &[&str], outcome: &str) {
    let is_given = |key: &&&str| section.keys().any(|given| given == **key);
    for key in keys.iter().filter(is_given) {
        let message = match section.title() {
            "" => format!("`{key}` {outcome}"),
            title => format!("`{key}` of {title} {outcome}"),
        };
        let warning = Diagnostic::warning(Code::E1006, message);
        section.problems().warn(match section.place(key) {
            Some(place) => warning.at(place),
            None => warning,
        });
    }
}

/// Warns about the keys of an exporter that compares nothing.
pub(crate) fn warn_by_trigger(section: &Section<'_>, kind: ExporterKind) {
    if kind != ExporterKind::Best {
        for key in ["metric", "higher_is_better"] {
            warn_of_key(section, key, "without kind = \"best\"");
        }
    }
}
