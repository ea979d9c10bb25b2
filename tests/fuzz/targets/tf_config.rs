//! The environment variable TF_CONFIG.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trainyard_cluster_spec::TfConfig;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Err(problem) = TfConfig::parse(text) {
        let _ = problem.render();
    }
});
