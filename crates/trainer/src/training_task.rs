//! The task that trains: its configuration, model and chief.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use trainyard_model::AnyModel;

use crate::{Config, Coordinator, Threads};

/// The task that trains.
#[derive(Clone, Copy)]
pub(crate) struct TrainingTask<'a> {
    pub(crate) config: &'a Config,
    pub(crate) model: &'a Arc<AnyModel>,
    pub(crate) threads: &'a Threads,
    pub(crate) coordinator: &'a Arc<dyn Coordinator>,
    pub(crate) stop: &'a CancellationToken,
}
