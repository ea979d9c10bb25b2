//! The tables of the configuration page and the schema for editors are what the declared keys give.
//!
//! `TRAINYARD_REGENERATE=1 cargo test -p trainyard-run-config --test integration declared` writes both again.
#![expect(
    clippy::disallowed_methods,
    reason = "a test is told by the environment to write what it compares"
)]

use std::path::PathBuf;

use serde_json::Value;
use trainyard_diagnostic::{Key, Kinds, Preset, Takes};
use trainyard_run_config::{keys, schema};

const COMMAND: &str =
    "TRAINYARD_REGENERATE=1 cargo test -p trainyard-run-config --test integration declared";

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

/// Returns the kinds of the table at a path such as `model.dnn_optimizer`.
fn kinds_at(path: &str) -> Kinds {
    let (section, name) = path.rsplit_once('.').unwrap_or(("", path));
    let mut keys = keys_at(section).into_iter();
    let key = keys.find(|key| key.name == name);
    match key.unwrap_or_else(|| panic!("no key {path}")).takes {
        Takes::TableByKind(kinds) | Takes::TablesByKind(kinds) => kinds,
        other => panic!("{path} takes {other:?}"),
    }
}

/// Returns the schedules that a learning rate may follow.
fn schedules() -> Kinds {
    let optimizers = kinds_at("model.dnn_optimizer");
    let keys = optimizers.kinds.iter().flat_map(|kind| &kind.keys);
    let forms = keys.filter_map(|key| match &key.takes {
        Takes::AnyOf(forms) if key.name == "learning_rate" => Some(forms),
        _ => None,
    });
    let schedules = forms.flatten().find_map(|form| match form {
        Takes::TableByKind(kinds) => Some(kinds.clone()),
        _ => None,
    });
    schedules.expect("a learning rate may be a schedule")
}

/// Returns the keys of the table that `deep` may be.
fn keys_of_deep() -> Vec<Key> {
    let shared = kinds_at("feature").shared;
    let deep = shared.into_iter().find(|key| key.name == "deep");
    let Takes::AnyOf(forms) = deep.expect("a key").takes else {
        panic!("deep has one form");
    };
    let table = forms.into_iter().find_map(|form| match form {
        Takes::Table(keys) => Some(keys),
        _ => None,
    });
    table.expect("deep may be a table")
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
            Takes::Table(label) if name == "label" => {
                rows.push_str(&self::rows(label, "label."));
            }
            Takes::Tables(keys) if ["task", "attention"].contains(&key.name) => {
                rows.push_str(&self::rows(keys, &format!("{}.", key.name)));
            }
            _ if ["train", "eval", "guard"].contains(&key.name) => {}
            Takes::TableByKind(_) if key.name.ends_with("optimizer") => {}
            _ => rows.push_str(&row(&[name], key.meaning, &key.preset.shown())),
        }
    }
    rows
}

/// Returns a row for each kind: its keys with their defaults, and its meaning.
fn rows_of_kinds(kinds: &Kinds) -> String {
    let mut rows = String::new();
    for kind in &kinds.kinds {
        let keys: Vec<String> = kind
            .keys
            .iter()
            .map(|key| match &key.preset {
                Preset::Value(_) => format!("`{}` {}", key.name, key.preset.shown()),
                Preset::Required | Preset::Words(_) => format!("`{}`", key.name),
            })
            .collect();
        let name = kind.name;
        let meaning = kind.meaning.trim();
        rows.push_str(&format!("| `{name}` | {} | {meaning} |\n", keys.join(", ")));
    }
    rows
}

/// Texts, each with the kinds for which it holds.
struct ByText(Vec<(String, Vec<&'static str>)>);

impl ByText {
    fn of(texts: impl IntoIterator<Item = (String, &'static str)>) -> Self {
        let mut found: Vec<(String, Vec<&'static str>)> = Vec::new();
        for (text, kind) in texts {
            match found.iter_mut().find(|(known, _)| *known == text) {
                Some((_, kinds)) => kinds.push(kind),
                None => found.push((text, vec![kind])),
            }
        }
        Self(found)
    }

    /// Joins the texts. `name_kinds` adds its kinds to a text.
    fn join(&self, name_kinds: impl Fn(&str, &str) -> String) -> String {
        let texts = self.0.iter();
        let texts = texts.map(|(text, kinds)| name_kinds(text, &kinds.join(", ")));
        texts.collect::<Vec<_>>().join("; ")
    }
}

/// Returns a row for each key that depends on the kind. A row names the kinds, unless all have the key.
fn rows_by_kind(kinds: &Kinds) -> String {
    let of_kinds = || {
        let kinds = kinds.kinds.iter();
        kinds.flat_map(|kind| kind.keys.iter().map(|key| (kind.name, key)))
    };
    let mut names: Vec<&str> = Vec::new();
    for (_, key) in of_kinds() {
        if !names.contains(&key.name) {
            names.push(key.name);
        }
    }
    let row_of = |name: &&str| {
        let keys = || of_kinds().filter(|(_, key)| key.name == *name);
        let meanings = ByText::of(keys().map(|(kind, key)| (key.meaning.trim().to_owned(), kind)));
        let presets = ByText::of(keys().map(|(kind, key)| (key.preset.shown(), kind)));
        let meaning = match &meanings.0[..] {
            [(meaning, of)] if of.len() == kinds.kinds.len() => meaning.clone(),
            _ => meanings.join(|meaning, kinds| format!("{kinds}: {meaning}")),
        };
        let preset = match &presets.0[..] {
            [(preset, _)] => preset.clone(),
            _ => presets.join(|preset, kinds| format!("{preset} ({kinds})")),
        };
        row(&[(*name).to_owned()], &meaning, &preset)
    };
    names.iter().map(row_of).collect()
}

/// Returns the rows of features: the kind, the keys of every kind, and those that depend on it.
fn rows_of_features() -> String {
    let kinds = kinds_at("feature");
    let texts: Vec<String> = kinds
        .kinds
        .iter()
        .map(|kind| format!("`{}`: {}", kind.name, kind.meaning.trim()))
        .collect();
    let kind = row(
        &["kind".to_owned()],
        &texts.join("; "),
        &kinds.key().preset.shown(),
    );
    kind + &rows(&kinds.shared, "") + &rows_by_kind(&kinds)
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

/// A table of the page that comes from the declared keys.
struct Table {
    heading: &'static str,
    titles: [&'static str; 3],
    rows: String,
}

/// Returns a table of keys.
fn of_keys(heading: &'static str, rows: String) -> Table {
    let titles = ["key", "meaning", "default"];
    Table {
        heading,
        titles,
        rows,
    }
}

/// Returns a table with a row for each kind, under the word for a kind.
fn of_kinds(heading: &'static str, kind: &'static str, kinds: &Kinds) -> Table {
    Table {
        heading,
        titles: [kind, "keys and defaults", "meaning"],
        rows: rows_of_kinds(kinds),
    }
}

/// Returns a table of the keys of kinds, under a word for a key.
fn of_keys_by_kind(heading: &'static str, key: &'static str, kinds: &Kinds) -> Table {
    Table {
        heading,
        titles: [key, "meaning", "default"],
        rows: rows_by_kind(kinds),
    }
}

const FEATURE: &str = "### `[[feature]]`";
const MODEL: &str = "### `[model]`";
const TRAINING: &str = "### `[train]`, `[eval]`, `[[evaluation]]`, `[[exporter]]`";
const STRATEGY: &str = "### `[strategy]`";

/// Returns the tables of the page that come from the declared keys.
fn tables() -> Vec<Table> {
    let top: Vec<Key> = keys()
        .into_iter()
        .filter(|key| key.takes == Takes::Path)
        .collect();
    let of_training = rows(&keys_at("train"), "train.")
        + &rows(&keys_at("eval"), "eval.")
        + &rows_of_evaluations()
        + &rows(&keys_at("exporter"), "exporter.");
    let section = |heading: &'static str, path: &str| of_keys(heading, rows(&keys_at(path), ""));
    let optimizers = kinds_at("model.dnn_optimizer");
    let partitioners = kinds_at("strategy.partitioner");
    let initializers = kinds_at("model.embedding_initializer");
    vec![
        of_keys("### Top level", rows(&top, "")),
        section("### `[run]` (TensorFlow's `RunConfig`)", "run"),
        section("### `[input]`", "input"),
        section("### `[input.train]` and `[input.eval]`", "input.train"),
        of_keys(FEATURE, rows_of_features()),
        Table {
            titles: ["key of `deep`", "meaning", "default"],
            ..of_keys(FEATURE, rows(&keys_of_deep(), ""))
        },
        section(MODEL, "model"),
        of_kinds(MODEL, "initializer", &initializers),
        of_keys_by_kind(MODEL, "key of an initializer", &initializers),
        of_kinds(MODEL, "kind", &optimizers),
        of_keys_by_kind(MODEL, "hyper-parameter", &optimizers),
        of_kinds(MODEL, "schedule", &schedules()),
        of_keys_by_kind(MODEL, "key of a schedule", &schedules()),
        of_keys(TRAINING, of_training),
        of_kinds(TRAINING, "clipping", &kinds_at("train.clip_gradients")),
        section("### `[train.early_stopping]`", "train.early_stopping"),
        section("### `[train.reduce_on_plateau]`", "train.reduce_on_plateau"),
        section(STRATEGY, "strategy"),
        of_kinds(STRATEGY, "partitioner", &partitioners),
        of_keys_by_kind(STRATEGY, "key of a partitioner", &partitioners),
        section("### `[parameter_servers]`", "parameter_servers"),
        section("### `[parameter_servers.guard]`", "parameter_servers.guard"),
        section("### `[publish]`", "publish"),
    ]
}

/// Returns the page with the rows of a table below its heading.
fn with_table(page: &str, table: &Table) -> String {
    let Table {
        heading, titles, ..
    } = table;
    let at = page
        .find(&format!("\n{heading}\n"))
        .unwrap_or_else(|| panic!("no heading {heading}"));
    let head = format!("| {} |\n|---|---|---|\n", titles.join(" | "));
    let section = &page[at + 1..];
    let section = &section[..section.find("\n### ").unwrap_or(section.len())];
    let within = section
        .find(&head)
        .unwrap_or_else(|| panic!("no table {titles:?} below {heading}"));
    let start = at + 1 + within + head.len();
    // An empty line ends a table, even one without rows.
    let before_rows = start - 1;
    let end = page[before_rows..]
        .find("\n\n")
        .map_or(page.len(), |end| before_rows + end + 1);
    format!("{}{}{}", &page[..start], table.rows, &page[end..])
}

#[test]
fn the_tables_of_the_page_are_those_of_the_declared_keys() {
    let page = "docs/configuration.md";
    let text = tables()
        .iter()
        .fold(read(page), |text, table| with_table(&text, table));
    assert_current(page, &text);
}

#[test]
fn the_schema_for_editors_is_that_of_the_declared_keys() {
    let text = serde_json::to_string_pretty(&schema()).expect("JSON") + "\n";
    assert_current("configs/job.schema.json", &text);
}

/// Returns the places of a value that a schema refuses. It knows the words that our schema uses.
fn refused(schema: &Value, value: &Value, place: &str) -> Vec<String> {
    refused_by(schema, schema, value, place)
}

/// Returns the places of a value that a part of a schema refuses.
fn refused_by(whole: &Value, schema: &Value, value: &Value, place: &str) -> Vec<String> {
    let refused = |part: &Value, value: &Value, place: &str| refused_by(whole, part, value, place);
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
    if let Some(name) = schema.get("$ref") {
        let name = name.as_str().and_then(|name| name.strip_prefix('#'));
        let table = name.and_then(|name| whole.pointer(name));
        return refused(table.expect("a definition"), value, place);
    }
    if *schema == Value::Bool(false) {
        return one(true);
    }
    if let Some(parts) = schema.get("allOf") {
        let mut rest = schema.clone();
        rest.as_object_mut().expect("words").remove("allOf");
        let parts = parts.as_array().expect("parts").iter();
        let parts = parts.chain(rest.get("type").map(|_| &rest));
        return parts.flat_map(|part| refused(part, value, place)).collect();
    }
    if let Some(condition) = schema.get("if") {
        return if refused(condition, value, place).is_empty() {
            refused(&schema["then"], value, place)
        } else {
            Vec::new()
        };
    }
    if let Some(forms) = schema.get("anyOf") {
        let mut forms = forms.as_array().expect("forms").iter();
        return one(!forms.any(|form| refused(form, value, place).is_empty()));
    }
    if let Some(forms) = schema.get("oneOf") {
        let forms = forms.as_array().expect("forms");
        let fitting = forms
            .iter()
            .filter(|form| refused(form, value, place).is_empty());
        return one(fitting.count() != 1);
    }
    let kind = schema.get("type").and_then(Value::as_str);
    match kind.unwrap_or("object") {
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
                || bound("exclusiveMinimum").is_some_and(|least| number <= least)
                || bound("exclusiveMaximum").is_some_and(|most| number >= most))
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
            let properties = schema.get("properties");
            let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
            let lacks = required(schema).filter(|name| !fields.contains_key(*name));
            let mut found: Vec<String> = lacks.map(|name| format!("{place}.{name}")).collect();
            for (name, field) in fields {
                let place = format!("{place}.{name}");
                match properties.and_then(|properties| properties.get(name)) {
                    Some(property) => found.extend(refused(property, field, &place)),
                    None if is_closed => found.push(place),
                    None => {}
                }
            }
            found
        }
    }
}

/// Returns the keys that a table must have.
fn required(schema: &Value) -> impl Iterator<Item = &str> {
    let names = schema.get("required").and_then(Value::as_array);
    let names = names.into_iter().flatten();
    names.map(|name| name.as_str().expect("a name"))
}

/// Returns a job as JSON, with another section or key such as `model.dnn_optimizer`, or with this one feature.
fn job_with(place: &str, text: &str) -> Value {
    let mut job: Value = toml::from_str(&read("configs/census.toml")).expect("TOML");
    let mut value: Value = toml::from_str(&format!("value = {text}")).expect("TOML");
    match place.split_once('.') {
        Some((section, key)) => job[section][key] = value["value"].take(),
        None if place == "feature" => job[place] = vec![value["value"].take()].into(),
        None => job[place] = value["value"].take(),
    }
    job
}

#[test]
fn the_schema_has_the_keys_of_each_kind_and_refuses_those_of_others() {
    let feature = "feature";
    let optimizer = "model.dnn_optimizer";
    let clipping = "train.clip_gradients";
    let partitioner = "strategy.partitioner";
    let warmup = "learning_rate = { kind = \"warmup\", warmup_steps = 9, learning_rate = ";
    for (place, text) in [
        (
            feature,
            "{ column = \"a\", kind = \"numeric\", shape = [2, 2], default = 1 }",
        ),
        (
            feature,
            "{ column = \"a\", kind = \"hashed\", buckets = 9, deep = { embedding = 8 } }",
        ),
        (
            feature,
            "{ column = \"a\", kind = \"bucketized\", boundaries = [1, 2], deep = true }",
        ),
        (optimizer, "{ kind = \"adam\", beta1 = 0.5, lazy = true }"),
        // The default of the deep part is Adagrad.
        (optimizer, "{ epsilon = 0.5 }"),
        (optimizer, &format!("{{ kind = \"sgd\", {warmup}0.1 }} }}")),
        (
            optimizer,
            &format!(
                "{{ kind = \"sgd\", {warmup}{{ kind = \"cosine_decay\", learning_rate = 0.1, decay_steps = 9 }} }} }}"
            ),
        ),
        (clipping, "{ kind = \"norm\", clip = 1 }"),
        (partitioner, "{ kind = \"fixed\", num_shards = 2 }"),
    ] {
        let places = refused(&schema(), &job_with(place, text), "");
        assert_eq!(places, Vec::<String>::new(), "{text}");
    }
    for (place, text) in [
        (
            feature,
            "{ column = \"a\", kind = \"numeric\", buckets = 9 }",
        ),
        (
            feature,
            "{ column = \"a\", kind = \"hashed\", buckets = \"many\" }",
        ),
        (feature, "{ column = \"a\", kind = \"hashed\" }"),
        (feature, "{ column = \"a\", kind = \"hashd\", buckets = 9 }"),
        (feature, "{ column = \"a\", buckets = 9 }"),
        (optimizer, "{ kind = \"sgd\", beta1 = 0.5 }"),
        (optimizer, "{ kind = \"adam\", beta1 = 1 }"),
        (optimizer, "{ kind = \"adam\", lazy = 1 }"),
        (optimizer, "{ beta = 0.5 }"),
        (
            optimizer,
            "{ kind = \"sgd\", learning_rate = { kind = \"cosine_decay\", learning_rate = 0.1 } }",
        ),
        (
            optimizer,
            &format!(
                "{{ kind = \"sgd\", {warmup}{{ kind = \"warmup\", warmup_steps = 9, learning_rate = 0.1 }} }} }}"
            ),
        ),
        (clipping, "{ clip = 1 }"),
        (clipping, "{ kind = \"norm\", clip = 0 }"),
        (
            partitioner,
            "{ kind = \"fixed\", num_shards = 2, max_shards = 3 }",
        ),
    ] {
        let places = refused(&schema(), &job_with(place, text), "");
        assert_eq!(places.len(), 1, "{text}: {places:?}");
    }
}

#[test]
fn the_schema_refuses_keys_without_meaning_for_the_kind_of_model_input_or_strategy() {
    let linear = "{ kind = \"linear_classifier\" }";
    let job = job_with("model", linear);
    assert_eq!(refused(&schema(), &job, ""), Vec::<String>::new());
    for (section, key, value) in [
        ("model", "label_dimension", "2"),
        ("model", "label_mean", "2.5"),
        ("model", "optimizer", "{ kind = \"sgd\" }"),
        ("model", "kind", "\"dnn_classifier\""),
        ("input", "index_base", "0"),
        ("strategy", "replicas", "2"),
        ("strategy", "staleness_steps_max", "2"),
        ("strategy", "update", "\"ssp\""),
    ] {
        let mut wrong = job.clone();
        let value: Value = toml::from_str(&format!("value = {value}")).expect("TOML");
        wrong[section][key] = value["value"].clone();
        let places = refused(&schema(), &wrong, "");
        assert_eq!(places.len(), 1, "{section}.{key}: {places:?}");
    }
    // One job compares kinds of models: what this kind does not use is a warning.
    let mut other = job.clone();
    other["model"]["hidden_units"] = vec![9].into();
    assert_eq!(refused(&schema(), &other, ""), Vec::<String>::new());
}

#[test]
fn the_schema_accepts_our_jobs_and_refuses_mistakes() {
    let examples = [
        "crates/trainyard/examples/custom-mlp.toml",
        "crates/autodiff-burn/examples/custom-cnn.toml",
    ];
    for example in examples {
        let job: Value = toml::from_str(&read(example)).expect("TOML");
        assert_eq!(
            refused(&schema(), &job, ""),
            Vec::<String>::new(),
            "{example}"
        );
    }
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

/// Calls a function with each key, and those of its tables.
fn each_key(keys: &[Key], see: &mut dyn FnMut(&Key)) {
    for key in keys {
        see(key);
        each_of(&key.takes, see);
    }
}

fn each_of(takes: &Takes, see: &mut dyn FnMut(&Key)) {
    match takes {
        Takes::Table(keys) | Takes::Tables(keys) => each_key(keys, see),
        Takes::TableByKind(kinds) | Takes::TablesByKind(kinds) => {
            each_key(&kinds.shared, see);
            for kind in &kinds.kinds {
                each_key(&kind.keys, see);
            }
        }
        Takes::AnyOf(forms) => forms.iter().for_each(|form| each_of(form, see)),
        _ => {}
    }
}

#[test]
fn each_key_that_names_a_file_or_folder_takes_a_path() {
    let mut found = std::collections::BTreeSet::new();
    each_key(&keys(), &mut |key| {
        let last = key.name.rsplit('_').next().unwrap_or(key.name);
        let is_named = ["dir", "file", "files", "from", "folder", "path"].contains(&last);
        let is_path = matches!(key.takes, Takes::Path | Takes::Paths);
        assert_eq!(is_named, is_path, "{}: {:?}", key.name, key.takes);
        if is_path {
            found.insert(key.name);
        }
    });
    let all = [
        "boundaries_file",
        "file",
        "files",
        "from",
        "local_dir",
        "model_dir",
    ];
    assert!(found.into_iter().eq(all));
}
