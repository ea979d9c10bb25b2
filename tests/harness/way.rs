//! The ways to train that keep the same promises.

/// A way to train.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Asynchronous updates.
    Async,
    /// Stale-synchronous updates, at most two steps apart.
    Ssp,
    /// Synchronous updates on parameter servers.
    Sync,
    /// The chief hands each batch to a worker, and applies its gradients.
    InGraph,
    /// Each worker holds all parameters.
    Mirrored,
    /// Each worker holds the dense variables, servers hold the tables.
    Hybrid,
    /// Asynchronous updates on servers in pairs.
    Replica,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Async,
        Self::Ssp,
        Self::Sync,
        Self::InGraph,
        Self::Mirrored,
        Self::Hybrid,
        Self::Replica,
    ];

    /// Returns the name, as the documentation has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Async => "async",
            Self::Ssp => "ssp",
            Self::Sync => "sync",
            Self::InGraph => "in_graph",
            Self::Mirrored => "multi_worker_mirrored",
            Self::Hybrid => "hybrid",
            Self::Replica => "replica",
        }
    }

    /// Returns the way of this name.
    ///
    /// # Errors
    /// There is none: what there is.
    pub fn named(name: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|way| way.name() == name);
        found.ok_or_else(|| format!("must be one of {}", names()))
    }

    /// Returns the settings that ask for it, `section.key=value`.
    pub fn settings(self) -> &'static [&'static str] {
        match self {
            Self::Async => &["strategy.update=async"],
            Self::Ssp => &["strategy.update=ssp", "strategy.staleness_steps_max=2"],
            Self::Sync => &["strategy.update=sync"],
            Self::InGraph => &["strategy.replication=in_graph"],
            Self::Mirrored => &["strategy.kind=multi_worker_mirrored"],
            Self::Hybrid => &["strategy.kind=hybrid"],
            Self::Replica => &["parameter_servers.durability=replica"],
        }
    }

    /// Whether there are parameter servers.
    pub fn has_servers(self) -> bool {
        self != Self::Mirrored
    }

    /// Returns the batches of a step, of a job whose chief trains beside so many workers.
    pub fn lanes(self, workers: usize) -> u64 {
        match self {
            Self::Sync | Self::Mirrored | Self::Hybrid => workers as u64 + 1,
            Self::Async | Self::Ssp | Self::InGraph | Self::Replica => 1,
        }
    }
}
