//! A sample of the records of an input, profiled by column: the first records of each file, or all records.

use trainyard_diagnostic::Diagnostic;
use trainyard_input::{Error, Options, Profile, TableReader};

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

/// Reads records, and returns the profile of their columns. Bad records are left out.
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
    for file in &options.files {
        let reader = TableReader::new(
            vec![file.clone()],
            options.format,
            options.compression,
            options.columns.clone(),
        )
        .in_style(options.text.clone());
        let mut reader = if options.trim {
            reader.trimmed()
        } else {
            reader
        };
        read_file(&mut reader, most, &mut profile)?;
        for column in reader.unreadable() {
            if !profile.unreadable.contains(column) {
                profile.unreadable.push(column.clone());
            }
        }
    }
    Ok(profile)
}

fn read_file(reader: &mut TableReader, most: u64, profile: &mut Profile) -> Result<(), Diagnostic> {
    let mut row = Vec::new();
    for _ in 0..most {
        match reader.read(&mut row) {
            Ok(true) => profile.see(reader.columns(), &row),
            Ok(false) => break,
            Err(Error::Row(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
