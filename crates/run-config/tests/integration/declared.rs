//! The tables of the configuration page and the schema for editors are what the declared keys give.
//!
//! `TRAINYARD_REGENERATE=1 cargo test -p trainyard-run-config --test integration declared` writes both again.
#![expect(
    clippy::disallowed_methods,
    reason = "a test is told by the environment to write what it compares"
)]

use std::path::PathBuf;

use serde_json::Value;
use trainyard_diagnostic::{Key, Takes};
use trainyard_run_config::{keys, schema};

const COMMAND: &str =
    "TRAINYARD_REGENERATE=1 cargo test -p trainyard-run-config --test integration declared";
const HEAD: &str = "| key | meaning | default |\n|---|---|---|\n";

fn path(relative: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(relative)
}

fn read(relative: &str) -> String {
    std::fs::read_to_string(path(relative)).unwrap_or_else(|error| panic!("{relative}: {error}"))
}

/// Compares a text with that of a file, or writes it there.
fn assert_current(relative: &str, text: &str) {
    if std::env::var_os("TRAINYARD_REGENERATE").is_some() {
        std::fs::write(path(relative), text).expect("the file can be written");
    }
    assert!(
        read(relative) == text,
        "{relative} is not what the declared keys give: {COMMAND}"
    );
}

/// Returns the keys of the table at a path such as `input.train`.
fn keys_at(path: &str) -> Vec<Key> {
    let names = path.split('.').filter(|name| !name.is_empty());
    names.fold(keys(), |keys, name| {
        let key = keys.into_iter().find(|key| key.name == name);
        match key
            .unwrap_or_else(|| panic!("no key {name} of {path}"))
            .takes
        {
            Takes::Table(keys) | Takes::Tables(keys) => keys,
            other => panic!("{path} takes {other:?}"),
        }
    })
}

fn row(names: &[String], meaning: &str, preset: &str) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    format!("| {} | {} | {preset} |\n", names.join(", "), meaning.trim())
}

/// Returns the rows of some keys. Tables have headings of their own, except for the label and for tables that are written
/// in one line.
fn rows(keys: &[Key], prefix: &str) -> String {
    let mut rows = String::new();
    for key in keys {
        let name = format!("{prefix}{}", key.name);
        match &key.takes {
            Takes::Table(label) if key.name == "label" => {
                rows.push_str(&self::rows(label, "label."))
            }
            _ if ["train", "eval", "guard"].contains(&key.name) => {}
            Takes::AnyTable if key.name.ends_with("optimizer") => {}
            _ => rows.push_str(&row(&[name], key.meaning, &key.preset.shown())),
        }
    }
    rows
}

/// Returns the rows of further evaluations. Keys of their input are described elsewhere.
fn rows_of_evaluations() -> String {
    let input = keys_at("input.eval");
    let (shared, own): (Vec<Key>, Vec<Key>) = keys_at("evaluation")
        .into_iter()
        .partition(|key| input.iter().any(|known| known.name == key.name));
    let names: Vec<String> = shared
        .iter()
        .map(|key| format!("evaluation.{}", key.name))
        .collect();
    let (first, rest) = own.split_at(1);
    rows(first, "evaluation.")
        + &row(&names, "as in `[input.eval]`", "as there")
        + &rows(rest, "evaluation.")
}

/// Returns the headings of the page whose tables come from the declared keys, with the rows.
fn tables() -> [(&'static str, String); 9] {
    let top: Vec<Key> = keys()
        .into_iter()
        .filter(|key| key.takes == Takes::Text)
        .collect();
    let of_training = rows(&keys_at("train"), "train.")
        + &rows(&keys_at("eval"), "eval.")
        + &rows_of_evaluations()
        + &rows(&keys_at("exporter"), "exporter.");
    [
        ("### Top level", rows(&top, "")),
        (
            "### `[run]` (TensorFlow's `RunConfig`)",
            rows(&keys_at("run"), ""),
        ),
        ("### `[input]`", rows(&keys_at("input"), "")),
        (
            "### `[input.train]` and `[input.eval]`",
            rows(&keys_at("input.train"), ""),
        ),
        ("### `[model]`", rows(&keys_at("model"), "")),
        (
            "### `[train]`, `[eval]`, `[[evaluation]]`, `[[exporter]]`",
            of_training,
        ),
        (
            "### `[train.early_stopping]`",
            rows(&keys_at("train.early_stopping"), ""),
        ),
        ("### `[strategy]`", rows(&keys_at("strategy"), "")),
        (
            "### `[parameter_servers]`",
            rows(&keys_at("parameter_servers"), ""),
        ),
    ]
}

/// Returns the page with these rows in the first table of keys below a heading.
fn with_table(page: &str, heading: &str, rows: &str) -> String {
    let at = page
        .find(&format!("\n{heading}\n"))
        .unwrap_or_else(|| panic!("no heading {heading}"));
    let head = page[at..].find(HEAD).expect("a table of keys") + at + HEAD.len();
    let end = page[head..]
        .find("\n\n")
        .map_or(page.len(), |end| head + end + 1);
    format!("{}{rows}{}", &page[..head], &page[end..])
}

#[test]
fn the_tables_of_the_page_are_those_of_the_declared_keys() {
    let page = "docs/configuration.md";
    let guard = (
        "### `[parameter_servers.guard]`",
        rows(&keys_at("parameter_servers.guard"), ""),
    );
    let text = tables()
        .into_iter()
        .chain([guard])
        .fold(read(page), |text, (heading, rows)| {
            with_table(&text, heading, &rows)
        });
    assert_current(page, &text);
}

#[test]
fn the_schema_for_editors_is_that_of_the_declared_keys() {
    let text = serde_json::to_string_pretty(&schema()).expect("JSON") + "\n";
    assert_current("configs/job.schema.json", &text);
}

/// Returns the places of a value that a schema refuses. It knows the words that our schema uses.
fn refused(schema: &Value, value: &Value, place: &str) -> Vec<String> {
    let one = |refuses: bool| {
        if refuses {
            vec![place.to_owned()]
        } else {
            Vec::new()
        }
    };
    if let Some(names) = schema.get("enum") {
        return one(!names.as_array().expect("names").contains(value));
    }
    if let Some(forms) = schema.get("oneOf") {
        let forms = forms.as_array().expect("forms");
        let fitting = forms
            .iter()
            .filter(|form| refused(form, value, place).is_empty());
        return one(fitting.count() != 1);
    }
    match schema["type"].as_str().expect("a type") {
        "boolean" => one(!value.is_boolean()),
        "string" => one(!value.is_string()),
        kind @ ("integer" | "number") => {
            let Some(number) = value.as_f64() else {
                return one(true);
            };
            let bound = |word: &str| schema.get(word).and_then(Value::as_f64);
            one((kind == "integer" && value.as_u64().is_none())
                || bound("minimum").is_some_and(|least| number < least)
                || bound("maximum").is_some_and(|most| number > most)
                || bound("exclusiveMinimum").is_some_and(|least| number <= least))
        }
        "array" => match value.as_array() {
            Some(items) => items
                .iter()
                .flat_map(|item| refused(&schema["items"], item, place))
                .collect(),
            None => one(true),
        },
        _ => {
            let Some(fields) = value.as_object() else {
                return one(true);
            };
            let Some(properties) = schema.get("properties") else {
                return Vec::new();
            };
            let required = schema["required"].as_array().expect("names").iter();
            let lacks =
                required.filter(|name| !fields.contains_key(name.as_str().expect("a name")));
            let mut found: Vec<String> = lacks.map(|name| format!("{place}.{name}")).collect();
            for (name, field) in fields {
                let place = format!("{place}.{name}");
                match properties.get(name) {
                    Some(property) => found.extend(refused(property, field, &place)),
                    None => found.push(place),
                }
            }
            found
        }
    }
}

#[test]
fn the_schema_accepts_our_jobs_and_refuses_mistakes() {
    let mut jobs = 0;
    for entry in std::fs::read_dir(path("configs")).expect("configs/") {
        let file = entry.expect("an entry").path();
        let name = file
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        if !name.ends_with(".toml") || name.starts_with("cluster") {
            continue;
        }
        let text = std::fs::read_to_string(&file).expect("a job");
        let job: Value = toml::from_str(&text).expect("TOML");
        assert_eq!(refused(&schema(), &job, ""), Vec::<String>::new(), "{name}");
        let mut wrong = job.clone();
        wrong["run"]["seeed"] = 1.into();
        wrong["run"]["seed"] = "one".into();
        wrong["strategy"]["placement"] = "anywhere".into();
        wrong["strategy"]["pipeline_depth"] = 9.into();
        let mut places = refused(&schema(), &wrong, "");
        places.sort();
        let expected = [
            ".run.seed",
            ".run.seeed",
            ".strategy.pipeline_depth",
            ".strategy.placement",
        ];
        assert_eq!(places, expected, "{name}");
        jobs += 1;
    }
    assert!(jobs >= 3, "{jobs} jobs");
}
