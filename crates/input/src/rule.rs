//! Rules for the values of a record, beyond their types: an id in its range, a label that the head knows.

use std::fmt::Debug;
use std::sync::Arc;

use crate::Batch;

/// A rule for a record. Feature columns and heads state with it which records they can use.
pub trait RowRule: Debug + Send + Sync {
    /// Checks row `row` of a batch. Returns the reason why the row cannot be used, with the value.
    fn check(&self, batch: &Batch, row: usize) -> Result<(), String>;

    /// Returns the number of values that are made of row `row` beyond those that it has.
    fn values_made(&self, _batch: &Batch, _row: usize) -> usize {
        0
    }
}

/// A rule with the field of the schema whose column messages name.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    field: usize,
    rule: Arc<dyn RowRule>,
}

impl Rule {
    pub(crate) fn new(field: usize, rule: impl RowRule + 'static) -> Self {
        let rule = Arc::new(rule);
        Self { field, rule }
    }

    pub(crate) fn check(&self, batch: &Batch, row: usize) -> Result<(), (usize, String)> {
        self.rule
            .check(batch, row)
            .map_err(|reason| (self.field, reason))
    }

    pub(crate) fn values_made(&self, batch: &Batch, row: usize) -> usize {
        self.rule.values_made(batch, row)
    }
}
