//! What some tests cannot do without: services, programs and rights that a machine may lack.
//!
//! Missing means not installed. A service that is installed and does not start is broken, and its tests fail.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::MemoryGroup;

/// Bit of the right to change networks among a process's effective capabilities (`linux/capability.h`).
const CAP_NET_ADMIN: u32 = 12;
/// Bit of the right to mount file systems.
const CAP_SYS_ADMIN: u32 = 21;
const CAP_SETUID: u32 = 7;

/// A service, program or right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// moto's S3 server: `TRAINYARD_MOTO`, or `moto_server`.
    S3,
    /// fake-gcs-server: `TRAINYARD_GCS`, or `fake-gcs-server`.
    Gcs,
    /// `ip` and `tc`, and the right to make network namespaces.
    Networks,
    /// `strace`.
    Strace,
    /// `prometheus`.
    Prometheus,
    /// `promtool`.
    Promtool,
    /// `chromium`.
    Chromium,
    /// A Python with TensorBoard: `TRAINYARD_TENSORBOARD_PYTHON`, or `python3`.
    TensorBoard,
    /// A Python with onnxruntime: `TRAINYARD_ONNX_PYTHON`, or `python3`.
    Onnxruntime,
    /// A Python with TensorFlow 2.15: `TRAINYARD_TENSORFLOW_PYTHON`, or `python3`.
    TensorFlow,
    /// A Python with TensorFlow 2.15 and tensorflow-serving-api: `TRAINYARD_TENSORFLOW_SERVING_PYTHON`, or `python3`.
    TensorFlowServing,
    /// A Python with KServe's clients: `TRAINYARD_KSERVE_PYTHON`, or `python3`.
    KserveClients,
    /// A Python with Triton's clients: `TRAINYARD_TRITON_PYTHON`, or `python3`.
    TritonClients,
    /// A Python with the schemas of Kubernetes: `TRAINYARD_KUBERNETES_PYTHON`, or `python3`.
    KubernetesSchemas,
    /// `TRAINYARD_HELM`, or `helm`.
    Helm,
    /// Slurm's and munge's daemons, and the user root.
    Slurm,
    /// `systemd-analyze`.
    SystemdAnalyze,
    /// The right to mount a file system in memory.
    Mounts,
    /// `mkfs.ext4`, loop devices, and the right to mount a disk that is a file.
    Disks,
    /// The right to make control groups with a memory limit.
    MemoryGroups,
    /// The right to act as another user of the host.
    Users,
}

impl Need {
    /// Returns its name in `TRAINYARD_REQUIRE` and in what is told.
    pub fn name(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Gcs => "gcs",
            Self::Networks => "networks",
            Self::Strace => "strace",
            Self::Prometheus => "prometheus",
            Self::Promtool => "promtool",
            Self::Chromium => "chromium",
            Self::TensorBoard => "tensorboard",
            Self::Onnxruntime => "onnxruntime",
            Self::TensorFlow => "tensorflow",
            Self::TensorFlowServing => "tensorflow-serving",
            Self::KserveClients => "kserve-clients",
            Self::TritonClients => "triton-clients",
            Self::KubernetesSchemas => "kubernetes-schemas",
            Self::Helm => "helm",
            Self::Slurm => "slurm",
            Self::SystemdAnalyze => "systemd-analyze",
            Self::Mounts => "mounts",
            Self::Disks => "disks",
            Self::MemoryGroups => "memory-groups",
            Self::Users => "users",
        }
    }

    /// Returns whether a list such as `s3,gcs` or `all` names it.
    pub(crate) fn is_in(self, list: &str) -> bool {
        list.split(',')
            .map(str::trim)
            .any(|name| name == "all" || name == self.name())
    }

    /// Returns why it is missing; nothing where it is there.
    pub fn missing(self) -> Option<String> {
        match self {
            Self::S3
            | Self::Gcs
            | Self::Prometheus
            | Self::Promtool
            | Self::Chromium
            | Self::Helm => self.find_program().err(),
            Self::Strace | Self::SystemdAnalyze => self.find_program().err(),
            Self::TensorBoard
            | Self::Onnxruntime
            | Self::TensorFlow
            | Self::TensorFlowServing
            | Self::KserveClients
            | Self::TritonClients
            | Self::KubernetesSchemas => self.find_python().err(),
            Self::Networks => no_programs(&["ip", "tc"]).or_else(|| {
                (!may(CAP_NET_ADMIN))
                    .then(|| "this user may not change networks (CAP_NET_ADMIN)".to_owned())
            }),
            Self::Mounts => no_programs(&["mount", "umount"]).or_else(|| {
                (!may(CAP_SYS_ADMIN))
                    .then(|| "this user may not mount file systems (CAP_SYS_ADMIN)".to_owned())
            }),
            Self::Disks => Self::Mounts
                .missing()
                .or_else(|| no_programs(&["mkfs.ext4"]))
                .or_else(|| {
                    let control = Path::new("/dev/loop-control");
                    (!control.exists()).then(|| "the kernel shows no loop devices".to_owned())
                }),
            Self::MemoryGroups => MemoryGroup::missing(),
            Self::Users => (!may(CAP_SETUID))
                .then(|| "this user may not become another one (CAP_SETUID)".to_owned()),
            Self::Slurm => {
                no_programs(&["slurmctld", "slurmd", "munged", "sbatch"]).or_else(|| {
                    (!rustix::process::geteuid().is_root())
                        .then(|| "its daemons are started by root".to_owned())
                })
            }
        }
    }

    /// Returns the program that a test starts.
    ///
    /// # Panics
    /// It is missing, for which the test would have been skipped, or it is none.
    pub fn program(self) -> PathBuf {
        let found = self.find_program().or_else(|_| self.find_python());
        found.unwrap_or_else(|reason| panic!("{}: {reason}", self.name()))
    }

    fn find_program(self) -> Result<PathBuf, String> {
        let (variable, name) = match self {
            Self::S3 => (Some("TRAINYARD_MOTO"), "moto_server"),
            Self::Gcs => (Some("TRAINYARD_GCS"), "fake-gcs-server"),
            Self::Prometheus => (None, "prometheus"),
            Self::Promtool => (None, "promtool"),
            Self::Chromium => (None, "chromium"),
            Self::Helm => (Some("TRAINYARD_HELM"), "helm"),
            Self::Strace => (None, "strace"),
            Self::SystemdAnalyze => (None, "systemd-analyze"),
            _ => return Err(format!("{} is no single program", self.name())),
        };
        if let Some(given) = variable.and_then(given) {
            return Ok(given);
        }
        on_path(name).ok_or_else(|| match variable {
            Some(variable) => format!("no {name} is on the path, and {variable} names none"),
            None => format!("no {name} is on the path"),
        })
    }

    fn find_python(self) -> Result<PathBuf, String> {
        let (variable, imports) = match self {
            Self::TensorBoard => ("TRAINYARD_TENSORBOARD_PYTHON", "tensorboard"),
            Self::Onnxruntime => ("TRAINYARD_ONNX_PYTHON", "onnxruntime, numpy"),
            Self::TensorFlow => ("TRAINYARD_TENSORFLOW_PYTHON", "tensorflow"),
            Self::TensorFlowServing => (
                "TRAINYARD_TENSORFLOW_SERVING_PYTHON",
                "tensorflow_serving.apis.prediction_service_pb2_grpc",
            ),
            Self::KserveClients => ("TRAINYARD_KSERVE_PYTHON", "kserve"),
            Self::TritonClients => (
                "TRAINYARD_TRITON_PYTHON",
                "tritonclient.http, tritonclient.grpc",
            ),
            Self::KubernetesSchemas => (
                "TRAINYARD_KUBERNETES_PYTHON",
                "kubernetes_validate, kubeflow_trainer_api, yaml",
            ),
            _ => return Err(format!("{} is no package of Python", self.name())),
        };
        if let Some(given) = given(variable) {
            return Ok(given);
        }
        let tried = Command::new("python3")
            .args(["-c", &format!("import {imports}")])
            .output();
        match tried {
            Ok(output) if output.status.success() => Ok(PathBuf::from("python3")),
            _ => Err(format!(
                "python3 cannot import {imports}, and {variable} names no Python that can"
            )),
        }
    }
}

/// Returns the program that a variable names.
fn given(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable)
        .filter(|given| !given.is_empty())
        .map(PathBuf::from)
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Programs of administrators are not on every user's path.
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

fn no_programs(names: &[&str]) -> Option<String> {
    let name = names.iter().find(|name| on_path(name).is_none())?;
    Some(format!("no {name} is on the path"))
}

/// Returns whether this process has a capability (`CapEff` of proc(5)).
fn may(capability: u32) -> bool {
    let status = std::fs::read_to_string(Path::new("/proc/self/status")).unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    effective.is_some_and(|bits| bits >> capability & 1 == 1)
}
