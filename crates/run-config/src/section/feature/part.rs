//! Which part of the model a feature feeds: `wide` and `deep`.

use trainyard_diagnostic::{Code, Diagnostic, Section, Value};

use super::super::single;
use super::Kind;
use crate::{Combiner, Deep, Embedding, FeatureConfig, FeatureKind, ModelKind};

/// Widest embedding.
const DIMENSION_MAX: u64 = 1 << 16;

/// Whether the feature is wide, and how it is deep, with the defaults of the model's kind.
pub(super) fn read(
    section: &Section<'_>,
    kind: Kind,
    model: Option<ModelKind>,
) -> Option<(bool, Option<Deep>)> {
    let wide = section.flag("wide");
    let plain = matches!(kind, Kind::Numeric | Kind::Bucketized).then_some(Deep::Dense);
    let (given, deep) = read_deep(section, kind, plain.clone())?;
    let Some(model) = model else { return Some((wide.unwrap_or(true), deep)) };
    for (key, has, used) in
        [("wide", model.has_linear(), wide == Some(true)), ("deep", model.has_deep(), deep.is_some())]
    {
        if used && !has {
            section.fail(Code::E1006, key, format!("{key} has no meaning: the model has no such part"));
        }
    }
    let wide = wide.unwrap_or(model.wide_by_default());
    let deep = if !model.has_deep() {
        None
    } else if given {
        deep
    } else if model.has_dnn() && (kind == Kind::Numeric || !model.has_linear()) {
        plain
    } else {
        None
    };
    Some((wide, deep))
}

/// A feature that feeds no part must at least be part of a cross.
pub(super) fn check_use(
    root: &Section<'_>,
    sections: &[Section<'_>],
    features: &[FeatureConfig],
    model: Option<ModelKind>,
) {
    let Some(model) = model else { return };
    for feature in features.iter().filter(|feature| !feature.wide && feature.deep.is_none()) {
        let crossed = features.iter().any(|other| match &other.kind {
            FeatureKind::Crossed { keys, .. } => keys.iter().any(|key| key.name() == feature.name),
            _ => false,
        });
        if crossed {
            continue;
        }
        let message = format!("feature `{}` is used by no part of the model", feature.name);
        let section = sections.iter().find(|section| names(section, feature));
        let problem = match section {
            Some(section) => section.reject(Code::E1005, "kind", message),
            None => root.reject(Code::E1005, "feature", message),
        };
        root.problems().push(problem.help(match (model.has_linear(), model.has_deep()) {
            (true, false) => "set wide = true, or remove the feature",
            (true, true) => "set wide = true, or deep = { embedding = 8 }, or deep = { indicator = true }",
            (false, _) => "set deep = { embedding = 8 } or deep = { indicator = true }",
        }));
    }
}

/// Whether a section is the one that a feature came from, by the column or name that it holds.
fn names(section: &Section<'_>, feature: &FeatureConfig) -> bool {
    let holds = |key: &'static str| {
        let text = |value: &Value| match value {
            Value::Text(text) => feature.name == *text || feature.name.starts_with(&format!("{text}_")),
            _ => false,
        };
        section.node(key).is_some_and(|node| match &node.value {
            Value::List(items) => items.iter().any(|item| text(&item.value)),
            value => text(value),
        })
    };
    holds("name") || holds("column") || holds("columns")
}

/// Features that share a table must agree on it.
pub(super) fn check_tables(root: &Section<'_>, features: &[FeatureConfig]) {
    let tables: Vec<(&str, usize, Option<u64>, &str)> = features
        .iter()
        .filter_map(|feature| match &feature.deep {
            Some(Deep::Embedding(Embedding { table: Some(table), dimension, .. })) => {
                Some((table.as_str(), *dimension, buckets(&feature.kind), feature.name.as_str()))
            }
            _ => None,
        })
        .collect();
    for (place, one) in tables.iter().enumerate() {
        let Some(other) = tables[..place].iter().find(|other| other.0 == one.0) else { continue };
        let what = if one.1 != other.1 {
            format!("embedding dimensions {} and {}", other.1, one.1)
        } else if one.2 != other.2 {
            format!("{} and {} ids", other.2.unwrap_or(0), one.2.unwrap_or(0))
        } else {
            continue;
        };
        let message =
            format!("features `{}` and `{}` share the table `{}`, but have {what}", other.3, one.3, one.0);
        let problem = Diagnostic::error(Code::E1006, message);
        root.problems()
            .push(problem.help("give them the same buckets and dimension, or tables of their own"));
    }
}

/// Number of ids of a categorical feature.
fn buckets(kind: &FeatureKind) -> Option<u64> {
    match kind {
        FeatureKind::Numeric(_) => None,
        FeatureKind::Bucketized { numbers, boundaries } => {
            Some((boundaries.len() as u64 + 1) * numbers.width as u64)
        }
        FeatureKind::Vocabulary { values, oov_buckets, .. } => {
            Some(values.len() as u64 + u64::from(*oov_buckets))
        }
        FeatureKind::Hashed { buckets, .. }
        | FeatureKind::Identity { buckets, .. }
        | FeatureKind::Crossed { buckets, .. } => Some(u64::from(*buckets)),
    }
}

/// Whether `deep` was given, and what it says.
fn read_deep(section: &Section<'_>, kind: Kind, plain: Option<Deep>) -> Option<(bool, Option<Deep>)> {
    let Some(node) = section.node("deep") else { return Some((false, None)) };
    let deep = match &node.value {
        Value::Flag(false) => return Some((true, None)),
        Value::Flag(true) if plain.is_some() => plain,
        Value::Text(text) if text == "indicator" && kind != Kind::Numeric => Some(Deep::Indicator),
        Value::Table(_) if kind != Kind::Numeric => read_table(section.section("deep")?)?,
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

/// `None` where something has been reported, `Some(None)` where nothing was said.
#[allow(clippy::option_option)]
fn read_table(inner: Section<'_>) -> Option<Option<Deep>> {
    let before = inner.problems().len();
    let indicator = inner.flag("indicator");
    let dimension = inner.integer("embedding", 1..=DIMENSION_MAX);
    let combiner = match inner.node("combiner") {
        Some(_) => inner.choice("combiner", "combiner", &Combiner::NAMES),
        None => Some(Combiner::Mean),
    };
    let max_norm = single(&inner, "max_norm");
    if let Some(norm) = max_norm.filter(|norm| *norm <= 0.0) {
        inner.fail(Code::E1002, "max_norm", format!("max_norm must be > 0, given {norm}"));
    }
    let table = inner.text("table");
    let extra = ["combiner", "max_norm", "table"].into_iter().find(|key| inner.node(key).is_some());
    if let (None, Some(key)) = (dimension, extra) {
        inner.fail(Code::E1006, key, format!("{key} needs an embedding"));
    }
    let problems = inner.problems();
    inner.finish();
    if problems.len() > before {
        return None;
    }
    Some(match (indicator, dimension) {
        (Some(true), None) => Some(Deep::Indicator),
        (None | Some(false), Some(dimension)) => {
            let (dimension, combiner) = (dimension as usize, combiner?);
            Some(Deep::Embedding(Embedding { dimension, combiner, max_norm, table }))
        }
        _ => None,
    })
}
