//! `[[feature]]`: the feature columns.

mod cross;
mod part;
mod vocabulary;

use std::path::Path;

use trainyard_diagnostic::{Code, Section, Value};

use super::input::duplicate;
use super::single;
use crate::{FeatureConfig, FeatureKind, ModelKind, Normalizer};

/// Most buckets of a column: row numbers are 32 bits wide.
const BUCKETS_MAX: u64 = u32::MAX as u64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Numeric,
    Bucketized,
    Hashed,
    Vocabulary,
    Identity,
    Crossed,
}

const KINDS: [(&str, Kind); 6] = [
    ("numeric", Kind::Numeric),
    ("bucketized", Kind::Bucketized),
    ("hashed", Kind::Hashed),
    ("vocabulary", Kind::Vocabulary),
    ("identity", Kind::Identity),
    ("crossed", Kind::Crossed),
];

pub(crate) fn read_all(
    path: &Path,
    root: &Section<'_>,
    model: Option<ModelKind>,
) -> Option<Vec<FeatureConfig>> {
    let mut features: Vec<FeatureConfig> = Vec::new();
    if root.node("feature").is_none() {
        if model.is_some_and(ModelKind::is_custom) {
            return Some(features);
        }
        root.missing_section("feature", "[[feature]]", "column = \"age\" and kind = \"numeric\"");
        return None;
    }
    let problems_before = root.problems().len();
    let sections = root.sections("feature");
    if sections.is_empty() && root.problems().len() == problems_before {
        root.fail(Code::E1002, "feature", "a model must have at least one feature, given none");
    }
    let mut complete = true;
    for section in sections {
        match read(path, &section, model) {
            Some(read) => {
                for feature in read {
                    if features.iter().any(|have| have.name == feature.name) {
                        let message = format!("feature name `{}` is given twice", feature.name);
                        let problem = section.reject(Code::E1002, "name", message);
                        section
                            .problems()
                            .push(problem.help("give one of them another name, with the key `name`"));
                    }
                    features.push(feature);
                }
            }
            None => complete = false,
        }
        section.finish();
    }
    if complete {
        cross::check(root, &features);
    }
    complete.then_some(features)
}

fn read(path: &Path, section: &Section<'_>, model: Option<ModelKind>) -> Option<Vec<FeatureConfig>> {
    let kind = match section.node("kind") {
        Some(_) => section.choice("kind", "feature kind", &KINDS),
        None => {
            section.missing("kind", "\"numeric\"");
            None
        }
    };
    let Some(kind) = kind else {
        section.know(&[
            "column",
            "columns",
            "name",
            "wide",
            "deep",
            "buckets",
            "boundaries",
            "values",
            "file",
        ]);
        section.know(&["oov_buckets", "default", "normalizer", "mean", "stddev"]);
        return None;
    };
    // Everything is read before anything is given up, so that every mistake is told and no key is overlooked.
    let columns = read_columns(section, kind);
    let kinds = read_kinds(path, section, kind, columns.as_deref());
    let name = section.text("name");
    if name.as_deref() == Some("") {
        section.fail(Code::E1002, "name", "name must not be empty");
    }
    if name.is_some() && kinds.as_ref().is_some_and(|kinds| kinds.len() > 1) {
        section.fail(Code::E1006, "name", "name cannot be given for several columns at once");
    }
    let parts = part::read(section, kind, model);
    let (kinds, (wide, deep)) = (kinds?, parts?);
    columns?;
    let features = kinds.into_iter().map(|kind| {
        let name = name.clone().unwrap_or_else(|| default_name(&kind));
        FeatureConfig { name, kind, wide, deep }
    });
    Some(features.collect())
}

fn default_name(kind: &FeatureKind) -> String {
    match kind {
        FeatureKind::Bucketized { column, .. } => format!("{column}_bucketized"),
        FeatureKind::Crossed { keys, .. } => {
            let mut keys = keys.clone();
            keys.sort();
            keys.join("_X_")
        }
        FeatureKind::Numeric { column, .. }
        | FeatureKind::Hashed { column, .. }
        | FeatureKind::Vocabulary { column, .. }
        | FeatureKind::Identity { column, .. } => column.clone(),
    }
}

/// One column, several alike, or the keys of a cross.
fn read_columns(section: &Section<'_>, kind: Kind) -> Option<Vec<String>> {
    let column = section.text("column");
    let columns = section.texts("columns");
    for (key, names) in [("column", column.as_slice()), ("columns", columns.as_deref().unwrap_or_default())] {
        if names.iter().any(String::is_empty) {
            section.fail(Code::E1002, key, format!("{key} must name columns of the input, given \"\""));
            return None;
        }
    }
    if kind == Kind::Crossed {
        let Some(keys) = columns else {
            if section.node("columns").is_none() {
                section.missing("columns", "[\"education\", \"occupation\"]");
            }
            return None;
        };
        if column.is_some() {
            section.fail(Code::E1006, "column", "a crossed feature takes `columns`, not `column`");
        }
        if keys.len() < 2 {
            let message = format!("columns of a cross must be at least 2, given {}", keys.len());
            section.fail(Code::E1002, "columns", message);
            return None;
        }
        return Some(keys);
    }
    match (column, columns) {
        (Some(_), Some(_)) => {
            section.fail(Code::E1006, "columns", "column and columns cannot be both set");
            None
        }
        (Some(column), None) => Some(vec![column]),
        (None, Some(columns)) if !columns.is_empty() => Some(columns),
        (None, Some(_)) => {
            section.fail(Code::E1002, "columns", "columns must name at least one column, given none");
            None
        }
        // One that is there and could not be read has been reported.
        (None, None) => {
            if section.node("column").or_else(|| section.node("columns")).is_none() {
                section.missing("column", "\"age\"");
            }
            None
        }
    }
}

/// The kind of each column, checked as far as it can be where the columns are not known.
fn read_kinds(
    path: &Path,
    section: &Section<'_>,
    kind: Kind,
    columns: Option<&[String]>,
) -> Option<Vec<FeatureKind>> {
    let count = columns.map(<[String]>::len);
    let columns = columns.unwrap_or_default().iter().cloned();
    match kind {
        Kind::Numeric => {
            let default = single(section, "default");
            let normalizer = read_normalizer(section)?;
            Some(columns.map(|column| FeatureKind::Numeric { column, normalizer, default }).collect())
        }
        Kind::Bucketized => {
            let default = single(section, "default");
            let boundaries = read_boundaries(section)?;
            let bucketized =
                |column| FeatureKind::Bucketized { column, boundaries: boundaries.clone(), default };
            Some(columns.map(bucketized).collect())
        }
        Kind::Hashed => {
            let buckets = read_buckets(section, count, 1)?;
            let hashed = |(column, buckets)| FeatureKind::Hashed { column, buckets };
            Some(columns.zip(buckets).map(hashed).collect())
        }
        Kind::Vocabulary => {
            let oov_buckets = section.integer("oov_buckets", 0..=BUCKETS_MAX).unwrap_or(0) as u32;
            let values = vocabulary::read(path, section)?;
            let listed = |column| FeatureKind::Vocabulary { column, values: values.clone(), oov_buckets };
            Some(columns.map(listed).collect())
        }
        Kind::Identity => {
            let default = section.integer("default", 0..=BUCKETS_MAX).map(|id| id as u32);
            let buckets = read_buckets(section, count, 1)?;
            if let (Some(id), Some(least)) = (default, buckets.iter().min())
                && id >= *least
            {
                let message = format!("default must be below buckets ({least}), given {id}");
                section.fail(Code::E1002, "default", message);
            }
            let identity = |(column, buckets)| FeatureKind::Identity { column, buckets, default };
            Some(columns.zip(buckets).map(identity).collect())
        }
        Kind::Crossed => {
            let buckets = read_buckets(section, Some(1), 2)?;
            let crossed = |buckets| FeatureKind::Crossed { keys: columns.clone().collect(), buckets };
            Some(buckets.into_iter().map(crossed).collect())
        }
    }
}

fn read_normalizer(section: &Section<'_>) -> Option<Normalizer> {
    let known = [("none", 0), ("log1p", 1), ("standardize", 2)];
    let choice = match section.node("normalizer") {
        Some(_) => section.choice("normalizer", "normalizer", &known)?,
        None => 0,
    };
    let (mean, stddev) = (single(section, "mean"), single(section, "stddev"));
    match (choice, mean, stddev) {
        (2, Some(mean), Some(stddev)) if stddev.is_normal() => Some(Normalizer::Standardize { mean, stddev }),
        (2, Some(_), Some(stddev)) => {
            section.fail(Code::E1002, "stddev", format!("stddev must not be 0, given {stddev}"));
            None
        }
        (2, _, _) => {
            section.fail(Code::E1005, "normalizer", "normalizer standardize needs mean and stddev");
            None
        }
        (_, None, None) => Some(if choice == 1 { Normalizer::Log1p } else { Normalizer::None }),
        _ => {
            section.fail(Code::E1006, "normalizer", "mean and stddev need normalizer = \"standardize\"");
            None
        }
    }
}

fn read_boundaries(section: &Section<'_>) -> Option<Vec<f32>> {
    let Some(numbers) = section.numbers("boundaries") else {
        if section.node("boundaries").is_none() {
            section.missing("boundaries", "[18, 25, 40, 65]");
        }
        return None;
    };
    let boundaries: Vec<f32> = numbers.iter().map(|&number| number as f32).collect();
    if boundaries.is_empty() {
        section.fail(Code::E1002, "boundaries", "boundaries must hold at least one number, given none");
        return None;
    }
    if let Some(position) = boundaries.iter().position(|boundary| !boundary.is_finite()) {
        let message = format!("boundaries must fit into 32 bits, given {:?}", numbers[position]);
        section.fail(Code::E1002, "boundaries", message);
        return None;
    }
    if let Some(pair) = boundaries.windows(2).find(|pair| pair[0] >= pair[1]) {
        let message = format!("boundaries must ascend, given {} before {}", pair[0], pair[1]);
        section.fail(Code::E1002, "boundaries", message);
        return None;
    }
    Some(boundaries)
}

/// Buckets of each column: one number for all, or one each.
fn read_buckets(section: &Section<'_>, columns: Option<usize>, least: u64) -> Option<Vec<u32>> {
    match section.node("buckets").map(|node| &node.value) {
        None => {
            section.missing("buckets", "1000");
            None
        }
        Some(Value::List(_)) => {
            let buckets = section.integers("buckets", least..=BUCKETS_MAX)?;
            if let Some(columns) = columns.filter(|columns| *columns != buckets.len()) {
                let message = format!(
                    "buckets must be one number for each of {columns} columns, given {}",
                    buckets.len()
                );
                section.fail(Code::E1002, "buckets", message);
                return None;
            }
            Some(buckets.into_iter().map(|count| count as u32).collect())
        }
        Some(_) => section
            .integer("buckets", least..=BUCKETS_MAX)
            .map(|count| vec![count as u32; columns.unwrap_or(0)]),
    }
}
