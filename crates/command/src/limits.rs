//! What this machine lets a task have, and what a task needs: the lines of `trainyard check` on memory, logs, temporary
//! files, open files, sizes, vocabularies and dynamic tables.

use std::path::PathBuf;

use rustix::fs::{Access, access};
use rustix::process::{Resource, getrlimit};
use trainyard_daemon::{
    INSECURE_NO_AUTH, SHARED_MEMORY, SHARED_MEMORY_DIR, TLS_DIR, TOKEN_FILE, free_bytes,
    is_in_memory,
};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model::AnyModel;
use trainyard_run_config::{FeatureKind, Job};
use trainyard_runtime::MemoryLimit;
use trainyard_storage::is_remote;
use trainyard_vocabulary::Words;

/// Bytes that a row of a dynamic table takes beside its values and slots: its id, its place in the order of use, and the room
/// to grow of both, as measured.
const ROW_BYTES: u64 = 80;

/// Least memory of a vocabulary that has a line, in bytes.
const VOCABULARY_BYTES_MIN: usize = 1_000_000;

/// Least memory of a parameter server beside its tables, in bytes.
const SERVER_BYTES_MIN: u64 = 64 << 20;
/// Open files with which every task of a small cluster starts.
const OPEN_FILES_MIN: u64 = 64;
/// Size of a file of a log, in bytes.
const LOG_FILE_BYTES: u64 = 8 << 20;
/// Threads with which every task of a small cluster starts.
const THREADS_MIN: u64 = 256;

/// Returns the folder in which parameter servers keep their logs in memory.
fn shared_memory() -> PathBuf {
    let folder =
        std::env::var_os(SHARED_MEMORY_DIR).map_or_else(|| SHARED_MEMORY.into(), PathBuf::from);
    std::path::absolute(&folder).unwrap_or(folder)
}

/// Returns warnings of limits with which tasks of a job do not start on this machine.
pub(crate) fn small_limits() -> Vec<Diagnostic> {
    let mut warnings = Vec::new();
    let mut warn = |code: Code, message: String, help: &str| {
        warnings.push(Diagnostic::warning(code, message).help(help));
    };
    if let Some(limit) = MemoryLimit::of_process()
        && limit.bytes() < SERVER_BYTES_MIN
    {
        let message = format!(
            "{limit} is less than the {SERVER_BYTES_MIN} that a parameter server needs beside its tables"
        );
        warn(
            Code::E3009,
            message,
            "raise the limit before tasks start in this group",
        );
    }
    let small = |resource: Resource, least: u64| {
        let limit = getrlimit(resource).maximum;
        limit.filter(|most| *most < least)
    };
    if let Some(most) = small(Resource::Nofile, OPEN_FILES_MIN) {
        let message =
            format!("a task may have {most} open files, and needs {OPEN_FILES_MIN} at least");
        warn(
            Code::E3010,
            message,
            "raise the limit: `ulimit -n`, LimitNOFILE= of systemd",
        );
    }
    for variable in [SHARED_MEMORY_DIR, TLS_DIR, TOKEN_FILE, INSECURE_NO_AUTH] {
        if std::env::var_os(variable).is_some_and(|value| value.is_empty()) {
            let message = format!("{variable} is empty, and every task refuses that");
            warn(Code::E1001, message, "give it a value, or unset it");
        }
    }
    let memory = shared_memory();
    if is_in_memory(&memory) == Some(false) {
        let message = format!(
            "{} lies on a disk: the logs of parameter servers are written to that disk",
            memory.display()
        );
        let help = format!(
            "let {SHARED_MEMORY_DIR} name a folder of a file system in memory, or unset it"
        );
        warn(Code::E1202, message, &help);
    }
    let files = getrlimit(Resource::Fsize).current;
    if let Some(most) = files.filter(|most| *most < LOG_FILE_BYTES) {
        let message = format!(
            "a file may have {most} bytes, and a file of a server's log has {LOG_FILE_BYTES}"
        );
        warn(
            Code::E1202,
            message,
            "raise the limit: `ulimit -f`, LimitFSIZE= of systemd",
        );
    }
    let threads = getrlimit(Resource::Nproc).current;
    if let Some(most) = threads.filter(|most| *most < THREADS_MIN) {
        let message = format!(
            "this user may have {most} processes and threads, and the tasks of a small cluster need {THREADS_MIN}"
        );
        warn(
            Code::E1202,
            message,
            "raise the limit: `ulimit -u`, LimitNPROC= and TasksMax= of systemd",
        );
    }
    warnings
}

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
    let folder = shared_memory();
    let most = servers.shared_memory_bytes_max;
    let what = most.map_or_else(
        || "1 GiB or an eighth of the limit".to_owned(),
        |most| format!("{most} bytes"),
    );
    let is_writable = access(&folder, Access::WRITE_OK).is_ok();
    let free = free_bytes(&folder).filter(|_| is_writable);
    let free = free.map_or_else(
        || "which cannot be written here".to_owned(),
        |free| format!("where {free} bytes are free"),
    );
    say(
        "log",
        format!(
            "of a parameter server: at most {what}, and half of what is free, in {}, {free}; the rest in {} or --state-dir",
            folder.display(),
            job.logs_dir().display()
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
    let limited = [
        (
            Resource::Fsize,
            "size of a file",
            "`ulimit -f`: files of checkpoints, logs and exports may be larger",
        ),
        (
            Resource::As,
            "addresses",
            "`ulimit -v`: the allocator reserves a GiB at a time, and a task that gets none aborts",
        ),
    ];
    for (resource, what, why) in limited {
        if let Some(most) = getrlimit(resource).current {
            say(what, format!("at most {most} bytes by {why}"));
        }
    }
    for (features, words) in vocabularies(job) {
        let bytes = words.memory_bytes();
        if bytes >= VOCABULARY_BYTES_MIN {
            let text = format!(
                "{}: {} words, {bytes} bytes of memory in each task",
                features.join(", "),
                words.len()
            );
            say("vocabulary", text);
        }
    }
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

/// Returns the vocabularies of a job, each with the features that share it.
fn vocabularies(job: &Job) -> Vec<(Vec<&str>, &Words)> {
    let mut out: Vec<(Vec<&str>, &Words)> = Vec::new();
    for feature in &job.features {
        let FeatureKind::Vocabulary { values, .. } = &feature.kind else {
            continue;
        };
        match out.iter_mut().find(|(_, words)| words.is_clone_of(values)) {
            Some((features, _)) => features.push(&feature.name),
            None => out.push((vec![&feature.name], values)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use trainyard_model::PREMADE;

    use super::*;

    #[test]
    fn a_large_vocabulary_has_one_line_with_all_of_its_features() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, count: u32| {
            let words: String = (0..count).map(|word| format!("word {word:09}\n")).collect();
            std::fs::write(folder.path().join(name), words).expect("there is room");
        };
        write("large.txt", 50_000);
        write("small.txt", 1_000);
        let feature = |columns: &str, file: &str| {
            format!("[[feature]]\ncolumns = {columns}\nkind = \"vocabulary\"\nfile = \"{file}\"\n")
        };
        let text = [
            "model_dir = \"m\"\n[input]\nlabel = { column = \"y\" }\n",
            "train = { files = [\"a.csv\"], epochs = 1 }\n[model]\nkind = \"linear_classifier\"\n",
            &feature("[\"a\", \"b\"]", "large.txt"),
            &feature("[\"c\"]", "small.txt"),
            &feature("[\"d\"]", "large.txt"),
        ]
        .concat();
        let path = folder.path().join("job.toml");
        let job = Job::parse(Path::new(&path), &text, &[]).expect("the job is good");
        let model = PREMADE(&job).expect("a model");
        let lines = limits(&job, &*model);
        let of_vocabularies: Vec<&str> = lines
            .iter()
            .filter(|(what, _)| what == "vocabulary")
            .map(|(_, text)| text.as_str())
            .collect();
        let [line] = of_vocabularies[..] else {
            panic!("{of_vocabularies:?}");
        };
        let bytes = line
            .strip_prefix("a, b, d: 50000 words, ")
            .and_then(|rest| rest.strip_suffix(" bytes of memory in each task"))
            .unwrap_or_else(|| panic!("{line}"));
        let bytes: u32 = bytes.parse().expect("a number");
        assert!((50_000 * 28..50_000 * 36).contains(&bytes), "{bytes}");
    }
}
