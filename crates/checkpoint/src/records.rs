//! Records that change, in a bucket: objects with numbers, of which the highest counts. Who writes a number is the only one
//! to write it, so that whoever was deposed replaces nothing of its successor's.

use std::time::SystemTime;

use crate::Error;
use crate::bucket::Bucket;

/// The record that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Latest {
    pub(crate) number: u64,
    /// When it was written, by the clock of the store.
    pub(crate) written: SystemTime,
}

/// Returns the name of a record: names sort as their numbers do.
pub(crate) fn name(folder: &str, number: u64) -> String {
    format!("{folder}/{number:020}")
}

fn numbers(bucket: &Bucket, folder: &str) -> Result<Vec<Latest>, Error> {
    let entries = bucket.entries(folder)?.into_iter();
    let found = entries.filter_map(|entry| {
        Some(Latest {
            number: entry.name.parse().ok()?,
            written: entry.modified?,
        })
    });
    Ok(found.collect())
}

/// Returns the record that counts, if there is one.
pub(crate) fn latest(bucket: &Bucket, folder: &str) -> Result<Option<Latest>, Error> {
    Ok(numbers(bucket, folder)?
        .into_iter()
        .max_by_key(|found| found.number))
}

/// Writes a record, and removes those of lower numbers.
pub(crate) fn write(
    bucket: &Bucket,
    folder: &str,
    number: u64,
    text: Vec<u8>,
) -> Result<(), Error> {
    bucket.put(&name(folder, number), text)?;
    for older in numbers(bucket, folder)?
        .into_iter()
        .filter(|found| found.number < number)
    {
        bucket.remove(&name(folder, older.number))?;
    }
    Ok(())
}
