//! Seeing a run: a real Prometheus, a real browser and a real TensorBoard look at running jobs.

mod alerts;
mod counts;
mod page;
mod prometheus;
mod running;
mod tensorboard;

use std::path::Path;
use std::time::Duration;

use trainyard_tests::LIMIT;

/// Time between looks.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The top of the repository.
fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ lies in the repository")
}
