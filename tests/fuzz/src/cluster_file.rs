//! Cluster files. What is read and written again is the same cluster.

use std::path::Path;

use trainyard_cluster_spec::ClusterSpec;

/// Parses a cluster file, and writes and parses it again.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match ClusterSpec::from_toml(Path::new("cluster.toml"), text) {
        Ok(cluster) => {
            let _ = cluster.fingerprint();
            if cluster.evaluators == 0 && cluster.admin.is_empty() {
                let again = ClusterSpec::from_toml(Path::new("again.toml"), &cluster.to_toml());
                assert_eq!(again.expect("what was written is read"), cluster);
            }
        }
        Err(problems) => problems.iter().for_each(|problem| drop(problem.render())),
    }
}
