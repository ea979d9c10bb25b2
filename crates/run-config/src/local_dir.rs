//! Where a job with its model folder in a bucket keeps what a bucket cannot hold.

use std::path::{Path, PathBuf};

use trainyard_storage::is_remote;

use crate::Job;

/// Folder for files that outlive a start of the machine (Filesystem Hierarchy Standard 3.0, 5.15).
const LOCAL: &str = "/var/tmp";

impl Job {
    /// Returns the folder of this machine for what an object store cannot hold: logs of parameter servers, events while they
    /// are written, records that were put aside, what `trainyard up` notes. It is `model_dir` itself if that is a folder; else
    /// `local_dir` of the job file, or one below `/var/tmp` that is named after the bucket.
    pub fn local_dir(&self) -> PathBuf {
        if !is_remote(&self.model_dir) {
            return self.model_dir.clone();
        }
        let named = || {
            let plain =
                |letter: char| if letter.is_ascii_alphanumeric() || letter == '.' { letter } else { '-' };
            let url = self.model_dir.to_string_lossy();
            let (scheme, rest) = url.split_once("://").unwrap_or(("", &url));
            let name: String = rest.trim_matches('/').chars().map(plain).collect();
            Path::new(LOCAL).join(format!("trainyard-{scheme}-{name}"))
        };
        self.local_dir.clone().unwrap_or_else(named)
    }
}
