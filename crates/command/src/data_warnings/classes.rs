//! Classes of a label that files write in several ways, as `1` and `true`: a job takes each text for a class of its own.

use std::collections::BTreeMap;

use trainyard_diagnostic::Diagnostic;
use trainyard_input::{ColumnProfile, Profile};
use trainyard_run_config::{HeadKind, Job, LabelConfig};

use super::{SHOWN_MAX, is_positive, shown, warning};

/// Warns of labels between 0 and 1 of a classifier with two classes: they are probabilities, and not a third class.
pub(super) fn look_for_probabilities(job: &Job, profile: &Profile) -> Vec<Diagnostic> {
    let labels = job.labels().into_iter();
    let of_numbers = labels.filter(|(label, head)| {
        *head == HeadKind::Binary && label.positive.is_none() && label.vocabulary.is_none()
    });
    let told = of_numbers.filter_map(|(label, _)| {
        let column = profile.column(&label.column)?;
        let row = column.first_fraction?;
        let counts = column.counts();
        let between = counts.iter().filter(|(text, _)| {
            column.number(text).is_some_and(|number| number > 0.0 && number < 1.0)
        });
        let (first, _) = between.clone().next()?;
        let count: u64 = between.map(|(_, count)| count).sum();
        let message = format!(
            "{count} of {} labels in `{}` are between 0 and 1, as {}, the first in record {row}: training takes them for probabilities of the class 1",
            column.values,
            column.name,
            String::from_utf8_lossy(first)
        );
        Some(warning(
            message,
            "if they are a class of their own, write the labels as whole numbers from 0 and set model.n_classes; if they are errors, correct the records",
        ))
    });
    told.collect()
}

/// Labels per class of a sample in which a class without one is no coincidence.
const LABELS_OF_A_CLASS: u64 = 10;

/// Warns of classes by number that no label is. Among two classes, that is a label of one value.
pub(super) fn look_at_number_of_classes(
    classes: usize,
    column: &ColumnProfile,
) -> Option<Diagnostic> {
    let is_enough = column.values >= LABELS_OF_A_CLASS * classes as u64;
    if classes <= 2 || !is_enough || !column.is_numeric() || !column.are_all_counted() {
        return None;
    }
    let mut are_there = vec![false; classes];
    for (text, _) in column.counts() {
        let number = std::str::from_utf8(text).ok()?.parse::<f64>().ok()?;
        if let Some(is_there) = are_there.get_mut(number as usize) {
            *is_there |= number >= 0.0;
        }
    }
    let absent = are_there.iter().enumerate().filter(|(_, there)| !**there);
    let absent: Vec<String> = absent.map(|(class, _)| class.to_string()).collect();
    let first = absent.iter().take(SHOWN_MAX);
    let first: Vec<&str> = first.map(String::as_str).collect();
    let more = match absent.len() - first.len() {
        0 => String::new(),
        count => format!(" or {count} others"),
    };
    (!absent.is_empty()).then(|| {
        let message = format!(
            "none of {} labels of the sample is the class {}{more}: n_classes is {classes}, and `{}` holds {}",
            column.values,
            first.join(" or "),
            column.name,
            shown(column)
        );
        warning(
            message,
            "correct n_classes, whose labels count from 0, unless the class is that rare or the files are sorted by the label",
        )
    })
}

/// Warns about two texts of a label that a job takes for different classes, and that are ways to write one: the same number,
/// the same word but for the case of its letters, or yes and no as words and as numbers.
pub(crate) fn look_for_class_of_several_texts(job: &Job, profile: &Profile) -> Vec<Diagnostic> {
    let labels = job.labels().into_iter();
    labels
        .filter_map(|(label, _)| look_at(label, profile))
        .collect()
}

fn look_at(label: &LabelConfig, profile: &Profile) -> Option<Diagnostic> {
    let column = profile.column(&label.column)?;
    let mut classes: BTreeMap<String, Vec<(&[u8], u64)>> = BTreeMap::new();
    for (text, count) in column.counts() {
        classes
            .entry(meaning(text))
            .or_default()
            .push((text, count));
    }
    let is_known = |text: &[u8]| match &label.vocabulary {
        Some(known) => known.iter().any(|known| known.as_bytes() == text),
        None => false,
    };
    let is_divided = |texts: &&Vec<(&[u8], u64)>| match &label.positive {
        Some(positive) => {
            let positive = |(text, _): &(&[u8], u64)| is_positive(positive, text);
            texts.iter().any(positive) && !texts.iter().all(positive)
        }
        None => texts.iter().filter(|(text, _)| is_known(text)).count() > 1,
    };
    let texts = classes.values().find(is_divided)?;
    Some(told(column, texts, label.positive.as_deref()))
}

fn told(column: &ColumnProfile, texts: &[(&[u8], u64)], positive: Option<&str>) -> Diagnostic {
    let shown: Vec<String> = texts
        .iter()
        .map(|(text, count)| format!("`{}` ({count})", String::from_utf8_lossy(text)))
        .collect();
    let shown = shown.join(" and ");
    let name = &column.name;
    let taken = match positive {
        Some(positive) => format!("only `{positive}` is positive"),
        None => "each is a class of its own".to_owned(),
    };
    let message = format!(
        "the label `{name}` holds {shown}, which look like one class, and {taken}: a label should write a class in one way"
    );
    warning(
        message,
        "write the label in one way in all files, unless these are different classes",
    )
}

/// Returns what a text of a label stands for.
fn meaning(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let word = text.trim();
    match word.to_lowercase().as_str() {
        "true" | "yes" => return "1".to_owned(),
        "false" | "no" => return "0".to_owned(),
        _ => {}
    }
    // A float merges whole numbers from 2^53.
    if let Ok(number) = word.parse::<i128>() {
        return number.to_string();
    }
    match word.parse::<f64>() {
        // The sum makes 0 of -0.
        Ok(number) if number.is_finite() => (number + 0.0).to_string(),
        // Letters alone may be classes, as in recognition of characters.
        _ if word.chars().nth(1).is_none() => word.to_owned(),
        _ => word.to_lowercase(),
    }
}
