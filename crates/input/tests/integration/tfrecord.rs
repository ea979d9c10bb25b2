//! TFRecord files, good and bad.

mod damage;
mod messages;
mod properties;

use std::path::PathBuf;

use crate::writer::{Kind, example, feature, frame};
use trainyard_diagnostic::Diagnostic;
use trainyard_input::*;

fn options(files: Vec<PathBuf>) -> Options {
    Options {
        trim: true,
        bad_rows_max: 100,
        batch_size: 4,
        seed: 11,
        ..Options::new(files, Format::TfRecord)
    }
}

/// Writes a file of these bytes to a temporary folder, and returns the folder and the options.
fn file(name: &str, bytes: &[u8]) -> (tempfile::TempDir, Options) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("a file is written");
    (folder, options(vec![path]))
}

fn schema(fields: &[(&str, FieldKind)]) -> Schema {
    let mut schema = Schema::default();
    for (name, kind) in fields {
        schema.want(name, kind.clone());
    }
    schema
}

fn numbers() -> Schema {
    schema(&[("n", FieldKind::INT)])
}

/// Returns a record with the number `n`.
fn number(n: i64) -> Vec<u8> {
    example(&[("n", feature(Kind::Ints(&[n]), true))])
}

fn read(options: Options, schema: Schema) -> Result<Vec<Batch>, Error> {
    Dataset::open(options, schema)?.collect()
}

fn ints(batches: &[Batch]) -> Vec<i64> {
    let column = |batch: &Batch| match &batch.columns[0].cells {
        Cells::Int(values) => values.clone(),
        other => panic!("{other:?}"),
    };
    batches.iter().flat_map(column).collect()
}

/// Parses one record.
fn parse(record: &[u8], schema: Schema) -> Result<Batch, String> {
    let (_folder, options) = file("one.tfrecord", &frame(record));
    match read(options, schema) {
        Ok(mut batches) => Ok(batches.remove(0)),
        Err(error) => Err(Diagnostic::from(error).render()),
    }
}
