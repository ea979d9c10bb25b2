//! Folders in memory, and futures run to their end.

use std::path::Path;

use tempfile::TempDir;

/// Returns a new folder, in memory where the system has such a place. Dropping it removes it.
pub(crate) fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let root = if memory.is_dir() {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    };
    tempfile::Builder::new()
        .prefix("trainyard-fuzz-")
        .tempdir_in(root)
        .expect("a folder")
}

/// Runs a future to its end on this thread.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    runtime.block_on(future)
}
