//! What a cross may hold.

use trainyard_diagnostic::{Code, Diagnostic, Section, Value, suggest};

use super::duplicate;
use crate::{FeatureConfig, FeatureKind};

/// Crosses name bucketized features, or input columns read as text; never numbers.
pub(super) fn check(root: &Section<'_>, features: &[FeatureConfig]) {
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
