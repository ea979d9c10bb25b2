//! Choice of the label and of the task.

use std::collections::BTreeSet;

use trainyard_diagnostic::{Code, Diagnostic, listed};
use trainyard_input::{ColumnKind, ColumnProfile, Profile};

use super::{Wishes, bare, column_named};

/// Usual names of a label, the most specific first.
const NAMES: [&str; 26] = [
    "label",
    "labels",
    "target",
    "y",
    "click",
    "clicked",
    "is_click",
    "is_clicked",
    "clicks",
    "converted",
    "conversion",
    "is_buy",
    "bought",
    "purchased",
    "class",
    "outcome",
    "response",
    "rating",
    "salary",
    "income",
    "survived",
    "churn",
    "default",
    "species",
    "price",
    "score",
];

/// Values that mean yes, in lower case.
const POSITIVE_VALUES: [&str; 9] = [
    "1", "true", "yes", "y", "t", "positive", "pos", "click", "clicked",
];

/// Most classes of a label that holds texts, or whole numbers from 0.
const CLASSES_MAX: u64 = 100;

/// Most distinct values of a column that is proposed as a label.
const PROPOSED_VALUES_MAX: u64 = 20;

/// The label and its task.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LabelPlan {
    pub(crate) column: String,
    pub(crate) task: Task,
}

/// The prediction task.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Task {
    /// One of two classes. Without `positive`, labels are 0 and 1. `share` is the share of positive records.
    Binary {
        positive: Option<String>,
        share: f64,
    },
    /// One of several classes: the given names, or numbers from 0.
    Classes {
        names: Option<Vec<String>>,
        count: usize,
    },
    /// A number.
    Number { min: f64, max: f64 },
}

impl LabelPlan {
    pub(super) fn make(
        found: &Profile,
        evaluated: Option<&Profile>,
        wishes: &Wishes,
    ) -> Result<Self, Diagnostic> {
        let name = match &wishes.label {
            Some(name) => column_named(found, "--label", name)?,
            None => guessed(found)?,
        };
        let column = found.column(&name).ok_or_else(|| which(found))?;
        let task = task(
            column,
            evaluated.and_then(|found| found.column(&name)),
            wishes,
        )?;
        Ok(Self { column: name, task })
    }

    /// Describes the label in one line.
    pub(crate) fn told(&self) -> String {
        let column = &self.column;
        match &self.task {
            Task::Binary {
                positive: Some(positive),
                share,
            } => {
                format!(
                    "`{column}`: two classes, `{positive}` is positive ({:.1} %)",
                    100.0 * share
                )
            }
            Task::Binary {
                positive: None,
                share,
            } => {
                format!("`{column}`: 0 or 1 ({:.1} % are 1)", 100.0 * share)
            }
            Task::Classes { count, .. } => format!("`{column}`: {count} classes"),
            Task::Number { min, max } => format!("`{column}`: a number, here from {min} to {max}"),
        }
    }
}

/// Returns the column that looks like the label: by its name, or as the only column with two values.
fn guessed(found: &Profile) -> Result<String, Diagnostic> {
    for name in NAMES {
        if let Some(column) = found
            .columns
            .iter()
            .find(|column| bare(&column.name) == name)
        {
            return Ok(column.name.clone());
        }
    }
    let is_flag =
        |column: &&ColumnProfile| column.distinct() == 2 && column.missing == 0 && !column.list;
    let mut flags = found.columns.iter().filter(is_flag);
    match (flags.next(), flags.next()) {
        (Some(only), None) => Ok(only.name.clone()),
        _ => Err(which(found)),
    }
}

fn which(found: &Profile) -> Diagnostic {
    let few = |column: &&ColumnProfile| (2..=PROPOSED_VALUES_MAX).contains(&column.distinct());
    let proposed: Vec<String> = found
        .columns
        .iter()
        .filter(few)
        .map(|column| format!("`{}` ({} values)", column.name, column.distinct()))
        .collect();
    let names = found.columns.iter().map(|column| &column.name);
    let mut problem = Diagnostic::error(
        Code::E1000,
        "the data do not show which column is the label",
    )
    .note(format!("columns: {}", listed(names)));
    if !proposed.is_empty() {
        problem = problem.note(format!("columns of few values: {}", listed(&proposed)));
    }
    problem.help("name it by --label COLUMN")
}

fn task(
    column: &ColumnProfile,
    evaluated: Option<&ColumnProfile>,
    wishes: &Wishes,
) -> Result<Task, Diagnostic> {
    let name = &column.name;
    let labels = column.values.max(1) as f64;
    if column.values == 0 {
        let message = format!("`{name}` holds no label in the sample");
        return Err(Diagnostic::error(Code::E4003, message).help("name another column by --label"));
    }
    if column.not_utf8 > 0 {
        let message = format!(
            "`{name}` holds bytes that are not UTF-8, {} of {}: a job names the classes of a label as texts",
            column.not_utf8, column.values
        );
        return Err(Diagnostic::error(Code::E4003, message)
            .help("write the label as text or numbers, or name another column by --label"));
    }
    if column.distinct() == 1 {
        let message = format!(
            "`{name}` has one value in the whole sample: a model can learn nothing from it"
        );
        return Err(Diagnostic::error(Code::E4005, message)
            .help("name another column by --label, or give --all"));
    }
    let counts = column.counts();
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    if let Some(positive) = &wishes.positive {
        if column.count(positive.as_bytes()) == 0 {
            let values: Vec<String> = counts
                .iter()
                .take(10)
                .map(|(value, _)| format!("`{}`", text(value)))
                .collect();
            let message = format!("--positive {positive}: `{name}` holds no such value");
            let problem = Diagnostic::error(Code::E1000, message)
                .note(format!("values: {}", values.join(", ")));
            return Err(problem.help("name one of these values"));
        }
        let share = column.count(positive.as_bytes()) as f64 / labels;
        return Ok(Task::Binary {
            positive: Some(as_evaluated(positive.clone(), evaluated)),
            share,
        });
    }
    // One file may write 1 and another 1.0, as pandas does where a label is missing.
    let distinct = distinct_numbers(column).unwrap_or(column.distinct());
    if distinct == 2 {
        let share = |value: &[u8]| column.count(value) as f64 / labels;
        if column.is_numeric() && column.numbers.min == 0.0 && column.numbers.max == 1.0 {
            let ones = (column.numbers.mean * labels).round();
            return Ok(Task::Binary {
                positive: None,
                share: ones / labels,
            });
        }
        // 1 beside another number than these is the first of two codes.
        let is_code = |value: &[u8]| {
            let others = counts.iter().filter(|(other, _)| *other != value);
            let mut numbers = others.map(|(other, _)| column.number(other));
            numbers.any(|other| other.is_some_and(|other| other != 0.0 && other != -1.0))
        };
        let yes = counts.iter().find(|(value, _)| {
            let word = text(value).to_lowercase();
            // However it is written: 1, +1 or 1.0.
            let is_one = column.number(value) == Some(1.0);
            is_one && !is_code(value) || !is_one && POSITIVE_VALUES.contains(&word.as_str())
        });
        // The positive class is usually the rarer one.
        let Some((positive, _)) = yes.or(counts.last()) else {
            return Err(which(&Profile::default()));
        };
        let share = share(positive);
        return Ok(Task::Binary {
            positive: Some(as_evaluated(text(positive), evaluated)),
            share,
        });
    }
    if column.kind == Some(ColumnKind::Text) {
        if column.distinct() > CLASSES_MAX {
            let message = format!(
                "`{name}` holds texts, {} different ones: too many to be classes",
                column.distinct()
            );
            return Err(
                Diagnostic::error(Code::E4003, message).help("name another column by --label")
            );
        }
        let mut names: Vec<String> = counts.iter().map(|(value, _)| text(value)).collect();
        names.sort();
        let count = names.len();
        return Ok(Task::Classes {
            names: Some(names),
            count,
        });
    }
    let numbers = &column.numbers;
    let are_classes = numbers.fractions == 0
        && numbers.min == 0.0
        && distinct <= CLASSES_MAX
        && numbers.max + 1.0 == distinct as f64;
    if are_classes {
        return Ok(Task::Classes {
            names: None,
            count: distinct as usize,
        });
    }
    if let (different, of_labels) = column.whole_numbers()
        && of_labels < different
    {
        return merged_labels(column, (different, of_labels));
    }
    Ok(Task::Number {
        min: numbers.min,
        max: numbers.max,
    })
}

/// Returns classes for whole numbers of which some are the same in the 32 bits that a label has as a number.
fn merged_labels(
    column: &ColumnProfile,
    (different, of_labels): (usize, usize),
) -> Result<Task, Diagnostic> {
    let texts = column.counts().into_iter();
    let mut names: Vec<String> = texts
        .map(|(value, _)| String::from_utf8_lossy(value).into_owned())
        .collect();
    names.sort();
    if column.distinct() <= CLASSES_MAX {
        return Ok(Task::Classes {
            count: names.len(),
            names: Some(names),
        });
    }
    let example = names.swap_remove(0);
    let message = format!(
        "`{}` holds whole numbers, as {example}, that are too large for a label: {different} different ones are {of_labels} in 32 bits, and they are too many to be classes",
        column.name
    );
    Err(Diagnostic::error(Code::E4003, message)
        .help("subtract a number from them, divide them, or name another column by --label"))
}

/// Returns how many different numbers a label holds, however they are written; none unless all its values are numbers and counted.
fn distinct_numbers(column: &ColumnProfile) -> Option<u64> {
    if !column.is_numeric() || !column.are_all_counted() {
        return None;
    }
    let counts = column.counts();
    let numbers = counts.iter().map(|(value, _)| column.number(value));
    // The sum makes 0 of -0.
    let bits = numbers.map(|number| number.map(|number| (number + 0.0).to_bits()));
    let distinct = bits.collect::<Option<BTreeSet<u64>>>()?;
    // A float merges whole numbers from 2^53.
    let (whole, _) = column.whole_numbers();
    Some(distinct.len().max(whole) as u64)
}

/// Evaluation files may append characters to the positive class, as those of the adult census do.
fn as_evaluated(positive: String, evaluated: Option<&ColumnProfile>) -> String {
    let Some(evaluated) = evaluated else {
        return positive;
    };
    let has_longer = evaluated
        .counts()
        .iter()
        .any(|(value, _)| value.starts_with(positive.as_bytes()) && value.len() > positive.len());
    if has_longer && evaluated.count(positive.as_bytes()) == 0 {
        format!("{positive}*")
    } else {
        positive
    }
}
