//! Decisions of `trainyard init` about each column, made from its profile alone.

mod feature;
mod history;
mod label;

use trainyard_diagnostic::{Code, Diagnostic, listed, suggest};
use trainyard_input::{ColumnProfile, Profile};

pub(super) use feature::{FeaturePlan, Kind, Reading, Scale, is_id, mean, merged, rounded};
pub(super) use history::History;
use history::histories;
pub(super) use label::{LabelPlan, Task};

/// Part of the data that was profiled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Coverage {
    /// All records.
    #[default]
    Whole,
    /// The first records: there may be more.
    Sample,
}

/// Records up to which a small model and a small batch learn better.
pub(super) const SMALL_ROWS: u64 = 5000;

/// Shape of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A linear part for categories and tenths of numbers, and dense layers (Cheng et al., 2016).
    WideAndDeep,
    /// The same with products of the embeddings of all features, numbers in buckets included (DeepFM; Guo et al., 2017).
    Factorized,
}

/// Options of the user.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    pub(super) label: Option<String>,
    pub(super) positive: Option<String>,
    pub(super) time: Option<String>,
    /// Share of the records for evaluation, if no files are given for it.
    pub(super) eval_share: f64,
    pub(super) coverage: Coverage,
    /// Records are lines of libsvm, which always have the same columns.
    pub(super) is_libsvm: bool,
    /// Shape of the model, where the features allow it; absent: that of the rules.
    pub(super) shape: Option<Shape>,
}

/// The decisions.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) label: LabelPlan,
    pub(super) features: Vec<FeaturePlan>,
    /// Columns that are no feature, and why.
    pub(super) left_out: Vec<(String, String)>,
    /// The column that says when a record was made.
    pub(super) time: Option<String>,
    pub(super) coverage: Coverage,
    pub(super) shape: Shape,
    /// Lists of ids of which another column has one.
    pub(super) histories: Vec<History>,
}

impl Plan {
    /// Makes the decisions. `evaluated` is the profile of the evaluation files, if they were given.
    pub(super) fn make(
        found: &Profile,
        evaluated: Option<&Profile>,
        wishes: &Wishes,
    ) -> Result<Self, Diagnostic> {
        let label = LabelPlan::make(found, evaluated, wishes)?;
        let time = match &wishes.time {
            Some(name) => {
                let name = time_named(found, name, &label.column)?;
                refuse_latest_of_many(found, &name, wishes.eval_share)?;
                Some(name)
            }
            None => found
                .columns
                .iter()
                .find(|column| column.name != label.column && feature::is_time(column))
                .map(|column| column.name.clone()),
        };
        let is_large = found.rows >= SMALL_ROWS && !wishes.is_libsvm;
        let mut shape = match (wishes.shape, &label.task) {
            (Some(shape), _) => shape,
            (None, Task::Binary { .. }) if is_large => Shape::Factorized,
            (None, _) => Shape::WideAndDeep,
        };
        let mut features = Vec::new();
        let mut left_out = Vec::new();
        if wishes.is_libsvm {
            features.extend(FeaturePlan::of_pairs(found));
        }
        for column in &found.columns {
            if column.name == label.column || wishes.is_libsvm {
                continue;
            }
            if Some(&column.name) == time.as_ref() {
                left_out.push((
                    column.name.clone(),
                    "the time of the record: those to come have later ones".to_owned(),
                ));
                continue;
            }
            match FeaturePlan::make(column, found, wishes.coverage, shape) {
                Ok(_) if column.name.is_empty() => left_out.push((
                    column.name.clone(),
                    "it has no name, by which a feature could read it".to_owned(),
                )),
                Ok(feature) => features.push(feature),
                Err(why) => left_out.push((column.name.clone(), why)),
            }
        }
        for (name, kind) in &found.unreadable {
            left_out.push((
                name.clone(),
                format!(
                    "a column of the type {kind} has more than one value or one list of values a row, and is no feature: write a column of its \
                     own in its place (pyarrow: `Table.flatten` for structures, `pyarrow.compute.list_flatten` for lists in lists)"
                ),
            ));
        }
        if features.is_empty() {
            let message = format!(
                "no column besides the label `{}` can be a feature",
                label.column
            );
            let problem = left_out.iter().fold(
                Diagnostic::error(Code::E4003, message),
                |problem, (name, why)| problem.note(format!("`{name}`: {why}")),
            );
            return Err(problem.help("give other files, or name the label by --label"));
        }
        // A product needs two.
        if features.iter().map(FeaturePlan::embeddings).sum::<usize>() < 2 {
            shape = Shape::WideAndDeep;
        }
        Ok(Self {
            label,
            histories: histories(&features, found, wishes.coverage),
            features,
            left_out,
            time,
            coverage: wishes.coverage,
            shape,
        })
    }

    /// Returns the plan with columns that are read in another way.
    pub(super) fn reading(&self, readings: &[(String, Reading)]) -> Self {
        let mut plan = self.clone();
        for feature in &mut plan.features {
            let other = readings
                .iter()
                .find(|(column, _)| *column == feature.column);
            if let Some((_, reading)) = other
                && let Some(place) = feature.others.iter().position(|(way, _)| way == reading)
            {
                feature.kind = feature.others.swap_remove(place).1;
            }
        }
        plan
    }

    /// Returns the plan with histories and their targets as a model with attention reads them.
    pub(super) fn attending(&self) -> Self {
        let mut plan = self.clone();
        for feature in &mut plan.features {
            let of_feature = self.histories.iter().find_map(|found| {
                let separator = if found.history == feature.column {
                    Some(found.separator)
                } else if found.target == feature.column {
                    None
                } else {
                    return None;
                };
                Some((found, separator))
            });
            if let Some((found, separator)) = of_feature {
                feature.kind = Kind::Attended {
                    buckets: found.buckets,
                    separator,
                    table: found.table(),
                };
            }
        }
        plan
    }

    /// Returns the plan as a model reads it that multiplies all pairs of embeddings: with two of one column, the bucket's and the id's of
    /// a number that may be a name, such a model is slower, and learns later what pairs say. The id's is kept.
    pub(super) fn multiplying(&self) -> Self {
        let mut plan = self.clone();
        for feature in &mut plan.features {
            if let Kind::Numeric {
                boundaries,
                ids: Some(_),
                ..
            } = &mut feature.kind
            {
                boundaries.clear();
            }
        }
        let embeddings: usize = plan.features.iter().map(FeaturePlan::embeddings).sum();
        // A product needs two.
        if embeddings < 2 { self.clone() } else { plan }
    }

    /// Returns whether any feature is a category. A linear part memorizes categories.
    pub(super) fn has_categories(&self) -> bool {
        self.features
            .iter()
            .any(|feature| !matches!(feature.kind, Kind::Numeric { .. }))
    }

    /// Returns whether any feature is a number.
    pub(super) fn has_numbers(&self) -> bool {
        self.features
            .iter()
            .any(|feature| matches!(feature.kind, Kind::Numeric { .. }))
    }

    /// Returns whether any number has a range that buckets divide.
    pub(super) fn has_ranges(&self) -> bool {
        let mut kinds = self.features.iter().map(|feature| &feature.kind);
        kinds.any(|kind| matches!(kind, Kind::Numeric { bins, .. } if !bins.is_empty()))
    }

    /// Counts the features by kind, for a message.
    pub(super) fn features_told(&self) -> String {
        let count = |is: fn(&Kind) -> bool| {
            self.features
                .iter()
                .filter(|feature| is(&feature.kind))
                .count()
        };
        let counts = [
            (
                count(|kind| matches!(kind, Kind::Numeric { .. })),
                "numeric",
            ),
            (
                count(|kind| matches!(kind, Kind::Vocabulary { .. })),
                "vocabulary",
            ),
            (
                count(|kind| matches!(kind, Kind::Hashed { .. } | Kind::Attended { .. })),
                "hashed",
            ),
            (count(|kind| matches!(kind, Kind::Pairs { .. })), "identity"),
        ];
        let told = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, name)| format!("{count} {name}"));
        told.collect::<Vec<_>>().join(", ")
    }
}

impl Plan {
    /// Checks that files for evaluation have the columns that the job reads.
    ///
    /// # Errors
    /// One is missing.
    pub(super) fn refuse_lacking(&self, evaluated: &Profile) -> Result<(), Diagnostic> {
        let is_named = |feature: &&FeaturePlan| !matches!(feature.kind, Kind::Pairs { .. });
        let features = self.features.iter().filter(is_named);
        let mut read = features
            .map(|feature| &feature.column)
            .chain([&self.label.column]);
        let Some(name) = read.find(|name| evaluated.column(name).is_none()) else {
            return Ok(());
        };
        let known = evaluated.columns.iter().map(|column| &column.name);
        let message = format!("column `{name}` of the data is not in the files of --eval");
        Err(Diagnostic::error(Code::E4003, message)
            .note(format!("columns: {}", listed(known)))
            .help("give files with the columns of the data"))
    }
}

/// Returns the column of times of this name.
///
/// # Errors
/// The data has no such column, it is the label, or it holds no numbers.
fn time_named(found: &Profile, name: &str, label: &str) -> Result<String, Diagnostic> {
    let name = column_named(found, "--time", name)?;
    if name == label {
        let message = format!("--time {name}: the column is the label");
        return Err(Diagnostic::error(Code::E1000, message)
            .help("name the column that says when a record was made, or the label by --label"));
    }
    let is_time = |column: &ColumnProfile| column.is_numeric() && !column.list;
    if found.column(&name).is_some_and(is_time) {
        return Ok(name);
    }
    let message = match found.column(&name) {
        Some(column) if column.list => format!(
            "--time {name}: the column holds lists, by which records cannot be put in order"
        ),
        Some(column) if column.numbers.count > 0 => {
            let is_no_number = |(value, _): &(&[u8], u64)| column.number(value).is_none();
            let other = column.counts().into_iter().find(is_no_number);
            let other = other.map_or("texts".to_owned(), |(value, _)| {
                format!("`{}`", String::from_utf8_lossy(value).escape_debug())
            });
            format!(
                "--time {name}: {} of {} values are no numbers, such as {other}, and the order of their records is not known",
                column.values - column.numbers.count,
                column.values
            )
        }
        _ => format!(
            "--time {name}: the column holds no numbers, by which records could be put in order"
        ),
    };
    Err(Diagnostic::error(Code::E4005, message).help(
        "name a column of numbers, such as seconds since 1970, and write dates as such numbers; or give the latest records as files by --eval",
    ))
}

/// Refuses times of which too many are the latest one: the share of records for evaluation cannot be later than the others.
fn refuse_latest_of_many(found: &Profile, name: &str, share: f64) -> Result<(), Diagnostic> {
    let Some(column) = found.column(name).filter(|_| share > 0.0) else {
        return Ok(());
    };
    if split_time(column, share).is_some() {
        return Ok(());
    }
    let message = format!(
        "--time {name}: the latest time, {}, is that of more than {} % of the records, so that the evaluation cannot have later \
         ones than training",
        column.numbers.max,
        100.0 * share
    );
    Err(Diagnostic::error(Code::E4005, message).help(
        "name another column, give a larger --eval-share, or give the latest records as files by --eval",
    ))
}

/// Returns the time after which the given share of the records is, about; none if the latest time is that of more of them.
pub(super) fn split_time(column: &ColumnProfile, share: f64) -> Option<f64> {
    let quantiles = column.quantiles(&[1.0 - share]);
    let after = quantiles.first().copied()?;
    (after < column.numbers.max).then_some(after)
}

/// Returns the column that an option names, which must exist.
fn column_named(found: &Profile, option: &str, name: &str) -> Result<String, Diagnostic> {
    if let Some(column) = found.column(name) {
        return Ok(column.name.clone());
    }
    let names: Vec<&str> = found
        .columns
        .iter()
        .map(|column| column.name.as_str())
        .collect();
    let problem = Diagnostic::error(
        Code::E4003,
        format!("{option} {name}: the data has no such column"),
    )
    .note(format!("columns: {}", listed(&names)));
    Err(match suggest(name, names.iter().copied()) {
        Some(near) => problem.help(format!("did you mean `{near}`?")),
        None => problem.help("name one of these columns"),
    })
}

/// Returns the name of a column in lower case, without the type that some formats append after a colon.
fn bare(name: &str) -> String {
    name.split(':').next().unwrap_or(name).to_lowercase()
}

#[cfg(test)]
mod tests;
