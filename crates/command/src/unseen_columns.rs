//! Columns that no record of TFRecord holds. A record names what it holds, and lacks what is missing: so does each record where a job
//! misspells a name.

use trainyard_diagnostic::{Code, Diagnostic, suggest};
use trainyard_input::{Error, Format, Options, Schema, check};

/// Most files that are sampled.
const FILES_MAX: usize = 4;
/// Records that are sampled of each file.
const RECORDS_OF_FILE: usize = 250;

/// Returns a warning of the columns that none of the first records of an input holds. Records that cannot be read are errors of their
/// reader.
pub(crate) fn unseen_columns(options: &Options, schema: &Schema) -> Option<Diagnostic> {
    if options.format != Format::TfRecord {
        return None;
    }
    let mut options = options.clone();
    options.files.truncate(FILES_MAX);
    let checked = check(&options, schema, RECORDS_OF_FILE);
    let (columns, known) = checked.errors.iter().find_map(|(error, _)| match error {
        Error::Column { columns, known, .. } => Some((columns, known)),
        _ => None,
    })?;
    let names: Vec<String> = columns.iter().map(|name| format!("`{name}`")).collect();
    let message = format!(
        "none of the first {} records holds {}: all values are taken as missing",
        checked.read,
        names.join(", ")
    );
    let near = columns.iter().find_map(|name| {
        let near = suggest(name, known.iter().map(String::as_str))?;
        Some(format!("did you mean `{near}` by `{name}`?"))
    });
    let help = near.unwrap_or_else(|| {
        "correct the name, or leave it out; where records that come later hold it, all is well"
            .to_owned()
    });
    let warning = Diagnostic::warning(Code::E4005, message);
    let shown: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    Some(
        warning
            .note(format!("the records hold {}", shown.join(", ")))
            .help(help),
    )
}

#[cfg(test)]
mod tests {
    use trainyard_input::{Cell, ColumnKind, ColumnLayout, FieldKind, Layout, TableWriter, Value};

    use super::*;

    #[test]
    fn a_misspelt_name_is_told_with_the_one_that_records_hold() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.tfrecord");
        let layout = Layout {
            columns: vec![ColumnLayout {
                name: "user_id".to_owned(),
                kind: Some(ColumnKind::Text),
                list: false,
            }],
        };
        let mut writer = TableWriter::create(&path, Format::TfRecord, layout).expect("a writer");
        let user = Cell {
            values: vec![Value::Text(b"u1".to_vec())],
            list: false,
        };
        // The first record lacks what the second holds.
        writer.write(&[Cell::default()]).expect("written");
        writer.write(&[user]).expect("written");
        writer.finish().expect("finished");
        let told = |name: &str| {
            let mut schema = Schema::default();
            schema.want(name, FieldKind::BYTES);
            let options = Options::new(vec![path.clone()], Format::TfRecord);
            unseen_columns(&options, &schema).map(|told| told.render())
        };
        assert_eq!(told("user_id"), None);
        let misspelt = told("usr_id").expect("a warning");
        assert!(
            misspelt.contains("none of the first 2 records holds `usr_id`"),
            "{misspelt}"
        );
        assert!(
            misspelt.contains("did you mean `user_id` by `usr_id`?"),
            "{misspelt}"
        );
        let unlike = told("price").expect("a warning");
        assert!(unlike.contains("the records hold `user_id`"), "{unlike}");
    }
}
