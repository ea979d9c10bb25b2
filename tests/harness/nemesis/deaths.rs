//! Deaths of tasks that nobody wanted: of which limit each speaks, and which task dies again and again.

use std::collections::BTreeMap;
use std::fmt;

use trainyard_cluster_spec::Task;

/// Deaths of a task without a word about a limit, and without progress of the job between them, that are a loop.
const LOOP_DEATHS: usize = 5;

/// A limit that a message names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Limit {
    /// Of memory.
    Memory,
    /// Of a disk, which is full.
    Disk,
    /// Of open files.
    OpenFiles,
    /// None: files cannot be read or written.
    Files,
}

/// Words of messages, and what they speak of.
const WORDS: [(&str, Limit); 10] = [
    ("E3010", Limit::OpenFiles),
    ("Too many open files", Limit::OpenFiles),
    ("No space left on device", Limit::Disk),
    ("the disk of the log has no room", Limit::Disk),
    ("the disk of its log has no room", Limit::Disk),
    ("E3006", Limit::Disk),
    ("E3009", Limit::Memory),
    ("control group", Limit::Memory),
    ("Cannot allocate memory", Limit::Memory),
    ("Input/output error", Limit::Files),
];

impl Limit {
    /// Returns the limit that a text names.
    pub(super) fn named_in(text: &str) -> Option<Self> {
        let found = WORDS.into_iter().find(|(word, _)| text.contains(word));
        found.map(|(_, limit)| limit)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::OpenFiles => "open files",
            Self::Files => "unreadable files",
        })
    }
}

/// Returns the message with which a program ends: `error[E1234]: ...` and what follows. Empty without one.
pub(super) fn message(output: &str) -> &str {
    let begin = if output.starts_with("error[") {
        Some(0)
    } else {
        output.rfind("\nerror[").map(|at| at + 1)
    };
    begin.map_or("", |at| &output[at..])
}

/// Returns the code of a message.
fn code_of(message: &str) -> &str {
    let code = message.strip_prefix("error[");
    code.and_then(|rest| rest.split_once(']'))
        .map_or("no message", |(code, _)| code)
}

/// Deaths of all tasks.
#[derive(Debug, Default)]
pub(super) struct Deaths {
    /// Counts of those that name a limit, by kind.
    pub(super) named: BTreeMap<String, usize>,
    /// Those that do not.
    pub(super) unnamed: Vec<String>,
    /// Deaths of a task since the job has moved on.
    in_a_row: BTreeMap<Task, usize>,
}

impl Deaths {
    /// Counts the death of a task that ended with `code` and wrote `output`. Returns the limit that its message names.
    pub(super) fn add(&mut self, task: Task, code: i32, output: &str) -> Option<Limit> {
        let message = message(output);
        let kind = format!("{} ended with {code}, {}", task.role, code_of(message));
        let limit = Limit::named_in(message);
        match limit {
            Some(limit) => *self.named.entry(format!("{kind}: {limit}")).or_default() += 1,
            None => {
                let first = message.lines().next().unwrap_or_default();
                self.unnamed.push(format!("{kind} ({task}): {first}"));
                *self.in_a_row.entry(task).or_default() += 1;
            }
        }
        limit
    }

    /// Takes note that the job has moved on.
    pub(super) fn moved_on(&mut self) {
        self.in_a_row.clear();
    }

    /// Returns a task that dies again and again without a reason.
    pub(super) fn in_a_loop(&self) -> Option<Task> {
        let found = self
            .in_a_row
            .iter()
            .find(|(_, deaths)| **deaths > LOOP_DEATHS);
        found.map(|(task, _)| *task)
    }
}

#[cfg(test)]
mod tests {
    use trainyard_cluster_spec::Role;

    use super::*;

    const TASK: Task = Task {
        role: Role::Ps,
        index: 1,
    };

    #[test]
    fn a_death_is_of_the_kind_that_its_last_message_names() {
        let mut deaths = Deaths::default();
        let output = "INFO started\nerror[E3007]: the log of this parameter server failed: cannot write a: No space left on device\n  help: free space\n";
        assert_eq!(deaths.add(TASK, 74, output), Some(Limit::Disk));
        assert_eq!(deaths.named["ps ended with 74, E3007: disk"], 1);
        let output = "WARN cannot write a: No space left on device\nerror[E9001]: a fault\n";
        assert_eq!(deaths.add(TASK, 70, output), None);
        assert_eq!(
            deaths.unnamed,
            ["ps ended with 70, E9001 (ps:1): error[E9001]: a fault"]
        );
        assert_eq!(deaths.add(TASK, 137, "INFO started\n"), None);
        assert_eq!(deaths.unnamed[1], "ps ended with 137, no message (ps:1): ");
    }

    #[test]
    fn a_task_that_dies_without_a_reason_while_the_job_stands_still_is_in_a_loop() {
        let mut deaths = Deaths::default();
        for _ in 0..LOOP_DEATHS {
            deaths.add(TASK, 101, "");
        }
        deaths.moved_on();
        deaths.add(TASK, 101, "");
        assert_eq!(deaths.in_a_loop(), None);
        for _ in 0..LOOP_DEATHS {
            deaths.add(TASK, 74, "error[E3006]: no space");
            deaths.add(TASK, 101, "");
        }
        assert_eq!(deaths.in_a_loop(), Some(TASK));
    }
}
