//! The claim of a server by the chief of a term.

use std::path::Path;

use trainyard_model_dir::known_cluster_id;
use trainyard_parameter_store::{Claim, Identity};
use trainyard_protocol::Reason;

use crate::error::chain;
use crate::{Error, LocalServer, ServerStatus};

impl LocalServer {
    /// Claims the server for the term of `identity`. `cluster` is the fingerprint of the chief's cluster spec.
    ///
    /// # Errors
    /// The server belongs to another cluster, a later term has claimed it, or its model directory is not the chief's.
    pub fn claim(
        &self,
        identity: Identity,
        cluster: u64,
        model_dir: &Path,
    ) -> Result<ServerStatus, Error> {
        if cluster != self.cluster_fingerprint {
            let message = "the chief was given other addresses of chief and ps: compare these entries of the cluster files of both hosts";
            return Err(self.refused(Reason::OtherCluster, message));
        }
        let seen = known_cluster_id(model_dir)
            .map_err(|error| self.refused(Reason::Storage, chain(&error)))?;
        if seen != Some(identity.cluster_id) {
            let seen = seen.map_or_else(String::new, |seen| format!("{seen:032x}"));
            let message = format!(
                "model_dir {} is not shared with the chief: cluster_id must be {:032x}, found `{seen}`",
                model_dir.display(),
                identity.cluster_id,
            );
            return Err(self.refused(Reason::OtherCluster, message));
        }
        let claim = Claim {
            cluster_id: identity.cluster_id,
            epoch: identity.epoch,
        };
        self.check(self.store.claim(&claim))?;
        self.changed.send_replace(());
        Ok(self.status())
    }
}
