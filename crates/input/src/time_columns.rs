//! What the columns of an input mean: times and durations with the units in which they count, booleans and texts. A file of another unit has
//! other numbers for the same times, and a file of booleans other ids than one of their texts.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use trainyard_storage::Storage;

use crate::record_reader::RecordReader;
use crate::{Error, Format, Meaning, Options, Profile, TableReader};

/// Key of the line that says with trained values which times they were trained with.
const KEY: &str = "input.times=";
/// Key of the line that says the format of the training files.
const FORMAT_KEY: &str = "input.format=";

/// Most files of an input that say what it holds.
const FILES_MAX: usize = 4;

/// Most training files whose times a task compares when training starts: there may be thousands.
pub const COMPARED_AT_START_MAX: usize = 100;

/// Records that show whether a column has values.
const ROWS_FOR_VALUES: u64 = 100;

/// Columns of files, each with what its values mean; absent = plain numbers, or in what earlier releases have noted, texts and booleans as
/// well. Only Parquet says what a column holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TimeColumns(BTreeMap<String, Option<Meaning>>);

impl TimeColumns {
    /// Reads what one file of an input says of its columns. It reads no record.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(options: &Options, file: usize) -> Result<Self, Error> {
        let reader = RecordReader::open(options, &Storage::default(), None, file)?;
        let kinds = reader.kinds().into_iter();
        Ok(Self(
            kinds.map(|(name, kind)| (name, kind.meaning())).collect(),
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

    /// Returns what the columns of training meant, if the lines of its job name a format without types, which holds neither times nor
    /// booleans. Each column comes with whether the job takes its values for texts.
    pub fn of_untyped(
        lines: &[String],
        columns: impl IntoIterator<Item = (String, bool)>,
    ) -> Option<Self> {
        let mut formats = lines
            .iter()
            .filter_map(|line| line.strip_prefix(FORMAT_KEY));
        let name: String = serde_json::from_str(formats.next()?).ok()?;
        let mut known = Format::NAMES.into_iter();
        let (_, format) = known.find(|(known, _)| *known == name)?;
        let meaning = match format {
            Format::Parquet => return None,
            Format::Csv | Format::Tsv => Some(Meaning::Text),
            // Booleans of TFRecord are the whole numbers 0 and 1.
            Format::TfRecord | Format::LibSvm(_) => None,
        };
        let columns = columns.into_iter();
        let columns = columns.map(|(name, is_text)| (name, meaning.filter(|_| is_text)));
        Some(Self(columns.collect()))
    }

    /// Leaves out the columns that are not wanted.
    pub fn retain(&mut self, is_wanted: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| is_wanted(name));
    }

    /// Returns what a column holds, if that is known.
    pub fn get(&self, column: &str) -> Option<Option<Meaning>> {
        self.0.get(column).copied()
    }

    /// Returns the columns.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<Meaning>)> {
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
/// [`Error::MixedTimes`]: two of them have times of two units in such a column, times and other values, or booleans and texts.
pub fn compare_times(
    options: &Options,
    is_plain: impl Fn(&str) -> bool,
    files_max: usize,
) -> Result<(), Error> {
    if options.format != Format::Parquet {
        return Ok(());
    }
    let mut known: BTreeMap<String, (&Path, Option<Meaning>)> = BTreeMap::new();
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
            if !Meaning::differ(of_first, clock) || !has_values(options, file, column) {
                continue;
            }
            if !has_values(options, first, column) {
                known.insert(column.to_owned(), (file, clock));
                continue;
            }
            return Err(Error::MixedTimes {
                column: column.to_owned(),
                first: first.to_owned(),
                of_first: Meaning::told(of_first),
                file: file.clone(),
                of_file: Meaning::told(clock),
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
    fn booleans_differ_from_texts_and_times_from_all_that_are_no_such_times() {
        let times = [
            Meaning::Time(Ticks::Days),
            Meaning::TimeOfDay(Ticks::Microseconds),
            Meaning::Duration(Ticks::Days),
        ];
        let others = [None, Some(Meaning::Boolean), Some(Meaning::Text)];
        let all = || times.map(Some).into_iter().chain(others);
        for (one, other) in all().flat_map(|one| all().map(move |other| (one, other))) {
            let is_time = |meaning: Option<Meaning>| meaning.is_some_and(Meaning::is_of_time);
            let expected = match (is_time(one), is_time(other)) {
                (false, false) => one != other && one.is_some() && other.is_some(),
                _ => one != other,
            };
            assert_eq!(Meaning::differ(one, other), expected, "{one:?} {other:?}");
        }
    }

    #[test]
    fn columns_of_a_format_without_types_are_texts_where_the_job_takes_them_for_texts() {
        let of = |format: &str| {
            let columns = [("id".to_owned(), true), ("n".to_owned(), false)];
            let lines = [
                "run.seed=1".to_owned(),
                format!("input.format=\"{format}\""),
            ];
            TimeColumns::of_untyped(&lines, columns)
        };
        for (format, expected) in [
            ("csv", Some(Meaning::Text)),
            ("tsv", Some(Meaning::Text)),
            ("tfrecord", None),
            ("libsvm", None),
        ] {
            let found = of(format).expect("a format without types");
            assert_eq!(
                (found.get("id"), found.get("n")),
                (Some(expected), Some(None)),
                "{format}"
            );
            assert_eq!(found.get("other"), None);
        }
        assert_eq!(of("parquet"), None);
        assert_eq!(TimeColumns::of_untyped(&[], []), None);
    }

    #[test]
    fn a_line_says_the_columns_whatever_their_names_are() {
        let columns = TimeColumns(BTreeMap::from([
            ("at=\n".to_owned(), Some(Meaning::Time(Ticks::Milliseconds))),
            ("day".to_owned(), Some(Meaning::Duration(Ticks::Days))),
            ("n".to_owned(), None),
            ("flag".to_owned(), Some(Meaning::Boolean)),
            ("name".to_owned(), Some(Meaning::Text)),
        ]));
        let lines = ["run.seed=1".to_owned(), columns.line()];
        assert!(!lines[1].contains('\n'), "{}", lines[1]);
        assert_eq!(TimeColumns::of_lines(&lines), Some(columns));
        assert_eq!(TimeColumns::of_lines(&lines[..1]), None);
    }
}
