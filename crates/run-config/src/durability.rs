//! Requirements of a durability on the cluster.

use trainyard_diagnostic::{Code, Diagnostic};

use crate::{Durability, Job};

impl Job {
    /// Returns an error if every parameter server needs a backup and the cluster has too few servers.
    pub fn lacks_backup(&self, num_ps: usize) -> Option<Diagnostic> {
        let replicated = self.parameter_servers.durability == Durability::Replica;
        (replicated && num_ps == 1).then(|| {
            let message = "parameter_servers.durability = \"replica\" needs two parameter servers at least, the cluster has 1: \
                           the backup of a server is the next one";
            Diagnostic::error(Code::E1006, message)
                .help("add a ps address to the cluster, or use durability = \"shared_memory\", which survives the death of processes")
        })
    }

    /// Returns whether every shard has a second replica.
    pub fn is_replicated(&self) -> bool {
        self.parameter_servers.durability == Durability::Replica
    }
}
