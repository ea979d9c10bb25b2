//! The contents of the parameter servers: what the chief requests, and what a server reports.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

use trainyard_checkpoint::{Manifest, ShardRecord, VersionUnit, VersionUnits, WarmStart};
use trainyard_optimizer::OptimizerConfig;
use trainyard_parameter_store::{Guard, Identity, ShardPosition, Status, Update};
use trainyard_variable::{Layout, StepNumber, VariableSpec, Version};

/// The run that trains values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Provenance {
    /// Fingerprint of the division of the input, which positions in the data refer to; empty = not known.
    pub input: String,
    /// Job of the run, one line per key of the agreement.
    pub job: Vec<String>,
}

/// The contents that the chief gives to the parameter servers.
#[derive(Debug, Clone)]
pub struct Plan {
    /// All variables of the model.
    pub variables: Vec<VariableSpec>,
    /// Slices of the variables, and their servers.
    pub layout: Layout,
    /// Fingerprint of the variables and the layout.
    pub fingerprint: u64,
    /// Update rules, by group.
    pub optimizers: BTreeMap<String, OptimizerConfig>,
    /// Seed of the initial values.
    pub seed: u64,
    /// Last global step; 0 = no bound.
    pub global_step_max: u64,
    /// Mode of the updates, in the store that counts the steps.
    pub update: Update,
    /// Bounds that gradients must keep.
    pub guard: Guard,
    /// The store that counts the steps is the workers' own copy of the variables that are read whole. All
    /// other variables then lie on servers, where each push takes effect as it arrives.
    pub hybrid: bool,
    /// Checkpoint to restore from; absent = initial values.
    pub checkpoint: Option<PathBuf>,
    /// Source of the initial values of the variables that it names.
    pub warm_start: Option<WarmStart>,
    /// Fingerprint of the job file's settings of variables, rules, steps and input.
    pub settings: u64,
    /// The run that trains the values from now on.
    pub provenance: Provenance,
    /// The positions in the data of the checkpoint are ignored, because the input is now divided in another
    /// way.
    pub forget_positions: bool,
}

impl Plan {
    /// Returns the mode of the updates in the store at `place`.
    pub fn update_of(&self, place: usize) -> Update {
        if self.hybrid && place > 0 {
            Update::Async
        } else {
            self.update
        }
    }

    /// Returns the units in which the stores count their versions.
    fn version_units(&self) -> VersionUnits {
        match (self.hybrid, unit_of(self.update)) {
            (true, _) => VersionUnits::Hybrid,
            (false, VersionUnit::Steps) => VersionUnits::Steps,
            (false, VersionUnit::Pushes) => VersionUnits::Pushes,
        }
    }

    /// Returns the version of each store after it has restored a checkpoint.
    pub fn versions_after(&self, manifest: &Manifest) -> Vec<Version> {
        let stores = self.layout.num_ps;
        (0..stores)
            .map(|place| manifest.version_of(place, stores, unit_of(self.update_of(place))))
            .collect()
    }

    /// Returns the manifest of a checkpoint. `saved` has the parts of all servers, in their order.
    ///
    /// # Errors
    /// The entry of a server cannot be parsed. The error has the number of the server, from 0.
    pub fn manifest(
        &self,
        identity: &Identity,
        saved: &[Saved],
    ) -> Result<Manifest, (usize, String)> {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let step = saved.first().map_or(0, |saved| saved.global_step);
        let cluster_id = format!("{:032x}", identity.cluster_id);
        let mut manifest = Manifest::new(cluster_id, identity.epoch, step, now);
        let records = saved
            .iter()
            .map(|saved| serde_json::from_str(&saved.record))
            .enumerate();
        let record = |(place, record): (usize, Result<ShardRecord, serde_json::Error>)| {
            record.map_err(|error| (place, error.to_string()))
        };
        manifest.shards = records.map(record).collect::<Result<_, _>>()?;
        manifest.num_ps = saved.len();
        manifest.variables.clone_from(&self.variables);
        manifest.optimizers.clone_from(&self.optimizers);
        manifest.seed = self.seed;
        manifest.version_units = self.version_units();
        Ok(manifest)
    }
}

/// Returns the unit in which a store with this mode of updates counts its version.
pub(crate) fn unit_of(update: Update) -> VersionUnit {
    match update {
        Update::Sync => VersionUnit::Steps,
        Update::Async | Update::StaleSynchronous { .. } => VersionUnit::Pushes,
    }
}

/// The status of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerStatus {
    /// Status of the store.
    pub store: Status,
    /// Random number of the process start. Another value means that the server was restarted. The store's prepared
    /// epoch says whether its values were lost.
    pub incarnation: u64,
    /// Fingerprint of the settings that the server was prepared with; 0 if it is not prepared, or for a store in this
    /// process.
    pub settings: u64,
    /// The server's log is so long that a checkpoint is due.
    pub wants_checkpoint: bool,
    /// Positions of the data shards, if requested.
    pub positions: Vec<ShardPosition>,
    /// The run that trains the values, if the positions were requested. They refer to the division of its input.
    pub provenance: Provenance,
}

/// The state that a server's part of a checkpoint holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotRequest {
    /// Step to save, which may not have been reached yet; `None` for the current state. Only a synchronous server has
    /// versions that all servers share.
    pub step: Option<StepNumber>,
    /// Name of the server's snapshot whose whole file the caller holds: the part may be an increment over it. Empty: the
    /// caller holds none, and later parts may be increments over this one. `None`: the part must be whole, and so will be
    /// later ones.
    pub base: Option<String>,
    /// Use of the file.
    pub purpose: SnapshotPurpose,
}

/// Use of the file of a snapshot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SnapshotPurpose {
    /// A checkpoint: values, slots and positions.
    #[default]
    Checkpoint,
    /// Publication: values. The base is the snapshot that the caller has published last, and the part may be the rows that
    /// have changed since.
    Publication,
}

/// The written part of one server in a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// Entry of the part in the manifest, as JSON.
    pub record: String,
    /// Global step of the snapshot; of `ps:0` only.
    pub global_step: u64,
}
