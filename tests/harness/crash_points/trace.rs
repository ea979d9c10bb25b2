//! System calls of a program, written down and interrupted by strace.

use std::fmt;
use std::path::Path;

/// The calls that change files, or open them.
const CALLS: &str = "openat,creat,mkdir,mkdirat,write,pwrite64,writev,pwritev,fsync,fdatasync,ftruncate,fallocate,\
                     rename,renameat,renameat2,unlink,unlinkat,rmdir,linkat";

/// A system call of a thread: the `occurrence`-th of its name, from 1.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) occurrence: usize,
}

impl fmt::Display for Call {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.name, self.occurrence)
    }
}

/// The arguments of a strace that traces what is added to them: with a call, it kills the process before that call is carried
/// out; without, it writes all calls to `output`.
pub(super) fn arguments(output: &Path, kill_at: Option<&Call>) -> Vec<String> {
    // By the filter the kernel stops a process at these calls alone.
    let mut arguments: Vec<String> = ["-f", "--seccomp-bpf", "-qq", "-s", "200", "-o"]
        .map(str::to_owned)
        .into();
    arguments.push(output.display().to_string());
    match kill_at {
        None => arguments.extend(["-e".to_owned(), format!("trace={CALLS}")]),
        Some(Call { name, occurrence }) => arguments.extend([
            "-e".to_owned(),
            format!("trace={name}"),
            "-e".to_owned(),
            format!("inject={name}:signal=SIGKILL:when={occurrence}"),
        ]),
    }
    arguments
}

/// Calls of each line, numbered for each thread, from the first line on that holds `folder`.
pub(super) fn parse(text: &str, folder: &str) -> Vec<Call> {
    let mut seen = std::collections::BTreeMap::new();
    let mut begun = false;
    let mut calls = Vec::new();
    for line in text.lines() {
        let (thread, rest) = line.split_once(' ').unwrap_or(("", line));
        let Some((name, _)) = rest.trim_start().split_once('(') else {
            continue;
        };
        if !name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        {
            continue;
        }
        let occurrence = seen
            .entry((thread.to_owned(), name.to_owned()))
            .or_insert(0);
        *occurrence += 1;
        begun |= line.contains(folder);
        if begun {
            calls.push(Call {
                name: name.to_owned(),
                occurrence: *occurrence,
            });
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_numbered_by_thread_and_name_and_count_from_the_folder_on() {
        let text = "7 openat(AT_FDCWD, \"/lib/x\") = 3\n7 openat(AT_FDCWD, \"/a/model\") = 3\n\
                    8 fsync(3) = 0\n7 fsync(3 <unfinished ...>\n7 <... fsync resumed>) = 0\n7 fsync(4) = 0\n\
                    7 +++ exited with 0 +++\n";
        let found: Vec<String> = parse(text, "/a/model")
            .iter()
            .map(Call::to_string)
            .collect();
        assert_eq!(found, ["openat 2", "fsync 1", "fsync 1", "fsync 2"]);
    }
}
