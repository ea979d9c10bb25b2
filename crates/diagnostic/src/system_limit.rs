//! Errors of the system that come from a limit or a setting, and not from a disk: a restart meets them again.

use std::io::{Error, ErrorKind};

use crate::{Code, Diagnostic};

/// `EMFILE`: this process has as many open files as it may.
const OPEN_FILES_OF_PROCESS: i32 = 24;
/// `ENFILE`: all processes of the host have as many open files as they may.
const OPEN_FILES_OF_HOST: i32 = 23;

/// Returns the code and the remedy of an error that a limit or a setting of the system has caused; nothing for other errors.
pub fn system_limit(error: &Error) -> Option<(Code, &'static str)> {
    Some(match (error.raw_os_error(), error.kind()) {
        (Some(OPEN_FILES_OF_PROCESS), _) => (
            Code::E3010,
            "raise the limit of open files: `ulimit -n`, LimitNOFILE= of systemd",
        ),
        (Some(OPEN_FILES_OF_HOST), _) => (
            Code::E3010,
            "raise the limit of open files of the host: the sysctl fs.file-max",
        ),
        (_, ErrorKind::FileTooLarge) => (
            Code::E1202,
            "raise the limit of the size of a file: `ulimit -f`, LimitFSIZE= of systemd",
        ),
        (_, ErrorKind::ReadOnlyFilesystem) => (
            Code::E1202,
            "the file system is mounted read-only, perhaps after an error of its disk (`dmesg`): mount it for writing, or choose another folder",
        ),
        _ => return None,
    })
}

/// Returns the diagnostic of an error of the system. A limit, a setting or a lacking right, which a restart meets again, has a code of
/// its own; for others, code and remedy are `otherwise`.
pub fn system_problem(
    error: &Error,
    message: impl Into<String>,
    otherwise: (Code, &'static str),
) -> Diagnostic {
    let of_right = || match error.kind() {
        ErrorKind::PermissionDenied => Some((
            Code::E1202,
            "give this user the right to it, or choose another folder",
        )),
        // A process or a thread more than the user may have.
        ErrorKind::WouldBlock => Some((Code::E1202, MORE_THREADS)),
        _ => None,
    };
    let (code, help) = system_limit(error).or_else(of_right).unwrap_or(otherwise);
    Diagnostic::error(code, message).help(help)
}

/// Remedy of a limit of processes and threads.
const MORE_THREADS: &str = "raise the limit of threads: `ulimit -u`, LimitNPROC= and TasksMax= of systemd, the pids limit of the container";

/// Returns the code and the remedy of a panic because the system lets this process have no further thread; nothing for other panics.
/// Runtimes and the standard library panic where a thread cannot be begun.
pub fn thread_limit(panic: &str) -> Option<(Code, &'static str)> {
    let is_of_thread = panic.contains("spawn") && panic.contains("thread");
    // `EAGAIN`, as the display and the debug form of an error have it.
    let is_limit = panic.contains("os error 11") || panic.contains("code: 11,");
    (is_of_thread && is_limit).then_some((Code::E1202, MORE_THREADS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_a_restart_meets_again_has_a_code_that_supervisors_do_not_repeat() {
        let other = (Code::E9002, "look at it");
        // EPERM, EACCES, EAGAIN, EMFILE, EROFS.
        for number in [1, 13, 11, 24, 30] {
            let error = Error::from_raw_os_error(number);
            let problem = system_problem(&error, "it fails", other);
            assert!(
                [73, 77].contains(&problem.code.exit),
                "{number}: {problem:?}"
            );
        }
        let problem = system_problem(&Error::from_raw_os_error(28), "it fails", other);
        assert_eq!(problem.code, Code::E9002);
    }

    #[test]
    fn a_panic_without_a_thread_is_one_of_a_limit() {
        let of_tokio =
            "OS can't spawn worker thread: Resource temporarily unavailable (os error 11)";
        let of_std = "failed to spawn thread: Os { code: 11, kind: WouldBlock, message: \"Resource temporarily unavailable\" }";
        for panic in [of_tokio, of_std] {
            let (code, _) = thread_limit(panic).expect(panic);
            assert_eq!(code.exit, 77);
        }
        for panic in [
            "index out of bounds",
            "OS can't spawn worker thread: out of memory",
        ] {
            assert_eq!(thread_limit(panic), None);
        }
    }

    #[test]
    fn a_limit_of_the_system_has_a_code_that_supervisors_do_not_repeat() {
        // EMFILE, ENFILE, EFBIG, EROFS.
        for number in [24, 23, 27, 30] {
            let (code, help) = system_limit(&Error::from_raw_os_error(number)).expect("a limit");
            assert!([73, 77].contains(&code.exit), "{number}: {}", code.exit);
            assert!(!help.is_empty());
        }
        // EIO, ENOSPC: a disk, which may recover.
        for number in [5, 28] {
            assert_eq!(system_limit(&Error::from_raw_os_error(number)), None);
        }
    }
}
