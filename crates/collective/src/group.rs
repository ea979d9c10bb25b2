//! Groups, ranks, and how long members wait for each other.

use std::time::Duration;

use trainyard_protocol::limits::GROUP_SIZE_MAX;

/// The rank of one member in one generation of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// Generation, higher each time the group is formed.
    pub generation: u64,
    /// Rank of this member, from 0.
    pub rank: usize,
    /// Number of members, at least 1.
    pub size: usize,
}

impl Group {
    /// Returns the rule that the group violates, if there is one.
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

/// A group of worker processes, identified among all jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// Cluster id, drawn once per model directory.
    pub cluster_id: [u8; 16],
    /// Term of the chief that formed the group.
    pub cluster_epoch: u64,
    /// The group and the member's rank.
    pub group: Group,
}

impl Membership {
    /// Returns the key that orders the groups of one cluster: term, then generation.
    pub(crate) fn age(&self) -> (u64, u64) {
        (self.cluster_epoch, self.group.generation)
    }
}

/// The timeouts of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// Timeout for all members to form the same generation; 30 s by default.
    pub form: Duration,
    /// Timeout for a peer that accepts or sends nothing while an operation waits for it; 60 s by default. It must
    /// exceed the longest time between the arrivals of two members at the same step.
    pub silence: Duration,
    /// Timeout for peers to receive what was sent before this member leaves, or the reason why it ends the generation;
    /// 2 s by default.
    pub leave_timeout: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            form: Duration::from_secs(30),
            silence: Duration::from_secs(60),
            leave_timeout: Duration::from_secs(2),
        }
    }
}
