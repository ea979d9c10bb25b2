//! The log of a server across restarts: found, recovered or set aside.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::{error, info, warn};
use trainyard_cluster_spec::Task;
use trainyard_daemon::{Context, SHARED_MEMORY_DIR, is_in_memory};
use trainyard_diagnostic::{Code, Diagnostic, system_limit};
use trainyard_model_dir::{known_cluster_id, prepared_epoch};
use trainyard_parameter_server::LocalServer;
use trainyard_parameter_server::journal::LogJournal;
use trainyard_parameter_server::record::LogState;
use trainyard_parameter_server::recovery::{Expected, Problem, Recovered, owner, recover};
use trainyard_parameter_store::{Journal, State};
use trainyard_write_ahead_log::{Durability, Error, Folder, Log, SharedMemory};

use crate::memory::log_bytes_max;

/// Returns the folder of the servers' logs.
fn logs(context: &Context) -> PathBuf {
    context
        .state_dir
        .clone()
        .unwrap_or_else(|| context.job.logs_dir())
}

/// Returns the error for a failure of the log, which ends the server.
pub(crate) fn cannot(failure: &Error) -> Diagnostic {
    let mut cause = String::new();
    if let Error::Io { source, .. } = failure
        && source.kind() == std::io::ErrorKind::StorageFull
    {
        cause.push_str("free space there; ");
    }
    if let Error::Taken { .. } = failure {
        let message = format!("the log of this parameter server is taken: {failure}");
        return Diagnostic::error(Code::E3007, message)
            .note("nothing was lost: the log is that of the other process")
            .help("end that process, or wait until it has ended, and start this server again");
    }
    let message = format!("the log of this parameter server failed: {failure}");
    let note = "nothing was acknowledged that it does not hold; nothing is from now on";
    if let Error::Io { source, .. } = failure
        && let Some((code, help)) = system_limit(source)
    {
        return Diagnostic::error(code, message).note(note).help(format!(
            "{help}. Then start the server: it continues from its log"
        ));
    }
    Diagnostic::error(Code::E3007, message)
        .note(note)
        .help(format!(
            "{cause}start the server again: it continues from its log. --state-dir puts the log elsewhere, \
             parameter_servers.durability = \"none\" keeps no log"
        ))
}

/// Reason why a server cannot decide yet whether its log belongs to the current job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undecided {
    /// The model directory has no cluster id. A directory that is not mounted looks like an unused one.
    NoClusterId,
    /// The log belongs to another cluster than the model directory, and no chief of the directory's cluster has
    /// claimed the server.
    OtherCluster { log: u128, model_dir: u128 },
}

/// Returns the reason to leave the log of this server untouched for now. `claimant` is the cluster of the chief that
/// claims this server.
///
/// A log of another cluster belongs to an earlier job only if a chief of the directory's cluster claims this server.
/// Otherwise the directory itself may be wrong: the mount may be missing, and another process may have written in its
/// place.
///
/// # Errors
/// The log or the model directory cannot be read.
pub(crate) fn undecided(
    context: &Context,
    claimant: Option<u128>,
) -> Result<Option<Undecided>, Diagnostic> {
    let Some(model_dir) = known_cluster_id(&context.job.model_dir)? else {
        return Ok(Some(Undecided::NoClusterId));
    };
    let keeps_log = context.job.parameter_servers.durability != Durability::None;
    if !keeps_log || claimant == Some(model_dir) || !has_log(context)? {
        return Ok(None);
    }
    let folder =
        Folder::open(&log_of(context, context.task.index)).map_err(|failure| cannot(&failure))?;
    let log = owner(&folder).map_err(|failure| cannot(&failure))?;
    Ok(log
        .filter(|log| *log != model_dir)
        .map(|log| Undecided::OtherCluster { log, model_dir }))
}

/// Returns whether this server has a log of an earlier process.
///
/// # Errors
/// The folder of the log cannot be read.
pub(crate) fn has_log(context: &Context) -> Result<bool, Diagnostic> {
    let path = log_of(context, context.task.index);
    if !path.is_dir() {
        return Ok(false);
    }
    let folder = Folder::open(&path).map_err(|failure| cannot(&failure))?;
    Ok(!folder
        .segments()
        .map_err(|failure| cannot(&failure))?
        .is_empty())
}

/// Returns the folder of the log of a shard on this server. The replica of another server's shard is its backup.
pub(crate) fn log_of(context: &Context, shard: usize) -> PathBuf {
    let name = if shard == context.task.index {
        format!("ps-{shard}")
    } else {
        format!("ps-{shard}.backup")
    };
    logs(context).join(name)
}

/// Opens the folder of a log. Its segments lie in shared memory as far as there is room.
///
/// # Errors
/// The folder cannot be used.
pub(crate) fn open_folder(context: &Context, path: &Path) -> Result<Folder, Error> {
    let mut folder = Folder::open(path)?;
    let memory = SharedMemory {
        folder: context.shared_memory_dir.clone(),
        bytes_max: log_bytes_max(context),
    };
    if memory.bytes_max == 0 {
        return Ok(folder);
    }
    if is_in_memory(&memory.folder) == Some(false) {
        warn!(
            folder = %memory.folder.display(),
            "the folder for logs in memory lies on a disk (--shared-memory-dir, {SHARED_MEMORY_DIR}): the log of this \
            parameter server is written to that disk"
        );
    }
    if let Err(problem) = folder.use_memory(&memory) {
        warn!(
            folder = %memory.folder.display(),
            %problem,
            "the log of this parameter server cannot lie in shared memory: all of it is written to the disk"
        );
    }
    Ok(folder)
}

/// Recovers a shard's store from the log in folder `path`, if there is one, and returns the journal that it keeps from now
/// on; `None` if the job keeps no log. `task` is the first server of the shard.
///
/// # Errors
/// The folder of the log cannot be used.
pub(crate) fn open_log_at(
    context: &Context,
    path: &Path,
    task: Task,
    shard: &LocalServer,
) -> Result<Option<Arc<LogJournal>>, Diagnostic> {
    let durability = context.job.parameter_servers.durability;
    if durability == Durability::None && !path.is_dir() {
        return Ok(None);
    }
    let mut folder = open_folder(context, path).map_err(|failure| cannot(&failure))?;
    if durability == Durability::None {
        if !folder
            .segments()
            .map_err(|failure| cannot(&failure))?
            .is_empty()
        {
            let aside = folder.set_aside().map_err(|failure| cannot(&failure))?;
            info!(log = %aside.display(), "parameter_servers.durability is \"none\": the server has set an earlier log aside");
        }
        return Ok(None);
    }
    let expected = Expected {
        model_dir: &context.job.model_dir,
        owner: known_cluster_id(&context.job.model_dir)?,
        prepared_epoch: prepared_epoch(&context.job.model_dir)?,
        task,
    };
    let recovered = recover(shard, &folder, expected);
    #[cfg(feature = "failpoints")]
    fail::fail_point!("restore.after_read");
    let recovered = match recovered {
        // The job had ended, and the process died before it removed the log.
        Ok(Some(_)) if shard.store().status().state == State::Finished => {
            folder.clear().map_err(|failure| cannot(&failure))?;
            shard.store().empty();
            None
        }
        Ok(recovered) => recovered,
        Err(Problem::Log(failure)) => return Err(cannot(&failure)),
        Err(Problem::Checkpoint(failure)) => return Err(failure.into()),
        Err(Problem::ModelDir(failure)) => return Err(failure.into()),
        Err(problem @ Problem::Base(_)) => {
            let message = format!("the log in {} is kept: {problem}", path.display());
            return Err(Diagnostic::error(Code::E3003, message)
                .note("the server ends, and tries again when it is restarted: no update is lost")
                .help("check the disk or the mount of these files, and the memory of the server"));
        }
        Err(Problem::NoRoom(what)) => {
            let message =
                format!("the memory of this server does not hold what its log leads to: {what}");
            return Err(Diagnostic::error(Code::E3009, message)
                .note(format!("the log in {} is kept: no update is lost", path.display()))
                .help("raise the memory limit of this server, or of its container or unit, and start it again"));
        }
        Err(problem) => {
            let aside = folder.set_aside().map_err(|failure| cannot(&failure))?;
            tell(&problem, &aside);
            // The values recovered so far cannot be trusted.
            shard.store().empty();
            None
        }
    };
    let journal = open(folder, task.index, recovered.as_ref());
    let journal = Arc::new(journal.map_err(|failure| cannot(&failure))?);
    let in_memory = log_bytes_max(context);
    info!(log = %path.display(), durability = durability.name(), shared_memory_bytes_max = in_memory, "keeping a log");
    shard
        .store()
        .keep_journal(Arc::clone(&journal) as Arc<dyn Journal>);
    if let Some(found) = &recovered {
        shard.store().set_restarts(journal.restarted());
        say(found, shard);
    }
    Ok(Some(journal))
}

fn open(folder: Folder, member: usize, recovered: Option<&Recovered>) -> Result<LogJournal, Error> {
    let log = Log::open(folder, recovered.map(|found| &found.last))?;
    let (owner, log_state) = recovered.map_or((0, LogState::default()), |found| {
        (found.owner, found.log_state.clone())
    });
    let changes = recovered.map(|found| found.changes);
    LogJournal::new(log, owner, member, log_state, changes)
}

fn tell(problem: &Problem, aside: &std::path::Path) {
    match problem {
        Problem::Damaged(_) => {
            let message = format!(
                "the log of this parameter server is damaged, and the server has set it aside: {problem}"
            );
            let told = Diagnostic::error(Code::E3008, message)
                .note(format!("it lies in {}", aside.display()))
                .note("the chief restores every parameter server from the latest checkpoint; steps since are repeated");
            error!("{}", told.log_line());
        }
        _ => warn!(log = %aside.display(), "the server has set a log aside: {problem}"),
    }
}

fn say(found: &Recovered, shard: &LocalServer) {
    let seconds = found.took.as_secs_f64();
    let rate = if seconds > 0.0 {
        found.bytes as f64 / 1e6 / seconds
    } else {
        0.0
    };
    if found.torn > 0 {
        warn!(
            bytes = found.torn,
            "the torn end of the log was cut off: it was not acknowledged"
        );
    }
    let status = shard.store().status();
    let serves = status.state == State::Open;
    info!(
        prepared_seconds = format!("{:.3}", found.prepared.as_secs_f64()),
        records = found.records,
        bytes = found.bytes,
        seconds = format!("{seconds:.3}"),
        megabytes_per_second = format!("{rate:.0}"),
        version = %status.version,
        cluster_epoch = status.epoch,
        serves,
        "recovered the values from the log"
    );
}
