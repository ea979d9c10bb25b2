//! The job file that `trainyard init` writes, with a comment for each decision.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::json;
use trainyard_input::Profile;
use trainyard_storage::is_remote;

use super::beside;
use super::plan::{FeaturePlan, Kind, Plan, SMALL_ROWS, Scale, Shape, Task};
use super::source::Source;
use super::split::Parts;

/// Most values of a vocabulary in the job file. A longer vocabulary is a file of its own.
const INLINE_VALUES_MAX: usize = 20;

/// Folder of the vocabularies, beside the job file.
const VOCABULARIES: &str = "vocabulary";

/// Examples that training should see: few records are read in several passes.
const EXAMPLES_MIN: u64 = 700_000;

/// Most passes over the data, unless `STEPS_MIN` needs more.
const EPOCHS_MAX: u64 = 20;

/// Fewest steps, however few records there are.
const STEPS_MIN: u64 = 1000;

/// Records from which a larger batch uses the processor better.
const LARGE_ROWS: u64 = 10_000_000;

/// Numbers of an embedding in a factorized model, the same for all features.
const DIMENSION: usize = 16;

/// Batches of a factorized model: a power of two that gives some hundred steps a pass, within these bounds. Larger batches
/// overfit later, and smaller ones need fewer passes.
const FACTORIZED_BATCHES: std::ops::RangeInclusive<u64> = 256..=4096;
const FACTORIZED_STEPS: u64 = 250;

/// Evaluations without a better one that end training: those of four passes. Factors that are 0 at the start need some passes
/// before they show.
const EVALUATIONS_WITHOUT_A_BETTER_ONE: u64 = 8;

/// Most passes of a factorized model, which early stopping ends.
const FACTORIZED_EPOCHS: u64 = 20;

/// Steps between two evaluations of a factorized model: those of half a pass, within these bounds.
const EVALUATION_STEPS: std::ops::RangeInclusive<u64> = 100..=2000;

pub(super) struct JobFile<'a> {
    pub(super) source: &'a Source,
    pub(super) plan: &'a Plan,
    pub(super) parts: &'a Parts,
    pub(super) folder: &'a Path,
    pub(super) profile: &'a Profile,
}

/// Returns a text as TOML. A JSON string is also a TOML string.
fn quoted(text: &str) -> String {
    json!(text).to_string()
}

fn list(texts: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let texts: Vec<String> = texts
        .into_iter()
        .map(|text| quoted(text.as_ref()))
        .collect();
    format!("[{}]", texts.join(", "))
}

/// Returns a number as TOML, with a decimal point, because the key takes floats.
fn float(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() < 1e15 {
        format!("{number:.1}")
    } else {
        format!("{number}")
    }
}

/// Returns a path that means the same in every working folder.
fn whole(path: &Path) -> PathBuf {
    if is_remote(path) {
        return path.to_owned();
    }
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns the vocabularies of a plan that are files: path relative to the job file, and text.
pub(super) fn vocabularies(plan: &Plan) -> Vec<(PathBuf, String)> {
    let mut out = Vec::new();
    for (number, feature) in plan.features.iter().enumerate() {
        if let Kind::Vocabulary { values, .. } = &feature.kind
            && values.len() > INLINE_VALUES_MAX
        {
            out.push((vocabulary_path(number, feature), values.join("\n") + "\n"));
        }
    }
    out
}

impl JobFile<'_> {
    /// Returns the job file.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        self.write_head(&mut text);
        self.write_input(&mut text);
        for (number, feature) in self.plan.features.iter().enumerate() {
            self.write_feature(number, feature, &mut text);
        }
        self.write_model(&mut text);
        text
    }

    fn write_head(&self, text: &mut String) {
        let label = self.plan.label.told();
        let _ = write!(
            text,
            "# Predicts {label}.\n\
             #\n\
             # Written from {} records by `trainyard init`; every line is yours to change. `trainyard stats` shows what the columns hold.\n\n\
             model_dir = {}\n\n\
             [run]\n\
             seed = 1                             # of parameter initialization and shuffling\n",
            self.profile.rows,
            quoted(&whole(&self.folder.join("model")).display().to_string()),
        );
        if self.stops_early() {
            let steps = self.rows() / self.batch_size() / 2;
            let steps = steps.clamp(*EVALUATION_STEPS.start(), *EVALUATION_STEPS.end());
            let _ = writeln!(
                text,
                "save_checkpoints_steps = {steps:<13}# each checkpoint is evaluated\n"
            );
        } else {
            text.push_str("save_checkpoints_secs = 30\n\n");
        }
        if !self.plan.left_out.is_empty() {
            let _ = writeln!(text, "# Columns that are no feature:");
            for (name, why) in &self.plan.left_out {
                let _ = writeln!(text, "#   {}: {why}", quoted(name));
            }
            let _ = writeln!(text);
        }
    }

    fn write_input(&self, text: &mut String) {
        let column = quoted(&self.plan.label.column);
        let label = match &self.plan.label.task {
            Task::Binary {
                positive: Some(positive),
                ..
            } => {
                format!("{{ column = {column}, positive = {} }}", quoted(positive))
            }
            Task::Classes {
                names: Some(names), ..
            } => {
                format!("{{ column = {column}, vocabulary = {} }}", list(names))
            }
            Task::Binary { positive: None, .. }
            | Task::Classes { names: None, .. }
            | Task::Number { .. } => {
                format!("{{ column = {column} }}")
            }
        };
        let _ = writeln!(
            text,
            "[input]\nformat = {}",
            quoted(self.source.format_name())
        );
        if let Some(columns) = &self.parts.columns {
            let _ = writeln!(text, "columns = {}", list(columns));
        }
        for feature in &self.plan.features {
            if let Kind::Pairs { base, .. } = feature.kind {
                let _ = writeln!(text, "index_base = {base}");
            }
        }
        let _ = writeln!(text, "label = {label}\n");
        let files = |files: &[PathBuf]| list(files.iter().map(|file| beside(self.folder, file)));
        let _ = writeln!(
            text,
            "[input.train]\nfiles = {}\nbatch_size = {}\nshuffle_rows = 10_000\nepochs = {}\n",
            files(&self.parts.train),
            self.batch_size(),
            self.epochs()
        );
        if let Some(eval) = &self.parts.eval {
            let _ = writeln!(
                text,
                "[input.eval]\nfiles = {}\nbatch_size = 1024\n",
                files(eval)
            );
        }
    }

    fn rows(&self) -> u64 {
        self.parts.train_rows.unwrap_or(self.profile.rows)
    }

    fn is_factorized(&self) -> bool {
        self.plan.shape == Shape::Factorized
    }

    /// Whether evaluations end training.
    fn stops_early(&self) -> bool {
        self.is_factorized() && self.parts.eval.is_some()
    }

    fn batch_size(&self) -> u64 {
        if self.is_factorized() {
            let batch = (self.rows() / FACTORIZED_STEPS).max(1);
            let power = 1 << batch.ilog2();
            return u64::clamp(
                power,
                *FACTORIZED_BATCHES.start(),
                *FACTORIZED_BATCHES.end(),
            );
        }
        match self.rows() {
            0..SMALL_ROWS => 32,
            SMALL_ROWS..LARGE_ROWS => 128,
            _ => 512,
        }
    }

    fn epochs(&self) -> u64 {
        if self.stops_early() {
            return FACTORIZED_EPOCHS;
        }
        if self.parts.train_rows.is_none() {
            return 1;
        }
        let rows = self.rows().max(1);
        let wanted = (EXAMPLES_MIN / rows).clamp(1, EPOCHS_MAX);
        wanted.max((STEPS_MIN * self.batch_size()).div_ceil(rows))
    }

    fn write_feature(&self, number: usize, feature: &FeaturePlan, text: &mut String) {
        let column = quoted(&feature.column);
        let has_wide = self.plan.has_categories();
        let _ = writeln!(text, "# {}", feature.note);
        match &feature.kind {
            Kind::Numeric {
                width,
                scale,
                default,
                boundaries,
                ids,
            } => {
                let _ = writeln!(text, "[[feature]]\ncolumn = {column}\nkind = \"numeric\"");
                if *width > 1 {
                    let _ = writeln!(text, "shape = {width}");
                }
                match scale {
                    Scale::None => {}
                    Scale::Log1p => text.push_str("normalizer = \"log1p\"\n"),
                    Scale::Standardize { mean, stddev } => {
                        let mean = float(*mean);
                        let stddev = float(*stddev);
                        let _ = writeln!(
                            text,
                            "normalizer = \"standardize\"\nmean = {mean}\nstddev = {stddev}"
                        );
                    }
                }
                let default = default.map(|default| {
                    format!(
                        "default = {}             # stands for a missing number\n",
                        float(default)
                    )
                });
                let default = default.unwrap_or_default();
                text.push_str(&default);
                if (has_wide || self.is_factorized()) && !boundaries.is_empty() {
                    let boundaries: Vec<String> =
                        boundaries.iter().map(|boundary| float(*boundary)).collect();
                    let (of, deep) = if self.is_factorized() {
                        let of = "quantiles of the records and of the distinct values";
                        (of, format!("{{ embedding = {DIMENSION} }}"))
                    } else {
                        ("tenths of the records", "false".to_owned())
                    };
                    let _ = write!(
                        text,
                        "[[feature]]\ncolumn = {column}\nkind = \"bucketized\"\nboundaries = [{}]   # {of}\n{default}wide = true\ndeep = {deep}\n",
                        boundaries.join(", ")
                    );
                }
                if let Some(buckets) = ids.filter(|_| self.is_factorized()) {
                    let name = quoted(&format!("{} id", feature.column));
                    let _ = write!(
                        text,
                        "# The same as a name: whole numbers that come again and again may be ids.\n[[feature]]\ncolumn = {column}\nname = {name}\nkind = \"hashed\"\nbuckets = {buckets}\nwide = true\ndeep = {{ embedding = {DIMENSION} }}\n"
                    );
                }
            }
            Kind::Vocabulary {
                values,
                separator,
                dimension,
            } => {
                let _ = writeln!(
                    text,
                    "[[feature]]\ncolumn = {column}\nkind = \"vocabulary\""
                );
                if values.len() > INLINE_VALUES_MAX {
                    let _ = writeln!(
                        text,
                        "file = {}",
                        quoted(&vocabulary_path(number, feature).display().to_string())
                    );
                } else {
                    let _ = writeln!(text, "values = {}", list(values));
                }
                let _ = writeln!(
                    text,
                    "integers = false\noov_buckets = 1                      # all other values together"
                );
                write_separator(*separator, text);
                let dimension = if self.is_factorized() {
                    Some(DIMENSION)
                } else {
                    *dimension
                };
                match dimension {
                    Some(dimension) => {
                        let _ = writeln!(text, "wide = true\ndeep = {{ embedding = {dimension} }}");
                    }
                    None => text.push_str("wide = true\ndeep = \"indicator\"\n"),
                }
            }
            Kind::Hashed {
                buckets,
                separator,
                dimension,
            } => {
                let _ = writeln!(
                    text,
                    "[[feature]]\ncolumn = {column}\nkind = \"hashed\"\nbuckets = {buckets}"
                );
                write_separator(*separator, text);
                let dimension = if self.is_factorized() {
                    DIMENSION
                } else {
                    *dimension
                };
                let _ = writeln!(text, "wide = true\ndeep = {{ embedding = {dimension} }}");
            }
            Kind::Pairs { buckets, .. } => {
                let _ = writeln!(
                    text,
                    "[[feature]]\ncolumn = \"index\"\nkind = \"identity\"\nbuckets = {buckets}\ndefault = 0\nseparator = \" \"\nweights = \"value\"\nwide = true\ndeep = {{ embedding = 8, combiner = \"sum\" }}"
                );
            }
        }
        text.push('\n');
    }

    fn write_model(&self, text: &mut String) {
        let family = if self.is_factorized() {
            "deepfm"
        } else if self.plan.has_categories() {
            "dnn_linear_combined"
        } else {
            "dnn"
        };
        let goal = match self.plan.label.task {
            Task::Binary { .. } | Task::Classes { .. } => "classifier",
            Task::Number { .. } => "regressor",
        };
        let hidden = if self.rows() < SMALL_ROWS {
            "[32, 16]"
        } else {
            "[128, 64]"
        };
        let _ = writeln!(
            text,
            "[model]\nkind = \"{family}_{goal}\"\nhidden_units = {hidden}"
        );
        if let Task::Classes { names: None, count } = &self.plan.label.task {
            let _ = writeln!(text, "n_classes = {count}");
        }
        if self.is_factorized() {
            text.push_str("embedding_initializer = { kind = \"normal\", stddev = 0.01 }   # small: a new id says nothing yet\n");
            for part in ["linear", "dnn"] {
                let _ = writeln!(
                    text,
                    "[model.{part}_optimizer]\nkind = \"adam\"\nlearning_rate = 0.001\nlazy = true                          # only the rows of the batch"
                );
            }
        } else {
            if self.plan.has_categories() {
                text.push_str("[model.linear_optimizer]\nkind = \"ftrl\"\nlearning_rate = 0.05\n");
            }
            text.push_str("[model.dnn_optimizer]\nkind = \"adagrad\"\nlearning_rate = 0.05\n");
        }
        if self.stops_early() {
            let _ = write!(
                text,
                "\n# Training ends, and goes back to its best checkpoint, when the AUC has not risen in so many evaluations.\n[train.early_stopping]\nmetric = \"auc\"\nmax_evaluations_without_improvement = {EVALUATIONS_WITHOUT_A_BETTER_ONE}\n"
            );
        }
        if self.parts.eval.is_some() {
            let metric = match self.plan.label.task {
                Task::Binary { .. } => "auc",
                Task::Classes { .. } => "accuracy",
                Task::Number { .. } => "average_loss",
            };
            let throttle = if self.stops_early() { 0 } else { 30 };
            let _ = write!(
                text,
                "\n[eval]\nstart_delay_secs = 0\nthrottle_secs = {throttle}\n\n# The best model so far is kept in model_dir/export/best.\n[[exporter]]\nkind = \"best\"\nmetric = \"{metric}\"\n"
            );
        }
    }
}

fn write_separator(separator: Option<char>, text: &mut String) {
    if let Some(separator) = separator {
        let _ = writeln!(text, "separator = {}", quoted(&separator.to_string()));
    }
}

/// Returns the path of a vocabulary. `number` keeps paths apart, because characters of a column name may be replaced.
fn vocabulary_path(number: usize, feature: &FeaturePlan) -> PathBuf {
    let name: String = feature
        .column
        .chars()
        .map(|character| {
            if character.is_ascii_alphanumeric() || character == '_' {
                character
            } else {
                '-'
            }
        })
        .collect();
    PathBuf::from(VOCABULARIES).join(format!("{}-{name}.txt", number + 1))
}
