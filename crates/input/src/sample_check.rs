//! Check of the first records of every file of an input. It reports each kind of fault once.

use trainyard_storage::Storage;

use crate::batch_reader::bad_row;
use crate::cells::clear;
use crate::parser::Parser;
use crate::record_format::Want;
use crate::{BadRow, Batch, Error, Options, Position, Schema};

/// Faults of the first records of an input.
#[derive(Debug, Default)]
pub struct Checked {
    /// Number of records that were checked.
    pub read: u64,
    /// Errors of files, each with the number of files that have it.
    pub errors: Vec<(Error, usize)>,
    /// Bad records, one entry for each kind.
    pub bad: Vec<Alike>,
}

/// Records with the same fault: the same column, and the same reason apart from the values in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alike {
    /// The first of these records.
    pub first: BadRow,
    /// Number of these records.
    pub count: u64,
}

impl Checked {
    fn fail(&mut self, error: Error) {
        let like = |known: &Error| match (known, &error) {
            (Error::Column { columns: one, .. }, Error::Column { columns: other, .. }) => {
                one == other
            }
            (known, error) => known == error,
        };
        match self.errors.iter_mut().find(|(known, _)| like(known)) {
            Some((_, files)) => *files += 1,
            None => self.errors.push((error, 1)),
        }
    }

    fn add(&mut self, row: BadRow) {
        let kind = kind(&row.reason);
        let like = |known: &&mut Alike| {
            known.first.column == row.column && self::kind(&known.first.reason) == kind
        };
        match self.bad.iter_mut().find(like) {
            Some(known) => known.count += 1,
            None => self.bad.push(Alike {
                first: row,
                count: 1,
            }),
        }
    }
}

/// Returns a reason without its values: quoted text and numbers are removed.
fn kind(reason: &str) -> String {
    let unquoted: String = reason.split('"').step_by(2).collect();
    unquoted
        .chars()
        .filter(|character| !character.is_ascii_digit())
        .collect()
}

/// Checks that the first file has the columns of the schema. Files that name no columns pass.
///
/// # Errors
/// Columns are missing, or the file cannot be read.
pub fn check_columns(options: &Options, schema: &Schema) -> Result<(), Error> {
    if options.files.is_empty() {
        return Ok(());
    }
    Parser::open(options, &Storage::default(), schema, 0, None).map(|_| ())
}

/// Checks the first `rows` records of every file. Also reports wanted TFRecord features that none of these records
/// holds.
pub fn check(options: &Options, schema: &Schema, rows: usize) -> Checked {
    let mut checked = Checked::default();
    let mut good = 0;
    let mut examples = None;
    let storage = Storage::default();
    for (file, path) in options.files.iter().enumerate() {
        let (mut reader, mut parser) =
            match Parser::open(options, &storage, schema, file, examples.take()) {
                Ok(opened) => opened,
                Err(error) => {
                    checked.fail(error);
                    continue;
                }
            };
        let mut batch = Batch::default();
        let mut read = 0;
        while read < rows {
            match reader.next(path, Want::Content) {
                Ok(true) => {
                    read += 1;
                    let record = reader.record(0);
                    clear(&mut batch, schema, 1, Position::default());
                    match parser.append(record, schema, &mut batch) {
                        Ok(()) => good += 1,
                        Err(bad) => checked.add(bad_row(options, schema, record.place, bad)),
                    }
                }
                Ok(false) => break,
                Err(error) => {
                    checked.fail(error);
                    break;
                }
            }
        }
        if read == 0 {
            checked.fail(Error::Empty {
                files: vec![path.clone()],
            });
        }
        checked.read += read as u64;
        examples = Some(parser).filter(Parser::serves_every_file);
    }
    if let Some(parser) = &examples
        && let Some(file) = options.files.last()
        && good > 0
    {
        let columns: Vec<String> = parser.unseen().into_iter().map(str::to_owned).collect();
        if !columns.is_empty() {
            checked.fail(Error::Column {
                columns,
                file: file.clone(),
                known: parser.names(),
            });
        }
    }
    checked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FieldKind, Format};

    fn checked(text: &str, columns: Option<&[&str]>) -> Checked {
        let folder = tempfile::tempdir().expect("a folder");
        let files: Vec<_> = ["one.csv", "other.csv"]
            .map(|name| folder.path().join(name))
            .into();
        files
            .iter()
            .for_each(|file| std::fs::write(file, text).expect("written"));
        let columns = columns.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        let options = Options {
            columns,
            ..Options::new(files, Format::Csv)
        };
        let mut schema = Schema::default();
        for name in ["age", "size", "height"] {
            schema.want(
                name,
                FieldKind::Float {
                    width: 1,
                    separator: None,
                    default: None,
                },
            );
        }
        check(&options, &schema, 100)
    }

    #[test]
    fn records_that_are_bad_alike_are_told_once_with_their_number() {
        let found = checked("age,size,height\n1,2,3\nx1,2,3\nx2,2,y\nz,2,3\n", None);
        assert!(found.errors.is_empty(), "{:?}", found.errors);
        assert_eq!(found.read, 8);
        let [alike] = &*found.bad else {
            panic!("{:?}", found.bad)
        };
        assert_eq!(
            (alike.count, alike.first.line, alike.first.column.as_deref()),
            (6, 3, Some("age"))
        );
    }

    #[test]
    fn all_columns_that_are_missing_are_told_at_once_and_once_for_all_files() {
        let found = checked("id,size\n1,2\n", None);
        let [(Error::Column { columns, .. }, 2)] = &*found.errors else {
            panic!("{:?}", found.errors)
        };
        assert_eq!(columns, &["age", "height"]);
    }

    #[test]
    fn a_header_line_below_columns_of_the_job_is_told_as_one() {
        let found = checked("age,size,height\n1,2,3\n", Some(&["age", "size", "height"]));
        let [alike] = &*found.bad else {
            panic!("{:?}", found.bad)
        };
        let reason = &alike.first.reason;
        assert!(reason.contains("names of the columns"), "{reason}");
        assert!(reason.contains("input.columns"), "{reason}");
        let other = checked("Age,size,height\n1,2,3\n", Some(&["age", "size", "height"]));
        let reason = &other.bad[0].first.reason;
        assert_eq!(other.bad[0].first.cause(), None, "{reason}");
        let row = checked("1,2,3\nage,2,3\n", Some(&["age", "size", "height"]))
            .bad
            .remove(0);
        assert_eq!(row.first.cause(), None, "a bad row further down is one");
    }
}
