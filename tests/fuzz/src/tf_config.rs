//! The environment variable TF_CONFIG.

use trainyard_cluster_spec::TfConfig;

/// Parses TF_CONFIG.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Err(problem) = TfConfig::parse(text) {
        let _ = problem.render();
    }
}
