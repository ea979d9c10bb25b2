//! Extent of a snapshot: the rows that it reads, and the parts of each row.

use trainyard_optimizer::OptimizerConfig;

use crate::touched::Use;

/// The rows that a snapshot reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Every held row.
    Whole,
    /// Every held row. Later increments may be based on this snapshot.
    Base,
    /// The rows that have changed since the base.
    Increment,
    /// Every held row, for the log of the server. Later cuts of the log count from this one.
    LogWhole,
    /// The rows that have changed since the cut of the log before. Later cuts of the log count from this one.
    LogIncrement,
    /// The values of every held row. No later cut counts from this one.
    Values,
    /// The values of every held row. Later cuts for publication may count from this one.
    PublicationWhole,
    /// The values of the rows that have changed since the confirmed cut for publication. Later ones may count from this one.
    PublicationIncrement,
}

/// The parts of a row that a snapshot reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum RowParts {
    /// Values and the slots of the optimizer.
    #[default]
    ValuesAndSlots,
    /// Values.
    Values,
}

impl RowParts {
    /// Returns how many of `slots` slots are read.
    pub(crate) fn slots(self, slots: usize) -> usize {
        match self {
            Self::ValuesAndSlots => slots,
            Self::Values => 0,
        }
    }

    /// Returns the names of the slots of a rule that are read.
    pub(crate) fn slot_names(self, optimizer: &OptimizerConfig) -> Vec<&'static str> {
        let slots = optimizer.slots();
        let slots = slots.iter().take(self.slots(slots.len()));
        slots.map(|slot| slot.name).collect()
    }
}

impl Extent {
    /// Returns the parts of each row.
    pub(crate) fn row_parts(self) -> RowParts {
        match self {
            Self::Whole | Self::Base | Self::Increment | Self::LogWhole | Self::LogIncrement => {
                RowParts::ValuesAndSlots
            }
            Self::Values | Self::PublicationWhole | Self::PublicationIncrement => RowParts::Values,
        }
    }

    /// Returns the use whose cut the snapshot is, if later snapshots may count from it.
    pub(crate) fn cut_of(self) -> Option<Use> {
        match self {
            Self::Whole | Self::Increment | Self::Values => None,
            Self::Base => Some(Use::Checkpoint),
            Self::LogWhole | Self::LogIncrement => Some(Use::Log),
            Self::PublicationWhole | Self::PublicationIncrement => Some(Use::Publication),
        }
    }

    /// Returns the use whose touched rows are read; nothing if every held row is.
    pub(crate) fn since(self) -> Option<Use> {
        match self {
            Self::Whole | Self::Base | Self::LogWhole | Self::Values | Self::PublicationWhole => {
                None
            }
            Self::Increment => Some(Use::Checkpoint),
            Self::LogIncrement => Some(Use::Log),
            Self::PublicationIncrement => Some(Use::Publication),
        }
    }
}
