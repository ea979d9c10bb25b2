//! From a record to the wanted columns.

use crate::cells::{Bad, truncate};
use crate::example::ExampleParser;
use crate::record::Record;
use crate::text::TextParser;
use crate::{Batch, Schema};

/// Parses the records of one file.
#[derive(Debug)]
pub(crate) enum Parser {
    Text(TextParser),
    Example(ExampleParser),
}

impl Parser {
    /// Appends a record to the batch: all wanted columns, or none.
    pub(crate) fn append(
        &mut self,
        record: Record<'_>,
        schema: &Schema,
        batch: &mut Batch,
    ) -> Result<(), Bad> {
        if let Some(fault) = record.fault {
            return Err((None, fault.to_owned()));
        }
        let outcome = match self {
            Self::Text(parser) => parser.append(record.bytes, batch),
            Self::Example(parser) => parser.append(record.bytes, batch),
        };
        match outcome {
            Ok(()) => batch.rows += 1,
            Err(_) => {
                for (column, field) in batch.columns.iter_mut().zip(&schema.fields) {
                    truncate(column, &field.kind, batch.rows);
                }
            }
        }
        outcome
    }
}
