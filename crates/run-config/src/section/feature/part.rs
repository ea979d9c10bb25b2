//! Parts of the model that a feature feeds: `wide` and `deep`.

use std::mem::discriminant;

use trainyard_diagnostic::{Bound, Code, Diagnostic, Section, Takes, Value, section};
use trainyard_variable::Initializer;

use super::super::initializer::{read_initializer, takes_initializer};
use super::super::regularizer::{read_regularizer, takes_regularizer};
use super::FeatureKeys;
use crate::without_effect::warn_of_key;
use crate::{
    Combiner, Deep, DynamicConfig, Embedding, FeatureConfig, FeatureKind, ModelConfig, ModelKind,
    Regularizer,
};

/// Largest dimension of an embedding.
const DIMENSION_MAX: u64 = 1 << 16;

section! {
    /// Parts of the model that a feature feeds, whatever its kind.
    #[derive(Debug)]
    pub(crate) struct PartKeys {
        /// feeds the linear part
        wide: Option<bool> = flag().optional("true in `linear_*`, `fm_*`, `deepfm_*` and `xdeepfm_*` models, else false");
        /// feeds the deep part: `true`, `false`, `"indicator"`, `{ indicator = true }`, `{ embedding = 8 }`, with the
        /// options below
        deep: Option<Given> = custom(read_deep, takes_deep, "")
            .optional_or_invalid("numeric: true; in models without linear part bucketized too");
    }
}

section! {
    /// Keys of a table `deep`.
    #[derive(Debug)]
    pub(crate) struct DeepKeys {
        /// one position per id, with its count or summed weight (`indicator_column`)
        indicator: Option<bool> = flag().optional("false");
        /// number of values of a learned vector per id (`embedding_column`)
        embedding: Option<usize> = integer(1..=DIMENSION_MAX).optional("none");
        /// `mean`, `sqrtn` or `sum` over the ids of a row
        combiner: Option<Combiner> = choice("combiner", &Combiner::NAMES).or_invalid(Combiner::Mean);
        /// longer vectors are scaled to this length before they are combined
        max_norm: Option<f32> = single(Bound::Positive).optional("none");
        /// features that name the same table share it
        table: Option<String> = text().optional("its own");
        /// initial values, `{ kind = "normal", stddev = 0.01 }`: see `[model]`. Features that share a table have the
        /// same
        initializer: Option<Initializer> = custom(read_initializer, takes_initializer, "")
            .optional("`model.embedding_initializer`");
        /// penalty of the vectors that a batch reads, `{ l2 = 1e-5 }`: see `[model]`. Features that share a table have the same
        regularizer: Option<Regularizer> = custom(read_regularizer, takes_regularizer, "")
            .optional("`model.embedding_regularizer`");
        /// with `false`, training does not change the vectors, which usually come from `train.warm_start`. Their gradients
        /// are zeros and are still sent
        trainable: bool = flag().or(true);
    }
}

/// The form in which a job says how a feature is deep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Given {
    /// `true`.
    Yes,
    /// `false`.
    No,
    /// `"indicator"`.
    Indicator,
    /// A table, which is read when the kind is known to take one.
    Table,
    /// Another value.
    Other,
}

fn takes_deep() -> Takes {
    Takes::AnyOf(vec![
        Takes::Flag,
        Takes::Choice(vec!["indicator"]),
        Takes::Table(DeepKeys::keys()),
    ])
}

fn read_deep(section: &Section<'_>, key: &'static str) -> Option<Given> {
    Some(match &section.node(key)?.value {
        Value::Flag(true) => Given::Yes,
        Value::Flag(false) => Given::No,
        Value::Text(text) if text == "indicator" => Given::Indicator,
        Value::Table(_) => Given::Table,
        _ => Given::Other,
    })
}

/// Reads whether the feature is wide, and how it is deep, with the defaults of the model's kind.
pub(super) fn read(
    section: &Section<'_>,
    keys: &FeatureKeys,
    model: Option<ModelKind>,
) -> Option<(bool, Option<Deep>)> {
    let PartKeys { wide, deep: given } = PartKeys::read_keys(section)?;
    let plain = matches!(keys, FeatureKeys::Numeric(..) | FeatureKeys::Bucketized(..))
        .then_some(Deep::Dense);
    let deep = match given {
        None | Some(Given::No) => None,
        Some(given) => Some(deep(section, keys, given)?),
    };
    let Some(model) = model else {
        return Some((wide.unwrap_or(true), deep));
    };
    let wide = model.has_linear() && wide.unwrap_or(model.wide_by_default());
    let deep = if !model.has_deep() {
        None
    } else if given.is_some() {
        deep
    } else if model.has_dnn() && (matches!(keys, FeatureKeys::Numeric(..)) || !model.has_linear()) {
        plain
    } else {
        None
    };
    Some((wide, deep))
}

/// Most features that a message names.
const NAMES_SHOWN_MAX: usize = 5;

/// Returns names for a message.
fn shown(names: &[&str]) -> String {
    let quoted = names.iter().map(|name| format!("`{name}`"));
    let mut text: String = quoted.take(NAMES_SHOWN_MAX).collect::<Vec<_>>().join(", ");
    if names.len() > NAMES_SHOWN_MAX {
        text += &format!(" and {} more", names.len() - NAMES_SHOWN_MAX);
    }
    let noun = if names.len() == 1 {
        "feature"
    } else {
        "features"
    };
    format!("{noun} {text}")
}

/// Warns of `wide` and `deep` where the kind of model has no such part. The features are the data's, so that one job compares kinds.
pub(super) fn warn_of_unused<'a, 'b: 'a>(
    root: &Section<'_>,
    table_of: impl Fn(usize) -> &'a Section<'b>,
    features: &[FeatureConfig],
    model: Option<ModelKind>,
) {
    let Some(model) = model else { return };
    for (key, has) in [("wide", model.has_linear()), ("deep", model.has_deep())] {
        let is_given = |place: usize| {
            let node = table_of(place).node(key);
            node.is_some_and(|node| !matches!(node.value, Value::Flag(false)))
        };
        let places = (0..features.len()).filter(|place| is_given(*place));
        let places: Vec<usize> = places.collect();
        if has || places.is_empty() {
            continue;
        }
        let mut names: Vec<&str> = places
            .iter()
            .map(|place| features[*place].name.as_str())
            .collect();
        names.dedup();
        let message = format!(
            "`{key}` of {} does nothing: a {} has no such part",
            shown(&names),
            model.name()
        );
        let warning = Diagnostic::warning(Code::E1006, message);
        root.problems().warn(match table_of(places[0]).place(key) {
            Some(place) => warning.at(place),
            None => warning,
        });
    }
}

/// Checks that a feature which feeds no part is a key of a cross, or says that it feeds only a part that other kinds of models have.
pub(super) fn check_use<'a, 'b: 'a>(
    root: &Section<'_>,
    table_of: impl Fn(usize) -> &'a Section<'b>,
    features: &[FeatureConfig],
    model: Option<ModelKind>,
) {
    let Some(model) = model else { return };
    let is_unused = |feature: &FeatureConfig| !feature.wide && feature.deep.is_none();
    let are_all_unused = features.iter().all(is_unused);
    let is_off = |place: usize, key: &'static str| {
        let node = table_of(place).node(key);
        node.is_some_and(|node| matches!(node.value, Value::Flag(false)))
    };
    let mut left_out = Vec::new();
    for (place, feature) in features
        .iter()
        .enumerate()
        .filter(|(_, feature)| is_unused(feature))
    {
        let crossed = features.iter().any(|other| match &other.kind {
            FeatureKind::Crossed { keys, .. } => keys.iter().any(|key| key.name() == feature.name),
            _ => false,
        });
        if crossed {
            continue;
        }
        let is_of_another_part = !model.has_linear() && is_off(place, "deep")
            || !model.has_deep() && is_off(place, "wide");
        if is_of_another_part && !are_all_unused {
            left_out.push(feature.name.as_str());
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
    left_out.dedup();
    if !left_out.is_empty() {
        let (part, key) = if model.has_linear() {
            ("deep", "wide = false")
        } else {
            ("linear", "deep = false")
        };
        let message = format!(
            "a {} leaves out the {}: it has no {part} part",
            model.name(),
            shown(&left_out)
        );
        let warning = Diagnostic::warning(Code::E1006, message);
        root.problems()
            .warn(warning.help(format!("change `{key}` to use them with this kind, too")));
    }
}

/// Gives the embeddings without initial values or a penalty of their own those of the model, and refuses initial values those that depend on the number
/// of rows where that is not known.
pub(crate) fn settle_initial_values(
    root: &Section<'_>,
    model: &ModelConfig,
    features: &mut [FeatureConfig],
) {
    for feature in features {
        let is_dynamic = matches!(feature.kind, FeatureKind::Dynamic { .. });
        let Some(Deep::Embedding(embedding)) = &mut feature.deep else {
            continue;
        };
        if embedding.initializer.is_none() {
            embedding
                .initializer
                .clone_from(&model.embedding_initializer);
        }
        embedding.regularizer = embedding.regularizer.or(model.embedding_regularizer);
        let by_rows = match embedding.initializer {
            Some(Initializer::GlorotUniform) => "glorot_uniform",
            Some(Initializer::HeNormal) => "he_normal",
            _ => continue,
        };
        if is_dynamic {
            let message = format!(
                "the initial values of feature `{}` are `{by_rows}`, which depends on the number of rows, and a dynamic \
                 table has no fixed one",
                feature.name
            );
            root.problems().push(
                Diagnostic::error(Code::E1006, message)
                    .help("take `normal`, `truncated_normal`, `uniform`, `constant` or `zeros`"),
            );
        }
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
    for (table, _, member) in &tables {
        // The name of the table that a feature has for itself (TensorFlow's name of the column).
        let owner = features.iter().find(|feature| {
            let own = table.strip_suffix("_embedding") == Some(&feature.name);
            let alone =
                matches!(&feature.deep, Some(Deep::Embedding(deep)) if deep.table.is_none());
            own && alone
        });
        if let Some(owner) = owner {
            let (owner, member) = (&owner.name, &member.name);
            let message = format!(
                "feature `{member}` has the table `{table}`, which is that of feature `{owner}`"
            );
            let help = format!(
                "give `{owner}` deep.table = \"{table}\", too, if they share it; else give the table another name"
            );
            root.problems()
                .push(Diagnostic::error(Code::E1006, message).help(help));
        }
    }
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
        } else if one.1.initializer != other.1.initializer {
            let what = "other initial values".to_owned();
            (
                what,
                "give both the same initializer, or tables of their own",
            )
        } else if one.1.regularizer != other.1.regularizer {
            let what = "other penalties".to_owned();
            (
                what,
                "give both the same regularizer, or tables of their own",
            )
        } else if dynamic(one_kind) != dynamic(other_kind) {
            let what = "other rules of a dynamic table, or only one of them has one".to_owned();
            (
                what,
                "give them the same kind, rows_max, admit_after, expiry and shared_row, or tables of their own",
            )
        } else if buckets(one_kind) != buckets(other_kind) {
            let ids = |kind| buckets(kind).unwrap_or(0);
            let what = format!("{} and {} ids", ids(other_kind), ids(one_kind));
            (
                what,
                "give them the same buckets and dimension, or tables of their own",
            )
        } else {
            warn_of_other_rows(root, one.0, other.2, one.2);
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

/// Warns of features that share a table in which a value of one has another row than the same value of the other.
fn warn_of_other_rows(root: &Section<'_>, table: &str, one: &FeatureConfig, other: &FeatureConfig) {
    let told = match (&one.kind, &other.kind) {
        (
            FeatureKind::Vocabulary { values, .. },
            FeatureKind::Vocabulary { values: others, .. },
        ) if values != others => {
            let moved = values.iter().zip(0_u32..).find_map(|(value, id)| {
                let found = others.id(value.as_bytes());
                (found != Some(id)).then_some((value, id, found))
            });
            moved.map(|(value, id, found)| {
                let found = match found {
                    Some(found) => format!("row {found}"),
                    None => "no row".to_owned(),
                };
                format!(
                    "the value `{value}` has row {id} for `{}` and {found} for `{}`",
                    one.name, other.name
                )
            })
        }
        (one_kind, other_kind) if discriminant(one_kind) != discriminant(other_kind) => {
            Some(format!(
                "`{}` and `{}` are of other kinds, which number values differently",
                one.name, other.name
            ))
        }
        _ => None,
    };
    if let Some(told) = told {
        let message =
            format!("the features of the table `{table}` read other rows for a value: {told}");
        let warning = Diagnostic::warning(Code::E1006, message).help(
            "give them the same kind and values in the same order, or tables of their own, unless their values have nothing in common",
        );
        root.problems().warn(warning);
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

/// Returns how a feature is deep, if its kind can be so.
fn deep(section: &Section<'_>, keys: &FeatureKeys, given: Given) -> Option<Deep> {
    let deep = match (given, keys) {
        (Given::Yes, FeatureKeys::Numeric(..) | FeatureKeys::Bucketized(..)) => Some(Deep::Dense),
        (Given::Indicator | Given::Table, FeatureKeys::Numeric(..)) => None,
        (Given::Indicator, _) => Some(Deep::Indicator),
        (Given::Table, _) => read_table(section.section("deep")?)?,
        _ => None,
    };
    // An indicator would be as wide as the number of ids.
    let is_dynamic = matches!(keys, FeatureKeys::Dynamic(..));
    let deep = deep.filter(|deep| !is_dynamic || *deep != Deep::Indicator);
    if deep.is_none() {
        let rule = match keys {
            FeatureKeys::Numeric(..) => {
                "deep of a numeric feature must be true or false; to embed numbers, bucketize them first"
            }
            FeatureKeys::Bucketized(..) => {
                "deep must be true, false, { indicator = true } or { embedding = 8 }"
            }
            FeatureKeys::Dynamic(..) => {
                "deep of a dynamic feature must be { embedding = 8 } or false"
            }
            _ => "deep must be { embedding = 8 }, { indicator = true } or false",
        };
        section.fail(Code::E1002, "deep", rule);
    }
    deep
}

/// Reads a table of `deep`. Returns `None` after a reported mistake, and `Some(None)` if it has no valid content.
#[allow(clippy::option_option)]
fn read_table(inner: Section<'_>) -> Option<Option<Deep>> {
    let before = inner.problems().len();
    let keys = DeepKeys::read_keys(&inner)?;
    let of_embeddings = [
        "combiner",
        "max_norm",
        "table",
        "initializer",
        "regularizer",
        "trainable",
    ];
    let extra = of_embeddings
        .into_iter()
        .find(|key| inner.node(key).is_some());
    if let (None, Some(key)) = (keys.embedding, extra) {
        inner.fail(Code::E1006, key, format!("{key} needs an embedding"));
    } else if !keys.trainable && keys.regularizer.is_some() {
        warn_of_key(&inner, "regularizer", "with trainable = false");
    }
    let problems = inner.problems();
    inner.finish();
    if problems.len() > before {
        return None;
    }
    Some(match (keys.indicator, keys.embedding) {
        (Some(true), None) => Some(Deep::Indicator),
        (None | Some(false), Some(dimension)) => Some(Deep::Embedding(Embedding {
            dimension,
            combiner: keys.combiner?,
            max_norm: keys.max_norm,
            table: keys.table,
            trainable: keys.trainable,
            initializer: keys.initializer,
            regularizer: keys.regularizer,
        })),
        _ => None,
    })
}
