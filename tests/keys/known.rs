//! Every key of a job file, as it is declared, and of a cluster file.
//!
//! The reader of a cluster file is asked: it answers an unknown key with the keys that it knows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use trainyard_cluster_spec::ClusterSpec;
use trainyard_diagnostic::{Key, Kinds, Takes};
use trainyard_run_config::keys;

/// A key that no section knows.
const UNKNOWN: &str = "qqqqqqqq";

/// Keys, and the names that those which take one know.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Names of keys: `run.seed`, `feature.hashed.buckets`, `optimizer.adam.beta1`, `cluster file.admin.ps`.
    pub(crate) keys: BTreeSet<String>,
    /// Values of keys that take one of several names.
    pub(crate) choices: BTreeMap<String, Vec<String>>,
}

impl Known {
    /// Takes in the keys of a section that rows call `name`.
    fn section(&mut self, keys: &[Key], name: &str) {
        for key in keys {
            self.key(key, &below(name, key.name));
        }
    }

    /// Takes in a key that rows call `name`.
    fn key(&mut self, key: &Key, name: &str) {
        match &key.takes {
            Takes::Table(keys) | Takes::Tables(keys) => self.section(keys, name),
            Takes::TablesByKind(kinds) => self.kinds(kinds, name),
            // A table that may stand for another value is a value. How a feature is embedded does not depend on its kind.
            Takes::AnyOf(forms) if key.name == "deep" => {
                self.keys.insert("feature.deep".to_owned());
                self.tables(forms, "feature.deep");
            }
            Takes::AnyOf(forms) => {
                self.keys.insert(name.to_owned());
                self.tables(forms, name);
            }
            Takes::TableByKind(kinds) => {
                self.keys.insert(name.to_owned());
                self.kinds(kinds, name);
            }
            Takes::Choice(names) | Takes::Choices(names) => {
                let names = names.iter().map(|name| (*name).to_owned()).collect();
                self.choices.insert(name.to_owned(), names);
                self.keys.insert(name.to_owned());
            }
            Takes::Flag
            | Takes::Integer { .. }
            | Takes::Number(_)
            | Takes::Integers { .. }
            | Takes::Numbers
            | Takes::Text
            | Takes::Texts
            | Takes::Path
            | Takes::Paths
            | Takes::TableOf(_)
            | Takes::AnyTable => drop(self.keys.insert(name.to_owned())),
        }
    }

    /// Takes in the keys of the tables among the forms of a value.
    fn tables(&mut self, forms: &[Takes], name: &str) {
        for form in forms {
            match form {
                Takes::Table(keys) => self.section(keys, name),
                Takes::TableByKind(kinds) => self.kinds(kinds, name),
                _ => {}
            }
        }
    }

    /// Takes in the keys of each kind. The optimizers of all parts of a model have the same keys, and so have schedules, after
    /// a warm-up too.
    fn kinds(&mut self, kinds: &Kinds, name: &str) {
        let name = match kinds.what {
            "optimizer" | "schedule" => kinds.what,
            _ => name,
        };
        let kind = below(name, "kind");
        // The schedules after a warm-up are some of those before it.
        let names = self.choices.entry(kind.clone()).or_default();
        for known in kinds.names() {
            if !names.iter().any(|name| name == known) {
                names.push(known.to_owned());
            }
        }
        self.keys.insert(kind);
        for kind in &kinds.kinds {
            let name = below(name, kind.name);
            self.section(&kinds.shared, &name);
            self.section(&kind.keys, &name);
        }
    }
}

/// Returns all keys.
pub(crate) fn known() -> Known {
    let mut known = Known::default();
    known.section(&keys(), "");
    cluster_file(&mut known.keys);
    known
}

fn below(parent: &str, key: &str) -> String {
    if parent.is_empty() {
        key.to_owned()
    } else {
        format!("{parent}.{key}")
    }
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
