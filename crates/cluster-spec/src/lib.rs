//! Who is in the cluster: roles, tasks and addresses, from a cluster file or from `TF_CONFIG`.

mod spec;
mod task;

pub use spec::ClusterSpec;
pub use task::{Role, Task};
