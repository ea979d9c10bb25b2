//! Warnings about a job whose settings do not fit its records: labels that never match, values outside of every
//! vocabulary, columns without information.

use std::path::Path;

use trainyard_daemon::{LogFormat, report};
use trainyard_diagnostic::{Code, Diagnostic, suggest};
use trainyard_input::{
    Absent, ColumnProfile, Decimal, Meaning, Options, Profile, TimeUnit, TypeKind,
};
use trainyard_model::{Part, Shard, input_options};
use trainyard_run_config::{
    Ambiguous, BadRows, CrossKey, FeatureConfig, FeatureKind, HeadKind, Job, LabelConfig,
    ModelConfig, Normalizer, Numbers, Sharding, Time, TimePart, ambiguous_files, files_in_both,
};

use crate::data_sample::{Extent, profile};

mod categories;
mod classes;
mod commas;
mod idle_numbers;
mod rounded_labels;
mod units;

use categories::{
    look_at_admission, look_at_blanks, look_at_ids, look_at_separator, look_at_vocabulary,
};
use classes::{look_at_number_of_classes, look_for_probabilities};
pub(crate) use idle_numbers::KEPT_SHARE_MIN;
use idle_numbers::{is_other_scale, look_at_numbers, look_at_settings, look_at_size};
pub(crate) use rounded_labels::look_at_rounding;
use rounded_labels::look_for_times;
use units::look_at_units;

pub(crate) use classes::look_for_class_of_several_texts;
pub(crate) use commas::doubtful_commas;

/// Fewest records that allow conclusions about the others.
const RECORDS_MIN: u64 = 50;

/// Fewest labels of which none is the positive class that are no coincidence.
const LABELS_MIN: u64 = 10;

/// Values of a column that a message shows.
const SHOWN_MAX: usize = 5;

/// Most warnings that are reported.
const WARNINGS_MAX: usize = 20;

/// Findings in the records.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Name and content of the label, and of each feature with a vocabulary.
    pub(crate) lines: Vec<(String, String)>,
    /// Likely mistakes, and certain ones as errors.
    pub(crate) warnings: Vec<Diagnostic>,
}

/// Compares a job with the profile of its training input.
pub(crate) fn look(job: &Job, profile: &Profile) -> Findings {
    let mut findings = Findings::default();
    look_at_files(job, &mut findings);
    look_for_files_in_both_inputs(job, &mut findings);
    look_for_label_among_features(job, &mut findings);
    findings
        .warnings
        .extend(look_for_class_of_several_texts(job, profile));
    for feature in &job.features {
        findings.warnings.extend(look_at_settings(feature));
    }
    for feature in &job.features {
        findings
            .warnings
            .extend(look_at_separator(feature, job.input.format, profile));
    }
    findings
        .warnings
        .extend(look_for_probabilities(job, profile));
    findings.warnings.extend(look_at_commas(job, profile));
    findings.warnings.extend(look_at_units(job, profile));
    findings.warnings.extend(look_for_times(job, profile));
    look_at_weight(job, profile, &mut findings);
    findings
        .warnings
        .extend(look_for_lost_weights(job, profile));
    look_at_groups(job, profile, &mut findings);
    look_for_missing_of(job, profile, &mut findings);
    if profile.rows < RECORDS_MIN {
        // Of few records, only what holds for all of them is told.
        for (label, _) in job.labels() {
            if let (Some(positive), Some(column)) = (&label.positive, profile.column(&label.column))
                && column.values >= LABELS_MIN
            {
                look_at_positive(positive, column, &mut findings);
                findings.lines.clear();
            }
        }
        return findings;
    }
    look_at_labels(job, profile, &mut findings);
    look_for_absent(job, profile, &mut findings);
    for feature in &job.features {
        look_at_feature(feature, profile, &mut findings);
        findings
            .warnings
            .extend(look_at_admission(job, feature, profile));
    }
    // Several features may read one column, and repeat its warning.
    findings.warnings.dedup();
    findings.warnings.truncate(WARNINGS_MAX);
    findings
}

/// Most files that are sampled when training starts.
const FILES_AT_START_MAX: usize = 4;
/// Approximate number of records that are sampled from these files together.
const RECORDS_AT_START_MAX: u64 = 1000;

/// Samples the training input when training starts, and reports likely mistakes. It skips files that cannot be read:
/// training itself reports their errors.
pub(crate) fn report_at_start(job: &Job, format: LogFormat) {
    report(job.warnings(), format);
    report(&job.warnings_of_folders(), format);
    let Ok(mut options) = input_options(job, Part::Train, Shard::WHOLE, None) else {
        return;
    };
    let is_part = options.files.len() > FILES_AT_START_MAX;
    options.files.truncate(FILES_AT_START_MAX);
    if let Ok(mut profile) = profile(&options, Extent::OfAll(RECORDS_AT_START_MAX)) {
        profile.is_whole &= !is_part;
        report(&look(job, &profile).warnings, format);
    }
}

/// Samples an input of predictions or of an evaluation, and reports the features of which it has no known value: a column of another
/// meaning, or another spelling. It skips files that cannot be read: the command itself reports their errors.
pub(crate) fn report_unknown_values(job: &Job, options: &Options, format: LogFormat) {
    let has_known = |feature: &FeatureConfig| {
        matches!(
            feature.kind,
            FeatureKind::Vocabulary { .. } | FeatureKind::Identity { .. }
        )
    };
    if !job.features.iter().any(has_known) {
        return;
    }
    let mut options = options.clone();
    options.files.truncate(FILES_AT_START_MAX);
    if let Ok(profile) = profile(&options, Extent::OfAll(RECORDS_AT_START_MAX)) {
        report(&look_for_unknown_values(job, &profile), format);
    }
}

fn look_for_unknown_values(job: &Job, profile: &Profile) -> Vec<Diagnostic> {
    let mut findings = Findings::default();
    for feature in &job.features {
        let column = column_of(feature).and_then(|name| profile.column(name));
        if let Some(column) = column.filter(|column| column.values > 0) {
            look_at_vocabulary(feature, column, &mut findings);
            findings.warnings.extend(look_at_ids(feature, column));
        }
    }
    findings.warnings.dedup();
    findings.warnings
}

/// Compares the label of a job with the profile of its evaluation input.
pub(crate) fn look_at_labels_of_evaluation(job: &Job, profile: &Profile) -> Findings {
    let mut findings = Findings::default();
    findings
        .warnings
        .extend(look_for_class_of_several_texts(job, profile));
    look_at_weight(job, profile, &mut findings);
    findings
        .warnings
        .extend(look_for_lost_weights(job, profile));
    if profile.rows >= RECORDS_MIN {
        look_at_evaluated_columns(job, profile, &mut findings);
    }
    for warning in &mut findings.warnings {
        warning.message = format!("evaluation input: {}", warning.message);
    }
    findings
}

fn look_at_evaluated_columns(job: &Job, profile: &Profile, findings: &mut Findings) {
    look_at_labels(job, profile, findings);
    look_for_absent(job, profile, findings);
    for (name, _) in &mut findings.lines {
        *name = format!("evaluation {name}");
    }
}

/// Reports the relative names of inputs that mean files beside the job file, with other files of the names in the working
/// folder.
pub(crate) fn report_ambiguous_files(job: &Job, format: LogFormat) {
    let mut findings = Findings::default();
    look_at_files(job, &mut findings);
    report(&findings.warnings, format);
}

/// Warns about input files that exist beside the job file and in the working folder.
fn look_at_files(job: &Job, findings: &mut Findings) {
    let parts = [Some(&job.input.train), job.input.eval.as_ref()];
    for Ambiguous { name, read, other } in parts
        .into_iter()
        .flatten()
        .flat_map(|part| ambiguous_files(job, part))
    {
        let shown = |path: &Path| {
            std::path::absolute(path)
                .unwrap_or_else(|_| path.to_owned())
                .display()
                .to_string()
        };
        let message = format!(
            "input `{name}` is read from {}, and {} is another file",
            shown(&read),
            shown(&other)
        );
        let help = "a relative name means the folder of the job file first, then the working folder: write the whole path, or start in the folder of the job";
        findings.warnings.push(warning(message, help));
    }
}

/// Warns about files that a job both trains on and evaluates with. A further evaluation may have them on purpose.
fn look_for_files_in_both_inputs(job: &Job, findings: &mut Findings) {
    let Some(eval) = &job.input.eval else {
        return;
    };
    // An input that cannot be read is an error of its reader.
    let both = files_in_both(job, eval).unwrap_or_default();
    let Some(first) = both.first() else {
        return;
    };
    let more = match both.len() {
        1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    let message = format!(
        "{}{more} is in input.train.files and in input.eval.files: the metrics are those of records that the model has learnt",
        first.display()
    );
    let help = "leave the file out of one of them; an [[evaluation]] of its own may measure the training records";
    findings.warnings.push(warning(message, help));
}

/// Warns about features that read the label: such a model predicts its input, and learns nothing.
fn look_for_label_among_features(job: &Job, findings: &mut Findings) {
    for (label, _) in job.labels() {
        look_for_column_among_features(job, &label.column, findings);
    }
}

fn look_for_column_among_features(job: &Job, label: &String, findings: &mut Findings) {
    if job.input.weight_column.as_ref() == Some(label) {
        let message = format!("input.weight_column is the label column `{label}`");
        let help = "name another column, or leave it out: records whose label is 0 count nowhere";
        findings.warnings.push(warning(message, help));
    }
    let reads_label = |feature: &&FeatureConfig| match &feature.kind {
        FeatureKind::Crossed { keys, .. } => keys.iter().any(
            |key| matches!(key, CrossKey::Text(column) | CrossKey::Int(column) if column == label),
        ),
        FeatureKind::Numeric(numbers) | FeatureKind::Bucketized { numbers, .. } => {
            let other = numbers.operand.as_ref().map(|operand| operand.column());
            numbers.column == *label || other == Some(label.as_str())
        }
        _ => column_of(feature) == Some(label) || feature.weights.as_ref() == Some(label),
    };
    for feature in job.features.iter().filter(reads_label) {
        let message = format!(
            "feature `{}` reads the label column `{label}`",
            feature.name
        );
        let help = "leave the feature out: the model would predict the label from itself";
        findings.warnings.push(warning(message, help));
    }
}

fn warning(message: String, help: &str) -> Diagnostic {
    Diagnostic::warning(Code::E4005, message).help(help)
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", 100.0 * part as f64 / whole.max(1) as f64)
}

/// Returns the most frequent values of a column, with their shares.
fn shown(column: &ColumnProfile) -> String {
    let counts = column.counts();
    let texts = counts.iter().take(SHOWN_MAX).map(|(value, count)| {
        format!(
            "`{}` ({})",
            String::from_utf8_lossy(value),
            percent(*count, column.values)
        )
    });
    let mut text = texts.collect::<Vec<_>>().join(", ");
    if counts.len() > SHOWN_MAX {
        text += &format!(" and {} others", column.distinct() - SHOWN_MAX as u64);
    }
    text
}

/// Looks at the label, or at those of the tasks, which are named in the lines.
fn look_at_labels(job: &Job, profile: &Profile, findings: &mut Findings) {
    for (place, (label, head)) in job.labels().into_iter().enumerate() {
        let Some(column) = profile.column(&label.column) else {
            continue;
        };
        let mut found = Findings::default();
        look_at_label(job, (label, head), column, profile.rows, &mut found);
        if let Some(task) = job.model.tasks.get(place) {
            for (name, _) in &mut found.lines {
                *name = format!("{name} of {}", task.name);
            }
            let key = format!("model.task.{place}.label");
            let of_task = |text: &str| text.replace("input.label", &key);
            for warning in &mut found.warnings {
                warning.message = format!("task `{}`: {}", task.name, of_task(&warning.message));
                warning.help = warning.help.as_deref().map(of_task);
            }
        }
        findings.lines.extend(found.lines);
        findings.warnings.extend(found.warnings);
    }
}

fn look_at_label(
    job: &Job,
    (label, head): (&LabelConfig, HeadKind),
    column: &ColumnProfile,
    rows: u64,
    findings: &mut Findings,
) {
    let name = &label.column;
    if column.values == 0 {
        let message = format!("none of {rows} records of the sample has a label in `{name}`");
        findings
            .warnings
            .push(warning(message, "correct input.label.column"));
        return;
    }
    if let Some(positive) = &label.positive {
        look_at_positive(positive, column, findings);
        return;
    }
    if matches!(head, HeadKind::Binary | HeadKind::MultiClass) {
        look_at_vocabulary_of_label(label, job.input.bad_rows, column, findings);
        if label.vocabulary.is_none() {
            let tasks = &job.model.tasks;
            let task = tasks.iter().find(|task| task.label == *label);
            let classes = task.map_or(job.model.n_classes, |task| task.n_classes);
            findings
                .warnings
                .extend(look_at_number_of_classes(classes, column));
        }
        if findings.warnings.is_empty()
            && column.distinct() > 1
            && (label.vocabulary.is_some() || column.numbers.fractions == 0)
        {
            let line = format!(
                "{} classes in {} records: {}",
                column.distinct(),
                column.values,
                shown(column)
            );
            findings.lines.push(("label".to_owned(), line));
        }
    } else if let [least, median, most] = column.quantiles(&[0.0, 0.5, 1.0])[..] {
        let line = format!("from {least} to {most}, half of them at most {median}");
        findings.lines.push(("label".to_owned(), line));
        findings
            .warnings
            .extend(look_at_label_scale(&job.model, column));
        findings.warnings.extend(look_at_rounding(column));
    }
    if column.distinct() == 1 {
        let message = format!(
            "the label `{name}` is {} in all {} records of the sample",
            shown(column),
            column.values
        );
        findings.warnings.push(warning(
            message,
            "look whether the files are sorted by it, or input.label.column is another column: of one value nothing is learned",
        ));
    }
}

/// Warns about keys that come into play after the last pass over the records, if the profile has all of them.
pub(crate) fn look_at_length(job: &Job, profile: &Profile) -> Vec<Diagnostic> {
    let train = &job.input.train;
    // Where each task reads all records, the tasks have more steps together.
    let is_once = train.sharding == Sharding::Dynamic && profile.is_whole;
    let batches = profile.rows.div_ceil(train.batch_size.max(1) as u64);
    match train.epochs.filter(|_| is_once && profile.rows > 0) {
        Some(epochs) => job.warnings_of_passes(batches.saturating_mul(epochs)),
        None => Vec::new(),
    }
}

/// Warns about a mean and a deviation that are not those of the labels.
fn look_at_label_scale(model: &ModelConfig, column: &ColumnProfile) -> Option<Diagnostic> {
    let found = &column.numbers;
    if !model.has_label_scale() || !column.is_numeric() || found.count < LABELS_MIN {
        return None;
    }
    let (mean, stddev) = (model.label_mean, model.label_stddev);
    let own = is_other_scale([mean, stddev], found)?;
    Some(warning(
        format!(
            "the labels in `{}` have the mean {} and the deviation {own} in the sample, and [model] has label_mean = {mean} and label_stddev = {stddev}",
            column.name, found.mean
        ),
        "correct model.label_mean and model.label_stddev: `trainyard stats` prints them",
    ))
}

/// Returns the column that a feature reads; none for a cross, whose columns are those of other features, or keys of its own.
pub(crate) fn column_of(feature: &FeatureConfig) -> Option<&String> {
    match &feature.kind {
        FeatureKind::Numeric(numbers) | FeatureKind::Bucketized { numbers, .. } => {
            Some(&numbers.column)
        }
        FeatureKind::Hashed { column, .. }
        | FeatureKind::Vocabulary { column, .. }
        | FeatureKind::Identity { column, .. }
        | FeatureKind::Dynamic { column, .. } => Some(column),
        FeatureKind::Crossed { .. } => None,
    }
}

/// Warns about numbers whose commas the job takes for decimal ones, though it does not say that points stand between thousands.
fn look_at_commas(job: &Job, profile: &Profile) -> Vec<Diagnostic> {
    let numbers = &job.input.text.numbers;
    if numbers.decimal == Decimal::Point || numbers.thousands.is_some() {
        return Vec::new();
    }
    let told = doubtful_commas(profile, numbers).into_iter();
    let told = told.map(|commas| {
        let besides = "or say with input.thousands = \".\" that commas are decimal ones";
        warning(commas.message(), &commas.remedy(besides))
    });
    told.collect()
}

/// Warns about files without any value of a column that the others have.
fn look_for_absent(job: &Job, profile: &Profile, findings: &mut Findings) {
    let is_read = |name: &String| {
        let input = &job.input;
        let mut features = job.features.iter().filter_map(column_of);
        job.labels().iter().any(|(label, _)| *name == label.column)
            || input.weight_column.as_ref() == Some(name)
            || features.any(|column| column == name)
    };
    for absent in profile.absent.iter().filter(|one| is_read(&one.column)) {
        let message = absent_told(absent);
        let help = "look whether the file has the column under another name: all its records train without the value";
        findings.warnings.push(warning(message, help));
    }
}

/// Says that a file has no value of a column.
pub(crate) fn absent_told(absent: &Absent) -> String {
    let Absent { column, file, rows } = absent;
    format!(
        "`{column}` has no value in the {rows} records that were read of {}, and has some in most of the other files' records",
        file.display()
    )
}

/// Warns about groups of `auc_group` and of `top_k` that cannot have records of both classes.
fn look_at_groups(job: &Job, profile: &Profile, findings: &mut Findings) {
    let Some(name) = &job.eval.group_auc_column else {
        return;
    };
    let label = &job.input.label.column;
    let message = if name == label {
        format!(
            "eval.group_auc_column is the label column `{name}`: no group has records of both classes"
        )
    } else if let Some(column) = profile.column(name)
        && profile.rows >= RECORDS_MIN
        && column.are_all_counted()
        && column.distinct() == profile.rows
    {
        format!(
            "eval.group_auc_column is `{name}`, of which each record of the sample has another value: no group has two"
        )
    } else {
        return;
    };
    let help = "name the column of the user, session or query: without groups of both classes, evaluations report no auc_group";
    findings.warnings.push(warning(message, help));
}

/// Warns about weights that are all 0: no record counts in a loss or a metric then.
fn look_at_weight(job: &Job, profile: &Profile, findings: &mut Findings) {
    let weight = job.input.weight_column.as_deref();
    let Some(column) = weight.and_then(|name| profile.column(name)) else {
        return;
    };
    let numbers = &column.numbers;
    if numbers.count > 0
        && numbers.count == column.values
        && numbers.min == 0.0
        && numbers.max == 0.0
    {
        let message = format!(
            "the weight `{}` is 0 in all {} records of the sample",
            column.name, column.values
        );
        findings.warnings.push(warning(
            message,
            "look whether the files are sorted by it, or input.weight_column is another column: records of weight 0 count nowhere",
        ));
    }
}

/// Warns about weights other than 0 that the floats of 32 bits have as 0.
fn look_for_lost_weights(job: &Job, profile: &Profile) -> Option<Diagnostic> {
    let weight = job.input.weight_column.as_deref();
    let column = weight.and_then(|name| profile.column(name))?;
    let counts = column.counts().into_iter();
    let mut lost = counts.filter_map(|(value, count)| {
        let number = column.number(value)?;
        let is_lost = number != 0.0 && number as f32 == 0.0;
        is_lost.then_some((number, count))
    });
    let (first, count) = lost.next()?;
    let count = count + lost.map(|(_, count)| count).sum::<u64>();
    let message = format!(
        "the weight `{}` is 0 in training for {count} of {} records of the sample, and no 0 in the files, as {first:e}: weights are floats of 32 bits, \
         of which the least is {:e}",
        column.name,
        column.values,
        f32::from_bits(1)
    );
    Some(warning(
        message,
        "multiply all weights in the files by one number: records of weight 0 count nowhere",
    ))
}

/// Returns whether a label is the positive class; a `*` at the end of the class stands for any ending.
fn is_positive(positive: &str, value: &[u8]) -> bool {
    match positive.strip_suffix('*') {
        Some(beginning) => value.starts_with(beginning.as_bytes()),
        None => value == positive.as_bytes(),
    }
}

fn look_at_positive(positive: &str, column: &ColumnProfile, findings: &mut Findings) {
    let counts = column.counts();
    let matching = counts
        .iter()
        .filter(|(value, _)| is_positive(positive, value));
    let matches: u64 = matching.map(|(_, count)| count).sum();
    let name = &column.name;
    let labels = column.values;
    if matches == 0 {
        let texts: Vec<String> = counts
            .iter()
            .map(|(value, _)| String::from_utf8_lossy(value).into_owned())
            .collect();
        let help = match suggest(positive, texts.iter().map(String::as_str)) {
            Some(near) => format!("did you mean input.label.positive = \"{near}\"?"),
            None => "correct input.label.positive: all examples are negative with it".to_owned(),
        };
        let message = format!(
            "none of {labels} labels of the sample is `{positive}`: `{name}` holds {}",
            shown(column)
        );
        findings.warnings.push(warning(message, &help));
    } else if matches == labels {
        let message = format!(
            "all {labels} labels of the sample are `{positive}`: `{name}` holds {}",
            shown(column)
        );
        findings.warnings.push(warning(
            message,
            "correct input.label.positive, or look whether the files are sorted by the label",
        ));
    } else {
        let line = format!(
            "{} of {labels} records are positive (`{positive}`)",
            percent(matches, labels)
        );
        findings.lines.push(("label".to_owned(), line));
    }
}

/// Warns about labels that are no class, which cannot be trained, and about classes without records, which may be
/// misspelt.
fn look_at_vocabulary_of_label(
    label: &LabelConfig,
    bad_rows: BadRows,
    column: &ColumnProfile,
    findings: &mut Findings,
) {
    let Some(classes) = &label.vocabulary else {
        return;
    };
    let is_class = |value: &[u8]| classes.iter().any(|class| class.as_bytes() == value);
    let counts = column.counts();
    let strangers: u64 = counts
        .iter()
        .filter(|(value, _)| !is_class(value))
        .map(|(_, count)| count)
        .sum();
    let absent = classes
        .iter()
        .filter(|class| column.count(class.as_bytes()) == 0);
    let absent: Vec<String> = absent.map(|class| format!("`{class}`")).collect();
    if strangers > 0 {
        let message = format!(
            "{strangers} of {} labels of the sample are not in input.label.vocabulary: `{}` holds {}",
            column.values,
            column.name,
            shown(column)
        );
        let mut problem = match bad_rows {
            // Training ends at the first such record.
            BadRows::Fail => Diagnostic::error(Code::E4004, message),
            BadRows::Skip => Diagnostic::warning(Code::E4004, message),
        }
        .help("correct input.label.vocabulary: such a record cannot be trained");
        if !absent.is_empty() {
            problem = problem.note(format!("no label is {}", absent.join(" or ")));
        }
        findings.warnings.push(problem);
    } else if !absent.is_empty() {
        let message = format!(
            "none of {} labels of the sample is {}: `{}` holds {}",
            column.values,
            absent.join(" or "),
            column.name,
            shown(column)
        );
        findings.warnings.push(warning(
            message,
            "correct input.label.vocabulary, unless the class is that rare",
        ));
    }
}

/// Tells columns of `input.missing_of` that the records do not have.
fn look_for_missing_of(job: &Job, profile: &Profile, findings: &mut Findings) {
    if profile.rows == 0 {
        return;
    }
    let names = || profile.columns.iter().map(|column| column.name.as_str());
    let columns = job.input.missing.of_columns.keys();
    for column in columns.filter(|column| !names().any(|name| name == *column)) {
        let message = format!(
            "input.missing_of has the column `{column}`, which no record of the sample of {} has",
            profile.rows
        );
        let help = match suggest(column, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "correct the name, or leave it out".to_owned(),
        };
        findings.warnings.push(warning(message, &help));
    }
}

fn look_at_feature(feature: &FeatureConfig, profile: &Profile, findings: &mut Findings) {
    let Some(name) = column_of(feature) else {
        return;
    };
    let Some(column) = profile.column(name) else {
        return;
    };
    let rows = profile.rows;
    if column.values == 0 {
        let message = format!("`{name}` holds no value in any of {rows} records of the sample");
        let help = "correct the feature's column, or leave the feature out";
        findings.warnings.push(warning(message, help));
        return;
    }
    if column.distinct() == 1 && column.missing == 0 && !column.list {
        let message = format!(
            "`{name}` is {} in all {rows} records of the sample",
            shown(column)
        );
        findings.warnings.push(warning(
            message,
            "leave the feature out: it distinguishes no records",
        ));
        return;
    }
    if let FeatureKind::Numeric(numbers) | FeatureKind::Bucketized { numbers, .. } = &feature.kind
        && let Some(time) = numbers.time
    {
        match profile.times.get(name) {
            // The files say that they are no times.
            Some(TypeKind::Duration(_)) => {}
            kind => match kind.and_then(|kind| kind.unit()) {
                Some(unit) => {
                    let unit = unit.time_unit();
                    if let (TimePart::Weekday, Some(unit)) = (time.part, unit) {
                        let part = time.part;
                        findings
                            .warnings
                            .extend(look_at_small_times(Time { part, unit }, column));
                    }
                    look_at_unit_of_requests(time.unit, unit, name, findings);
                }
                None => look_at_times(time, column, findings),
            },
        }
    }
    if let FeatureKind::Numeric(numbers) | FeatureKind::Bucketized { numbers, .. } = &feature.kind
        && numbers.time.is_none()
        && let Some(kind) = profile.times.get(name)
    {
        findings.warnings.extend(times_as_numbers(*kind, name));
    }
    if matches!(
        feature.kind,
        FeatureKind::Numeric(_) | FeatureKind::Bucketized { .. }
    ) && column.infinite > 0
    {
        let message = format!(
            "`{name}` holds {} infinite numbers among {} of the sample: no record that has one can be trained",
            column.infinite, column.values
        );
        let help = "input.missing = [\"inf\", \"-inf\"] takes them for missing ones";
        findings.warnings.push(warning(message, help));
    }
    if let FeatureKind::Numeric(numbers) | FeatureKind::Bucketized { numbers, .. } = &feature.kind {
        findings.warnings.extend(look_at_numbers(numbers, column));
        if matches!(feature.kind, FeatureKind::Numeric(_)) {
            findings.warnings.extend(look_at_size(numbers, column));
        }
    }
    match &feature.kind {
        FeatureKind::Bucketized {
            numbers,
            boundaries,
        } => {
            look_at_boundaries(numbers, boundaries, column, findings);
        }
        FeatureKind::Hashed { .. } | FeatureKind::Dynamic { .. }
            if column.numbers.fractions > 0 && column.is_numeric() =>
        {
            let message = format!(
                "`{name}` holds numbers with fractions, {} of {} in the sample, from {} to {}: each of them gets an id of its own",
                column.numbers.fractions,
                column.numbers.count,
                column.numbers.min,
                column.numbers.max
            );
            let help = "make it kind = \"numeric\", or kind = \"bucketized\" with boundaries";
            findings.warnings.push(warning(message, help));
        }
        FeatureKind::Vocabulary { .. } => look_at_vocabulary(feature, column, findings),
        _ => {}
    }
    findings.warnings.extend(look_at_ids(feature, column));
    findings.warnings.extend(look_at_blanks(feature, column));
}

/// Times of a format that knows their unit, which a feature takes for plain numbers. Durations are plain numbers of their unit.
fn times_as_numbers(kind: TypeKind, name: &str) -> Option<Diagnostic> {
    let clock = kind
        .meaning()
        .filter(|meaning| matches!(meaning, Meaning::Time(_) | Meaning::TimeOfDay(_)))?;
    let message = format!(
        "`{name}` holds {clock}, and the feature takes them for plain numbers: the same times in a file of another unit, or in a request, are other \
         numbers"
    );
    Some(warning(
        message,
        "give the feature `time`, as time = \"hour\"; or write numbers in one unit into the files",
    ))
}

/// Warns about times whose unit the files say, and requests for predictions have them as numbers of another one.
fn look_at_unit_of_requests(
    unit: TimeUnit,
    of_files: Option<TimeUnit>,
    name: &str,
    findings: &mut Findings,
) {
    let Some(of_files) = of_files.filter(|of_files| *of_files != unit) else {
        return;
    };
    let (given, wanted) = (of_files.name(), unit.name());
    let message = format!(
        "the times of `{name}` are in {given} in the files, and requests for predictions have to send them as numbers in {wanted}, the time_unit of \
         the feature"
    );
    let help =
        format!("set time_unit = \"{given}\" in the feature, unless the clients send {wanted}");
    findings.warnings.push(warning(message, &help));
}

/// Seconds since 1970 at the start of the years 1980 and 2100, between which the times of records are expected.
const SECONDS_OF_TIMES: std::ops::Range<f64> = 315_532_800.0..4_102_444_800.0;

/// Returns the units in which numbers of a column are times near today, with how many and the first of them.
pub(crate) fn units_of_times(column: &ColumnProfile) -> Vec<(TimeUnit, u64, f64)> {
    let counts = column.counts();
    let of = |unit: TimeUnit| {
        let near = counts.iter().filter_map(|(value, count)| {
            let number = column.number(value)?;
            let seconds = number / unit.per_second() as f64;
            SECONDS_OF_TIMES
                .contains(&seconds)
                .then_some((*count, number))
        });
        let near: Vec<(u64, f64)> = near.collect();
        let first = near.first()?.1;
        Some((unit, near.iter().map(|(count, _)| count).sum(), first))
    };
    let units = TimeUnit::NAMES.into_iter();
    units.filter_map(|(_, unit)| of(unit)).collect()
}

pub(crate) fn listed_units(units: &[(TimeUnit, u64, f64)]) -> String {
    let shown = units
        .iter()
        .map(|(unit, count, first)| format!("{count} {}, as {first}", unit.name()));
    shown.collect::<Vec<_>>().join(", and ")
}

/// Warns about times that are far from today in the unit of the feature, and near it in another.
fn look_at_times(time: Time, column: &ColumnProfile, findings: &mut Findings) {
    let unit = time.unit;
    let units = units_of_times(column);
    if units.len() > 1 {
        let message = format!(
            "the times in `{}` are of several units: {}. The feature reads all of them as {}",
            column.name,
            listed_units(&units),
            unit.name()
        );
        findings
            .warnings
            .push(warning(message, "write all times in one unit"));
        return;
    }
    let [median] = column.quantiles(&[0.5])[..] else {
        return;
    };
    let fits = |unit: TimeUnit| SECONDS_OF_TIMES.contains(&(median / unit.per_second() as f64));
    if fits(unit) {
        return;
    }
    let name = |wanted: &dyn Fn(TimeUnit) -> bool| {
        let mut names = TimeUnit::NAMES.into_iter();
        names.find_map(|(name, unit)| wanted(unit).then_some(name))
    };
    let (Some(given), Some(other)) = (name(&|one| one == unit), name(&fits)) else {
        findings.warnings.extend(look_at_small_times(time, column));
        return;
    };
    let message = format!(
        "half of the times in `{}` are at most {median}: as {given} since 1970 that is far from today, as {other} it is not",
        column.name
    );
    let help = format!("set time_unit = \"{other}\" in the feature");
    findings.warnings.push(warning(message, &help));
}

/// Seconds of a year.
const SECONDS_OF_A_YEAR: i64 = 366 * 86_400;

/// Warns about numbers that are all of the year 1970, as hours of the day and years are: they are no times since 1970.
fn look_at_small_times(time: Time, column: &ColumnProfile) -> Option<Diagnostic> {
    let (least, most) = (column.numbers.min, column.numbers.max);
    let (length, ..) = time.cycle();
    let year = (SECONDS_OF_A_YEAR * time.unit.per_second()) as f64;
    let is_of_1970 = -year < least && most < year;
    let day = 24.0 * length as f64;
    // Times since midnight have an hour.
    let has_hours =
        time.part == TimePart::Hour && least >= 0.0 && (length as f64..day).contains(&most);
    if !column.is_numeric() || !is_of_1970 || has_hours {
        return None;
    }
    let part = |number: f64| time.of(number.floor() as i64);
    let outcome = if (least / length as f64).floor() == (most / length as f64).floor() {
        format!("the feature has the number {} for all of them", part(least))
    } else {
        "all are of 1969 to 1970".to_owned()
    };
    Some(warning(
        format!(
            "`{}` is from {least} to {most} in the sample, and `time` takes numbers for {} since 1970: {outcome}",
            column.name,
            time.unit.name()
        ),
        "leave `time` out for numbers that are no times since 1970, as hours of the day or years; otherwise correct time_unit",
    ))
}

fn look_at_boundaries(
    numbers: &Numbers,
    boundaries: &[f32],
    column: &ColumnProfile,
    findings: &mut Findings,
) {
    // Otherwise the boundaries divide other numbers than those of the column.
    let is_plain = numbers.width == 1
        && numbers.normalizer == Normalizer::None
        && numbers.time.is_none()
        && numbers.operand.is_none();
    let (Some(first), Some(last)) = (boundaries.first(), boundaries.last()) else {
        return;
    };
    let least = column.numbers.min;
    let most = column.numbers.max;
    if is_plain && column.is_numeric() && (most < f64::from(*first) || least >= f64::from(*last)) {
        let message = format!(
            "`{}` is from {least} to {most} in the sample: all of them are in one bucket of boundaries from {first} to {last}",
            column.name
        );
        findings.warnings.push(warning(
            message,
            "correct the feature's boundaries; `trainyard stats` shows quantiles",
        ));
    }
}

#[cfg(test)]
mod tests;
