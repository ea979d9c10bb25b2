//! What this machine lets a task have: the lines of `trainyard check` on memory, logs, temporary files and open files.

use std::path::PathBuf;

use rustix::process::{Resource, getrlimit};
use trainyard_daemon::{SHARED_MEMORY, SHARED_MEMORY_DIR, free_bytes};
use trainyard_model::AnyModel;
use trainyard_run_config::Job;
use trainyard_runtime::MemoryLimit;
use trainyard_storage::is_remote;

/// Bytes that a row of a dynamic table takes beside its values and slots: its id, its place in the order of use, and the room
/// to grow of both, as measured.
const ROW_BYTES: u64 = 80;

/// Returns what this machine lets the tasks of a job have, as names and texts.
pub(crate) fn limits(job: &Job, model: &AnyModel) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    let mut say = |what: &str, text: String| lines.push((what.to_owned(), text));
    if let Some(limit) = MemoryLimit::of_process() {
        let used = limit.used();
        let used = used.map_or_else(String::new, |used| format!(", of which {used} are in use"));
        say("memory", format!("{limit}{used}"));
    }
    let servers = &job.parameter_servers;
    let folder = std::env::var_os(SHARED_MEMORY_DIR)
        .map_or_else(|| PathBuf::from(SHARED_MEMORY), PathBuf::from);
    let most = servers.shared_memory_bytes_max;
    let what = most.map_or_else(
        || "1 GiB or an eighth of the limit".to_owned(),
        |most| format!("{most} bytes"),
    );
    let free = free_bytes(&folder);
    let free = free.map_or_else(
        || "which cannot be used here".to_owned(),
        |free| format!("where {free} bytes are free"),
    );
    let state = job.local_dir();
    say(
        "log",
        format!(
            "of a parameter server: at most {what}, and half of what is free, in {}, {free}; the rest in {} or --state-dir",
            folder.display(),
            state.join("wal").display()
        ),
    );
    if is_remote(&job.model_dir) {
        let folder = std::env::temp_dir();
        let free = free_bytes(&folder).unwrap_or_default();
        say(
            "temporary files",
            format!(
                "{free} bytes are free in {} (TMPDIR), which takes a server's part of each checkpoint first",
                folder.display()
            ),
        );
    }
    let files = getrlimit(Resource::Nofile);
    let shown =
        |limit: Option<u64>| limit.map_or_else(|| "any number".to_owned(), |most| most.to_string());
    say(
        "open files",
        format!(
            "{}, and {} after the start of a task, which raises its limit",
            shown(files.current),
            shown(files.maximum)
        ),
    );
    let optimizers = model.optimizers();
    for spec in model
        .variables()
        .iter()
        .filter(|spec| spec.dynamic().is_some())
    {
        let slots = optimizers
            .get(&spec.optimizer_group)
            .map_or(0, |config| config.slots().len()) as u64;
        let values = spec.width() as u64;
        let bytes = values * 4 * (1 + slots) + ROW_BYTES;
        say(
            "dynamic table",
            format!(
                "{}: about {bytes} bytes of a server's memory an id, {} MB for a million",
                spec.name, bytes
            ),
        );
    }
    lines
}
