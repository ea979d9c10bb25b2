//! The conditions of a measurement: figures of other conditions cannot be compared with it.

use serde::Serialize;
use trainyard_cluster_spec::{ClusterSpec, Role};
use trainyard_run_config::{Durability, Job};

/// The machine, and what the tasks were asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Conditions {
    /// Name of the processor, as the system gives it.
    pub(super) processor: String,
    /// Processors that this process may use.
    pub(super) cores: usize,
    /// Widest vector instructions of the processor, which the kernels choose at run time.
    pub(super) vectors: &'static str,
    /// `parameter_servers.durability`; absent if no parameter server takes part.
    pub(super) durability: Option<&'static str>,
    /// The connections to parameter servers; absent if there are none.
    pub(super) transport: Option<&'static str>,
}

impl Conditions {
    /// Returns the conditions of a measurement in one process.
    pub(super) fn of_one_process() -> Self {
        Self {
            processor: processor(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            vectors: vectors(),
            durability: None,
            transport: None,
        }
    }

    /// Returns the conditions of a load on parameter servers.
    pub(super) fn of_servers(durability: Durability, transport: &'static str) -> Self {
        Self {
            durability: Some(durability.name()),
            transport: Some(transport),
            ..Self::of_one_process()
        }
    }

    /// Returns the conditions of a job on a cluster.
    pub(super) fn of_job(job: &Job, cluster: &ClusterSpec) -> Self {
        let mut servers = cluster
            .tasks
            .iter()
            .filter(|(task, _)| task.role == Role::Ps);
        let transport = if servers.all(|(_, address)| address.starts_with("unix:")) {
            UNIX_SOCKETS
        } else if cluster.credentials.tls_dir.is_some() {
            "TCP with TLS"
        } else {
            TCP
        };
        Self::of_servers(job.parameter_servers.durability, transport)
    }

    /// Returns the conditions as a line of text.
    pub(super) fn text(&self) -> String {
        let durability = self.durability.map(|name| format!("durability {name}"));
        let known = durability
            .into_iter()
            .chain(self.transport.map(str::to_owned));
        let of_job: String = known.map(|text| format!("{text}, ")).collect();
        let cores = match self.cores {
            1 => "1 core".to_owned(),
            count => format!("{count} cores"),
        };
        format!(
            "measured with     {of_job}{cores} of {}, {}\n",
            self.processor, self.vectors
        )
    }
}

/// Names of transports.
pub(super) const UNIX_SOCKETS: &str = "socket files";
pub(super) const TCP: &str = "TCP";

/// Returns the name of the processor.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    model_name(&text)
        .unwrap_or(std::env::consts::ARCH)
        .to_owned()
}

/// Finds the name of the processor in the text of `/proc/cpuinfo`.
fn model_name(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo
        .lines()
        .find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim())
}

#[cfg(target_arch = "x86_64")]
fn vectors() -> &'static str {
    if std::arch::is_x86_feature_detected!("avx512f") {
        "AVX-512"
    } else if std::arch::is_x86_feature_detected!("avx2") {
        "AVX2"
    } else {
        "SSE2"
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn vectors() -> &'static str {
    std::env::consts::ARCH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_says_durability_transport_and_processor() {
        let mut conditions = Conditions {
            processor: "Zen 5".to_owned(),
            cores: 2,
            vectors: "AVX-512",
            durability: Some("shared_memory"),
            transport: Some(TCP),
        };
        assert_eq!(
            conditions.text(),
            "measured with     durability shared_memory, TCP, 2 cores of Zen 5, AVX-512\n"
        );
        (conditions.durability, conditions.transport) = (None, None);
        assert_eq!(
            conditions.text(),
            "measured with     2 cores of Zen 5, AVX-512\n"
        );
    }

    #[test]
    fn the_processor_is_found_in_the_text_of_the_system() {
        let text = "processor\t: 0\nmodel name\t: AMD EPYC 9B45\ncache size\t: 1024 KB\n";
        assert_eq!(model_name(text), Some("AMD EPYC 9B45"));
        assert_eq!(model_name("Features\t: fp asimd\n"), None);
    }
}
