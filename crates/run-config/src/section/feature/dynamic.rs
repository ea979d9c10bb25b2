//! Dynamic features: the rules by which their ids get and lose rows.

use trainyard_diagnostic::Section;

use crate::{DynamicConfig, FeatureKind};

/// Most rows of a table: row indices have 32 bits.
const ROWS_MAX: u64 = u32::MAX as u64;
/// Default for the rows of a table.
const ROWS_DEFAULT: u64 = 1_000_000;
/// Most occurrences that an id may need for a row.
const ADMIT_AFTER_MAX: u64 = u32::MAX as u64;
/// Longest time that an id may go unused: the largest integer of TOML.
const EXPIRE_AFTER_MAX: u64 = i64::MAX as u64;

/// Settings of a dynamic table, without its column.
#[derive(Clone, Copy)]
pub(super) struct Said {
    table: DynamicConfig,
    integers: bool,
}

impl Said {
    pub(super) fn of(self, column: String) -> FeatureKind {
        let Self { table, integers } = self;
        FeatureKind::Dynamic {
            column,
            integers,
            table,
        }
    }
}

/// Reads every key, so that every mistake is reported. Returns `None` if there was one.
pub(super) fn read(section: &Section<'_>) -> Option<Said> {
    let before = section.problems().len();
    let rows_max = section
        .integer("rows_max", 1..=ROWS_MAX)
        .unwrap_or(ROWS_DEFAULT);
    let admit_after = section
        .integer("admit_after", 1..=ADMIT_AFTER_MAX)
        .unwrap_or(1);
    let table = DynamicConfig {
        rows_max: rows_max as u32,
        admit_after: admit_after as u32,
        expire_after_steps: section.integer("expire_after_steps", 1..=EXPIRE_AFTER_MAX),
        expire_after_secs: section.integer("expire_after_secs", 1..=EXPIRE_AFTER_MAX),
    };
    let integers = section.flag("integers").unwrap_or(false);
    (section.problems().len() == before).then_some(Said { table, integers })
}
