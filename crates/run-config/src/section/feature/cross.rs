//! Keys of crossed features.

use trainyard_diagnostic::{Code, Diagnostic, Section, Value, suggest};

use crate::{CrossKey, FeatureConfig, FeatureKind};

/// Parses a key: `name`, `ids(name)` or `int(name)`.
pub(super) fn key(text: &str) -> CrossKey {
    let inside = |prefix: &str| {
        text.strip_prefix(prefix)?
            .strip_suffix(')')
            .map(str::to_owned)
    };
    if let Some(name) = inside("ids(") {
        CrossKey::Ids(name)
    } else if let Some(name) = inside("int(") {
        CrossKey::Int(name)
    } else {
        CrossKey::Text(text.to_owned())
    }
}

/// Returns TensorFlow's name of a cross.
pub(super) fn name(keys: &[CrossKey]) -> String {
    let mut names: Vec<&str> = keys.iter().map(CrossKey::name).collect();
    names.sort_unstable();
    names.join("_X_")
}

/// Resolves each key of a cross: the ids of a bucketized feature, the integers of a column that another feature reads
/// as integers, the keys of another cross, or otherwise text. Numbers cannot be crossed.
pub(super) fn settle(root: &Section<'_>, features: &mut [FeatureConfig]) {
    let all = features.to_vec();
    for feature in features {
        let FeatureKind::Crossed { keys, .. } = &mut feature.kind else {
            continue;
        };
        if let Some(twice) = (1..keys.len()).find(|&place| keys[..place].contains(&keys[place])) {
            let name = keys[twice].name();
            let message = format!("a cross must not repeat a key, `{name}` is given twice");
            fail(root, name, Diagnostic::error(Code::E1002, message));
        }
        let mut settled = Vec::with_capacity(keys.len());
        for key in keys.iter() {
            settle_key(root, &all, &feature.name, key, &mut settled, 0);
        }
        *keys = settled;
    }
}

/// Deepest nesting of crosses.
const DEPTH_MAX: usize = 8;

fn settle_key(
    root: &Section<'_>,
    all: &[FeatureConfig],
    cross: &str,
    key: &CrossKey,
    out: &mut Vec<CrossKey>,
    depth: usize,
) {
    let name = key.name();
    let named = all
        .iter()
        .find(|other| other.name == name && other.name != cross);
    let kind = named.map(|named| &named.kind);
    match (key, kind) {
        (_, Some(FeatureKind::Numeric(_))) if !matches!(key, CrossKey::Int(_)) => {
            let buckets = all
                .iter()
                .map(|other| other.name.as_str())
                .filter(|name| name.ends_with("_bucketized"));
            let message = format!("a cross cannot hold the numeric feature `{name}`");
            let problem = Diagnostic::error(Code::E1006, message);
            let problem = match suggest(name, buckets) {
                Some(near) => problem.help(format!("cross its buckets: `{near}`")),
                None => problem.help("add a bucketized feature of the column, and cross that"),
            };
            fail(root, name, problem);
        }
        (CrossKey::Ids(_), Some(FeatureKind::Hashed { .. })) => {
            let message = format!("a cross cannot hold the ids of the hashed feature `{name}`");
            let problem = Diagnostic::error(Code::E1006, message);
            fail(
                root,
                name,
                problem.help(format!(
                    "cross its text, `{name}`: hashing twice collides more"
                )),
            );
        }
        (CrossKey::Ids(_), Some(FeatureKind::Dynamic { .. })) => {
            let message = format!("a cross cannot hold the ids of the dynamic feature `{name}`");
            let problem = Diagnostic::error(Code::E1006, message);
            fail(
                root,
                name,
                problem.help(format!(
                    "cross its values, `{name}`: a cross hashes them in any case"
                )),
            );
        }
        (CrossKey::Ids(_), None) => {
            let message =
                format!("a cross names the ids of feature `{name}`, which does not exist");
            let problem = Diagnostic::error(Code::E1006, message);
            fail(
                root,
                name,
                match suggest(name, all.iter().map(|other| other.name.as_str())) {
                    Some(near) => problem.help(format!("did you mean `ids({near})`?")),
                    None => problem.help("add the feature"),
                },
            );
        }
        (_, Some(FeatureKind::Crossed { keys, .. })) => {
            if depth >= DEPTH_MAX {
                let message = format!("crosses must not hold themselves, `{name}` does");
                fail(root, name, Diagnostic::error(Code::E1006, message));
                return;
            }
            keys.iter()
                .for_each(|inner| settle_key(root, all, cross, inner, out, depth + 1));
        }
        (CrossKey::Text(_), Some(FeatureKind::Bucketized { .. })) => {
            out.push(CrossKey::Ids(name.to_owned()))
        }
        (
            CrossKey::Text(_),
            Some(
                FeatureKind::Identity { column, .. }
                | FeatureKind::Hashed {
                    column,
                    integers: true,
                    ..
                }
                | FeatureKind::Dynamic {
                    column,
                    integers: true,
                    ..
                }
                | FeatureKind::Vocabulary {
                    column,
                    integers: true,
                    ..
                },
            ),
        ) => out.push(CrossKey::Int(column.clone())),
        (
            CrossKey::Text(_),
            Some(
                FeatureKind::Hashed { column, .. }
                | FeatureKind::Vocabulary { column, .. }
                | FeatureKind::Dynamic { column, .. },
            ),
        ) => out.push(CrossKey::Text(column.clone())),
        _ => out.push(key.clone()),
    }
}

fn fail(root: &Section<'_>, name: &str, problem: Diagnostic) {
    root.problems().push(match place(root, name) {
        Some(place) => problem.at(place),
        None => problem,
    });
}

/// Returns the place at which a cross names a key.
fn place(root: &Section<'_>, name: &str) -> Option<trainyard_diagnostic::Place> {
    let Value::List(items) = &root.node("feature")?.value else {
        return None;
    };
    let forms = [
        name.to_owned(),
        format!("ids({name})"),
        format!("int({name})"),
    ];
    items.iter().find_map(|item| {
        let Value::Table(table) = &item.value else {
            return None;
        };
        let columns = table.get("columns")?;
        let Value::List(keys) = &columns.value else {
            return None;
        };
        let names = keys.iter().any(|key| {
            forms
                .iter()
                .any(|form| key.value == Value::Text(form.clone()))
        });
        let crossed = table
            .get("kind")
            .is_some_and(|kind| kind.value == Value::Text("crossed".into()));
        (names && crossed).then(|| columns.place.clone())
    })
}
