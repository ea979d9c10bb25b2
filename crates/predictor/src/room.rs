//! Memory for the values of a model.

use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_runtime::MemoryLimit;

/// Checks that the memory limit of this process leaves room for `value_bytes` bytes of values: the kernel would kill the
/// process while it reads them.
///
/// # Errors
/// There is no room.
pub fn check_room(value_bytes: u64) -> Result<(), Diagnostic> {
    let Some(limit) = MemoryLimit::of_process() else {
        return Ok(());
    };
    let Some(used) = limit.used() else {
        return Ok(());
    };
    // Dynamic tables have an id and an order beside each row of values.
    let needed = value_bytes / 2 * 3;
    if used.saturating_add(needed) <= limit.bytes() / 32 * 31 {
        return Ok(());
    }
    let message = format!(
        "the checkpoint has {value_bytes} bytes of values and needs about {needed} bytes of memory, which {limit} does not leave"
    );
    Err(Diagnostic::error(Code::E3009, message)
        .note(format!("{used} bytes are in use"))
        .help("raise the memory limit: one and a half times the values of the model, and two and a half times for a server of predictions, while a version follows another"))
}
