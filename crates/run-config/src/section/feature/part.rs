//! Which part of the model a feature feeds: `wide` and `deep`.

use trainyard_diagnostic::{Code, Section, Value};

use super::Kind;
use crate::{Deep, ModelKind};

/// Widest embedding.
const DIMENSION_MAX: u64 = 1 << 16;

/// Whether the feature is wide, and how it is deep, with the defaults of the model's kind.
pub(super) fn read(
    section: &Section<'_>,
    kind: Kind,
    model: Option<ModelKind>,
) -> Option<(bool, Option<Deep>)> {
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
    let wide = wide.unwrap_or(!model.has_dnn());
    let deep = if !model.has_dnn() {
        None
    } else if given {
        deep
    } else if kind == Kind::Numeric || !model.has_linear() {
        plain
    } else {
        None
    };
    if !wide && deep.is_none() {
        let place = section.reject(Code::E1005, "kind", "feature is used by no part of the model");
        let help = match (model.has_linear(), model.has_dnn()) {
            (true, false) => "set wide = true, or remove the feature",
            (true, true) => "set wide = true, or deep = { embedding = 8 }, or deep = { indicator = true }",
            (false, _) => "set deep = { embedding = 8 } or deep = { indicator = true }",
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
            let (indicator, embedding) =
                (inner.flag("indicator"), inner.integer("embedding", 1..=DIMENSION_MAX));
            let read = [("indicator", indicator.is_some()), ("embedding", embedding.is_some())];
            let told = inner.keys().any(|key| !read.contains(&(key, true)));
            inner.finish();
            match (indicator, embedding) {
                // The key or value that could not be read has been reported.
                _ if told => return None,
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
