//! Histories of ids and their targets: lists, for example of the items that a user has seen, which hold the ids of another column, for
//! example the item that is shown now.

use std::collections::HashSet;

use trainyard_input::{ColumnProfile, Profile};

use super::feature::{Ids, buckets};
use super::{Coverage, FeaturePlan, Kind, Shape};

/// Least share of the records whose target comes in a history of any record.
const SHARED_MIN: f64 = 0.5;

/// Fewest values that both columns have. Fewer are flags or classes.
const SHARED_VALUES_MIN: usize = 10;

/// Most ids of a history that a model weighs. Each costs time, whether it is there or not.
const IDS_MAX: u64 = 50;

/// A history with its target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct History {
    /// Column of the lists.
    pub(crate) history: String,
    /// Column of the single ids.
    pub(crate) target: String,
    pub(crate) separator: char,
    /// Most ids of a record that count.
    pub(crate) ids_max: u64,
    /// Buckets of the ids of the table that both share.
    pub(crate) buckets: u64,
}

impl History {
    /// Returns the name of the table. A column has one target, and all histories of a target share its table.
    pub(crate) fn table(&self) -> String {
        format!("{} ids", self.target)
    }
}

/// Returns the histories among the features, each with the target that shares most of its values.
pub(super) fn histories(
    features: &[FeaturePlan],
    found: &Profile,
    coverage: Coverage,
) -> Vec<History> {
    let separated = |feature: &FeaturePlan| match feature.kind {
        Kind::Vocabulary { separator, .. } | Kind::Hashed { separator, .. } => separator,
        Kind::Numeric { .. } | Kind::Pairs { .. } | Kind::Attended { .. } => None,
    };
    let names_one = |feature: &&FeaturePlan| match feature.kind {
        Kind::Vocabulary { separator, .. } | Kind::Hashed { separator, .. } => separator.is_none(),
        Kind::Numeric { ids, .. } => ids.is_some(),
        Kind::Pairs { .. } | Kind::Attended { .. } => false,
    };
    let of_feature = |feature: &FeaturePlan| {
        let separator = separated(feature)?;
        let history = found.column(&feature.column)?;
        let ids = Ids::of(history, separator);
        if ids.length < 2 {
            return None;
        }
        let targets = features.iter().filter(names_one);
        let shares = targets.filter_map(|target| {
            let target = found.column(&target.column)?;
            Some((shared(target, &ids.counted)?, target))
        });
        let (_, target) = shares.max_by(|(one, _), (other, _)| one.total_cmp(other))?;
        let distinct = ids.distinct.max(target.distinct());
        Some(History {
            history: feature.column.clone(),
            target: target.name.clone(),
            separator,
            ids_max: ids.length.min(IDS_MAX),
            buckets: buckets(distinct, coverage, Shape::Factorized),
        })
    };
    let mut out: Vec<History> = features.iter().filter_map(of_feature).collect();
    // All that share a table have the same buckets.
    for place in 0..out.len() {
        let same = out.iter().filter(|other| other.target == out[place].target);
        if let Some(most) = same.map(|other| other.buckets).max() {
            out[place].buckets = most;
        }
    }
    out
}

/// Returns the share of the records whose value is among these ids, if it is large enough for a target.
fn shared(column: &ColumnProfile, ids: &HashSet<String>) -> Option<f64> {
    let counts = column.counts();
    let known: Vec<u64> = counts
        .iter()
        .filter(|(value, _)| std::str::from_utf8(value).is_ok_and(|value| ids.contains(value)))
        .map(|(_, count)| *count)
        .collect();
    let share = known.iter().sum::<u64>() as f64 / column.values.max(1) as f64;
    (known.len() >= SHARED_VALUES_MIN && share >= SHARED_MIN).then_some(share)
}
