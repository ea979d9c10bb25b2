//! The cluster: roles, tasks and addresses, from a cluster file or from `TF_CONFIG`.
//!
//! Both sources give the same validated [`ClusterSpec`], so that no other crate depends on the source.

mod cluster_file;
mod credential_files;
mod servers;
mod spec;
mod task;
mod tf_config;

pub use credential_files::CredentialFiles;
pub use servers::Servers;
pub use spec::{ClusterSpec, LocalCounts};
pub use task::{Role, Task, WORKERS_MAX};
pub use tf_config::TfConfig;
