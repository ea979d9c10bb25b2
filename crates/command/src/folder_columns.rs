//! Columns that the folders of files name, as Hive and Spark write them: `date=2026-01-31/part-0.parquet`. Their values are in no file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_input::Profile;

/// Warns of the columns that the folders of all files name and that no file has: nothing reads them.
pub(crate) fn warn_of_folder_columns(files: &[PathBuf], found: &Profile) -> Vec<Diagnostic> {
    let is_column = |name: &str| found.column(name).is_some();
    let unread = folder_columns(files).into_iter();
    unread
        .filter(|column| !is_column(&column.name))
        .map(|FolderColumn { name, values }| {
            let first = values.iter().next().map_or("", String::as_str);
            let count = match values.len() {
                1 => "the same in all files".to_owned(),
                count => format!("one of {count} values"),
            };
            let message = format!(
                "the folders of the files name the column `{name}`, as `{name}={first}`, {count}: it is in no file, and nothing reads it"
            );
            let help = format!(
                "where it says something, write it into the files: in Python, `pyarrow.dataset.dataset(FOLDER, partitioning=\"hive\")` reads `{name}` \
                 as a column"
            );
            Diagnostic::warning(Code::E4005, message).help(help)
        })
        .collect()
}

/// A column that folders name.
#[derive(Debug, PartialEq, Eq)]
struct FolderColumn {
    name: String,
    values: BTreeSet<String>,
}

/// Returns the columns that a folder of each file names, outermost first.
fn folder_columns(files: &[PathBuf]) -> Vec<FolderColumn> {
    let mut pairs = files.iter().map(|file| pairs(file));
    let first = pairs.next().unwrap_or_default();
    let mut columns: Vec<FolderColumn> = first
        .into_iter()
        .map(|(name, value)| FolderColumn {
            name,
            values: BTreeSet::from([value]),
        })
        .collect();
    for pairs in pairs {
        columns.retain_mut(|column| {
            let mut pairs = pairs.iter();
            let own = pairs.find(|(name, _)| *name == column.name);
            own.is_some_and(|(_, value)| {
                column.values.insert(value.clone());
                true
            })
        });
    }
    columns
}

/// Returns the names and values in the folders of a file.
fn pairs(file: &Path) -> Vec<(String, String)> {
    let folders = file.parent().into_iter().flat_map(Path::components);
    let pairs = folders.filter_map(|folder| {
        let (name, value) = folder.as_os_str().to_str()?.split_once('=')?;
        let is_pair = !name.is_empty() && !value.is_empty();
        is_pair.then(|| (name.to_owned(), value.to_owned()))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use trainyard_input::{Cell, Value};

    use super::*;

    fn told(files: &[&str]) -> Vec<String> {
        let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
        let mut found = Profile::default();
        let cell = Cell {
            values: vec![Value::Int(1)],
            list: false,
        };
        found.see(&["hour".to_owned()], &[cell]);
        let warnings = warn_of_folder_columns(&files, &found).into_iter();
        warnings.map(|warning| warning.message).collect()
    }

    #[test]
    fn columns_that_the_folders_of_all_files_name_and_no_file_has_are_told() {
        let partitions = [
            "t/date=2026-01-01/country=de/hour=3/a.parquet",
            "t/date=2026-01-02/country=de/hour=4/a.parquet",
        ];
        let told_of = told(&partitions);
        assert_eq!(told_of.len(), 2, "{told_of:?}");
        for (told, parts) in told_of.iter().zip([
            ["`date`", "`date=2026-01-01`", "one of 2 values"],
            ["`country`", "`country=de`", "the same in all files"],
        ]) {
            assert!(parts.iter().all(|part| told.contains(part)), "{told}");
        }
        for files in [
            &["a=1/x.csv", "b=2/x.csv"][..],
            &["x.csv", "date=1/x.csv"],
            &["t/a=1.csv"],
            &["=1/x.csv", "=2/x.csv"],
            &["a=/x.csv"],
            &["/tmp/x.csv"],
        ] {
            assert_eq!(told(files), Vec::<String>::new(), "{files:?}");
        }
    }
}
