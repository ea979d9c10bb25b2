//! Recovery for the fuzz targets. It is built only for them: nothing else may read a log into a store.

use std::path::Path;

use trainyard_cluster_client::LocalServer;
use trainyard_cluster_spec::{Role, Task};
use trainyard_write_ahead_log::Folder;

use crate::recovery::{Expected, recover};

/// Recovers the store of member 0 of a cluster from the log in a folder. Returns its version and the number of
/// replayed records, or `None` if there is no log.
///
/// # Errors
/// The log cannot be used. The message says why.
pub fn recover_store(
    model_dir: &Path,
    log: &Path,
    owner: u128,
    prepared_epoch: u64,
) -> Result<Option<(u64, u64)>, String> {
    let folder = Folder::open(log).map_err(|error| error.to_string())?;
    let shard = LocalServer::new(0, 1, 1, 1);
    let task = Task {
        role: Role::Ps,
        index: 0,
    };
    let expected = Expected {
        model_dir,
        owner: Some(owner),
        prepared_epoch,
        task,
    };
    let recovered = recover(&shard, &folder, expected).map_err(|problem| problem.to_string())?;
    Ok(recovered.map(|recovered| (shard.store().status().version, recovered.records)))
}
