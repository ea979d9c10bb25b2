//! Dynamic features: the rules by which their ids get and lose rows.

use trainyard_diagnostic::section;

use crate::DynamicConfig;

/// Most rows of a table: row indices have 32 bits.
const ROWS_MAX: u64 = u32::MAX as u64;
/// Default for the rows of a table.
const ROWS_DEFAULT: u32 = 1_000_000;
/// Most occurrences that an id may need for a row.
const ADMIT_AFTER_MAX: u64 = u32::MAX as u64;
/// Longest time that an id may go unused: the largest integer of TOML.
const EXPIRE_AFTER_MAX: u64 = i64::MAX as u64;

section! {
    /// Keys of `dynamic` features alone.
    #[derive(Debug)]
    pub(crate) struct DynamicKeys {
        /// maximum number of rows of the table, over all servers. A full table gives the row that has gone unused for
        /// longest to a new id
        rows_max: u32 = integer(1..=ROWS_MAX).or(ROWS_DEFAULT);
        /// number of the occurrence at which an id gets its row; the gradients of earlier occurrences are dropped and
        /// counted
        admit_after: u32 = integer(1..=ADMIT_AFTER_MAX).or(1);
        /// an id that does not occur for this many steps loses its row
        expire_after_steps: Option<u64> = integer(1..=EXPIRE_AFTER_MAX).optional("never");
        /// an id that does not occur for this many seconds of training loses its row
        expire_after_secs: Option<u64> = integer(1..=EXPIRE_AFTER_MAX).optional("never");
        /// ids without a row read and train one row that they share, as those beyond a vocabulary do; otherwise each reads
        /// the initial values that its own row would have
        shared_row: bool = flag().or(false);
    }
}

impl DynamicKeys {
    /// Returns the rules of the table.
    pub(super) fn table(&self) -> DynamicConfig {
        DynamicConfig {
            rows_max: self.rows_max,
            admit_after: self.admit_after,
            expire_after_steps: self.expire_after_steps,
            expire_after_secs: self.expire_after_secs,
            shared_row: self.shared_row,
        }
    }
}
