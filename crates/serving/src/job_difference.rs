//! Comparison of the job that trained values with the job that answers with them.

use std::collections::BTreeMap;

use trainyard_run_config::{Agreement, Job};

/// Keys of a job, with all keys below them, that determine answers: how values become cells, the features, the model, and
/// what a class stands for.
const OF_ANSWERS: [&str; 9] = [
    "feature",
    "model",
    "input.label.vocabulary",
    "input.label.positive",
    "input.format",
    "input.index_base",
    "input.missing",
    "input.missing_of",
    "input.trim",
];

/// Returns the lines by which the job of values is recorded.
pub(crate) fn lines(job: &Job) -> Vec<String> {
    Agreement::of(job).lines()
}

/// Describes the differences between the job of recorded lines and a job, as far as they change answers. A key that only
/// one of them has, with the value false, is of another release, and off.
pub(crate) fn difference(recorded: &[String], job: &Job) -> Option<String> {
    let own = lines(job);
    let [recorded_keys, own_keys] = [recorded, own.as_slice()].map(by_key);
    let only = |lines: &[String], other: &BTreeMap<&str, &str>| {
        let known = lines.iter().map(String::as_str).filter(|line| {
            let is_off = line.strip_suffix("=false");
            is_off.is_none_or(|key| other.contains_key(key))
        });
        Agreement::from_lines(known).of_scores().only(&OF_ANSWERS)
    };
    let trained = only(recorded, &own_keys);
    trained.differences(
        &only(&own, &recorded_keys),
        "the run that trained",
        "this job",
    )
}

fn by_key(lines: &[String]) -> BTreeMap<&str, &str> {
    let lines = lines.iter();
    lines.filter_map(|line| line.split_once('=')).collect()
}
