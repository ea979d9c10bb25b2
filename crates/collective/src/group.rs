//! Who belongs together, and how long they wait for each other.

use std::time::Duration;

use trainyard_protocol::limits::GROUP_SIZE_MAX;

/// One member's place in one generation of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// Higher at each forming.
    pub generation: u64,
    /// This member, from 0.
    pub rank: usize,
    /// Members, at least 1.
    pub size: usize,
}

impl Group {
    /// Returns what is wrong with it, if anything is.
    pub(crate) fn problem(&self) -> Option<String> {
        let Self { rank, size, .. } = *self;
        if size == 0 || size > GROUP_SIZE_MAX {
            return Some(format!(
                "a group must have 1 to {GROUP_SIZE_MAX} members, given {size}"
            ));
        }
        (rank >= size)
            .then(|| format!("a rank must be below the group's size of {size}, given {rank}"))
    }
}

/// A group of worker processes: its place among all jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// Minted once per model directory.
    pub cluster_id: [u8; 16],
    /// Of the chief that formed the group.
    pub cluster_epoch: u64,
    /// The member's place.
    pub group: Group,
}

impl Membership {
    /// Returns what orders groups of one cluster: epoch, then generation.
    pub(crate) fn age(&self) -> (u64, u64) {
        (self.cluster_epoch, self.group.generation)
    }
}

/// How long a member waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// For all members to form the same generation. 30 s if nothing else is said.
    pub form: Duration,
    /// For a peer that takes or sends nothing while an operation waits for it. The longest time between two members'
    /// arrival at the same step must fit in. 60 s if nothing else is said.
    pub silence: Duration,
    /// For peers to take what was sent before this member leaves, or to hear why it ends the generation. 2 s if nothing
    /// else is said.
    pub farewell: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            form: Duration::from_secs(30),
            silence: Duration::from_secs(60),
            farewell: Duration::from_secs(2),
        }
    }
}
