//! A sample of the records of an input, profiled by column: the first records of each file, or all records.

use std::collections::BTreeMap;
use std::path::PathBuf;

use trainyard_diagnostic::Diagnostic;
use trainyard_input::{
    Absent, ColumnProfile, Error, Meaning, Options, Profile, TableReader, TypeKind,
};

/// Size of the sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// This many records of each file, the first ones.
    OfEachFile(u64),
    /// About this many records of all files together, the first ones of each file.
    OfAll(u64),
    /// Every record.
    Whole,
}

/// Fewest records of a file that tell a column without values from one of few values.
const ROWS_OF_FILE_MIN: u64 = 50;

/// Records of a file, and of each column those with a value.
struct FileCounts {
    rows: u64,
    present: Vec<u64>,
}

/// Reads records, and returns the profile of their columns. Bad records are counted.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn profile(options: &Options, extent: Extent) -> Result<Profile, Diagnostic> {
    let files = options.files.len().max(1) as u64;
    let most = match extent {
        Extent::OfEachFile(rows) => rows,
        Extent::OfAll(rows) => rows.div_ceil(files),
        Extent::Whole => u64::MAX,
    };
    let mut profile = Profile::new(&options.missing).in_style(options.text.numbers.clone());
    let mut counts = Vec::with_capacity(options.files.len());
    let mut clocks: BTreeMap<String, (&PathBuf, Option<TypeKind>)> = BTreeMap::new();
    let mut mixed = BTreeMap::new();
    let mut is_whole = true;
    for file in &options.files {
        let before = counted(&profile);
        let reader = TableReader::new(
            vec![file.clone()],
            options.format,
            options.compression,
            options.columns.clone(),
        )
        .in_style(options.text.clone())
        .rounding_decimals();
        let mut reader = if options.trim {
            reader.trimmed()
        } else {
            reader
        };
        let ends = read_file(&mut reader, most, &mut profile)?;
        is_whole &= ends;
        for column in reader.unreadable() {
            if !profile.unreadable.contains(column) {
                profile.unreadable.push(column.clone());
            }
        }
        let mut here = counted(&profile);
        here.rows -= before.rows;
        let pairs = here.present.iter_mut().zip(&before.present);
        pairs.for_each(|(here, before)| *here -= before);
        let names = profile.columns.iter().map(|column| &column.name);
        for (name, _) in names.zip(&here.present).filter(|(_, here)| **here > 0) {
            let kind = reader.kinds().get(name).copied();
            let clock = kind.filter(|kind| kind.unit().is_some());
            if let Some(clock) = clock {
                profile.times.entry(name.clone()).or_insert(clock);
            }
            let (first, known) = clocks.entry(name.clone()).or_insert((file, clock));
            if *known != clock {
                mixed.insert(
                    name.clone(),
                    mixed_told(name, (first, *known), (file, clock)),
                );
            }
        }
        counts.push(here);
    }
    profile.is_whole = is_whole;
    profile.mixed_times = mixed.into_values().collect();
    profile.absent = absent(&profile, &options.files, &counts);
    Ok(profile)
}

fn counted(profile: &Profile) -> FileCounts {
    FileCounts {
        rows: profile.rows,
        present: profile
            .columns
            .iter()
            .map(|column| column.present)
            .collect(),
    }
}

/// Returns the first file in which a column has no value that most records of the other files have, for each column.
fn absent(profile: &Profile, files: &[PathBuf], counts: &[FileCounts]) -> Vec<Absent> {
    let of_column = |(place, column): (usize, &ColumnProfile)| {
        let lacks = |(_, here): &(&PathBuf, &FileCounts)| {
            let others = profile.rows - here.rows;
            here.rows >= ROWS_OF_FILE_MIN
                && here.present.get(place).is_none_or(|present| *present == 0)
                && 2 * column.present > others
        };
        let (file, here) = files.iter().zip(counts).find(lacks)?;
        Some(Absent {
            column: column.name.clone(),
            file: file.clone(),
            rows: here.rows,
        })
    };
    profile
        .columns
        .iter()
        .enumerate()
        .filter_map(of_column)
        .collect()
}

/// Says that a column holds other times or durations in another file.
fn mixed_told(
    name: &str,
    first: (&PathBuf, Option<TypeKind>),
    other: (&PathBuf, Option<TypeKind>),
) -> String {
    let what = |kind: Option<TypeKind>| Meaning::told(kind.and_then(TypeKind::meaning));
    format!(
        "the column `{name}` holds {} in {} and {} in {}",
        what(first.1),
        first.0.display(),
        what(other.1),
        other.0.display()
    )
}

/// Reads the records of a file. Returns whether the file has no more.
fn read_file(
    reader: &mut TableReader,
    most: u64,
    profile: &mut Profile,
) -> Result<bool, Diagnostic> {
    let mut row = Vec::new();
    for _ in 0..most {
        match reader.read(&mut row) {
            Ok(true) => profile.see(reader.columns(), &row),
            Ok(false) => return Ok(true),
            Err(Error::Row(bad)) => profile.see_bad(*bad),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use trainyard_input::Format;

    use super::*;

    #[test]
    fn records_that_cannot_be_read_and_columns_without_values_in_one_file_are_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: String| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("written");
            path
        };
        let rows = |x: &str| {
            (0..60)
                .map(|row| format!("{x},{row}\n"))
                .collect::<String>()
        };
        let files = vec![
            write("a.csv", format!("x,y\n{}", rows("1"))),
            write("b.csv", format!("x,y\n{}1,2,3\n1,2,3,4\n", rows(""))),
            write("c.csv", "x,y\n,1\n".to_owned()),
        ];
        let options = Options::new(files.clone(), Format::Csv);
        let found = profile(&options, Extent::Whole).expect("read");
        assert_eq!((found.rows, found.bad_rows), (121, 2));
        let first = found.first_bad.expect("the first");
        assert_eq!((first.file.as_path(), first.line), (files[1].as_path(), 62));
        let absent = Absent {
            column: "x".to_owned(),
            file: files[1].clone(),
            rows: 60,
        };
        assert_eq!(found.absent, [absent]);
    }
}
