//! Every key of a job file and of a cluster file.
//!
//! The keys of most sections are declared. Where they depend on a kind, the readers are asked: a key that none of them
//! knows is answered with the keys that they know, and a kind that does not exist with the kinds that do.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use trainyard_cluster_spec::ClusterSpec;
use trainyard_diagnostic::{Key, Takes};
use trainyard_run_config::{Job, keys};

/// A key, and a name of a kind, that no section knows.
const UNKNOWN: &str = "qqqqqqqq";

/// A job with one element of each array of tables.
const JOB: &str = r#"
model_dir = "model"
[input]
label = { column = "y" }
train = { files = ["rows.csv"] }
eval = { files = ["rows.csv"] }
[[evaluation]]
name = "more"
files = ["rows.csv"]
[[feature]]
column = "x"
kind = "numeric"
[model]
kind = "linear_classifier"
[train]
max_steps = 1
[[exporter]]
kind = "best"
"#;

/// Setting of a model that has an optimizer of its own.
const CUSTOM_MODEL: &str = "model={kind=\"custom_classifier\"}";

/// What a section is called here whose keys depend on its kind. The optimizers of all parts of a model are read alike.
fn by_kind(path: &str) -> Option<&'static str> {
    match path {
        "feature" => Some("feature"),
        "train.clip_gradients" => Some("train.clip_gradients"),
        "strategy.partitioner" => Some("strategy.partitioner"),
        _ if path.ends_with("optimizer") => Some("optimizer"),
        // Behind a warm-up comes another schedule.
        _ if path.ends_with("optimizer.learning_rate")
            || path.ends_with("optimizer.learning_rate.learning_rate") =>
        {
            Some("schedule")
        }
        _ => None,
    }
}

/// All that [`by_kind`] returns.
const CALLED: [&str; 5] = [
    "feature",
    "train.clip_gradients",
    "strategy.partitioner",
    "optimizer",
    "schedule",
];

/// Keys, and the names that those which take one know.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Names of keys: `run.seed`, `feature.hashed.buckets`, `optimizer.adam.beta1`, `cluster file.admin.ps`.
    pub(crate) keys: BTreeSet<String>,
    /// Values of keys that take one of several names.
    pub(crate) choices: BTreeMap<String, Vec<String>>,
}

/// Returns all keys.
pub(crate) fn known() -> Known {
    let mut known = Known::default();
    let mut search = Search {
        known: &mut known,
        visited: BTreeSet::new(),
    };
    search.declared(&keys(), "", "");
    cluster_file(&mut known.keys);
    known
}

/// What a reader answers to a file with these settings.
fn answers(settings: &[String]) -> Vec<String> {
    let problems = Job::parse(Path::new("job.toml"), JOB, settings)
        .err()
        .unwrap_or_default();
    let texts = problems.into_iter().flat_map(|problem| {
        [problem.message]
            .into_iter()
            .chain(problem.notes)
            .chain(problem.help)
    });
    texts.collect()
}

fn with(context: &[String], setting: String) -> Vec<String> {
    context.iter().cloned().chain([setting]).collect()
}

/// Names behind `known: ` in the answer after one that begins so.
fn names_after(answers: &[String], begin: &str) -> Option<Vec<String>> {
    let mut rest = answers
        .iter()
        .skip_while(|answer| !answer.starts_with(begin));
    rest.next()?;
    let names = rest.next()?.strip_prefix("known: ")?;
    Some(names.split(", ").map(str::to_owned).collect())
}

fn keys_of(context: &[String], path: &str) -> Option<Vec<String>> {
    let setting = if path.is_empty() {
        format!("{UNKNOWN}=1")
    } else {
        format!("{path}.{UNKNOWN}=1")
    };
    names_after(
        &answers(&with(context, setting)),
        &format!("unknown key `{UNKNOWN}`"),
    )
}

/// The names that a key takes, where it takes names.
fn choices(context: &[String], path: &str) -> Option<Vec<String>> {
    let answers = answers(&with(context, format!("{path}=\"{UNKNOWN}\"")));
    let unknown = answers.iter().find(|answer| {
        answer.starts_with("unknown ")
            && answer.ends_with(&format!("`{UNKNOWN}`"))
            && !answer.contains("unknown key")
    })?;
    names_after(&answers, unknown)
}

enum Form {
    Value,
    Table,
    Array,
}

fn form(context: &[String], path: &str) -> Form {
    // As a new table, and as one with all that it needs.
    let mut answers = answers(&with(context, format!("{path}={{{UNKNOWN}=1}}")));
    answers.extend(self::answers(&with(context, format!("{path}.{UNKNOWN}=1"))));
    let says = |text: &str| answers.iter().any(|answer| answer.contains(text));
    if says("must be an array of tables") {
        Form::Array
    } else if says(&format!("unknown key `{UNKNOWN}`"))
        || says(&format!("missing key `kind` in [{path}]"))
    {
        Form::Table
    } else {
        Form::Value
    }
}

struct Search<'a> {
    known: &'a mut Known,
    visited: BTreeSet<String>,
}

fn below(parent: &str, key: &str) -> String {
    if parent.is_empty() {
        key.to_owned()
    } else {
        format!("{parent}.{key}")
    }
}

impl Search<'_> {
    /// Takes in declared keys of the section at `path`, which is called `name`.
    fn declared(&mut self, keys: &[Key], path: &str, name: &str) {
        for key in keys {
            let child = below(path, key.name);
            let child_name = below(name, key.name);
            match &key.takes {
                Takes::Table(keys) => self.declared(keys, &child, &child_name),
                Takes::Tables(keys) => self.declared(keys, &format!("{child}.0"), &child_name),
                Takes::AnyTable if child == "model.optimizer" => {
                    self.table(&[CUSTOM_MODEL.to_owned()], &child, &child_name)
                }
                Takes::AnyTable => self.table(&[], &child, &child_name),
                Takes::AnyTables => self.table(&[], &format!("{child}.0"), &child_name),
                Takes::Choice(names) | Takes::Choices(names) => {
                    let names = names.iter().map(|name| (*name).to_owned()).collect();
                    self.known.choices.insert(child_name.clone(), names);
                    self.known.keys.insert(child_name);
                }
                Takes::Flag
                | Takes::Integer { .. }
                | Takes::Number(_)
                | Takes::Integers { .. }
                | Takes::Numbers
                | Takes::Text
                | Takes::Texts
                | Takes::TextTable => drop(self.known.keys.insert(child_name)),
            }
        }
    }

    /// Takes in the keys of the section at `path`, which is called `name`.
    fn section(&mut self, context: &[String], path: &str, name: &str) {
        let keys =
            keys_of(context, path).unwrap_or_else(|| panic!("the keys of [{path}] are not told"));
        for key in keys {
            let child = below(path, &key);
            let child_name = below(name, &key);
            match form(context, &child) {
                Form::Value => self.value(context, &child, &child_name),
                Form::Array => self.table(context, &format!("{child}.0"), &child_name),
                Form::Table => self.table(context, &child, &child_name),
            }
        }
    }

    fn value(&mut self, context: &[String], path: &str, name: &str) {
        // Whatever its kind, a section has one key of this name.
        let of_kind = CALLED
            .iter()
            .find(|called| name.starts_with(&format!("{called}.")));
        let name = match of_kind {
            Some(called) if name.ends_with(".kind") => format!("{called}.kind"),
            _ => name.to_owned(),
        };
        if let Some(values) = choices(context, path) {
            self.known.choices.insert(name.clone(), values);
        }
        self.known.keys.insert(name);
    }

    fn table(&mut self, context: &[String], path: &str, name: &str) {
        let by_kind = by_kind(path.trim_end_matches(".0"));
        // How a feature is embedded does not depend on its kind.
        let name = if name.starts_with("feature.") && name.ends_with(".deep") {
            "feature.deep"
        } else {
            name
        };
        if by_kind.is_some_and(|called| called != "feature") || name == "feature.deep" {
            self.known.keys.insert(name.to_owned());
        }
        let visit = if by_kind == Some("schedule") {
            "schedule".to_owned()
        } else {
            format!("{name} {path}")
        };
        if !self.visited.insert(visit) {
            return;
        }
        let Some(kinds) = choices(context, &format!("{path}.kind")) else {
            return self.section(context, path, name);
        };
        for kind in kinds {
            let context = with(context, format!("{path}={{kind=\"{kind}\"}}"));
            match by_kind {
                Some(called) => self.section(&context, path, &format!("{called}.{kind}")),
                None => self.section(&context, path, name),
            }
        }
    }
}

/// Keys of a cluster file.
fn cluster_file(keys: &mut BTreeSet<String>) {
    let keys_of = |text: String| {
        let problems = ClusterSpec::from_toml(Path::new("cluster.toml"), &text)
            .err()
            .unwrap_or_default();
        let texts = problems
            .into_iter()
            .flat_map(|problem| [Some(problem.message), problem.help]);
        names_after(
            &texts.flatten().collect::<Vec<_>>(),
            &format!("unknown key `{UNKNOWN}`"),
        )
    };
    let cluster = "[cluster]\nchief = [\"a:1\"]\n";
    let sections = keys_of(format!("{UNKNOWN} = 1\n{cluster}"))
        .expect("the sections of a cluster file are told");
    for section in sections {
        let text = match section.as_str() {
            "cluster" => format!("{cluster}{UNKNOWN} = 1\n"),
            other => format!("{cluster}[{other}]\n{UNKNOWN} = 1\n"),
        };
        let of_section =
            keys_of(text).unwrap_or_else(|| panic!("the keys of [{section}] are not told"));
        keys.extend(
            of_section
                .into_iter()
                .map(|key| format!("cluster file.{section}.{key}")),
        );
    }
}
