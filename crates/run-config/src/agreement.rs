//! The agreement: the settings of a job that all its tasks must share.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher as _};

use serde_json::Value;
use trainyard_vocabulary::{Digest, Words};

use crate::{FeatureKind, Job};

/// Keys that may differ between tasks, with all keys below them: paths on a host, settings that affect only how a host
/// does its part, and keys that a single role reads.
const MAY_DIFFER: [&str; 20] = [
    "path",
    // The cluster id in the directory shows whether all tasks use the same one.
    "model_dir",
    "local_dir",
    // The chief compares the records of these files when it hands out data shards.
    "input.train.files",
    "input.eval.files",
    "input.train.prefetch_batches",
    "run.intra_op_parallelism_threads",
    "run.log_step_count_steps",
    "run.session_creation_timeout_secs",
    // The chief decides these settings for all tasks.
    "run.save_checkpoints_steps",
    "run.save_checkpoints_secs",
    "run.keep_checkpoint_max",
    "run.keep_checkpoint_every_n_hours",
    "run.save_summary_steps",
    "run.summary_histograms",
    "strategy.chief_trains",
    "publish",
    // The evaluator decides these settings.
    "eval",
    "evaluation",
    "exporter",
];
/// Keys, with all keys below them, that determine evaluation. With other values, an evaluator would evaluate another
/// model.
const DECIDE_SCORES: [&str; 15] = [
    "feature",
    "model",
    "input.label",
    "input.weight_column",
    "input.format",
    "input.columns",
    "input.index_base",
    "input.missing",
    "input.missing_of",
    "input.trim",
    "input.delimiter",
    "input.encoding",
    "input.decimal",
    "input.thousands",
    "input.units",
];
/// Those of `DECIDE_SCORES` that only training reads.
const DECIDE_TRAINING: [&str; 4] = [
    "model.linear_optimizer",
    "model.dnn_optimizer",
    "model.optimizer",
    "model.dropout",
];
/// The constants of a custom model, which its code makes.
const CONSTANTS: &str = "model.constants";
/// What to do about constants that differ.
const CONSTANTS_REMEDY: &str = "model.constants are values that the model's code makes in each process, here other ones: draw them under a seed \
    of their own, sort what comes out of a set, replace hash() by zlib.crc32(), or give a number that no step reads a name that begins with _";
/// Longest value that is sent, in bytes of JSON. Of a longer value, its length and a hash are sent.
const VALUE_BYTES_MAX: usize = 120;
/// Longest beginning of a longer value, in bytes.
const BEGINNING_BYTES_MAX: usize = 60;
/// Longest name of a feature in a key, in bytes.
const NAME_BYTES_MAX: usize = 60;
/// Most characters of a key or value in a message. They suffice for every value that is sent.
const VALUE_CHARS_SHOWN: usize = VALUE_BYTES_MAX + 20;
/// Most differences in a message.
const DIFFERENCES_MAX: usize = 4;

/// The keys of a job and their values in JSON, with defaults filled in. Keys are those of the job file, with the index
/// of a feature in the job and its name: `feature.0(city).buckets`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Agreement(BTreeMap<String, String>);

impl Agreement {
    /// Returns the agreement of a job.
    pub fn of(job: &Job) -> Self {
        let mut keys = BTreeMap::new();
        let mut brief = job.clone();
        let vocabularies = take_vocabularies(&mut brief);
        // A job consists of numbers, texts and lists of them, and JSON can express all of these.
        if let Ok(value) = serde_json::to_value(brief) {
            flatten(String::new(), &value, &mut keys);
        }
        keys.extend(vocabularies);
        keys.retain(|key, _| !is_below(key, &MAY_DIFFER));
        Self(keys)
    }

    /// Returns the keys that determine evaluation.
    #[must_use]
    pub fn of_scores(&self) -> Self {
        self.keeping(|key| is_below(key, &DECIDE_SCORES) && !is_below(key, &DECIDE_TRAINING))
    }

    /// Returns these keys, with all keys below them.
    #[must_use]
    pub fn only(&self, names: &[&str]) -> Self {
        self.keeping(|key| is_below(key, names))
    }

    /// Returns the value of a key, in JSON.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Returns the value of a key of the feature with this name, in JSON, whatever place the feature has in the job.
    pub fn of_feature(&self, name: &str, key: &str) -> Option<&str> {
        self.of_element("feature.", name, key)
    }

    /// Returns the keys of the feature with this name and their values, in JSON, whatever place the feature has in the job.
    pub fn keys_of_feature(&self, name: &str) -> BTreeMap<&str, &str> {
        let name = in_key(name);
        let start = format!("({}).", cut(&name, NAME_BYTES_MAX));
        let pairs = self.0.iter().filter_map(|(key, value)| {
            let element = key.strip_prefix("feature.")?;
            let key = element.trim_start_matches(|letter: char| letter.is_ascii_digit());
            Some((key.strip_prefix(&*start)?, value.as_str()))
        });
        pairs.collect()
    }

    /// Returns the value of a key of the model's task with this name, in JSON, whatever place the task has.
    pub fn of_task(&self, name: &str, key: &str) -> Option<&str> {
        self.of_element("model.task.", name, key)
    }

    fn of_element(&self, list: &str, name: &str, key: &str) -> Option<&str> {
        let (name, end) = (in_key(name), format!(").{key}"));
        let name = cut(&name, NAME_BYTES_MAX);
        let is_its = |found: &str| {
            let element = found
                .strip_prefix(list)
                .and_then(|rest| rest.strip_suffix(end.as_str()));
            let element = element.and_then(|element| element.split_once('('));
            element.is_some_and(|(place, found)| {
                found == name && place.bytes().all(|byte| byte.is_ascii_digit())
            })
        };
        let mut keys = self.0.iter();
        keys.find_map(|(key, value)| is_its(key).then_some(value.as_str()))
    }

    fn keeping(&self, keeps: impl Fn(&str) -> bool) -> Self {
        let kept = self.0.iter().filter(|(key, _)| keeps(key));
        Self(
            kept.map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
        )
    }

    /// Returns one line per key, such as `label.positive=">50K"`.
    pub fn lines(&self) -> Vec<String> {
        self.0
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect()
    }

    /// Parses the lines that a chief has recorded in the model directory.
    pub fn recorded(lines: &[String]) -> Self {
        Self::from_lines(lines.iter().map(String::as_str))
    }

    /// Parses the result of [`Agreement::lines`]. A line without `=` is a key without value.
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

    /// Describes the differences between this job, called `ours`, and another job, called `theirs`. Returns `None` if
    /// they agree.
    pub fn differences(&self, other: &Self, ours: &str, theirs: &str) -> Option<String> {
        let keys = self
            .0
            .keys()
            .chain(other.0.keys().filter(|key| !self.0.contains_key(*key)));
        let shown = |key: &str, value: Option<&String>| match value {
            None => "not set".to_owned(),
            Some(value) => character(key, value).unwrap_or_else(|| short(value)),
        };
        let different = keys.filter(|key| {
            let pair = (self.0.get(*key), other.0.get(*key));
            // A release or a version of the model's code may not know a constant.
            let is_unknown = is_below(key, &[CONSTANTS]) && (pair.0.is_none() || pair.1.is_none());
            pair.0 != pair.1 && !is_unknown
        });
        let different: Vec<&String> = different.collect();
        let are_made = different.iter().any(|key| is_below(key, &[CONSTANTS]));
        let mut told: Vec<String> = different
            .into_iter()
            .map(|key| {
                let own = shown(key, self.0.get(key));
                let given = shown(key, other.0.get(key));
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
        if are_made {
            told.push(CONSTANTS_REMEDY.to_owned());
        }
        (!told.is_empty()).then(|| told.join("; "))
    }
}

/// Empties the vocabularies of a job, and returns their keys and values. As JSON, a long vocabulary would take many times
/// its memory.
fn take_vocabularies(job: &mut Job) -> Vec<(String, String)> {
    let mut taken = Vec::new();
    for (place, feature) in job.features.iter_mut().enumerate() {
        if let FeatureKind::Vocabulary { values, .. } = &mut feature.kind {
            let values = sent_words(&std::mem::take(values));
            let element = element_key(place, Some(&feature.name));
            taken.push((format!("feature.{element}.values"), values));
        }
    }
    taken
}

/// Returns whether a key is one of these names, or below one of them.
fn is_below(key: &str, names: &[&str]) -> bool {
    let below = |name: &str| {
        key.strip_prefix(name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    names.iter().any(|name| below(name))
}

/// Adds a value, and all values below it, by their keys. A list of plain values counts as one value.
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
                // In the job file, the keys of a kind are siblings of the kind.
                let inner = match name.as_str() {
                    "kind" | "values" if value.is_object() => key.clone(),
                    name => below(&in_key(file_key(name))),
                };
                flatten(inner, value, keys);
            }
        }
        Value::Array(values) if values.iter().any(Value::is_object) => {
            for (place, value) in values.iter().enumerate() {
                // A section with several columns stands for several features, so this index differs from that in the
                // file.
                let name = value.get("name").and_then(Value::as_str);
                flatten(below(&element_key(place, name)), value, keys);
            }
        }
        Value::Null => {}
        plain => drop(keys.insert(key, sent(&plain.to_string()))),
    }
}

/// Returns the key of an element in a list of sections: its index, and its name if it has one.
fn element_key(place: usize, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{place}({})", cut(&in_key(name), NAME_BYTES_MAX)),
        None => place.to_string(),
    }
}

/// Returns a name as a part of a key. A line has its value behind the first `=`.
fn in_key(name: &str) -> Cow<'_, str> {
    if name.contains('=') {
        Cow::Owned(name.replace('=', "%3D"))
    } else {
        Cow::Borrowed(name)
    }
}

/// Returns the job file's name for a list of sections.
fn file_key(name: &str) -> &str {
    match name {
        "features" => "feature",
        "evaluations" => "evaluation",
        "exporters" => "exporter",
        "tasks" => "task",
        other => other,
    }
}

/// Returns a value, or the beginning, length and hash of a long value.
fn sent(value: &str) -> String {
    if value.len() <= VALUE_BYTES_MAX {
        return value.to_owned();
    }
    // All tasks of a run have the same release, hence the same hash function.
    let mut hash = DefaultHasher::new();
    hash.write(value.as_bytes());
    abridged(value, value.len() as u64, hash.finish())
}

/// Returns the words of a vocabulary as [`sent`] returns their list in JSON.
fn sent_words(words: &Words) -> String {
    let Digest { bytes, hash } = words.digest();
    // Each word has at least its quotes and a comma.
    let first: Vec<&str> = words.iter().take(VALUE_BYTES_MAX / 3 + 1).collect();
    let json = Value::from(first).to_string();
    if bytes <= VALUE_BYTES_MAX as u64 {
        return json;
    }
    abridged(&json, bytes, hash)
}

/// Returns the beginning of a long value with its length and hash.
fn abridged(value: &str, bytes: u64, hash: u64) -> String {
    format!(
        "{}... ({bytes} bytes, hash {hash:016x})",
        cut(value, BEGINNING_BYTES_MAX)
    )
}

/// Returns a text of a peer, cut to the length of a message. Characters that cannot be printed are escaped; JSON's
/// quotes are kept.
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

/// Returns the value of a key of one character, as the job file has it: it is sent as the number of a byte.
fn character(key: &str, value: &str) -> Option<String> {
    let name = key.rsplit('.').next()?;
    let byte = value.parse::<u8>().ok()?;
    let is_character = matches!(name, "separator" | "delimiter");
    is_character.then(|| Value::from(char::from(byte).to_string()).to_string())
}

fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes.min(text.len()))]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn names_with_a_sign_of_equality_keep_their_keys_and_values_apart() {
        let text = r#"
            model_dir = "m"
            [input]
            label = { column = "y=1" }
            missing_of = { "a=b" = ["1=2"] }
            train = { files = ["a.csv"], epochs = 1 }
            [[feature]]
            column = "a=b"
            kind = "numeric"
            default = 2.0
            [model]
            kind = "linear_classifier"
        "#;
        let job = Job::parse(Path::new("job.toml"), text, &[]).expect("a job");
        let own = Agreement::of(&job);
        let back = Agreement::recorded(&own.lines());
        assert_eq!(back, own);
        assert_eq!(own.differences(&back, "one", "other"), None);
        assert_eq!(back.of_feature("a=b", "default"), Some("[2.0]"));
        assert_eq!(back.get("input.missing_of.a%3Db"), Some("[\"1=2\"]"));
    }

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
    fn characters_are_told_as_the_job_file_has_them() {
        let of = |character: &str| {
            let text = format!(
                r#"
                model_dir = "m"
                [input]
                label = {{ column = "y" }}
                delimiter = "{character}"
                train = {{ files = ["a.csv"], epochs = 1 }}
                [[feature]]
                column = "x"
                kind = "hashed"
                buckets = 8
                separator = "{character}"
                [model]
                kind = "linear_classifier"
                "#
            );
            Agreement::of(&Job::parse(Path::new("job.toml"), &text, &[]).expect("a job"))
        };
        let told = of(";").differences(&of("\\t"), "one", "other");
        let told = told.expect("they differ");
        for part in [
            r#"input.delimiter is "\t" for other and ";" for one"#,
            r#"feature.0(x).separator is "\t" for other and ";" for one"#,
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert!(!told.contains("59"), "{told}");
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
    fn constants_of_a_models_code_agree_where_both_sides_know_them() {
        let of = |constants: &[(&str, &str)]| {
            let mut job = job("a", 1, &["x"]);
            let pairs = constants.iter();
            job.model.constants = pairs
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            Agreement::of(&job).of_scores()
        };
        let own = of(&[("layers.0.noise", "float64 [3] sum 1"), ("scale", "int 7")]);
        for other in [of(&[("scale", "int 7"), ("new", "int 1")]), of(&[])] {
            assert_eq!(own.differences(&other, "chief:0", "worker:1"), None);
        }
        let told = own.differences(&of(&[("scale", "int 8")]), "chief:0", "worker:1");
        let told = told.expect("they differ");
        let beginning =
            r#"model.constants.scale is "int 8" for worker:1 and "int 7" for chief:0; "#;
        assert_eq!(told, format!("{beginning}{CONSTANTS_REMEDY}"));
    }

    #[test]
    fn a_vocabulary_is_sent_like_every_other_list() {
        let names = ["w".to_owned(), "\u{e9}".repeat(200)];
        let long: Vec<String> = (0..1000).map(|word| format!("\"{word}\u{e9}")).collect();
        let short = ["a\n".to_owned(), String::new()];
        let lists = [&long[..], &long[..30], &long[..12], &long[..1], &short];
        for (name, list) in names.iter().flat_map(|name| lists.map(|list| (name, list))) {
            let mut job = job("a", 1, &["x", name]);
            job.features[1].kind = FeatureKind::Vocabulary {
                column: "w".to_owned(),
                values: Words::new(list.iter().collect()).expect("no word is repeated"),
                oov_buckets: 0,
                default: None,
                integers: false,
            };
            let mut whole = BTreeMap::new();
            let value = serde_json::to_value(&job).expect("JSON");
            flatten(String::new(), &value, &mut whole);
            whole.retain(|key, _| !is_below(key, &MAY_DIFFER));
            assert_eq!(Agreement::of(&job), Agreement(whole));
        }
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
