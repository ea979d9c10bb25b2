//! The memory of this server's process: what its limit leaves to the store, to logs and to messages.
//!
//! A server under the limit of a control group gives an eighth of it to its logs in shared memory, which are charged to the
//! same group, and an eighth to messages. The store may grow until no more is left than the part of messages, as measured
//! all the time: other processes of the group count, too.

use std::sync::Arc;

use trainyard_daemon::{Context, give_back_freed_memory};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_parameter_store::MemoryRoom;
use trainyard_protocol::limits::TENSOR_BYTES_IN_FLIGHT_MAX;
use trainyard_runtime::MemoryLimit;

/// Most bytes of a log in shared memory, where nothing else is set.
const LOG_BYTES: u64 = 1 << 30;
/// One in so many bytes of a group's limit is for logs in shared memory, and one for messages.
const PART_OF_LIMIT: u64 = 8;
/// Least limit of a group under which a server starts, in bytes. Its program, threads and buffers take more than half of it
/// while it reads its log, before a table has a row.
const LIMIT_BYTES_MIN: u64 = 64 << 20;
/// One in so many bytes of `memory_bytes_max` may be taken by messages in addition.
const MESSAGES_PART: u64 = 4;

/// Returns the limit of this process that a control group sets.
fn group_limit() -> Option<u64> {
    let limit = MemoryLimit::of_process().filter(MemoryLimit::is_of_group)?;
    Some(limit.bytes())
}

/// Checks that a server can work within the limit of this process. Otherwise the kernel would kill it again and again.
///
/// # Errors
/// It cannot.
pub(crate) fn check_limit() -> Result<(), Diagnostic> {
    match MemoryLimit::of_process() {
        Some(limit) if limit.bytes() < LIMIT_BYTES_MIN => Err(too_small(&limit.to_string())),
        _ => Ok(()),
    }
}

fn too_small(limit: &str) -> Diagnostic {
    let message = format!(
        "a parameter server needs {LIMIT_BYTES_MIN} bytes of memory, and more for its tables: it has {limit}"
    );
    Diagnostic::error(Code::E3009, message).help(
        "raise the memory limit of this server, or of its container or unit, and start it again",
    )
}

/// Returns the most bytes of each log of this server in shared memory.
pub(crate) fn log_bytes_max(context: &Context) -> u64 {
    let logs = if context.job.is_replicated() { 2 } else { 1 };
    let configured = context.job.parameter_servers.shared_memory_bytes_max;
    configured.unwrap_or_else(|| default_log_bytes(group_limit(), logs))
}

fn default_log_bytes(limit: Option<u64>, logs: u64) -> u64 {
    limit.map_or(LOG_BYTES, |limit| {
        (limit / PART_OF_LIMIT / logs).min(LOG_BYTES)
    })
}

/// Returns the most bytes of messages that are being read, applied, written to the log or answered.
pub(crate) fn message_bytes_max(context: &Context) -> u64 {
    let configured = context.job.parameter_servers.memory_bytes_max;
    let by_setting = configured.map(|max| max / MESSAGES_PART);
    let by_limit = group_limit().map(|limit| limit / PART_OF_LIMIT);
    by_setting
        .into_iter()
        .chain(by_limit)
        .fold(TENSOR_BYTES_IN_FLIGHT_MAX as u64, u64::min)
}

/// Returns what the process may use now: the limit, and what is left of that of a control group.
pub(crate) fn room(messages: u64) -> Option<MemoryRoom> {
    let limit = MemoryLimit::of_process()?;
    let measure = || limit.is_of_group().then(|| limit.used()).flatten();
    let mut used = measure();
    if used.is_some_and(|used| used > limit.bytes() / 2) {
        // What the allocator keeps is room too.
        give_back_freed_memory();
        used = measure();
    }
    Some(MemoryRoom {
        limit: limit.bytes(),
        of: Arc::from(limit.to_string()),
        free: used.map(|used| limit.bytes().saturating_sub(used).saturating_sub(messages)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_take_an_eighth_of_the_limit_together_and_a_gibibyte_each_at_most() {
        assert_eq!(default_log_bytes(None, 1), 1 << 30);
        assert_eq!(default_log_bytes(Some(512 << 20), 1), 64 << 20);
        assert_eq!(default_log_bytes(Some(512 << 20), 2), 32 << 20);
        assert_eq!(default_log_bytes(Some(64 << 30), 1), 1 << 30);
    }
}
