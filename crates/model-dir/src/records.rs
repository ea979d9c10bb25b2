//! Numbered records in a bucket, for values that change: objects, of which the one with the highest number is valid.
//! Each number has one writer, so a deposed chief cannot replace a record of its successor.

use std::time::SystemTime;

use crate::Error;
use crate::bucket::Bucket;

/// The valid record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Latest {
    pub(crate) number: u64,
    /// Time of writing, by the clock of the store.
    pub(crate) written: SystemTime,
}

/// Returns the name of a record. Names sort like their numbers.
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

/// Returns the valid record, if there is one.
pub(crate) fn latest(bucket: &Bucket, folder: &str) -> Result<Option<Latest>, Error> {
    Ok(numbers(bucket, folder)?
        .into_iter()
        .max_by_key(|found| found.number))
}

/// Writes a record, and removes the records of lower numbers.
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
