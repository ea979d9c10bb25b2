//! Work on the files of model_dir at the start of a chief.

use std::path::Path;

use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_runtime::{FileWork, blocking, tell_if_slow};

/// Works on the files of model_dir at the start of a chief. The log tells if they do not answer.
///
/// # Errors
/// Those of the work.
pub(crate) async fn at_start<T: Send + 'static>(
    model_dir: &Path,
    work: impl FnOnce(&Path) -> Result<T, trainyard_model_dir::Error> + Send + 'static,
) -> Result<T, Diagnostic> {
    let folder = model_dir.to_owned();
    let done = tell_if_slow(FileWork::Start, model_dir, blocking(move || work(&folder)));
    let done = done.await.map_err(|panic| {
        let message = format!("work on model_dir has failed: {panic}");
        Diagnostic::error(Code::E9001, message)
    })?;
    done.map_err(Diagnostic::from)
}
