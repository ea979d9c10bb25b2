//! JSON Schema of the job file, by which editors complete and check keys.

use serde_json::{Map, Value, json};
use trainyard_diagnostic::{Bound, Key, Kind, Kinds, Preset, Takes};

use crate::limit::{Effect, Limit};
use crate::{keys, section};

/// Returns the schema (draft 7). A table whose keys depend on its kind is one of several closed tables, so that editors
/// complete the keys of the kind.
pub fn schema() -> Value {
    let mut definitions = Definitions::default();
    let keys = keys();
    let mut schema = definitions.table(&keys);
    for (section, limits) in [
        ("input", section::input::limits()),
        ("model", section::model::limits()),
        ("strategy", section::strategy::limits()),
    ] {
        let keys = keys.iter().find(|key| key.name == section);
        if let Some(Takes::Table(keys)) = keys.map(|key| &key.takes) {
            let limits: Vec<Value> = limits.iter().map(|limit| rule(keys, limit)).collect();
            schema["properties"][section]["allOf"] = limits.into();
        }
    }
    schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    schema["title"] = json!("Trainyard job file");
    let tables = definitions.0.into_iter();
    schema["definitions"] = tables
        .map(|definition| (definition.name, definition.schema))
        .collect::<Map<_, _>>()
        .into();
    schema
}

/// Returns the rule of a limit between keys of a section.
fn rule(keys: &[Key], limit: &Limit) -> Value {
    let by = keys.iter().find(|key| key.name == limit.by);
    let default = match by.map(|by| &by.preset) {
        Some(Preset::Value(name)) => Some(name.trim_matches('"')),
        _ => None,
    };
    // A section that does not name the kind has the default one.
    let must_name = match default {
        Some(default) if limit.names.contains(&default) => vec![],
        _ => vec![limit.by],
    };
    let effect = match limit.effect {
        Effect::Required => json!({ "required": [limit.key] }),
        Effect::Refused => json!({ "properties": { limit.key: false } }),
    };
    json!({
        "if": { "properties": { limit.by: { "enum": limit.names } }, "required": must_name },
        "then": effect,
    })
}

/// Tables by kind, which several keys refer to.
#[derive(Default)]
struct Definitions(Vec<Definition>);

struct Definition {
    kinds: Kinds,
    name: String,
    schema: Value,
}

impl Definitions {
    fn table(&mut self, keys: &[Key]) -> Value {
        let properties: Map<String, Value> = keys
            .iter()
            .map(|key| (key.name.to_owned(), self.property(key)))
            .collect();
        json!({
            "type": "object",
            "properties": properties,
            "required": required(keys),
            "additionalProperties": false,
        })
    }

    /// Returns a reference to the table of these kinds.
    fn by_kind(&mut self, kinds: &Kinds) -> Value {
        let known = self.0.iter().find(|known| known.kinds == *kinds);
        let name = match known {
            Some(known) => known.name.clone(),
            None => self.define(kinds),
        };
        // Draft 7 ignores the words beside a reference, such as a description.
        json!({ "allOf": [{ "$ref": format!("#/definitions/{name}") }] })
    }

    fn define(&mut self, kinds: &Kinds) -> String {
        let what = kinds.what.replace(' ', "_");
        let alike = self.0.iter().filter(|known| known.kinds.what == kinds.what);
        let name = match alike.count() {
            0 => what,
            count => format!("{what}_{}", count + 1),
        };
        let at = self.0.len();
        self.0.push(Definition {
            kinds: kinds.clone(),
            name: name.clone(),
            schema: Value::Null,
        });
        let tables: Vec<Value> = kinds
            .kinds
            .iter()
            .map(|kind| self.of_kind(kinds, kind))
            .collect();
        self.0[at].schema = json!({ "oneOf": tables });
        name
    }

    /// Returns the table of one kind. Only the default kind need not be named.
    fn of_kind(&mut self, kinds: &Kinds, kind: &Kind) -> Value {
        let mut keys = vec![Key {
            takes: Takes::Choice(vec![kind.name]),
            preset: match kinds.default {
                Some(default) if default == kind.name => Preset::Words("this kind"),
                _ => Preset::Required,
            },
            meaning: kind.meaning,
            ..kinds.key()
        }];
        keys.extend(kinds.shared.clone());
        keys.extend(kind.keys.clone());
        let mut table = self.table(&keys);
        table["title"] = json!(kind.name);
        table
    }

    fn property(&mut self, key: &Key) -> Value {
        let mut property = self.value(&key.takes);
        property["description"] = json!(key.meaning.trim());
        if let Preset::Value(preset) = &key.preset
            && let Ok(preset) = serde_json::from_str::<Value>(preset)
        {
            property["default"] = preset;
        }
        property
    }

    fn value(&mut self, takes: &Takes) -> Value {
        match takes {
            Takes::Flag => json!({ "type": "boolean" }),
            Takes::Integer {
                least,
                most: u64::MAX,
            } => json!({ "type": "integer", "minimum": least }),
            Takes::Integer { least, most } => {
                json!({ "type": "integer", "minimum": least, "maximum": most })
            }
            Takes::Integers { least, most } => {
                let item = json!({ "type": "integer", "minimum": least, "maximum": most });
                json!({ "type": "array", "items": item })
            }
            Takes::Numbers => json!({ "type": "array", "items": { "type": "number" } }),
            Takes::Number(Bound::None) => json!({ "type": "number" }),
            Takes::Number(Bound::Positive) => json!({ "type": "number", "exclusiveMinimum": 0 }),
            Takes::Number(Bound::NotNegative) => json!({ "type": "number", "minimum": 0 }),
            Takes::Number(Bound::NotPositive) => json!({ "type": "number", "maximum": 0 }),
            Takes::Number(Bound::AtLeastOne) => json!({ "type": "number", "minimum": 1 }),
            Takes::Number(Bound::Fraction) => {
                json!({ "type": "number", "minimum": 0, "exclusiveMaximum": 1 })
            }
            Takes::Number(Bound::ProperFraction) => {
                json!({ "type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1 })
            }
            Takes::Text | Takes::Path => json!({ "type": "string" }),
            Takes::Texts | Takes::Paths => one_or_list(&json!({ "type": "string" })),
            Takes::Choice(names) => json!({ "enum": names }),
            Takes::Choices(names) => one_or_list(&json!({ "enum": names })),
            Takes::Table(keys) => self.table(keys),
            Takes::TableOf(values) => {
                json!({ "type": "object", "additionalProperties": self.value(values) })
            }
            Takes::AnyTable => json!({ "type": "object" }),
            Takes::Tables(keys) => json!({ "type": "array", "items": self.table(keys) }),
            Takes::TableByKind(kinds) => self.by_kind(kinds),
            Takes::TablesByKind(kinds) => json!({ "type": "array", "items": self.by_kind(kinds) }),
            Takes::AnyOf(forms) => {
                let forms: Vec<Value> = forms.iter().map(|form| self.value(form)).collect();
                json!({ "anyOf": forms })
            }
        }
    }
}

/// Returns the names of the keys that a table must have.
fn required(keys: &[Key]) -> Vec<&'static str> {
    let required = keys.iter().filter(|key| key.preset == Preset::Required);
    required.map(|key| key.name).collect()
}

fn one_or_list(item: &Value) -> Value {
    json!({ "oneOf": [item, { "type": "array", "items": item }] })
}
