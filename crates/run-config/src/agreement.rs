//! What all tasks of a run must have been told alike, and what may differ from host to host.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher as _};

use serde_json::Value;

use crate::Job;

/// Keys that may differ, with all below them: where things lie on a host, what decides nothing but how a host does its part, and
/// what one role alone reads.
const MAY_DIFFER: [&str; 19] = [
    "path",
    // Whether it is the same folder is told by the cluster's identity in it.
    "model_dir",
    "local_dir",
    // The chief compares what is read of them, where it hands the data out.
    "input.train.files",
    "input.eval.files",
    "input.train.prefetch_batches",
    "run.intra_op_parallelism_threads",
    "run.log_step_count_steps",
    "run.session_creation_timeout_secs",
    // The chief decides these for all.
    "run.save_checkpoints_steps",
    "run.save_checkpoints_secs",
    "run.keep_checkpoint_max",
    "run.keep_checkpoint_every_n_hours",
    "run.save_summary_steps",
    "run.summary_histograms",
    "strategy.chief_trains",
    // The evaluator does.
    "eval",
    "evaluation",
    "exporter",
];
/// Keys, with all below them, by which a checkpoint is scored: an evaluator that was told others scores another model.
const DECIDE_SCORES: [&str; 9] = [
    "feature",
    "model",
    "input.label",
    "input.weight_column",
    "input.format",
    "input.columns",
    "input.index_base",
    "input.missing",
    "input.trim",
];
/// Of these, what only training reads.
const DECIDE_TRAINING: [&str; 4] = [
    "model.linear_optimizer",
    "model.dnn_optimizer",
    "model.optimizer",
    "model.dropout",
];
/// Longest value that is sent, in bytes of JSON: of a longer one its length and a hash are.
const VALUE_BYTES_MAX: usize = 120;
/// Longest name of a feature in a key, in bytes.
const NAME_BYTES_MAX: usize = 60;
/// Most characters of a key or value that a message shows: all of those that are sent.
const VALUE_CHARS_SHOWN: usize = VALUE_BYTES_MAX + 20;
/// Most differences that a message names.
const DIFFERENCES_MAX: usize = 4;

/// The keys of a job and their values, those that were left out too, in JSON. Keys are those of the job file, with the place of a
/// feature in their order, and its name: `feature.0(city).buckets`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Agreement(BTreeMap<String, String>);

impl Agreement {
    /// Returns what the tasks of a job must agree on.
    pub fn of(job: &Job) -> Self {
        let mut keys = BTreeMap::new();
        // A job is made of numbers, texts and lists of them: JSON has a form of all.
        if let Ok(value) = serde_json::to_value(job) {
            flatten(String::new(), &value, &mut keys);
        }
        keys.retain(|key, _| !is_below(key, &MAY_DIFFER));
        Self(keys)
    }

    /// Returns the keys by which a checkpoint is scored.
    #[must_use]
    pub fn of_scores(&self) -> Self {
        self.keeping(|key| is_below(key, &DECIDE_SCORES) && !is_below(key, &DECIDE_TRAINING))
    }

    /// Returns these keys, and those below them.
    #[must_use]
    pub fn only(&self, names: &[&str]) -> Self {
        self.keeping(|key| is_below(key, names))
    }

    fn keeping(&self, keeps: impl Fn(&str) -> bool) -> Self {
        let kept = self.0.iter().filter(|(key, _)| keeps(key));
        Self(
            kept.map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
        )
    }

    /// Returns one line a key, `label.positive=">50K"`.
    pub fn lines(&self) -> Vec<String> {
        self.0
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect()
    }

    /// Reads the lines that a chief has recorded in the model folder.
    pub fn recorded(lines: &[String]) -> Self {
        Self::from_lines(lines.iter().map(String::as_str))
    }

    /// Reads what [`Agreement::lines`] wrote. A line without `=` is a key without value.
    pub fn from_lines<'a>(lines: impl IntoIterator<Item = &'a str>) -> Self {
        let pairs = lines
            .into_iter()
            .map(|line| line.split_once('=').unwrap_or((line, "")));
        Self(
            pairs
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
        )
    }

    /// Says in what the job of another, known as `theirs`, differs from this one, known as `ours`: nothing where it does not.
    pub fn differences(&self, other: &Self, ours: &str, theirs: &str) -> Option<String> {
        let keys = self
            .0
            .keys()
            .chain(other.0.keys().filter(|key| !self.0.contains_key(*key)));
        let shown =
            |value: Option<&String>| value.map_or("not set".to_owned(), |value| short(value));
        let different = keys.filter(|key| self.0.get(*key) != other.0.get(*key));
        let mut told: Vec<String> = different
            .map(|key| {
                let own = shown(self.0.get(key));
                let given = shown(other.0.get(key));
                format!(
                    "{} is {given} for {theirs} and {own} for {ours}",
                    short(key)
                )
            })
            .collect();
        let rest = told.len().saturating_sub(DIFFERENCES_MAX);
        told.truncate(DIFFERENCES_MAX);
        if rest > 0 {
            told.push(format!("and {rest} more"));
        }
        (!told.is_empty()).then(|| told.join("; "))
    }
}

/// Whether a key is one of these, or below one.
fn is_below(key: &str, names: &[&str]) -> bool {
    let below = |name: &str| {
        key.strip_prefix(name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    names.iter().any(|name| below(name))
}

/// Adds a value, and all values below it, by their keys. A list of plain values is one value.
fn flatten(key: String, value: &Value, keys: &mut BTreeMap<String, String>) {
    let below = |name: &str| {
        if key.is_empty() {
            name.to_owned()
        } else {
            format!("{key}.{name}")
        }
    };
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                // The job file has the keys of a kind beside its name.
                let inner = match name.as_str() {
                    "kind" | "values" if value.is_object() => key.clone(),
                    name => below(file_key(name)),
                };
                flatten(inner, value, keys);
            }
        }
        Value::Array(values) if values.iter().any(Value::is_object) => {
            for (place, value) in values.iter().enumerate() {
                // The place in the job, in which a table with several columns stands for several features, is not that in the file.
                let name = match value.get("name").and_then(Value::as_str) {
                    Some(name) => format!("{place}({})", cut(name, NAME_BYTES_MAX)),
                    None => place.to_string(),
                };
                flatten(below(&name), value, keys);
            }
        }
        Value::Null => {}
        plain => drop(keys.insert(key, sent(&plain.to_string()))),
    }
}

/// Returns the name that the job file has for lists of sections.
fn file_key(name: &str) -> &str {
    match name {
        "features" => "feature",
        "evaluations" => "evaluation",
        "exporters" => "exporter",
        other => other,
    }
}

/// Returns a value, or the length and a hash of a long one.
fn sent(value: &str) -> String {
    if value.len() <= VALUE_BYTES_MAX {
        return value.to_owned();
    }
    // Tasks of one run are of one release, and hash alike.
    let mut hash = DefaultHasher::new();
    hash.write(value.as_bytes());
    format!(
        "{}... ({} bytes, hash {:016x})",
        cut(value, 60),
        value.len(),
        hash.finish()
    )
}

/// Returns a text of a peer, as much of it as a message shows, with what is no letter or mark escaped; quotes of JSON stay.
fn short(value: &str) -> String {
    let mut out = String::new();
    for letter in value.chars().take(VALUE_CHARS_SHOWN) {
        match letter {
            '"' | '\'' | '\\' => out.push(letter),
            other => out.extend(other.escape_debug()),
        }
    }
    out
}

fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes.min(text.len()))]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn job(positive: &str, threads: usize, columns: &[&str]) -> Job {
        let text = format!(
            r#"
model_dir = "m{threads}"
[run]
intra_op_parallelism_threads = {threads}
[input]
label = {{ column = "y", positive = "{positive}" }}
train = {{ files = ["{threads}.csv"], batch_size = 8, epochs = 1 }}
[[feature]]
columns = {columns:?}
kind = "numeric"
[model]
kind = "linear_classifier"
"#
        );
        Job::parse(Path::new("job.toml"), &text, &[]).expect("a good job")
    }

    #[test]
    fn jobs_that_differ_by_host_agree_and_survive_their_way_over_the_wire() {
        let agreement = Agreement::of(&job("a", 1, &["x"]));
        assert_eq!(
            agreement.differences(&Agreement::of(&job("a", 2, &["x"])), "chief:0", "worker:1"),
            None
        );
        let lines = agreement.lines();
        assert!(
            lines.contains(&r#"input.label.positive="a""#.to_owned()),
            "{lines:?}"
        );
        assert!(
            lines
                .iter()
                .all(|line| !line.starts_with("path=") && !line.starts_with("model_dir="))
        );
        assert_eq!(
            Agreement::from_lines(lines.iter().map(String::as_str)),
            agreement
        );
    }

    #[test]
    fn scores_are_decided_by_label_features_and_model_and_not_by_how_it_is_trained() {
        let agreement = Agreement::of(&job("a", 1, &["x"])).of_scores();
        let keys: Vec<&str> = agreement.0.keys().map(String::as_str).collect();
        assert!(
            keys.contains(&"input.label.positive") && keys.contains(&"model.kind"),
            "{keys:?}"
        );
        assert!(
            keys.iter().any(|key| key.starts_with("feature.0(")),
            "{keys:?}"
        );
        let of_training = |key: &&str| {
            key.contains("optimizer") || key.starts_with("input.train") || key.starts_with("run")
        };
        assert_eq!(keys.iter().find(|key| of_training(key)), None);
    }

    #[test]
    fn another_value_is_named_with_its_key_and_both_sides() {
        let own = Agreement::of(&job(">50K", 1, &["x"]));
        let other = Agreement::of(&job(">50k", 1, &["x"]));
        assert_eq!(
            own.differences(&other, "chief:0", "worker:1")
                .expect("they differ"),
            r#"input.label.positive is ">50k" for worker:1 and ">50K" for chief:0"#
        );
        let more = own.differences(
            &Agreement::of(&job(">50K", 1, &["x", "z"])),
            "chief:0",
            "worker:1",
        );
        assert!(
            more.as_ref()
                .is_some_and(|more| more.contains("feature.1(")),
            "{more:?}"
        );
    }

    #[test]
    fn a_long_value_is_compared_by_its_hash_and_a_long_difference_is_cut() {
        let list = |last: usize| {
            let values: Vec<Value> = (0..1000).chain([last]).map(Value::from).collect();
            let mut keys = BTreeMap::new();
            flatten("boundaries".to_owned(), &Value::from(values), &mut keys);
            Agreement(keys)
        };
        assert_eq!(list(1).differences(&list(1), "a", "b"), None);
        let told = list(1)
            .differences(&list(2), "a", "b")
            .expect("they differ");
        assert!(told.contains("hash") && told.len() < 400, "{told}");
        let many = Agreement::from_lines(["a=1", "b=1", "c=1", "d=1", "e=1", "f\u{7}=1"]);
        let told = Agreement::default()
            .differences(&many, "chief:0", "worker:0")
            .expect("they differ");
        assert!(
            told.ends_with("and 2 more")
                && told.contains("a is 1 for worker:0 and not set for chief:0")
        );
    }
}
