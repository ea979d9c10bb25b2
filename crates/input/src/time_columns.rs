//! Units in which the files of an input count the times of their columns. A file of another unit has other numbers for the same times.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use trainyard_storage::Storage;

use crate::record_reader::RecordReader;
use crate::row::Ticks;
use crate::{Error, Options};

/// Key of the line that says with trained values which times they were trained with.
const KEY: &str = "input.times=";

/// Most files of an input that say what it holds.
const FILES_MAX: usize = 4;

/// Columns of files, each with the unit of its times; absent = it holds other values. Only Parquet says what a column holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TimeColumns(BTreeMap<String, Option<Ticks>>);

impl TimeColumns {
    /// Reads what one file of an input says of its columns. It reads no record.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(options: &Options, file: usize) -> Result<Self, Error> {
        let reader = RecordReader::open(options, &Storage::default(), None, file)?;
        let kinds = reader.kinds().into_iter();
        Ok(Self(
            kinds.map(|(name, kind)| (name, kind.unit())).collect(),
        ))
    }

    /// Reads what the first files of an input say of their columns, as far as they can be read; `None` if none of them can. The first
    /// file that says what a column holds decides: a job refuses files of several types, and there may be thousands.
    pub fn of_first_files(options: &Options) -> Option<Self> {
        let places = 0..options.files.len().min(FILES_MAX);
        let found = places.filter_map(|file| Self::read(options, file).ok());
        found.reduce(|Self(mut all), Self(other)| {
            for (name, unit) in other {
                all.entry(name).or_insert(unit);
            }
            Self(all)
        })
    }

    /// Leaves out the columns that are not wanted.
    pub fn retain(&mut self, is_wanted: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| is_wanted(name));
    }

    /// Returns what a column holds, if that is known: times with a unit, or other values.
    pub fn get(&self, column: &str) -> Option<Option<Ticks>> {
        self.0.get(column).copied()
    }

    /// Returns the columns.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<Ticks>)> {
        self.0.iter().map(|(name, unit)| (name.as_str(), *unit))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_the_columns_whatever_their_names_are() {
        let columns = TimeColumns(BTreeMap::from([
            ("at=\n".to_owned(), Some(Ticks::Milliseconds)),
            ("day".to_owned(), Some(Ticks::Days)),
            ("n".to_owned(), None),
        ]));
        let lines = ["run.seed=1".to_owned(), columns.line()];
        assert!(!lines[1].contains('\n'), "{}", lines[1]);
        assert_eq!(TimeColumns::of_lines(&lines), Some(columns));
        assert_eq!(TimeColumns::of_lines(&lines[..1]), None);
    }
}
