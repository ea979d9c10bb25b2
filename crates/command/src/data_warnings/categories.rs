//! Features of values with ids, compared with the values of their columns: vocabularies that hold none of them, blanks in lists, and
//! tables that admit no id.

use trainyard_diagnostic::Diagnostic;
use trainyard_input::{ColumnProfile, Format, Profile};
use trainyard_run_config::{FeatureConfig, FeatureKind, Job, StrategyKind, Update};

use super::{Findings, SHOWN_MAX, column_of, percent, shown, warning};

/// Returns the values of a field, which a feature divides at its separator.
fn divided<'a>(feature: &FeatureConfig, column: &ColumnProfile, text: &'a str) -> Vec<&'a str> {
    match feature.separator.map(char::from) {
        Some(separator) if !column.list => text.split(separator).collect(),
        _ => vec![text],
    }
}

pub(super) fn look_at_vocabulary(
    feature: &FeatureConfig,
    column: &ColumnProfile,
    findings: &mut Findings,
) {
    let FeatureKind::Vocabulary {
        values, integers, ..
    } = &feature.kind
    else {
        return;
    };
    let known = |text: &str| {
        let id = if *integers {
            let number = text.parse().ok();
            number.and_then(|number| values.id_of_int(number))
        } else {
            values.id(text.as_bytes())
        };
        id.is_some()
    };
    let mut matches = 0;
    let mut all = 0;
    for (value, count) in column.counts() {
        let text = String::from_utf8_lossy(value);
        let parts = divided(feature, column, &text);
        all += count * parts.len() as u64;
        matches += count * parts.iter().filter(|part| known(part)).count() as u64;
    }
    let name = &column.name;
    if matches > 0 {
        let line = format!(
            "{} of {all} values are in the vocabulary of {}",
            percent(matches, all),
            values.len()
        );
        findings.lines.push((name.clone(), line));
    } else {
        let message = format!(
            "none of {all} values of `{name}` in the sample is in its vocabulary of {}: they are {}",
            values.len(),
            shown(column)
        );
        let first: Vec<String> = values
            .iter()
            .take(SHOWN_MAX)
            .map(|value| format!("`{value}`"))
            .collect();
        findings.warnings.push(
            warning(
                message,
                "correct the feature's values or file; `trainyard stats` shows what the column holds",
            )
            .note(format!("the vocabulary begins with {}", first.join(", "))),
        );
    }
}

/// Warns of ids that are all out of range, and are replaced by the default.
pub(super) fn look_at_ids(feature: &FeatureConfig, column: &ColumnProfile) -> Option<Diagnostic> {
    let FeatureKind::Identity {
        buckets,
        default: Some(default),
        ..
    } = feature.kind
    else {
        return None;
    };
    let numbers = &column.numbers;
    let is_outside = numbers.min >= f64::from(buckets) || numbers.max < 0.0;
    (column.is_numeric() && numbers.count > 0 && is_outside).then(|| {
        let message = format!(
            "none of {} values of `{}` in the sample is an id from 0 to {}: they are from {} to {}, and {default}, the default, replaces each",
            column.values,
            column.name,
            buckets - 1,
            numbers.min,
            numbers.max
        );
        warning(message, "correct the feature's buckets or column")
    })
}

/// Warns of lists of texts whose values have blanks around them: `a` and ` a` are two values.
pub(super) fn look_at_blanks(
    feature: &FeatureConfig,
    column: &ColumnProfile,
) -> Option<Diagnostic> {
    let are_texts = matches!(
        feature.kind,
        FeatureKind::Hashed {
            integers: false,
            ..
        } | FeatureKind::Vocabulary {
            integers: false,
            ..
        } | FeatureKind::Dynamic {
            integers: false,
            ..
        }
    );
    let separator = feature.separator.filter(|_| are_texts && !column.list)?;
    let mut rows = 0;
    let mut first = None;
    for (value, count) in column.counts() {
        let text = String::from_utf8_lossy(value);
        let has_blank = |part: &&str| part.trim_ascii().len() != part.len();
        if divided(feature, column, &text).iter().any(has_blank) {
            rows += count;
            first.get_or_insert_with(|| text.into_owned());
        }
    }
    let first = first?;
    let message = format!(
        "{rows} fields of `{}` in the sample have blanks beside the separator `{}`, as {first:?}: a value with a blank is another value than one without",
        column.name,
        char::from(separator)
    );
    let help = "write the lists without blanks into the files; input.trim removes those at the ends of a field alone";
    Some(warning(message, help))
}

/// Characters that usually stand between the values of a list.
const SEPARATORS: [char; 5] = ['|', ';', ',', ' ', '\t'];

/// Least share of the values that hold a character which stands between the values of a list.
const SEPARATED_SHARE_MIN: f64 = 0.2;

/// Warns of a separator that no value of the column holds, while many hold another usual one: each field is one value then.
pub(super) fn look_at_separator(
    feature: &FeatureConfig,
    format: Format,
    profile: &Profile,
) -> Option<Diagnostic> {
    let separator = char::from(feature.separator?);
    let column = profile.column(column_of(feature)?)?;
    if matches!(format, Format::Parquet | Format::TfRecord) {
        return unsplit_texts(separator, format, column);
    }
    let counts = column.counts();
    if column.list
        || counts
            .iter()
            .any(|(text, _)| text.contains(&(separator as u8)))
    {
        return None;
    }
    let holding = |other: char| -> (u64, Option<&[u8]>) {
        let mut holding = counts
            .iter()
            .filter(|(text, _)| text.trim_ascii().contains(&(other as u8)));
        let first = holding.clone().next().map(|(text, _)| *text);
        (holding.by_ref().map(|(_, count)| count).sum(), first)
    };
    let others = SEPARATORS.into_iter().filter(|other| *other != separator);
    let found = others.map(|other| (holding(other), other));
    // The first of those that most values hold.
    let ((count, first), other) =
        found.reduce(|best, next| if next.0.0 > best.0.0 { next } else { best })?;
    let first = first.filter(|_| count as f64 >= SEPARATED_SHARE_MIN * column.values as f64)?;
    let message = format!(
        "none of {} fields of `{}` in the sample holds the separator {:?}, and {count} hold {:?}, as {:?}: each field is one value",
        column.values,
        column.name,
        separator.to_string(),
        other.to_string(),
        String::from_utf8_lossy(first)
    );
    let help = format!(
        "set separator = {:?} in the feature, or leave it out if each field is one value",
        other.to_string()
    );
    Some(warning(message, &help))
}

/// Warns of texts that hold the separator in a format whose lists are lists: they are not split.
fn unsplit_texts(separator: char, format: Format, column: &ColumnProfile) -> Option<Diagnostic> {
    let counts = column.counts().into_iter();
    let mut holding = counts.filter(|(text, _)| text.contains(&(separator as u8)));
    let (first, count) = holding.next()?;
    let count = count + holding.map(|(_, count)| count).sum::<u64>();
    let message = format!(
        "{count} of {} values of `{}` in the sample hold the separator {:?}, as {:?}, and a text of {} is not split: each is one value",
        column.values,
        column.name,
        separator.to_string(),
        String::from_utf8_lossy(first),
        format.name()
    );
    let help = "write lists, whose values are apart; where the separator belongs to the texts, give the feature another one";
    Some(warning(message, help))
}

/// Warns of a dynamic table that no id gets into, because none occurs as often as `admit_after` says.
pub(super) fn look_at_admission(
    job: &Job,
    feature: &FeatureConfig,
    profile: &Profile,
) -> Option<Diagnostic> {
    let FeatureKind::Dynamic { table, .. } = &feature.kind else {
        return None;
    };
    let column = profile.column(column_of(feature)?)?;
    let mut counts = std::collections::HashMap::<String, u64>::new();
    for (value, count) in column.counts() {
        let text = String::from_utf8_lossy(value);
        for part in divided(feature, column, &text) {
            *counts.entry(part.to_owned()).or_default() += count;
        }
    }
    let (value, most) = counts
        .into_iter()
        .max_by(|one, other| (one.1, &other.0).cmp(&(other.1, &one.0)))?;
    let occurrences = most as f64 / profile.rows.max(1) as f64 * records(job, profile)?;
    (occurrences < f64::from(table.admit_after)).then(|| {
        let message = format!(
            "admit_after of the feature `{}` is {}, and its most frequent value, `{value}`, occurs about {occurrences:.0} times before training ends: \
             the table stays empty",
            feature.name, table.admit_after
        );
        warning(message, "lower admit_after, or train longer")
    })
}

/// Returns how many records a job trains at most, if that is known.
fn records(job: &Job, profile: &Profile) -> Option<f64> {
    let kind = job.strategy.kind;
    // A step of other strategies is several batches.
    let is_one_batch = kind == StrategyKind::OneDevice
        || kind == StrategyKind::ParameterServer && job.strategy.update.mode != Update::Sync;
    let train = &job.input.train;
    let steps = job.train.max_steps.filter(|_| is_one_batch);
    let by_steps = steps.map(|steps| steps as f64 * train.batch_size as f64);
    let passes = train.epochs.filter(|_| profile.is_whole);
    let by_passes = passes.map(|passes| passes as f64 * profile.rows as f64);
    match (by_steps, by_passes) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
