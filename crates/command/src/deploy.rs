//! `trainyard deploy render`: systemd units for each host of a cluster file.

mod arguments;

use std::collections::BTreeMap;
use std::fs::{create_dir_all, read, read_dir, write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

pub(crate) use arguments::{Deploy, Render};
use trainyard_cluster_spec::{ClusterSpec, Role, Task};
use trainyard_diagnostic::{Code, Diagnostic, Place, suggest};
use trainyard_run_config::Job;
use trainyard_storage::is_remote;

use crate::output::print;

/// Folder in which the packages install the units.
const UNITS: &str = "/usr/lib/systemd/system";
/// Folder with links to the units that a host starts.
const WANTS: &str = "etc/systemd/system/trainyard.target.wants";

/// Folders that a unit cannot see (`ProtectHome=`, `PrivateTmp=`).
const HIDDEN_FROM_UNITS: [&str; 5] = ["/home", "/root", "/run/user", "/tmp", "/var/tmp"];

/// Part of a host's memory that its tasks may take together, in percent. Each unit by itself may take as much.
const MEMORY_PERCENT: u64 = 80;

/// The tasks of each host.
type Hosts = BTreeMap<String, Vec<Task>>;

/// Content of a path in a host's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    /// A file with this text.
    Text(String),
    /// A link to this path.
    Link(String),
}

/// Writes a folder for each host.
pub(crate) fn render(arguments: &Render) -> Result<(), Vec<Diagnostic>> {
    let cluster = ClusterSpec::load(&arguments.cluster)?;
    let job = arguments
        .job
        .as_ref()
        .map(|path| Job::load(path, &[]))
        .transpose()?;
    let model_dir = job.as_ref().map(|job| job.model_dir.as_path());
    let place = Place::Named(arguments.cluster.display().to_string());
    let mut hosts = hosts(&cluster).map_err(|problem| vec![problem.at(place)])?;
    if let Some(name) = &arguments.host {
        hosts = only(name, hosts).map_err(|problem| vec![problem])?;
    }
    let copies = [
        (Some(&arguments.cluster), "cluster.toml"),
        (arguments.job.as_ref(), "job.toml"),
    ];
    let copies = copies
        .into_iter()
        .filter_map(|(path, name)| Some((path?, name)));
    let mut shown = String::new();
    let mut all = Vec::new();
    for (host, tasks) in &hosts {
        let entries = entries(tasks, model_dir).map_err(|problem| vec![problem])?;
        let units: Vec<String> = tasks.iter().map(|task| unit(*task)).collect();
        shown.push_str(&format!("{host}: {}\n", units.join(" ")));
        all.push((arguments.out.join(host), entries));
    }
    let failed = |error: std::io::Error| {
        let message = format!("{} cannot be written: {error}", arguments.out.display());
        vec![
            Diagnostic::error(Code::E9002, message)
                .help("give --out a folder that is new or empty"),
        ]
    };
    is_new(&arguments.out).map_err(failed)?;
    for (root, entries) in all {
        write_entries(&root, entries).map_err(failed)?;
        let folder = root.join("etc/trainyard");
        create_dir_all(&folder).map_err(failed)?;
        for (path, name) in copies.clone() {
            read(path)
                .and_then(|text| write(folder.join(name), text))
                .map_err(failed)?;
        }
    }
    print(&shown).map_err(|problem| vec![problem])
}

/// Finds the tasks of each host.
fn hosts(cluster: &ClusterSpec) -> Result<Hosts, Diagnostic> {
    let evaluator = cluster.evaluator_addresses.iter().enumerate();
    let evaluator = evaluator.map(|(index, address)| {
        (
            Task {
                role: Role::Evaluator,
                index,
            },
            address,
        )
    });
    let addresses: Vec<_> = cluster
        .tasks
        .iter()
        .chain(&cluster.standbys)
        .map(|(task, text)| (*task, text))
        .chain(evaluator)
        .collect();
    let mut hosts = Hosts::new();
    for (task, address) in addresses {
        let invalid = |message: String| Diagnostic::error(Code::E1007, message);
        let host = match address.strip_prefix("unix:") {
            None => address
                .rsplit_once(':')
                .map(|(host, _)| host)
                .unwrap_or_default(),
            Some(path) => {
                let message =
                    format!("the address of {task} names no host, given the socket file `{path}`");
                return Err(invalid(message)
                    .help("give it host:port, or start the job with `trainyard up`"));
            }
        };
        // The host becomes the name of a folder.
        if host.is_empty() || host.starts_with('.') || host.contains('/') {
            return Err(invalid(format!(
                "the host of {task} must be a name or an address, given `{address}`"
            )));
        }
        let tasks = hosts.entry(host.to_owned()).or_default();
        let twice = |other: &&Task| other.role == task.role && unit(**other) == unit(task);
        if let Some(other) = tasks.iter().find(twice) {
            let message = format!(
                "{other} and {task} cannot both run on {host}: there is one {} a host",
                unit(task)
            );
            return Err(
                invalid(message).help("a chief that stands by for another needs a host of its own")
            );
        }
        tasks.push(task);
    }
    Ok(hosts)
}

/// Keeps one host.
fn only(name: &str, mut hosts: Hosts) -> Result<Hosts, Diagnostic> {
    if let Some(tasks) = hosts.remove(name) {
        return Ok([(name.to_owned(), tasks)].into());
    }
    let known: Vec<&str> = hosts.keys().map(String::as_str).collect();
    let problem = Diagnostic::error(
        Code::E1004,
        format!("the cluster file has no task on host `{name}`"),
    )
    .at(Place::Named("flag --host".to_owned()))
    .note(format!("its hosts are {}", known.join(", ")));
    Err(match suggest(name, known.iter().copied()) {
        Some(near) => problem.help(format!("did you mean `{near}`?")),
        None => problem.help("write the host as the cluster file does"),
    })
}

/// Returns the unit that runs a task.
fn unit(task: Task) -> String {
    match task.role {
        Role::Chief | Role::Evaluator => format!("trainyard-{}.service", task.role),
        Role::Worker | Role::Ps => format!("trainyard-{}@{}.service", task.role, task.index),
    }
}

/// Returns the unit file, which is a template for workers and parameter servers.
fn template(task: Task) -> String {
    match task.role {
        Role::Chief | Role::Evaluator => unit(task),
        Role::Worker | Role::Ps => format!("trainyard-{}@.service", task.role),
    }
}

/// Returns the weight of a task when the memory of its host is divided: parameter servers hold the model.
fn memory_weight(task: Task) -> u64 {
    match task.role {
        Role::Ps => 2,
        Role::Chief | Role::Worker | Role::Evaluator => 1,
    }
}

/// Returns a drop-in with the part of a host's memory that one of its tasks may take.
fn memory(task: Task, tasks: &[Task]) -> String {
    let all: u64 = tasks.iter().map(|task| memory_weight(*task)).sum();
    let percent = (MEMORY_PERCENT * memory_weight(task) / all).max(1);
    format!("[Service]\nMemoryMax={percent}%\n")
}

/// Returns the entries of a host's folder, by their paths below it.
fn entries(
    tasks: &[Task],
    model_dir: Option<&Path>,
) -> Result<BTreeMap<PathBuf, Entry>, Diagnostic> {
    let mut entries = BTreeMap::new();
    for task in tasks {
        let target = format!("{UNITS}/{}", template(*task));
        entries.insert(Path::new(WANTS).join(unit(*task)), Entry::Link(target));
        // Also where the task is alone: a file of an earlier cluster file may be there.
        let folder = format!("etc/systemd/system/{}.d", unit(*task));
        entries.insert(
            Path::new(&folder).join("50-memory.conf"),
            Entry::Text(memory(*task, tasks)),
        );
        if task.role == Role::Chief && task.index > 0 {
            let text = format!("[Service]\nEnvironment=TRAINYARD_INDEX={}\n", task.index);
            entries.insert(
                Path::new(&folder).join("50-standby.conf"),
                Entry::Text(text),
            );
        }
        // A bucket is written over the network, which the units allow.
        if let Some(model_dir) = model_dir.filter(|model_dir| !is_remote(model_dir)) {
            let folder = format!("etc/systemd/system/{}.d", template(*task));
            entries.insert(
                Path::new(&folder).join("50-model.conf"),
                Entry::Text(model(model_dir)?),
            );
        }
    }
    Ok(entries)
}

/// Returns a drop-in that lets a unit write to the model directory, and orders it after remote mounts.
fn model(model_dir: &Path) -> Result<String, Diagnostic> {
    let refuse = |rule: &str| {
        let message = format!("model_dir must be {rule}, given `{}`", model_dir.display());
        Diagnostic::error(Code::E1002, message)
            .help("name the folder that all hosts share, such as /srv/trainyard/census")
    };
    if !model_dir.is_absolute() {
        return Err(refuse("an absolute path, for it is the same on every host"));
    }
    if let Some(hidden) = HIDDEN_FROM_UNITS
        .iter()
        .find(|path| model_dir.starts_with(path))
    {
        return Err(refuse(&format!(
            "outside of {hidden}, which the units cannot see"
        )));
    }
    let text = model_dir.to_str().filter(|text| {
        !text.contains(|letter: char| letter.is_control() || "\"\\%".contains(letter))
    });
    let text =
        text.ok_or_else(|| refuse("a path without quotes, `\\`, `%` and control characters"))?;
    // If the folder does not exist, the start fails (status 226), and `Restart=` repeats it. A required mount or an
    // assertion would end the unit for good: a network folder that is mounted late would keep the task down.
    Ok(format!(
        "[Unit]\nAfter=local-fs.target remote-fs.target\n\n[Service]\nReadWritePaths=\"{text}\"\n"
    ))
}

/// Fails if the folder is not empty: files of an earlier cluster file must not remain.
fn is_new(folder: &Path) -> std::io::Result<()> {
    match read_dir(folder) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(std::io::Error::other("it is not empty")),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn write_entries(root: &Path, entries: BTreeMap<PathBuf, Entry>) -> std::io::Result<()> {
    for (path, entry) in entries {
        let path = root.join(path);
        create_dir_all(path.parent().unwrap_or(root))?;
        match entry {
            Entry::Text(text) => write(path, text)?,
            Entry::Link(target) => symlink(target, path)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
