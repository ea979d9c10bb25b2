//! Origin of initial values: a server reads them from where its own job says, and from nowhere else. A peer chooses no path.

use std::path::{Path, PathBuf};

use trainyard_cluster_spec::Task;
use trainyard_model_dir::absolute;
use trainyard_protocol::shown;
use trainyard_run_config::{Job, resolve_path};

/// The origin that a job names, absolute; `None` if it names none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InitialValues(Option<PathBuf>);

impl InitialValues {
    /// Returns the origin that a job names: `train.warm_start.from`.
    pub(crate) fn of(job: &Job) -> Self {
        let start = job.train.warm_start.as_ref();
        Self(start.map(|start| absolute(&resolve_path(job, &start.from))))
    }

    /// Checks the origin that a request names, the empty text if none. `peer` sent it, as in "the chief"; `own` is this server.
    ///
    /// # Errors
    /// The own job names no or another origin.
    pub(crate) fn check(&self, asked: &str, peer: &str, own: Task) -> Result<(), String> {
        if asked.is_empty() || self.0.as_deref() == Some(Path::new(asked)) {
            return Ok(());
        }
        let named = self.0.as_ref().map_or_else(
            || "no train.warm_start".to_owned(),
            |path| format!("train.warm_start.from = {}", path.display()),
        );
        let asked = shown(asked);
        Err(format!(
            "{peer} starts from {asked}, and the job of {own} has {named}: give both the same job, with the absolute path"
        ))
    }
}
