//! The job file that `trainyard init` writes, with a comment for each decision.
//!
//! It is long because it is the whole text of a job, in the order of the file.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::json;
use trainyard_input::{Decimal, Profile, TextEncoding, TextStyle};
use trainyard_storage::is_remote;

use super::beside;
use super::design::{Design, Family, LEARNING_RATE, NumberEncoding};
use super::plan::{FeaturePlan, Kind, Plan, SMALL_ROWS, Scale, Shape, Task, mean, rounded};
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

/// Batches of a factorized model: a power of two that gives some hundred steps a pass, within these bounds. Larger batches
/// overfit later, and smaller ones need fewer passes.
const FACTORIZED_BATCHES: std::ops::RangeInclusive<u64> = 256..=4096;
const FACTORIZED_STEPS: u64 = 250;

/// Evaluations without a better one that end training: those of four passes. Factors that are 0 at the start need some passes
/// before they show.
pub(super) const EVALUATIONS_WITHOUT_A_BETTER_ONE: usize = 8;

/// Most passes of a factorized model, which early stopping ends.
const FACTORIZED_EPOCHS: u64 = 20;

/// Fewest steps of these passes. Evaluations of a small table take longer than the steps between them, so that early stopping needs
/// more steps to end training at its best.
const FACTORIZED_STEPS_MIN: u64 = 3000;

/// Steps between two evaluations of a factorized model: those of half a pass, within these bounds.
const EVALUATION_STEPS: std::ops::RangeInclusive<u64> = 20..=2000;

/// Most passes of a measurement, most of one on more records than usual, and most examples of one without early stopping.
pub(super) const MEASURED_EPOCHS: u64 = 10;
pub(super) const MEASURED_EPOCHS_OF_MANY: u64 = 2;
const MEASURED_EXAMPLES: u64 = 200_000;

/// Evaluations of a measurement without early stopping, so that one that time ends has a result.
const MEASURED_EVALUATIONS: u64 = 4;

/// Share of a class below which it is rare, and most training records of a job whose evaluation has an exact area.
const RARE_SHARE: f64 = 0.05;
const EXACT_ROWS_MAX: u64 = 20_000_000;

/// Widths of the layers that weigh the ids of a history, which are computed for each of its places.
const ATTENTION_UNITS: [u64; 2] = [32, 16];

/// Widths of the layers of DLRM over the numbers.
const BOTTOM_UNITS: [u64; 1] = [64];

/// What the head of a job says of its author.
pub(super) const WRITTEN_BY: &str = "by `trainyard init`";

/// Purpose of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose<'a> {
    /// The user's job. `why` are comments about its model.
    Written { why: &'a [String] },
    /// A job that measures a model, with this most passes.
    Measurement { epochs: u64 },
}

impl Purpose<'_> {
    fn is_measurement(self) -> bool {
        matches!(self, Self::Measurement { .. })
    }
}

pub(super) struct JobFile<'a> {
    pub(super) source: &'a Source,
    pub(super) plan: &'a Plan,
    pub(super) design: &'a Design,
    pub(super) purpose: Purpose<'a>,
    pub(super) parts: &'a Parts,
    pub(super) folder: &'a Path,
    pub(super) profile: &'a Profile,
}

/// Returns a text as TOML. A JSON string is also a TOML string, but for the one control character that JSON leaves as it is.
pub(crate) fn quoted(text: &str) -> String {
    json!(text).to_string().replace('\u{7f}', "\\u007f")
}

/// Returns a text for a comment of TOML, which has no control characters.
fn commented(text: &str) -> String {
    let escaped = |character: char| match character.is_control() {
        true => character.escape_default().to_string(),
        false => character.to_string(),
    };
    text.chars().map(escaped).collect()
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
        // With an exponent, where it is large.
        format!("{number:?}")
    }
}

fn floats(numbers: &[f64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(|number| float(*number)).collect();
    numbers.join(", ")
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
        let label = commented(&self.plan.label.told());
        let _ = write!(
            text,
            "# Predicts {label}.\n\
             #\n\
             # Written from {} records {WRITTEN_BY}; every line is yours to change. `trainyard stats` shows what the columns hold.\n\n\
             model_dir = {}\n\n\
             [run]\n\
             seed = 1                             # of parameter initialization and shuffling\n",
            self.profile.rows,
            quoted(&whole(&self.folder.join("model")).display().to_string()),
        );
        if self.stops_early() || self.purpose.is_measurement() {
            let steps = if self.stops_early() {
                self.rows() / self.batch_size() / 2
            } else {
                self.rows() * self.epochs() / self.batch_size() / MEASURED_EVALUATIONS
            };
            let steps = steps.clamp(*EVALUATION_STEPS.start(), *EVALUATION_STEPS.end());
            let _ = writeln!(
                text,
                "save_checkpoints_steps = {steps:<13}# each checkpoint is evaluated\n"
            );
        } else {
            text.push_str("save_checkpoints_secs = 30\n\n");
        }
        let doubts = match self.purpose {
            Purpose::Written { .. } => self.source.doubts(self.profile, self.plan.time.as_deref()),
            Purpose::Measurement { .. } => Vec::new(),
        };
        for doubt in &doubts {
            let message = commented(&doubt.message);
            let _ = writeln!(
                text,
                "# Look at this: {message}.\n#   {}.\n",
                commented(&doubt.help)
            );
        }
        if !self.plan.left_out.is_empty() {
            let _ = writeln!(text, "# Columns that are no feature:");
            for (name, why) in &self.plan.left_out {
                let _ = writeln!(text, "#   {}: {}", quoted(name), commented(why));
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
        self.write_style(text);
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

    /// Writes the keys that say how files write their fields, where they differ from the usual.
    fn write_style(&self, text: &mut String) {
        let TextStyle {
            delimiter,
            encoding,
            numbers,
        } = &self.parts.style;
        if let Some(delimiter) = delimiter {
            let delimiter = quoted(&char::from(*delimiter).to_string());
            let _ = writeln!(text, "delimiter = {delimiter}");
        }
        if *encoding != TextEncoding::Utf8 {
            let _ = writeln!(text, "encoding = {}", quoted(encoding.name()));
        } else if self.source.style.encoding != TextEncoding::Utf8 {
            let name = quoted(self.source.style.encoding.name());
            let _ = writeln!(
                text,
                "# The files of this job are UTF-8. For others like the given ones: encoding = {name}"
            );
        }
        if numbers.decimal == Decimal::Comma {
            text.push_str("decimal = \",\"\n");
        }
        if let Some(thousands) = numbers.thousands {
            let _ = writeln!(text, "thousands = {}", quoted(&thousands.to_string()));
        }
        if !numbers.units.is_empty() {
            let units = list(&numbers.units);
            let _ = writeln!(text, "units = {units}            # dropped from numbers");
        }
        if !self.source.missing.is_empty() {
            let missing = list(&self.source.missing);
            let _ = writeln!(text, "missing = {missing}          # words among numbers");
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

    pub(super) fn batch_size(&self) -> u64 {
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
            return match self.purpose {
                Purpose::Measurement { epochs } => epochs,
                Purpose::Written { .. } => {
                    let passes =
                        (FACTORIZED_STEPS_MIN * self.batch_size()).div_ceil(self.rows().max(1));
                    passes.max(FACTORIZED_EPOCHS)
                }
            };
        }
        if self.parts.train_rows.is_none() {
            return 1;
        }
        let rows = self.rows().max(1);
        let examples = if self.purpose.is_measurement() {
            MEASURED_EXAMPLES
        } else {
            EXAMPLES_MIN
        };
        let wanted = (examples / rows).clamp(1, EPOCHS_MAX);
        wanted.max((STEPS_MIN * self.batch_size()).div_ceil(rows))
    }

    /// Returns the lines of a feature that say which parts of the model it feeds.
    fn feeds(&self, deep: &str) -> String {
        let family = self.design.family;
        let mut lines = String::new();
        if family.has_linear() {
            lines += "wide = true\n";
        }
        if family.has_embeddings() {
            lines += &format!("deep = {deep}\n");
        }
        lines
    }

    fn write_feature(&self, number: usize, feature: &FeaturePlan, text: &mut String) {
        let column = quoted(&feature.column);
        let Design {
            family,
            dimension: dimension_of_all,
            ..
        } = *self.design;
        let has_buckets = self.is_factorized() || family.has_linear();
        let _ = writeln!(text, "# {}", commented(&feature.note));
        match &feature.kind {
            Kind::Numeric {
                width,
                scale,
                default,
                boundaries,
                bins,
                quantiles,
                ids,
            } => {
                let _ = writeln!(text, "[[feature]]\ncolumn = {column}\nkind = \"numeric\"");
                if *width > 1 {
                    let _ = writeln!(text, "shape = {width}");
                }
                let encoding = if self.is_factorized() && !bins.is_empty() {
                    self.design.numbers
                } else {
                    NumberEncoding::Scaled
                };
                match (encoding, scale) {
                    (NumberEncoding::Quantile, _) => {
                        let _ = writeln!(
                            text,
                            "normalizer = \"quantile\"             # its share of the records, as a normal score\noutput_distribution = \"normal\"\nboundaries = [{}]   # hundredths of the records",
                            floats(quantiles)
                        );
                    }
                    (NumberEncoding::PiecewiseLinear, _) => {
                        let _ = writeln!(
                            text,
                            "encoding = \"piecewise_linear\"       # the filled share of each bin\nboundaries = [{}]",
                            floats(bins)
                        );
                    }
                    (NumberEncoding::Scaled, Scale::None) => {}
                    (NumberEncoding::Scaled, Scale::Log1p) => {
                        text.push_str("normalizer = \"log1p\"\n");
                    }
                    (NumberEncoding::Scaled, Scale::Standardize { mean, stddev }) => {
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
                if has_buckets && !boundaries.is_empty() {
                    let (of, deep) = if self.is_factorized() {
                        let of = "quantiles of the records and of the distinct values";
                        (of, format!("{{ embedding = {dimension_of_all} }}"))
                    } else {
                        ("tenths of the records", "false".to_owned())
                    };
                    let _ = write!(
                        text,
                        "[[feature]]\ncolumn = {column}\nkind = \"bucketized\"\nboundaries = [{}]   # {of}\n{default}{}",
                        floats(boundaries),
                        self.feeds(&deep)
                    );
                }
                if let Some(buckets) = ids.filter(|_| self.is_factorized()) {
                    let name = quoted(&format!("{} id", feature.column));
                    let _ = write!(
                        text,
                        "# The same as a name: whole numbers that come again and again may be ids.\n[[feature]]\ncolumn = {column}\nname = {name}\nkind = \"hashed\"\nbuckets = {buckets}\n{}",
                        self.feeds(&format!("{{ embedding = {dimension_of_all} }}"))
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
                    Some(dimension_of_all)
                } else {
                    *dimension
                };
                text.push_str(&self.feeds(&match dimension {
                    Some(dimension) => format!("{{ embedding = {dimension} }}"),
                    None => "\"indicator\"".to_owned(),
                }));
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
                    dimension_of_all
                } else {
                    *dimension
                };
                text.push_str(&self.feeds(&format!("{{ embedding = {dimension} }}")));
            }
            Kind::Attended {
                buckets,
                separator,
                table,
            } => {
                let _ = writeln!(
                    text,
                    "[[feature]]\ncolumn = {column}\nkind = \"hashed\"\nbuckets = {buckets}"
                );
                write_separator(*separator, text);
                let table = quoted(table);
                text.push_str(&self.feeds(&format!(
                    "{{ embedding = {dimension_of_all}, table = {table} }}"
                )));
            }
            Kind::Pairs { buckets, .. } => {
                let kind = if *buckets > IDENTITY_BUCKETS_MAX {
                    format!(
                        "# A row for each index up to the highest would be too many: {HASHED_BUCKETS} rows for their hashes.\nkind = \"hashed\"\nintegers = true\nbuckets = {HASHED_BUCKETS}"
                    )
                } else {
                    format!("kind = \"identity\"\nbuckets = {buckets}\ndefault = 0")
                };
                let _ = writeln!(
                    text,
                    "[[feature]]\ncolumn = \"index\"\n{kind}\nseparator = \" \"\nweights = \"value\"\n{}",
                    self.feeds("{ embedding = 8, combiner = \"sum\" }")
                        .trim_end()
                );
            }
        }
        text.push('\n');
    }

    fn write_model(&self, text: &mut String) {
        let Design {
            family,
            dropout,
            learning_rate,
            ..
        } = *self.design;
        if let Purpose::Written { why } = self.purpose {
            for line in why {
                let _ = writeln!(text, "# {}", commented(line));
            }
        }
        let goal = match self.plan.label.task {
            Task::Binary { .. } | Task::Classes { .. } => "classifier",
            Task::Number { .. } => "regressor",
        };
        let _ = writeln!(text, "[model]\nkind = \"{}_{goal}\"", family.key());
        if family.has_layers() {
            let hidden = if self.rows() < SMALL_ROWS {
                "[32, 16]"
            } else {
                "[128, 64]"
            };
            let _ = writeln!(text, "hidden_units = {hidden}");
            if dropout > 0.0 {
                let _ = writeln!(text, "dropout = {dropout}");
            }
            if family == Family::Dlrm && self.plan.has_numbers() {
                let _ = writeln!(
                    text,
                    "bottom_units = {BOTTOM_UNITS:?}                  # over the numbers"
                );
            }
            if family == Family::Din {
                let _ = writeln!(text, "attention_units = {ATTENTION_UNITS:?}");
            }
        }
        if let Task::Classes { names: None, count } = &self.plan.label.task {
            let _ = writeln!(text, "n_classes = {count}");
        }
        if let Task::Number { .. } = self.plan.label.task
            && let Some(label) = self.profile.column(&self.plan.label.column)
        {
            let _ = writeln!(
                text,
                "label_mean = {}                # the model learns (label - label_mean) / label_stddev\nlabel_stddev = {}",
                float(mean(&label.numbers)),
                float(rounded(label.numbers.stddev()))
            );
        }
        let mut parts = Vec::new();
        if family.has_linear() {
            parts.push("linear");
        }
        if family.has_embeddings() {
            parts.push("dnn");
        }
        if self.is_factorized() {
            if family.has_embeddings() {
                text.push_str("embedding_initializer = { kind = \"normal\", stddev = 0.01 }   # small: a new id says nothing yet\n");
                let l2 = self.design.l2(self.batch_size());
                if l2 > 0.0 {
                    let _ = writeln!(
                        text,
                        "embedding_regularizer = {{ l2 = {l2:e} }}   # for this batch_size: twice the batch needs half of it"
                    );
                }
            }
            for part in parts {
                // The linear part beside embeddings keeps the rate that suits it.
                let rate = if part == "dnn" || family == Family::Linear {
                    learning_rate
                } else {
                    LEARNING_RATE
                };
                let _ = writeln!(
                    text,
                    "[model.{part}_optimizer]\nkind = \"adam\"\nlearning_rate = {rate}\nlazy = true                          # only the rows of the batch"
                );
            }
        } else {
            for part in parts {
                let kind = if part == "linear" { "ftrl" } else { "adagrad" };
                let _ = writeln!(
                    text,
                    "[model.{part}_optimizer]\nkind = \"{kind}\"\nlearning_rate = 0.05"
                );
            }
        }
        if family == Family::Din {
            for history in &self.plan.histories {
                let _ = writeln!(
                    text,
                    "\n# Each id of the history counts by what it says about the target.\n[[model.attention]]\nhistory = {}\ntarget = {}\nhistory_max = {}",
                    quoted(&history.history),
                    quoted(&history.target),
                    history.ids_max
                );
            }
        }
        self.write_evaluation(text);
    }

    /// Returns the area under the ROC curve that decides. Predictions of a rare class lie between few of the thresholds of `auc`, where
    /// `auc_exact` keeps their order, of at most 20 million records.
    fn area(&self, share: f64) -> &'static str {
        let is_rare = share.min(1.0 - share) < RARE_SHARE;
        let is_counted = self
            .parts
            .train_rows
            .is_some_and(|rows| rows <= EXACT_ROWS_MAX);
        if is_rare && is_counted {
            "auc_exact"
        } else {
            "auc"
        }
    }

    fn write_evaluation(&self, text: &mut String) {
        let metric = match self.plan.label.task {
            Task::Binary { share, .. } => self.area(share),
            Task::Classes { .. } => "accuracy",
            Task::Number { .. } => "average_loss",
        };
        if self.stops_early() {
            let (metric, why) = match self.plan.label.task {
                Task::Binary { .. } => (metric, "the AUC has not risen"),
                Task::Classes { .. } | Task::Number { .. } => {
                    ("average_loss", "the loss has not fallen")
                }
            };
            let _ = write!(
                text,
                "\n# Training ends, and goes back to its best checkpoint, when {why} in so many evaluations.\n[train.early_stopping]\nmetric = \"{metric}\"\nmax_evaluations_without_improvement = {EVALUATIONS_WITHOUT_A_BETTER_ONE}\n"
            );
        }
        if self.purpose.is_measurement() {
            text.push_str("\n[eval]\nevery_checkpoint = true\n");
        } else if self.parts.eval.is_some() {
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
/// Most letters of a column in the name of its file.
const FILE_NAME_MAX: usize = 100;

/// Most rows of a table that has one for each index, and rows of one for the hashes of more.
const IDENTITY_BUCKETS_MAX: u64 = 1 << 24;
const HASHED_BUCKETS: u64 = 1 << 20;

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
        // File systems take names of at most 255 bytes; the number tells two columns apart.
        .take(FILE_NAME_MAX)
        .collect();
    PathBuf::from(VOCABULARIES).join(format!("{}-{name}.txt", number + 1))
}
