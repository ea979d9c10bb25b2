//! The limits of this process that it can lift itself, and its tie to the process that has started it.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::process::{
    Pid, Resource, Rlimit, Signal, getppid, getrlimit, set_parent_process_death_signal, setrlimit,
};
use rustix::thread::disable_transparent_huge_pages;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;
use tracing::{debug, info, warn};
use trainyard_diagnostic::{Code, Diagnostic, system_problem};

/// Environment variable that holds the id of the process with which a task ends: the parent that supervises it.
pub const ENDS_WITH: &str = "TRAINYARD_ENDS_WITH";
/// Signal of a write beyond the limit of a file's size (`RLIMIT_FSIZE`), which ends a process.
const SIGXFSZ: i32 = 25;
/// Most open files that a process asks for. The kernel's own table grows with it.
const OPEN_FILES_MAX: u64 = 1 << 20;
/// Open files that connections leave: one in so many, but not less than `LEFT_MIN`. Files of the job, of the log and of the
/// admin port need them.
const LEFT_DIVISOR: u64 = 4;
const LEFT_MIN: u64 = 48;
/// Least number of connections, whatever the limit.
const CONNECTIONS_MIN: usize = 4;
/// Connections of each other task: one in use, and one that follows it before it is closed, or carries an allreduce.
const CONNECTIONS_PER_TASK: usize = 2;

/// Keeps the kernel from giving this process memory in pages of 2 MB, of which many tables of few rows would fill a small part. Where
/// it cannot, the process takes more memory.
pub(crate) fn use_small_pages() {
    if let Err(problem) = disable_transparent_huge_pages(true) {
        debug!(%problem, "the kernel may use huge pages");
    }
}

/// Raises the soft limit of open files to the hard one: the usual soft limit of 1024 is for programs that use `select`.
pub(crate) fn raise_open_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.unwrap_or(OPEN_FILES_MAX).min(OPEN_FILES_MAX);
    if current.is_some_and(|current| current < wanted) {
        let raised = Rlimit {
            current: Some(wanted),
            maximum,
        };
        // Without it, the limit stays as it was, and connections are bounded by it.
        let _ = setrlimit(Resource::Nofile, raised);
    }
}

/// Returns how many of `wished` connections the limit of open files leaves room for, and warns if it is fewer.
pub fn connections_within_limit(wished: usize) -> usize {
    let Some(limit) = getrlimit(Resource::Nofile).current else {
        return wished;
    };
    let most = connections_of(limit).min(wished);
    if most < wished {
        warn!(
            open_files = limit,
            connections = most,
            "fewer connections are served than configured ({wished}): raise the limit of open files (ulimit -n, LimitNOFILE=)"
        );
    }
    most
}

fn connections_of(open_files: u64) -> usize {
    let left = open_files.saturating_sub((open_files / LEFT_DIVISOR).max(LEFT_MIN));
    usize::try_from(left)
        .unwrap_or(usize::MAX)
        .max(CONNECTIONS_MIN)
}

/// Checks that the limit of open files leaves room for the connections of the other tasks of a cluster.
///
/// # Errors
/// It does not: some of them would never get through.
pub(crate) fn check_open_files(task: &str, others: usize) -> Result<(), Diagnostic> {
    match getrlimit(Resource::Nofile).current {
        Some(limit) => check_connections(task, others, limit),
        None => Ok(()),
    }
}

fn check_connections(task: &str, others: usize, open_files: u64) -> Result<(), Diagnostic> {
    let needed = others * CONNECTIONS_PER_TASK;
    if connections_of(open_files) >= needed {
        return Ok(());
    }
    let kept = needed as u64;
    let by_part = (LEFT_DIVISOR * kept).saturating_sub(LEFT_DIVISOR - 1);
    let needed_files = (kept + LEFT_MIN).max(by_part.div_ceil(LEFT_DIVISOR - 1));
    let message = format!(
        "{task} may have {open_files} open files, {needed_files} are needed: {needed} for connections of the {others} other tasks of the \
         cluster, the rest for its own files"
    );
    let help = format!(
        "raise the limit (`ulimit -Hn`, LimitNOFILE= of its unit) to {needed_files} or more, and start it again"
    );
    Err(Diagnostic::error(Code::E3010, message).help(help))
}

/// Threads that a task begins beside those of its runtime: for files, input, steps and checkpoints.
const THREADS: usize = 8;
/// Time within which a task must get them: others that start at the same time try them, too.
const THREADS_TIMEOUT: Duration = Duration::from_secs(1);

/// Checks that this process may begin the threads that a task needs. Work that finds no thread would wait for one without end.
///
/// # Errors
/// It may not.
pub(crate) fn check_threads(task: &str) -> Result<(), Diagnostic> {
    let begun = Instant::now();
    loop {
        let Err(error) = try_threads() else {
            return Ok(());
        };
        if begun.elapsed() >= THREADS_TIMEOUT {
            let message = format!(
                "{task} needs {THREADS} threads beside those of its runtime, and the system does not give them: {error}"
            );
            let otherwise = (Code::E9002, "start the program again");
            return Err(system_problem(&error, message, otherwise));
        }
        thread::sleep(THREADS_TIMEOUT / 20);
    }
}

/// Begins the threads of a task, and ends them.
fn try_threads() -> std::io::Result<()> {
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let ended = Arc::new(Mutex::new(ended));
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let ended = Arc::clone(&ended);
            let wait = move || drop(ended.lock().map(|ended| ended.recv()));
            thread::Builder::new().spawn(wait)
        })
        .collect();
    drop(end);
    let mut outcome = Ok(());
    for thread in threads {
        match thread {
            Ok(thread) => drop(thread.join()),
            Err(error) => outcome = Err(error),
        }
    }
    outcome
}

/// Keeps a write beyond the limit of a file's size from ending the process: it fails with an error instead, which names the
/// file.
pub(crate) fn survive_file_size_limit() {
    // The handler stays when its runtime ends.
    let installed = Builder::new_current_thread()
        .enable_io()
        .build()
        .and_then(|runtime| {
            let _within = runtime.enter();
            signal(SignalKind::from_raw(SIGXFSZ))
        });
    if let Err(problem) = installed {
        warn!(%problem, "a file that exceeds the limit of its size (ulimit -f) would end this process");
    }
}

/// Least address space of a program, in bytes: its allocator reserves a GiB at a time, and takes what there is if it is less.
const ADDRESS_SPACE_MIN: u64 = 2 << 30;

/// Checks that this process may have the address space that its allocator, its threads and its mapped files take.
///
/// # Errors
/// It may not: sooner or later it would abort without a word.
pub(crate) fn check_address_space() -> Result<(), Diagnostic> {
    match getrlimit(Resource::As).current {
        Some(limit) if limit < ADDRESS_SPACE_MIN => {
            let message = format!(
                "this process may have {limit} bytes of address space (`ulimit -v`), and needs {ADDRESS_SPACE_MIN} at least"
            );
            Err(Diagnostic::error(Code::E3009, message).help(
                "raise the limit: `ulimit -v`, LimitAS= of systemd; a limit of memory in use is that of a control group: MemoryMax=",
            ))
        }
        _ => Ok(()),
    }
}

/// Asks the kernel to stop this process with its parent, if the parent wants that: the parent is `TRAINYARD_ENDS_WITH`.
/// Returns whether the parent has ended already.
pub(crate) fn end_with_parent() -> bool {
    let wanted = std::env::var(ENDS_WITH).ok();
    let Some(parent) = wanted.and_then(|text| text.parse().ok().and_then(Pid::from_raw)) else {
        return false;
    };
    if getppid() != Some(parent) {
        // It may have been started by a program in between, such as a debugger, or the parent has ended.
        let has_ended = rustix::process::test_kill_process(parent).is_err();
        if has_ended {
            info!("the process that supervises this task has ended");
        }
        return has_ended;
    }
    if let Err(problem) = set_parent_process_death_signal(Some(Signal::TERM)) {
        warn!(%problem, "this task would outlive the process that supervises it");
    }
    // The parent may have ended in between.
    getppid() != Some(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_open_files_for_everything_else() {
        assert_eq!(connections_of(24), 4);
        assert_eq!(connections_of(64), 16);
        assert_eq!(connections_of(1024), 768);
        assert_eq!(connections_of(1 << 20), 786_432);
    }

    #[test]
    fn a_task_whose_open_files_are_too_few_for_its_cluster_is_refused_with_the_limit_that_suffices()
    {
        for others in [0, 1, 3, 6, 40, 400] {
            let enough = (16..4096).find(|limit| check_connections("ps:0", others, *limit).is_ok());
            let enough = enough.expect("some limit");
            if enough > 16 {
                let refused = check_connections("ps:0", others, enough - 1);
                let refused = refused.expect_err("one too few").message;
                assert!(
                    refused.contains(&format!("{enough} are needed")),
                    "{others}: {refused}"
                );
            }
        }
    }

    #[test]
    fn the_soft_limit_of_open_files_is_raised_to_the_hard_one() {
        raise_open_files();
        let limit = getrlimit(Resource::Nofile);
        let hard = limit.maximum.unwrap_or(OPEN_FILES_MAX).min(OPEN_FILES_MAX);
        assert!(
            limit.current.is_none_or(|current| current >= hard),
            "{limit:?}"
        );
    }
}
