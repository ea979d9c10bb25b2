//! Dead letters: bad rows are counted once each, written to a file, and bounded in number.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;

use tracing::warn;

use crate::cells::shown;
use crate::output::Unwritten;
use crate::{BadRow, Error, RecordUnit};

/// Largest size of the dead-letter file, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Bad rows that the final message shows.
const SHOWN_MAX: usize = 5;

/// The bad rows of one input.
#[derive(Debug)]
pub(crate) struct DeadLetter {
    path: Option<PathBuf>,
    file: Option<(File, u64)>,
    seen: HashSet<(PathBuf, u64)>,
    first: Vec<BadRow>,
    most: u64,
}

impl DeadLetter {
    pub(crate) fn new(path: Option<PathBuf>, most: u64) -> Self {
        Self {
            path,
            file: None,
            seen: HashSet::new(),
            first: Vec::new(),
            most,
        }
    }

    /// Counts a bad row once, even if it is read again. Returns whether the row is new.
    pub(crate) fn add(&mut self, row: BadRow, bytes: &[u8], rows_read: u64) -> Result<bool, Error> {
        if !self.seen.insert((row.file.clone(), row.offset)) {
            return Ok(false);
        }
        self.write(&row, bytes)?;
        if let Some(message) = left_out(&row, self.seen.len() as u64, rows_read) {
            match &self.path {
                Some(path) => warn!(dead_letter = %path.display(), "{message}"),
                None => warn!("{message}"),
            }
        }
        if self.first.len() < SHOWN_MAX {
            self.first.push(row);
        }
        let bad = self.seen.len() as u64;
        if bad > self.most {
            return Err(Error::Rows {
                bad,
                read: rows_read,
                most: self.most,
                first: self.first.clone(),
            });
        }
        Ok(true)
    }

    fn write(&mut self, row: &BadRow, bytes: &[u8]) -> Result<(), Error> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let failed = |error: std::io::Error| Unwritten::from(error).of(path);
        if self.file.is_none() {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder).map_err(failed)?;
            }
            let file = OpenOptions::new()
                .create(true)
                .append(true)
                .open(path)
                .map_err(failed)?;
            let length = file.metadata().map_err(failed)?.len();
            self.file = Some((file, length));
        }
        let (number, content) = match row.unit {
            // The whole line, so that a user can fix it and read it again.
            RecordUnit::FieldLine | RecordUnit::Line => ("line", String::from_utf8_lossy(bytes)),
            RecordUnit::Record => ("record", shown(bytes).into()),
            RecordUnit::Row => ("row", shown(bytes).into()),
        };
        let line = serde_json::json!({
            "file": row.file, number: row.line, "offset": row.offset, "column": row.column, "reason": row.reason,
            "content": content,
        });
        let Some((file, length)) = &mut self.file else {
            return Ok(());
        };
        let text = format!("{line}\n");
        if *length + text.len() as u64 <= FILE_BYTES_MAX {
            file.write_all(text.as_bytes()).map_err(failed)?;
            *length += text.len() as u64;
        }
        Ok(())
    }
}

/// Returns what to say of the bad row with this number, counted from 1, of the rows read so far: of the first, tenth, hundredth
/// and so on. A model, or a metric, of the other rows would look like one of all.
fn left_out(row: &BadRow, bad: u64, rows_read: u64) -> Option<String> {
    let is_told = bad == 10_u64.pow(bad.ilog10());
    is_told.then(|| {
        format!("{bad} of {rows_read} records are bad and left out, as input.bad_rows is \"skip\"; this one is {row}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bad_row_is_told_and_then_one_of_each_power_of_ten() {
        let row = BadRow {
            file: "t.csv".into(),
            unit: RecordUnit::Line,
            line: 61,
            offset: 300,
            column: Some("y".into()),
            reason: "\"a\" is not a number".into(),
        };
        let told = (1..=1000).filter(|bad| left_out(&row, *bad, 5000).is_some());
        assert_eq!(told.collect::<Vec<_>>(), [1, 10, 100, 1000]);
        let message = left_out(&row, 10, 60).expect("it is told");
        let expected = "10 of 60 records are bad and left out, as input.bad_rows is \"skip\"; this one is t.csv:61: column `y`:";
        assert!(message.starts_with(expected), "{message}");
    }
}
