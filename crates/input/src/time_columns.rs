//! Times and durations of the files of an input, with the units in which they count. A file of another unit has other numbers for the same times.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use trainyard_storage::Storage;

use crate::record_reader::RecordReader;
use crate::{Clock, Error, Format, Options, Profile, TableReader};

/// Key of the line that says with trained values which times they were trained with.
const KEY: &str = "input.times=";

/// Most files of an input that say what it holds.
const FILES_MAX: usize = 4;

/// Most training files whose times a task compares when training starts: there may be thousands.
pub const COMPARED_AT_START_MAX: usize = 100;

/// Records that show whether a column has values.
const ROWS_FOR_VALUES: u64 = 100;

/// Columns of files, each with what its times count; absent = it holds other values. Only Parquet says what a column holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TimeColumns(BTreeMap<String, Option<Clock>>);

impl TimeColumns {
    /// Reads what one file of an input says of its columns. It reads no record.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(options: &Options, file: usize) -> Result<Self, Error> {
        let reader = RecordReader::open(options, &Storage::default(), None, file)?;
        let kinds = reader.kinds().into_iter();
        Ok(Self(
            kinds.map(|(name, kind)| (name, kind.clock())).collect(),
        ))
    }

    /// Reads what the first files of an input say of their columns, as far as they can be read; `None` if none of them can. The first
    /// file that says what a column holds decides: a job refuses files of several types, and there may be thousands.
    pub fn of_first_files(options: &Options) -> Option<Self> {
        let places = 0..options.files.len().min(FILES_MAX);
        let found = places.filter_map(|file| Self::read(options, file).ok());
        found.reduce(|Self(mut all), Self(other)| {
            for (name, clock) in other {
                all.entry(name).or_insert(clock);
            }
            Self(all)
        })
    }

    /// Leaves out the columns that are not wanted.
    pub fn retain(&mut self, is_wanted: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| is_wanted(name));
    }

    /// Returns what a column holds, if that is known: times, durations, or other values.
    pub fn get(&self, column: &str) -> Option<Option<Clock>> {
        self.0.get(column).copied()
    }

    /// Returns the columns.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<Clock>)> {
        self.0.iter().map(|(name, clock)| (name.as_str(), *clock))
    }

    /// Returns the line that is kept with trained values, among those of their job.
    pub fn line(&self) -> String {
        let columns = serde_json::to_string(self).expect("JSON can express names of columns");
        format!("{KEY}{columns}")
    }

    /// Returns the columns that a line among those of a job says; absent without one. Earlier releases wrote none.
    pub fn of_lines(lines: &[String]) -> Option<Self> {
        let mut columns = lines.iter().filter_map(|line| line.strip_prefix(KEY));
        columns.find_map(|columns| serde_json::from_str(columns).ok())
    }
}

/// Compares the times of the first `files_max` files of an input with each other, in the columns that are taken for plain numbers or names.
///
/// # Errors
/// [`Error::MixedTimes`]: two of them have times of two units in such a column, or times and other values.
pub fn compare_times(
    options: &Options,
    is_plain: impl Fn(&str) -> bool,
    files_max: usize,
) -> Result<(), Error> {
    if options.format != Format::Parquet {
        return Ok(());
    }
    let mut known: BTreeMap<String, (&Path, Option<Clock>)> = BTreeMap::new();
    for (place, file) in options.files.iter().enumerate().take(files_max) {
        // Files that are not there, or cannot be read, are an error of their reader.
        let Ok(mut own) = TimeColumns::read(options, place) else {
            continue;
        };
        own.retain(&is_plain);
        for (column, clock) in own.iter() {
            let Some((first, of_first)) = known.get(column).copied() else {
                known.insert(column.to_owned(), (file, clock));
                continue;
            };
            if of_first == clock || !has_values(options, file, column) {
                continue;
            }
            if !has_values(options, first, column) {
                known.insert(column.to_owned(), (file, clock));
                continue;
            }
            return Err(Error::MixedTimes {
                column: column.to_owned(),
                first: first.to_owned(),
                of_first: Clock::told(of_first),
                file: file.clone(),
                of_file: Clock::told(clock),
            });
        }
    }
    Ok(())
}

/// Returns whether one of the first records of a file has a value of a column: a program writes a column without any in the type that
/// it likes.
pub fn has_values(options: &Options, file: &Path, column: &str) -> bool {
    let files = vec![file.to_owned()];
    let mut reader = TableReader::new(
        files,
        options.format,
        options.compression,
        options.columns.clone(),
    )
    .in_style(options.text.clone());
    let mut profile = Profile::new(&options.missing).in_style(options.text.numbers.clone());
    let mut row = Vec::new();
    for _ in 0..ROWS_FOR_VALUES {
        match reader.read(&mut row) {
            Ok(true) => profile.see(reader.columns(), &row),
            Err(Error::Row(_)) => {}
            Ok(false) | Err(_) => break,
        }
    }
    let found = profile.column(column);
    found.is_some_and(|column| column.values > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ticks;

    #[test]
    fn a_line_says_the_columns_whatever_their_names_are() {
        let columns = TimeColumns(BTreeMap::from([
            ("at=\n".to_owned(), Some(Clock::Time(Ticks::Milliseconds))),
            ("day".to_owned(), Some(Clock::Duration(Ticks::Days))),
            ("n".to_owned(), None),
        ]));
        let lines = ["run.seed=1".to_owned(), columns.line()];
        assert!(!lines[1].contains('\n'), "{}", lines[1]);
        assert_eq!(TimeColumns::of_lines(&lines), Some(columns));
        assert_eq!(TimeColumns::of_lines(&lines[..1]), None);
    }
}
