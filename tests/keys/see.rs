//! What is looked at after a job: values, files, metrics and lines of the log. The same job shows the same twice.

use std::path::Path;

use trainyard_checkpoint::{Checkpoint, list};

use crate::keys::site::Ran;

/// Returns what there is to see of a job that was run.
pub(crate) type See = fn(&Ran) -> String;

fn last_checkpoint(ran: &Ran) -> Checkpoint {
    let found = list(&ran.folder.join("model")).expect("the model folder is read");
    let last = found
        .last()
        .unwrap_or_else(|| panic!("no checkpoint: {}", ran.output));
    Checkpoint::open(&last.path).expect("the checkpoint is whole")
}

/// Name and values of every variable.
pub(crate) fn trained(ran: &Ran) -> String {
    let checkpoint = last_checkpoint(ran);
    let mut lines = Vec::new();
    for spec in &checkpoint.manifest().variables {
        let name = &spec.name;
        if spec.dynamic().is_some() {
            let rows = checkpoint
                .read_dynamic(name, &[], 0..1 << 64)
                .expect("the table is whole");
            lines.push(format!("{name} {:?} {:?}", rows.ids, rows.values));
        } else {
            lines.push(format!(
                "{name} {:?}",
                checkpoint.read(name).expect("the variable is whole")
            ));
        }
    }
    assert!(!lines.is_empty(), "a model has variables");
    lines.join("\n")
}

/// Rows in use of every dynamic table.
pub(crate) fn rows_in_use(ran: &Ran) -> String {
    let checkpoint = last_checkpoint(ran);
    let tables = checkpoint
        .manifest()
        .variables
        .iter()
        .filter(|spec| spec.dynamic().is_some());
    let rows = tables.map(|spec| checkpoint.rows_used(&spec.name).to_string());
    rows.collect::<Vec<_>>().join(" ")
}

/// Names of all variables.
pub(crate) fn variables(ran: &Ran) -> String {
    let checkpoint = last_checkpoint(ran);
    let names = checkpoint
        .manifest()
        .variables
        .iter()
        .map(|spec| spec.name.clone());
    names.collect::<Vec<_>>().join(" ")
}

/// Which server holds which rows of which variable.
pub(crate) fn slices(ran: &Ran) -> String {
    let checkpoint = last_checkpoint(ran);
    let mut lines = Vec::new();
    for shard in &checkpoint.manifest().shards {
        for tensor in shard.tensors.iter().filter(|tensor| tensor.slot.is_none()) {
            lines.push(format!(
                "ps:{} {} {}..{}",
                shard.ps, tensor.variable, tensor.row_begin, tensor.row_end
            ));
        }
    }
    lines.sort();
    lines.join("\n")
}

/// Steps of the checkpoints that are left.
pub(crate) fn checkpoints(ran: &Ran) -> String {
    let found = list(&ran.folder.join("model")).expect("the model folder is read");
    found
        .iter()
        .map(|found| found.step.to_string())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Whether there is a checkpoint between the first and the last.
pub(crate) fn has_checkpoint_between(ran: &Ran) -> String {
    (list(&ran.folder.join("model"))
        .expect("the model folder is read")
        .len()
        > 2)
    .to_string()
}

/// The last global step.
pub(crate) fn steps(ran: &Ran) -> String {
    last_checkpoint(ran).manifest().global_step.to_string()
}

/// The metrics of the last evaluation.
pub(crate) fn metrics(ran: &Ran) -> String {
    let text = std::fs::read(ran.folder.join("model/eval/result.json"))
        .expect("the evaluation is written");
    let result: serde_json::Value = serde_json::from_slice(&text).expect("the evaluation is JSON");
    result["metrics"].to_string()
}

/// Names of the metrics of the last evaluation.
pub(crate) fn metric_names(ran: &Ran) -> String {
    let metrics: serde_json::Value = serde_json::from_str(&metrics(ran)).expect("metrics are JSON");
    let names = metrics
        .as_object()
        .expect("metrics have names")
        .keys()
        .cloned();
    names.collect::<Vec<_>>().join(" ")
}

/// What the program wrote.
pub(crate) fn output(ran: &Ran) -> String {
    ran.output.clone()
}

/// How often a text stands in what the programs wrote.
pub(crate) fn count(ran: &Ran, text: &str) -> String {
    ran.output.matches(text).count().to_string()
}

/// Files and folders of the model folder, sorted. Times in names are left out.
pub(crate) fn files(ran: &Ran) -> Vec<String> {
    let mut names = Vec::new();
    gather(&ran.folder, &ran.folder, &mut names);
    names.sort();
    names
}

fn gather(root: &Path, folder: &Path, names: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.map(|entry| entry.expect("the folder is read")) {
        let path = entry.path();
        let parts = path.strip_prefix(root).expect("it is in the folder").iter();
        let parts = parts.map(|part| part.to_string_lossy().into_owned());
        let timeless = parts.map(|part| {
            if part.parse::<u64>().is_ok() {
                "TIME".to_owned()
            } else {
                part
            }
        });
        names.push(timeless.collect::<Vec<_>>().join("/"));
        gather(root, &path, names);
    }
}

/// How often a text stands in the event files of the training.
pub(crate) fn events(ran: &Ran, text: &str) -> String {
    let mut times = 0;
    for entry in std::fs::read_dir(ran.folder.join("model")).expect("the model folder is read") {
        let path = entry.expect("the folder is read").path();
        if path.to_string_lossy().contains("events.out.tfevents") {
            let bytes = std::fs::read(path).expect("the events are read");
            times += bytes
                .windows(text.len())
                .filter(|window| *window == text.as_bytes())
                .count();
        }
    }
    times.to_string()
}
