//! Parts of the model that a feature feeds: `wide` and `deep`.

use trainyard_diagnostic::{Code, Diagnostic, Section, Value};

use super::Kind;
use crate::{Combiner, Deep, DynamicConfig, Embedding, FeatureConfig, FeatureKind, ModelKind};

/// Largest dimension of an embedding.
const DIMENSION_MAX: u64 = 1 << 16;

/// Reads whether the feature is wide, and how it is deep, with the defaults of the model's kind.
pub(super) fn read(
    section: &Section<'_>,
    kind: Kind,
    model: Option<ModelKind>,
) -> Option<(bool, Option<Deep>)> {
    let wide = section.flag("wide");
    let plain = matches!(kind, Kind::Numeric | Kind::Bucketized).then_some(Deep::Dense);
    let (given, deep) = read_deep(section, kind, plain.clone())?;
    let Some(model) = model else {
        return Some((wide.unwrap_or(true), deep));
    };
    for (key, has, used) in [
        ("wide", model.has_linear(), wide == Some(true)),
        ("deep", model.has_deep(), deep.is_some()),
    ] {
        if used && !has {
            section.fail(
                Code::E1006,
                key,
                format!("{key} has no meaning: the model has no such part"),
            );
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

/// Checks that a feature which feeds no part is a key of a cross.
pub(super) fn check_use<'a, 'b: 'a>(
    root: &Section<'_>,
    table_of: impl Fn(usize) -> &'a Section<'b>,
    features: &[FeatureConfig],
    model: Option<ModelKind>,
) {
    let Some(model) = model else { return };
    for (place, feature) in features
        .iter()
        .enumerate()
        .filter(|(_, feature)| !feature.wide && feature.deep.is_none())
    {
        let crossed = features.iter().any(|other| match &other.kind {
            FeatureKind::Crossed { keys, .. } => keys.iter().any(|key| key.name() == feature.name),
            _ => false,
        });
        if crossed {
            continue;
        }
        let message = format!("feature `{}` is used by no part of the model", feature.name);
        let problem = table_of(place).reject(Code::E1005, "kind", message);
        let dynamic = matches!(feature.kind, FeatureKind::Dynamic { .. });
        root.problems()
            .push(problem.help(match (model.has_linear(), model.has_deep()) {
                (true, true) if dynamic => "set wide = true, or deep = { embedding = 8 }",
                (false, _) if dynamic => "set deep = { embedding = 8 }",
                (true, false) => "set wide = true, or remove the feature",
                (true, true) => {
                    "set wide = true, or deep = { embedding = 8 }, or deep = { indicator = true }"
                }
                (false, _) => "set deep = { embedding = 8 } or deep = { indicator = true }",
            }));
    }
}

/// Checks that features with a shared table have the same settings for it.
pub(super) fn check_tables(root: &Section<'_>, features: &[FeatureConfig]) {
    let tables: Vec<(&str, &Embedding, &FeatureConfig)> = features
        .iter()
        .filter_map(|feature| match &feature.deep {
            Some(Deep::Embedding(embedding)) => {
                Some((embedding.table.as_deref()?, embedding, feature))
            }
            _ => None,
        })
        .collect();
    for (place, one) in tables.iter().enumerate() {
        let Some(other) = tables[..place].iter().find(|other| other.0 == one.0) else {
            continue;
        };
        let one_kind = &one.2.kind;
        let other_kind = &other.2.kind;
        let (what, help) = if one.1.dimension != other.1.dimension {
            let what = format!(
                "embedding dimensions {} and {}",
                other.1.dimension, one.1.dimension
            );
            (
                what,
                "give them the same buckets and dimension, or tables of their own",
            )
        } else if one.1.trainable != other.1.trainable {
            let what = "trainable = false for only one of them".to_owned();
            (what, "set it for both, or give them tables of their own")
        } else if dynamic(one_kind) != dynamic(other_kind) {
            let what = "other rules of a dynamic table, or only one of them has one".to_owned();
            (
                what,
                "give them the same kind, rows_max, admit_after and expiry, or tables of their own",
            )
        } else if buckets(one_kind) != buckets(other_kind) {
            let ids = |kind| buckets(kind).unwrap_or(0);
            let what = format!("{} and {} ids", ids(other_kind), ids(one_kind));
            (
                what,
                "give them the same buckets and dimension, or tables of their own",
            )
        } else {
            continue;
        };
        let table = one.0;
        let one = &one.2.name;
        let other = &other.2.name;
        let message =
            format!("features `{other}` and `{one}` share the table `{table}`, but have {what}");
        root.problems()
            .push(Diagnostic::error(Code::E1006, message).help(help));
    }
}

/// Returns the rules of a dynamic table.
fn dynamic(kind: &FeatureKind) -> Option<&DynamicConfig> {
    match kind {
        FeatureKind::Dynamic { table, .. } => Some(table),
        _ => None,
    }
}

/// Returns the number of ids of a categorical feature, if it is known.
fn buckets(kind: &FeatureKind) -> Option<u64> {
    match kind {
        FeatureKind::Numeric(_) | FeatureKind::Dynamic { .. } => None,
        FeatureKind::Bucketized {
            numbers,
            boundaries,
        } => Some((boundaries.len() as u64 + 1) * numbers.width as u64),
        FeatureKind::Vocabulary {
            values,
            oov_buckets,
            ..
        } => Some(values.len() as u64 + u64::from(*oov_buckets)),
        FeatureKind::Hashed { buckets, .. }
        | FeatureKind::Identity { buckets, .. }
        | FeatureKind::Crossed { buckets, .. } => Some(u64::from(*buckets)),
    }
}

/// Reads `deep`. The flag tells whether the key is present.
fn read_deep(
    section: &Section<'_>,
    kind: Kind,
    plain: Option<Deep>,
) -> Option<(bool, Option<Deep>)> {
    let Some(node) = section.node("deep") else {
        return Some((false, None));
    };
    let deep = match &node.value {
        Value::Flag(false) => return Some((true, None)),
        Value::Flag(true) if plain.is_some() => plain,
        Value::Text(text) if text == "indicator" && kind != Kind::Numeric => Some(Deep::Indicator),
        Value::Table(_) if kind != Kind::Numeric => read_table(section.section("deep")?)?,
        _ => None,
    };
    // An indicator would be as wide as the number of ids.
    let deep = deep.filter(|deep| kind != Kind::Dynamic || *deep != Deep::Indicator);
    if deep.is_none() {
        let rule = match kind {
            Kind::Numeric => {
                "deep of a numeric feature must be true or false; to embed numbers, bucketize them first"
            }
            Kind::Bucketized => {
                "deep must be true, false, { indicator = true } or { embedding = 8 }"
            }
            Kind::Dynamic => "deep of a dynamic feature must be { embedding = 8 } or false",
            _ => "deep must be { embedding = 8 }, { indicator = true } or false",
        };
        section.fail(Code::E1002, "deep", rule);
        return None;
    }
    Some((true, deep))
}

/// Reads a table of `deep`. Returns `None` after a reported mistake, and `Some(None)` if it has no valid content.
#[allow(clippy::option_option)]
fn read_table(inner: Section<'_>) -> Option<Option<Deep>> {
    let before = inner.problems().len();
    let indicator = inner.flag("indicator");
    let dimension = inner.integer("embedding", 1..=DIMENSION_MAX);
    let combiner = match inner.node("combiner") {
        Some(_) => inner.choice("combiner", "combiner", &Combiner::NAMES),
        None => Some(Combiner::Mean),
    };
    let max_norm = inner.single("max_norm");
    if let Some(norm) = max_norm.filter(|norm| *norm <= 0.0) {
        inner.fail(
            Code::E1002,
            "max_norm",
            format!("max_norm must be > 0, given {norm}"),
        );
    }
    let table = inner.text("table");
    let trainable = inner.flag("trainable").unwrap_or(true);
    let extra = ["combiner", "max_norm", "table", "trainable"]
        .into_iter()
        .find(|key| inner.node(key).is_some());
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
            let dimension = dimension as usize;
            let combiner = combiner?;
            Some(Deep::Embedding(Embedding {
                dimension,
                combiner,
                max_norm,
                table,
                trainable,
            }))
        }
        _ => None,
    })
}
