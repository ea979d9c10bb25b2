//! Client of the admin port of the leading chief.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use trainyard_cluster_spec::{ClusterSpec, Role};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_run_config::Job;

use crate::http;

/// Timeout of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
/// Path of the cluster file of `trainyard up`, below the job's local directory.
const CLUSTER_OF_UP: &str = "up/cluster.toml";

/// Admin ports of the chiefs of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdminClient {
    addresses: Vec<String>,
}

impl AdminClient {
    /// Finds a run by its target: `host:port` of a chief's admin port, a cluster file, or the job file of a running
    /// `trainyard up`.
    ///
    /// # Errors
    /// The file does not exist, cannot be read, or names no admin port of a chief.
    pub(crate) fn find(
        target: &str,
        model_dir: Option<&Path>,
        set: &[String],
    ) -> Result<Self, Vec<Diagnostic>> {
        let plain = target
            .strip_prefix("http://")
            .unwrap_or(target)
            .trim_end_matches('/');
        let path = Path::new(target);
        let port = plain
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        if !path.exists() && port {
            return Ok(Self {
                addresses: vec![plain.to_owned()],
            });
        }
        let cluster = if is_cluster(path) {
            path.to_owned()
        } else {
            cluster_of(path, model_dir, set)?
        };
        let spec = ClusterSpec::load(&cluster)?;
        let chiefs = spec
            .admin
            .iter()
            .filter(|(task, _)| task.role == Role::Chief);
        let addresses: Vec<String> = chiefs.map(|(_, address)| address.clone()).collect();
        if addresses.is_empty() {
            let message = format!("{} names no admin port of the chief", cluster.display());
            let help = "add it, for example `[admin]` with `chief = [\"10.0.0.1:23200\"]`, or give its host:port";
            return Err(vec![Diagnostic::error(Code::E1004, message).help(help)]);
        }
        Ok(Self { addresses })
    }

    /// Requests `/api/v1/...` from each chief in turn. The first chief with a successful response is the leading one.
    ///
    /// # Errors
    /// No chief responds.
    pub(crate) async fn ask(&self, path: &str) -> Result<Value, Diagnostic> {
        let mut why = Vec::new();
        for address in &self.addresses {
            match http::get(address, path, REQUEST_TIMEOUT).await {
                Ok(body) => match serde_json::from_slice(&body) {
                    Ok(value) => return Ok(value),
                    Err(error) => why.push(format!("{address}: the answer is not JSON: {error}")),
                },
                Err(error) => why.push(format!("{address}: {error}")),
            }
        }
        let message = format!("no chief answers at its admin port: {}", why.join("; "));
        Err(Diagnostic::error(Code::E2003, message)
            .help("see that the job runs, and that this host may reach the port"))
    }
}

/// Returns whether a file describes a cluster.
fn is_cluster(path: &Path) -> bool {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .any(|line| line.split('#').next().unwrap_or_default().trim() == "[cluster]")
}

/// Returns the cluster file of the `trainyard up` that runs a job.
fn cluster_of(
    job: &Path,
    model_dir: Option<&Path>,
    set: &[String],
) -> Result<PathBuf, Vec<Diagnostic>> {
    let inside = job.join(CLUSTER_OF_UP);
    if job.is_dir() && inside.is_file() {
        return Ok(inside);
    }
    if job.is_dir() {
        let message = format!("no `trainyard up` has run in {}", job.display());
        return Err(vec![Diagnostic::error(Code::E2003, message).help(
            "give the cluster file, or the host:port of the chief's admin port, which the first line of the chief's log names",
        )]);
    }
    let mut loaded = Job::load(job, set)?;
    if let Some(folder) = model_dir {
        loaded.model_dir = folder.to_owned();
    }
    let file = loaded.local_dir().join(CLUSTER_OF_UP);
    if file.is_file() {
        return Ok(file);
    }
    let message = format!(
        "no `trainyard up` has run {} here: there is no {}",
        job.display(),
        file.display()
    );
    let help = "give the cluster file, the host:port of the chief's admin port, which the first line of the chief's log names, or the --model-dir that `up` was given";
    Err(vec![Diagnostic::error(Code::E2003, message).help(help)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_found_by_its_port_its_cluster_file_and_the_job_of_up() {
        let folder = tempfile::tempdir().expect("a folder");
        let found = |target: &str| AdminClient::find(target, None, &[]);
        let at = |address: &str| AdminClient {
            addresses: vec![address.to_owned()],
        };
        assert_eq!(found("127.0.0.1:23200"), Ok(at("127.0.0.1:23200")));
        assert_eq!(found("http://h:80/"), Ok(at("h:80")));
        let cluster = folder.path().join("cluster.toml");
        let text = "[cluster]\nchief = [\"127.0.0.1:1\"]\nps = [\"127.0.0.1:2\"]\n";
        std::fs::write(&cluster, text).expect("written");
        let problem = found(&cluster.to_string_lossy()).expect_err("no admin port");
        assert!(
            problem[0]
                .message
                .contains("names no admin port of the chief"),
            "{problem:?}"
        );
        std::fs::write(
            &cluster,
            format!("{text}[admin]\nchief = [\"127.0.0.1:3\"]\n"),
        )
        .expect("written");
        assert_eq!(found(&cluster.to_string_lossy()), Ok(at("127.0.0.1:3")));
        let missing =
            found(&folder.path().join("none.toml").to_string_lossy()).expect_err("no file");
        assert!(missing[0].message.contains("none.toml"), "{missing:?}");
    }

    #[tokio::test]
    async fn a_port_where_nobody_listens_is_named() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = free.local_addr().expect("an address").to_string();
        drop(free);
        let client = AdminClient {
            addresses: vec![address.clone()],
        };
        let problem = client.ask("/api/v1/run").await.expect_err("nobody");
        assert!(
            problem.code == Code::E2003 && problem.message.contains(&address),
            "{problem:?}"
        );
    }
}
