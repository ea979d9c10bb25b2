//! `[[feature]]`: the feature columns.

use std::path::Path;

use trainyard_diagnostic::{Code, Diagnostic, Section, Value, suggest};

use super::input::duplicate;
use crate::{Deep, FeatureConfig, FeatureKind, ModelKind, Normalizer};

/// Most buckets of a column: row numbers are 32 bits wide.
const BUCKETS_MAX: u64 = u32::MAX as u64;
/// Widest embedding.
const DIMENSION_MAX: u64 = 1 << 16;

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
        root.missing("feature", "a section [[feature]] with column = \"age\" and kind = \"numeric\"");
        return None;
    }
    let sections = root.sections("feature");
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
        check_crosses(root, &features);
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
    let columns = read_columns(section, kind)?;
    let kinds = read_kinds(path, section, kind, &columns)?;
    let name = section.text("name");
    if name.is_some() && kinds.len() > 1 {
        section.fail(Code::E1006, "name", "name cannot be given for several columns at once");
    }
    let (wide, deep) = read_use(section, kind, model)?;
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
    if kind == Kind::Crossed {
        let Some(keys) = columns else {
            section.missing("columns", "[\"education\", \"occupation\"]");
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
        _ => {
            section.missing("column", "\"age\"");
            None
        }
    }
}

fn read_kinds(
    path: &Path,
    section: &Section<'_>,
    kind: Kind,
    columns: &[String],
) -> Option<Vec<FeatureKind>> {
    let each = |make: &dyn Fn(String) -> FeatureKind| columns.iter().cloned().map(make).collect::<Vec<_>>();
    match kind {
        Kind::Numeric => {
            let normalizer = read_normalizer(section)?;
            let default = section.number("default").map(|value| value as f32);
            Some(each(&|column| FeatureKind::Numeric { column, normalizer, default }))
        }
        Kind::Bucketized => {
            let boundaries = read_boundaries(section)?;
            let default = section.number("default").map(|value| value as f32);
            Some(each(&|column| FeatureKind::Bucketized { column, boundaries: boundaries.clone(), default }))
        }
        Kind::Hashed => {
            let buckets = read_buckets(section, columns.len(), 1)?;
            let pairs = columns.iter().cloned().zip(buckets);
            Some(pairs.map(|(column, buckets)| FeatureKind::Hashed { column, buckets }).collect())
        }
        Kind::Vocabulary => {
            let values = read_vocabulary(path, section)?;
            let oov_buckets = section.integer("oov_buckets", 0..=BUCKETS_MAX).unwrap_or(0) as u32;
            Some(each(&|column| FeatureKind::Vocabulary { column, values: values.clone(), oov_buckets }))
        }
        Kind::Identity => {
            let buckets = read_buckets(section, columns.len(), 1)?;
            let default = section.integer("default", 0..=BUCKETS_MAX).map(|id| id as u32);
            if let (Some(id), Some(least)) = (default, buckets.iter().min())
                && id >= *least
            {
                section.fail(
                    Code::E1002,
                    "default",
                    format!("default must be below buckets ({least}), given {id}"),
                );
            }
            let pairs = columns.iter().cloned().zip(buckets);
            Some(pairs.map(|(column, buckets)| FeatureKind::Identity { column, buckets, default }).collect())
        }
        Kind::Crossed => {
            let buckets = read_buckets(section, 1, 2)?[0];
            Some(vec![FeatureKind::Crossed { keys: columns.to_vec(), buckets }])
        }
    }
}

fn read_normalizer(section: &Section<'_>) -> Option<Normalizer> {
    let known = [("none", 0), ("log1p", 1), ("standardize", 2)];
    let choice = match section.node("normalizer") {
        Some(_) => section.choice("normalizer", "normalizer", &known)?,
        None => 0,
    };
    let (mean, stddev) = (section.number("mean"), section.number("stddev"));
    match (choice, mean, stddev) {
        (2, Some(mean), Some(stddev)) if stddev != 0.0 => {
            Some(Normalizer::Standardize { mean: mean as f32, stddev: stddev as f32 })
        }
        (2, _, Some(_)) if mean.is_some() => {
            section.fail(Code::E1002, "stddev", "stddev must not be 0, given 0");
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
    if let Some(pair) = boundaries.windows(2).find(|pair| pair[0] >= pair[1]) {
        let message = format!("boundaries must ascend, given {} before {}", pair[0], pair[1]);
        section.fail(Code::E1002, "boundaries", message);
        return None;
    }
    Some(boundaries)
}

/// Buckets of each column: one number for all, or one each.
fn read_buckets(section: &Section<'_>, columns: usize, least: u64) -> Option<Vec<u32>> {
    match section.node("buckets").map(|node| &node.value) {
        None => {
            section.missing("buckets", "1000");
            None
        }
        Some(Value::List(_)) => {
            let buckets = section.integers("buckets", least..=BUCKETS_MAX)?;
            if buckets.len() != columns {
                let message = format!(
                    "buckets must be one number for each of {columns} columns, given {}",
                    buckets.len()
                );
                section.fail(Code::E1002, "buckets", message);
                return None;
            }
            Some(buckets.into_iter().map(|count| count as u32).collect())
        }
        Some(_) => section.integer("buckets", least..=BUCKETS_MAX).map(|count| vec![count as u32; columns]),
    }
}

fn read_vocabulary(path: &Path, section: &Section<'_>) -> Option<Vec<String>> {
    let (values, file) = (section.texts("values"), section.text("file"));
    let (key, values) = match (values, file) {
        (Some(_), Some(_)) => {
            section.fail(Code::E1006, "file", "values and file cannot be both set");
            return None;
        }
        (Some(values), None) => ("values", values),
        (None, Some(file)) => ("file", read_vocabulary_file(path, section, &file)?),
        (None, None) => {
            section.missing("values", "[\"red\", \"green\"]");
            return None;
        }
    };
    if values.is_empty() {
        section.fail(Code::E1002, key, "a vocabulary must hold at least one value, given none");
        return None;
    }
    let mut sorted: Vec<&String> = values.iter().collect();
    sorted.sort();
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        section.fail(
            Code::E1002,
            key,
            format!("a vocabulary must not repeat a value, `{}` is given twice", pair[0]),
        );
        return None;
    }
    Some(values)
}

/// A value a line, spaces kept, a carriage return before the line end dropped (TensorFlow's rules).
fn read_vocabulary_file(path: &Path, section: &Section<'_>, file: &str) -> Option<Vec<String>> {
    let full = path.parent().unwrap_or(Path::new("")).join(file);
    match std::fs::read_to_string(&full) {
        Ok(text) => {
            let values: Vec<String> = text.lines().map(str::to_owned).collect();
            if let Some(line) = values.iter().position(String::is_empty) {
                let message = format!(
                    "{}:{} is empty, a vocabulary file holds one value a line",
                    full.display(),
                    line + 1
                );
                section.fail(Code::E1002, "file", message);
                return None;
            }
            Some(values)
        }
        Err(error) => {
            let message = format!("vocabulary file {} cannot be read: {}", full.display(), error.kind());
            section.fail(Code::E1201, "file", message);
            None
        }
    }
}

/// Whether the feature is wide, and how it is deep, with the defaults of the model's kind.
fn read_use(section: &Section<'_>, kind: Kind, model: Option<ModelKind>) -> Option<(bool, Option<Deep>)> {
    let wide = section.flag("wide");
    let plain = match kind {
        Kind::Numeric => Some(Deep::Value),
        Kind::Bucketized => Some(Deep::Indicator),
        _ => None,
    };
    let (given, deep) = read_deep(section, kind, plain)?;
    let Some(model) = model else { return Some((wide.unwrap_or(true), deep)) };
    for (key, has, used) in
        [("wide", model.has_linear(), wide == Some(true)), ("deep", model.has_dnn(), deep.is_some())]
    {
        if used && !has {
            section.fail(Code::E1006, key, format!("{key} has no meaning: the model has no such part"));
        }
    }
    if model.has_linear() && !model.has_dnn() {
        return Some((wide.unwrap_or(true), None));
    }
    let wide = wide.unwrap_or(false);
    let default = if kind == Kind::Numeric || !model.has_linear() { plain } else { None };
    let deep = if given {
        deep
    } else if wide && kind != Kind::Numeric {
        None
    } else {
        default
    };
    if !wide && deep.is_none() {
        let place = section.reject(Code::E1005, "kind", "feature is used by no part of the model");
        let help = match model.has_linear() {
            true => "set wide = true, or deep = { embedding = 8 }, or deep = { indicator = true }",
            false => "set deep = { embedding = 8 } or deep = { indicator = true }",
        };
        section.problems().push(place.help(help));
        return None;
    }
    Some((wide, deep))
}

/// Whether `deep` was given, and what it says.
fn read_deep(section: &Section<'_>, kind: Kind, plain: Option<Deep>) -> Option<(bool, Option<Deep>)> {
    let Some(node) = section.node("deep") else { return Some((false, None)) };
    let deep = match &node.value {
        Value::Flag(false) => return Some((true, None)),
        Value::Flag(true) if plain.is_some() => plain,
        Value::Text(text) if text == "indicator" && kind != Kind::Numeric => Some(Deep::Indicator),
        Value::Table(_) if kind != Kind::Numeric => {
            let inner = section.section("deep")?;
            let indicator = inner.flag("indicator");
            let embedding = inner.integer("embedding", 1..=DIMENSION_MAX);
            inner.finish();
            match (indicator, embedding) {
                (Some(true), None) => Some(Deep::Indicator),
                (None | Some(false), Some(dimension)) => Some(Deep::Embedding(dimension as usize)),
                _ => None,
            }
        }
        _ => None,
    };
    if deep.is_none() {
        let rule = match kind {
            Kind::Numeric => {
                "deep of a numeric feature must be true or false; to embed numbers, bucketize them first"
            }
            Kind::Bucketized => "deep must be true, false, { indicator = true } or { embedding = 8 }",
            _ => "deep must be { embedding = 8 }, { indicator = true } or false",
        };
        section.fail(Code::E1002, "deep", rule);
        return None;
    }
    Some((true, deep))
}

/// Crosses name bucketized features, or input columns read as text; never numbers.
fn check_crosses(root: &Section<'_>, features: &[FeatureConfig]) {
    let nodes = root.node("feature").map(|node| &node.value);
    let place = |name: &str| match nodes {
        Some(Value::List(items)) => items
            .iter()
            .find(|item| match &item.value {
                Value::Table(table) => {
                    table.get("columns").is_some_and(|columns| match &columns.value {
                        Value::List(keys) => keys.iter().any(|key| key.value == Value::Text(name.to_owned())),
                        _ => false,
                    }) && table.get("kind").is_some_and(|kind| kind.value == Value::Text("crossed".into()))
                }
                _ => false,
            })
            .and_then(|item| match &item.value {
                Value::Table(table) => table.get("columns").map(|columns| columns.place.clone()),
                _ => None,
            }),
        _ => None,
    };
    let fail = |name: &str, problem: Diagnostic| {
        root.problems().push(match place(name) {
            Some(place) => problem.at(place),
            None => problem,
        });
    };
    for feature in features {
        let FeatureKind::Crossed { keys, .. } = &feature.kind else { continue };
        if let Some(twice) = duplicate(keys) {
            fail(
                twice,
                Diagnostic::error(
                    Code::E1002,
                    format!("a cross must not repeat a key, `{twice}` is given twice"),
                ),
            );
        }
        for key in keys {
            let named = features.iter().find(|other| other.name == *key);
            let problem = match named.map(|named| &named.kind) {
                Some(FeatureKind::Numeric { .. }) => {
                    let buckets = features
                        .iter()
                        .map(|other| other.name.as_str())
                        .filter(|name| name.ends_with("_bucketized"));
                    let message = format!("a cross cannot hold the numeric feature `{key}`");
                    let problem = Diagnostic::error(Code::E1006, message);
                    Some(match suggest(key, buckets) {
                        Some(near) => problem.help(format!("cross its buckets: `{near}`")),
                        None => problem.help("add a bucketized feature of the column, and cross that"),
                    })
                }
                Some(FeatureKind::Crossed { .. }) => {
                    Some(Diagnostic::error(Code::E1006, format!("a cross cannot hold the cross `{key}`")))
                }
                _ => None,
            };
            if let Some(problem) = problem {
                fail(key, problem);
            }
        }
    }
}
