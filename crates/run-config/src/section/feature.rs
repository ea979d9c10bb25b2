//! `[[feature]]`: the feature columns.

mod cross;
mod dynamic;
mod numbers;
mod part;
mod vocabulary;

use std::path::Path;

use trainyard_diagnostic::{Code, Section, Value};

use super::input::separator;
use crate::{CrossKey, Deep, Family, FeatureConfig, FeatureKind, ModelKind};

/// Most buckets of a column: row indices have 32 bits.
const BUCKETS_MAX: u64 = u32::MAX as u64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Numeric,
    Bucketized,
    Hashed,
    Vocabulary,
    Identity,
    Dynamic,
    Crossed,
}

const KINDS: [(&str, Kind); 7] = [
    ("numeric", Kind::Numeric),
    ("bucketized", Kind::Bucketized),
    ("hashed", Kind::Hashed),
    ("vocabulary", Kind::Vocabulary),
    ("identity", Kind::Identity),
    ("dynamic", Kind::Dynamic),
    ("crossed", Kind::Crossed),
];

pub(crate) fn read_all(
    path: &Path,
    root: &Section<'_>,
    model: Option<ModelKind>,
) -> Option<Vec<FeatureConfig>> {
    let mut features: Vec<FeatureConfig> = Vec::new();
    let free = |model: ModelKind| model.is_custom() || model.family == Family::Baseline;
    let needed = model.is_none_or(|model| !free(model));
    if root.node("feature").is_none() {
        if !needed {
            return Some(features);
        }
        root.missing_section(
            "feature",
            "[[feature]]",
            "column = \"age\" and kind = \"numeric\"",
        );
        return None;
    }
    let problems_before = root.problems().len();
    let sections = root.sections("feature");
    if needed && sections.is_empty() && root.problems().len() == problems_before {
        root.fail(
            Code::E1002,
            "feature",
            "a model must have at least one feature, given none",
        );
    }
    let mut complete = true;
    // For each feature, the index of its section: a section with several columns stands for several features.
    let mut tables = Vec::new();
    for (place, section) in sections.iter().enumerate() {
        match read(path, section, model) {
            Some(read) => {
                for feature in read {
                    if features.iter().any(|have| clash(have, &feature)) {
                        let message = format!("feature name `{}` is given twice", feature.name);
                        let problem = section.reject(Code::E1002, "name", message);
                        section.problems().push(
                            problem.help("give one of them another name, with the key `name`"),
                        );
                    }
                    features.push(feature);
                    tables.push(place);
                }
            }
            None => complete = false,
        }
    }
    if complete {
        if needed {
            let table_of = |feature: usize| &sections[tables[feature]];
            part::check_use(root, table_of, &features, model);
        }
        cross::settle(root, &mut features);
        part::check_tables(root, &features);
    }
    sections.into_iter().for_each(Section::finish);
    complete.then_some(features)
}

/// Returns whether two features clash. They may share a name if they feed different parts, as `c` wide and `c` embedded
/// in TensorFlow.
fn clash(one: &FeatureConfig, other: &FeatureConfig) -> bool {
    let unused = |feature: &FeatureConfig| !feature.wide && feature.deep.is_none();
    let deep = match (&one.deep, &other.deep) {
        (Some(Deep::Embedding(_)), Some(Deep::Embedding(_))) => true,
        (Some(Deep::Embedding(_)), Some(_)) | (Some(_), Some(Deep::Embedding(_))) => false,
        (Some(one), Some(other)) => one == other,
        _ => false,
    };
    one.name == other.name && (one.wide && other.wide || deep || unused(one) || unused(other))
}

fn read(
    path: &Path,
    section: &Section<'_>,
    model: Option<ModelKind>,
) -> Option<Vec<FeatureConfig>> {
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
        section.know(&[
            "oov_buckets",
            "default",
            "normalizer",
            "mean",
            "stddev",
            "shape",
            "separator",
        ]);
        section.know(&["weights", "integers", "hash_key", "size"]);
        section.know(&[
            "min",
            "max",
            "clip",
            "minus",
            "divided_by",
            "time",
            "time_unit",
        ]);
        section.know(&[
            "rows_max",
            "admit_after",
            "expire_after_steps",
            "expire_after_secs",
        ]);
        return None;
    };
    // All keys are read before an early return, so that every mistake is reported and no key counts as unknown.
    let columns = read_columns(section, kind);
    let kinds = read_kinds(path, section, kind, columns.as_deref());
    let names = read_names(section);
    if let (Some(names), Some(kinds)) = (&names, &kinds)
        && names.len() != kinds.len()
    {
        let message = format!(
            "name must be a name for each of the {} columns, given {}",
            kinds.len(),
            names.len()
        );
        section.fail(Code::E1006, "name", message);
    }
    let apart = match section.node("separator") {
        Some(_) => Some(separator(section)?),
        None => None,
    };
    let weights = match kind {
        Kind::Numeric | Kind::Bucketized => None,
        _ => section.text("weights"),
    };
    if kind == Kind::Crossed && apart.is_some() && weights.is_none() {
        let message = "separator of a crossed feature stands between its weights, and it has none: \
                       the features of its columns say how those are divided";
        section.fail(Code::E1006, "separator", message);
    }
    let parts = part::read(section, kind, model);
    let kinds = kinds?;
    let (wide, deep) = parts?;
    columns?;
    let features = kinds.into_iter().enumerate().map(|(place, kind)| {
        let name = names.as_ref().and_then(|names| names.get(place)).cloned();
        // Several numbers in a field need a separator.
        let several = matches!(&kind, FeatureKind::Numeric(numbers) | FeatureKind::Bucketized { numbers, .. } if numbers.width > 1);
        FeatureConfig {
            name: name.unwrap_or_else(|| default_name(&kind, weights.as_deref())),
            separator: apart.or(several.then_some(b'|')),
            kind,
            weights: weights.clone(),
            wide,
            deep: deep.clone(),
        }
    });
    Some(features.collect())
}

/// Reads the names in the job: one name, or a list with one per column.
fn read_names(section: &Section<'_>) -> Option<Vec<String>> {
    let names = match &section.node("name")?.value {
        Value::List(_) => section.texts("name")?,
        _ => vec![section.text("name")?],
    };
    if names.iter().any(String::is_empty) {
        section.fail(Code::E1002, "name", "name must not be empty");
    }
    Some(names)
}

fn default_name(kind: &FeatureKind, weights: Option<&str>) -> String {
    let name = match kind {
        FeatureKind::Bucketized { numbers, .. } => format!("{}_bucketized", numbers.column),
        FeatureKind::Crossed { keys, .. } => cross::name(keys),
        FeatureKind::Numeric(numbers) => numbers.column.clone(),
        FeatureKind::Hashed { column, .. }
        | FeatureKind::Vocabulary { column, .. }
        | FeatureKind::Identity { column, .. }
        | FeatureKind::Dynamic { column, .. } => column.clone(),
    };
    match weights {
        Some(weights) => format!("{name}_weighted_by_{weights}"),
        None => name,
    }
}

/// Reads the columns: one column, several similar columns, or the keys of a cross.
fn read_columns(section: &Section<'_>, kind: Kind) -> Option<Vec<String>> {
    let column = section.text("column");
    let columns = section.texts("columns");
    for (key, names) in [
        ("column", column.as_slice()),
        ("columns", columns.as_deref().unwrap_or_default()),
    ] {
        if names.iter().any(String::is_empty) {
            section.fail(
                Code::E1002,
                key,
                format!("{key} must name columns of the input, given \"\""),
            );
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
            section.fail(
                Code::E1006,
                "column",
                "a crossed feature takes `columns`, not `column`",
            );
        }
        if keys.len() < 2 {
            let message = format!(
                "columns of a cross must be at least 2, given {}",
                keys.len()
            );
            section.fail(Code::E1002, "columns", message);
            return None;
        }
        return Some(keys);
    }
    match (column, columns) {
        (Some(_), Some(_)) => {
            section.fail(
                Code::E1006,
                "columns",
                "column and columns cannot be both set",
            );
            None
        }
        (Some(column), None) => Some(vec![column]),
        (None, Some(columns)) if !columns.is_empty() => Some(columns),
        (None, Some(_)) => {
            section.fail(
                Code::E1002,
                "columns",
                "columns must name at least one column, given none",
            );
            None
        }
        // A key that exists but could not be read has been reported already.
        (None, None) => {
            if section
                .node("column")
                .or_else(|| section.node("columns"))
                .is_none()
            {
                section.missing("column", "\"age\"");
            }
            None
        }
    }
}

/// Reads the kind of each column. Without columns, it checks the other keys only.
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
            let numbers = numbers::read(section)?;
            Some(
                columns
                    .map(|column| FeatureKind::Numeric(numbers.of(column)))
                    .collect(),
            )
        }
        Kind::Bucketized => {
            let numbers = numbers::read(section);
            let boundaries = numbers::read_boundaries(section)?;
            let numbers = numbers?;
            let bucketized = |column| FeatureKind::Bucketized {
                numbers: numbers.of(column),
                boundaries: boundaries.clone(),
            };
            Some(columns.map(bucketized).collect())
        }
        Kind::Hashed => {
            let integers = section.flag("integers").unwrap_or(false);
            let buckets = read_buckets(section, count, 1)?;
            let hashed = |(column, buckets)| FeatureKind::Hashed {
                column,
                buckets,
                integers,
            };
            Some(columns.zip(buckets).map(hashed).collect())
        }
        Kind::Vocabulary => {
            let listed = vocabulary::read(path, section)?;
            Some(columns.map(|column| listed.of(column)).collect())
        }
        Kind::Identity => {
            let default = section
                .integer("default", 0..=BUCKETS_MAX)
                .map(|id| id as u32);
            let buckets = read_buckets(section, count, 1)?;
            if let (Some(id), Some(least)) = (default, buckets.iter().min())
                && id >= *least
            {
                let message = format!("default must be below buckets ({least}), given {id}");
                section.fail(Code::E1002, "default", message);
            }
            let identity = |(column, buckets)| FeatureKind::Identity {
                column,
                buckets,
                default,
            };
            Some(columns.zip(buckets).map(identity).collect())
        }
        Kind::Dynamic => {
            let said = dynamic::read(section)?;
            Some(columns.map(|column| said.of(column)).collect())
        }
        Kind::Crossed => {
            let hash_key = section.integer("hash_key", 0..=u64::MAX);
            let buckets = read_buckets(section, Some(1), 2)?;
            let keys: Vec<CrossKey> = columns.map(|text| cross::key(&text)).collect();
            let crossed = |buckets| FeatureKind::Crossed {
                keys: keys.clone(),
                buckets,
                hash_key,
            };
            Some(buckets.into_iter().map(crossed).collect())
        }
    }
}

/// Reads the buckets of each column: one number for all columns, or one per column.
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
