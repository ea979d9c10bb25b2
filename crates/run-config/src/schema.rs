//! JSON Schema of the job file, by which editors complete and check keys.

use serde_json::{Map, Value, json};
use trainyard_diagnostic::{Bound, Key, Preset, Takes};

use crate::keys;

/// Returns the schema (draft 7). Tables whose keys depend on their kind are open.
pub fn schema() -> Value {
    let mut schema = table(&keys());
    schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    schema["title"] = json!("Trainyard job file");
    schema
}

fn table(keys: &[Key]) -> Value {
    let properties: Map<String, Value> = keys
        .iter()
        .map(|key| (key.name.to_owned(), property(key)))
        .collect();
    let required: Vec<&str> = keys
        .iter()
        .filter(|key| key.preset == Preset::Required)
        .map(|key| key.name)
        .collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn property(key: &Key) -> Value {
    let mut property = value(&key.takes);
    property["description"] = json!(key.meaning.trim());
    if let Preset::Value(preset) = &key.preset
        && let Ok(preset) = serde_json::from_str::<Value>(preset)
    {
        property["default"] = preset;
    }
    property
}

fn value(takes: &Takes) -> Value {
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
        Takes::Text => json!({ "type": "string" }),
        Takes::Texts => one_or_list(&json!({ "type": "string" })),
        Takes::Choice(names) => json!({ "enum": names }),
        Takes::Choices(names) => one_or_list(&json!({ "enum": names })),
        Takes::Table(keys) => table(keys),
        Takes::TextTable => {
            json!({ "type": "object", "additionalProperties": { "type": "string" } })
        }
        Takes::AnyTable => json!({ "type": "object" }),
        Takes::Tables(keys) => json!({ "type": "array", "items": table(keys) }),
        Takes::AnyTables => json!({ "type": "array", "items": { "type": "object" } }),
    }
}

fn one_or_list(item: &Value) -> Value {
    json!({ "oneOf": [item, { "type": "array", "items": item }] })
}
