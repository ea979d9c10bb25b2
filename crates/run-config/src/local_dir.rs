//! Local directory of a job whose model directory is a bucket.

use std::path::{Path, PathBuf};

use trainyard_storage::is_remote;

use crate::Job;

/// Folder for files that survive a reboot (Filesystem Hierarchy Standard 3.0, 5.15).
const LOCAL: &str = "/var/tmp";
/// Folder of the parameter servers' logs.
const LOGS: &str = "wal";

impl Job {
    /// Returns the folder of this machine for files that an object store cannot hold: logs of parameter servers, events
    /// while they are written, dead-letter files, files of `trainyard up`. If `model_dir` is a folder, it is
    /// `model_dir` itself. Otherwise it is `local_dir` of the job file, or a folder below `/var/tmp` that is named
    /// after the bucket.
    pub fn local_dir(&self) -> PathBuf {
        let named = self.local_dir.clone();
        named
            .filter(|_| is_remote(&self.model_dir))
            .unwrap_or_else(|| default_local_dir(&self.model_dir))
    }

    /// Returns the folder of the logs of this machine's parameter servers, if `--state-dir` names no other.
    pub fn logs_dir(&self) -> PathBuf {
        self.local_dir().join(LOGS)
    }
}

/// Returns [`Job::local_dir`] of a job that does not set `local_dir`.
fn default_local_dir(model_dir: &Path) -> PathBuf {
    if is_remote(model_dir) {
        Path::new(LOCAL).join(name_of(&model_dir.to_string_lossy()))
    } else {
        model_dir.to_owned()
    }
}

/// Returns [`Job::logs_dir`] of a job that does not set `local_dir`.
pub fn default_logs_dir(model_dir: &Path) -> PathBuf {
    default_local_dir(model_dir).join(LOGS)
}

/// Returns the folder name of a URL. `/` becomes `+`, and all other bytes except letters, digits, `.`, `-` and `_`
/// become hexadecimal, so that different URLs have different names.
fn name_of(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let mut name = format!("trainyard-{scheme}-");
    for byte in rest.trim_end_matches('/').bytes() {
        match byte {
            b'/' => name.push('+'),
            b'.' | b'-' | b'_' => name.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => name.push(char::from(byte)),
            _ => name.push_str(&format!("%{byte:02X}")),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_places_share_a_folder() {
        let urls = [
            "s3://a/b-c",
            "s3://a-b/c",
            "s3://a/b/c",
            "gs://a/b/c",
            "s3://a/b_c",
            "s3://a/b+c",
            "s3://a/b%2Bc",
            "s3://a/b c",
            "hdfs://a:8020/b",
            "hdfs://a/8020/b",
            "hdfs:///a/b",
            "hdfs://a/b",
        ];
        let names: BTreeSet<String> = urls.map(name_of).into();
        assert_eq!(names.len(), urls.len(), "{names:?}");
        assert!(names.iter().all(|name| !name.contains('/')), "{names:?}");
    }

    #[test]
    fn the_folder_tells_its_place() {
        assert_eq!(
            name_of("s3://bucket/jobs/click-model_2"),
            "trainyard-s3-bucket+jobs+click-model_2"
        );
        assert_eq!(name_of("s3://bucket/path/"), name_of("s3://bucket/path"));
    }
}
