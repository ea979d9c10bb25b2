//! Columns of Parquet files that another Parquet file keeps beside its own, row by row, with their types and bits.

use std::path::PathBuf;
use std::sync::Arc;

use parquet::basic::Repetition;
use parquet::errors::{ParquetError, Result as Outcome};
use parquet::file::metadata::KeyValue;
use parquet::file::writer::SerializedColumnWriter;
use parquet::schema::types::{ColumnDescriptor, Type, TypePtr};

use super::arrow_message::{ArrowField, schema_text};
use super::arrow_schema::{ARROW_SCHEMA, field_at};
use super::column::{ColumnCursor, columns_within, type_of_root};
use super::merged::shape;
use super::raw::{Piece, RawFile, other_type, read_chosen, root_of};
use crate::column_names::{Place, places};
use crate::{ColumnLayout, Error};

/// A kept column.
struct KeptColumn {
    /// Its leaf in each file.
    leaves: Vec<usize>,
    field: TypePtr,
    is_list: bool,
    /// Where the next row is: the file, its row group, and the row in the group. The cursor is there.
    file: usize,
    group: usize,
    row: usize,
    cursor: Option<ColumnCursor>,
}

/// The kept columns of files.
pub(super) struct KeptColumns {
    sources: Vec<RawFile>,
    columns: Vec<KeptColumn>,
}

impl KeptColumns {
    /// # Errors
    /// A file cannot be read, or lacks a column, or has another type there.
    pub(super) fn open(files: &[PathBuf], names: &[String]) -> Result<Self, Error> {
        let sources = files.iter().map(|file| RawFile::open(file));
        let sources: Vec<RawFile> = sources.collect::<Result<_, _>>()?;
        let mut columns: Vec<KeptColumn> = Vec::with_capacity(names.len());
        for name in names {
            let mut leaves = Vec::with_capacity(sources.len());
            for source in &sources {
                leaves.push(leaf(source, name)?);
            }
            let Some((source, leaf)) = sources.first().zip(leaves.first().copied()) else {
                continue;
            };
            let is_list = source.columns()[leaf].list;
            let field = |source: &RawFile, leaf: usize| match is_list {
                true => Ok(root_of(source, leaf)),
                false => option_of(name, &source.descriptor(leaf)),
            };
            let first = field(source, leaf).map_err(|error| source.broken(error))?;
            for (other, other_leaf) in sources.iter().zip(&leaves) {
                let here = field(other, *other_leaf).map_err(|error| other.broken(error))?;
                let beyond = |file: &RawFile, leaf: usize| file.arrow(leaf)?.beyond_parquet();
                let is_alike = here == first
                    && other.columns()[*other_leaf].list == is_list
                    && beyond(other, *other_leaf) == beyond(source, leaf);
                if !is_alike {
                    let mut found = other.type_name(*other_leaf);
                    let mut known = source.type_name(leaf);
                    if found == known {
                        (found, known) = (shape(&here), shape(&first));
                    }
                    return Err(other_type(
                        name,
                        (other.path(), &found),
                        (source.path(), &known),
                    ));
                }
            }
            columns.push(KeptColumn {
                leaves,
                field: first,
                is_list,
                file: 0,
                group: 0,
                row: 0,
                cursor: None,
            });
        }
        Ok(Self { sources, columns })
    }

    /// Returns the fields, in the order of the names.
    pub(super) fn fields(&self) -> Vec<TypePtr> {
        let fields = self.columns.iter();
        fields.map(|column| column.field.clone()).collect()
    }

    /// Returns what the file must say of the kept columns beyond their fields, and of its other columns, if there is such a thing.
    pub(super) fn metadata(&self, others: &[ColumnLayout]) -> Option<Vec<KeyValue>> {
        let source = self.sources.first()?;
        let leaves: Option<Vec<usize>> = self
            .columns
            .iter()
            .map(|column| column.leaves.first().copied())
            .collect();
        let leaves = leaves?;
        let message = source.arrow_message()?;
        let kept = self.columns.iter().zip(&leaves);
        let kept = kept.map(|(column, leaf)| {
            let name = column.field.name();
            if column.is_list {
                return Some(ArrowField::Whole(field_at(&message, name)?));
            }
            let field = field_at(&message, &source.arrow_path(*leaf))?;
            Some(ArrowField::Named(name.to_owned(), field))
        });
        let mut fields: Vec<ArrowField<'_>> = kept.collect::<Option<_>>()?;
        fields.extend(others.iter().map(ArrowField::Plain));
        let text = schema_text(fields);
        Some(vec![KeyValue::new(ARROW_SCHEMA.to_owned(), text)])
    }

    /// Writes the next rows of a column.
    ///
    /// # Errors
    /// The files have fewer rows, or cannot be read, or the column cannot be written.
    pub(super) fn write(
        &mut self,
        nth: usize,
        rows: usize,
        writer: &mut SerializedColumnWriter<'_>,
    ) -> Outcome<()> {
        let Self { sources, columns } = self;
        let Some(column) = columns.get_mut(nth) else {
            return Ok(());
        };
        let mut left = rows;
        while left > 0 {
            let Some(source) = sources.get(column.file) else {
                let name = column.field.name();
                let message =
                    format!("the column `{name}` to keep has {left} rows less than there are");
                return Err(ParquetError::General(message));
            };
            if column.group == source.metadata().num_row_groups() {
                column.file += 1;
                column.group = 0;
                continue;
            }
            let of_group = source.rows_of(column.group);
            if column.row == of_group {
                column.cursor = None;
                column.group += 1;
                column.row = 0;
                continue;
            }
            let here = left.min(of_group - column.row);
            let leaf = column.leaves[column.file];
            let cursor = match &mut column.cursor {
                Some(cursor) => cursor,
                none => none.insert(source.cursor(column.group, leaf)?),
            };
            let defined = cursor.defined();
            let is_list = column.is_list;
            read_chosen(cursor, &vec![Some(0); here], |[mut piece]: [Piece; 1]| {
                if !is_list {
                    piece.make_optional(defined);
                }
                piece.write(writer)
            })?;
            column.row += here;
            left -= here;
        }
        Ok(())
    }
}

/// Returns the leaf of a column.
fn leaf(file: &RawFile, name: &str) -> Result<usize, Error> {
    let known = || -> Vec<String> {
        let columns = file.columns().iter();
        columns.map(|column| column.name.clone()).collect()
    };
    let names = known();
    let path = || file.path().to_owned();
    let unkept = |found: String| Error::Kept {
        column: name.to_owned(),
        file: path(),
        found,
        inner: columns_within(file.columns(), name),
    };
    match places(&names).get(name) {
        Some(Place::Once(leaf)) => match file.columns()[*leaf].values {
            Some(_) => Ok(*leaf),
            None => Err(unkept(file.columns()[*leaf].type_name.clone())),
        },
        Some(Place::Twice) => Err(Error::ColumnTwice {
            column: name.to_owned(),
            file: path(),
            known: names,
        }),
        None => {
            let schema = file.metadata().file_metadata().schema_descr();
            Err(match type_of_root(schema, name) {
                Some(found) => unkept(found),
                None => Error::Column {
                    columns: vec![name.to_owned()],
                    file: path(),
                    known: names,
                },
            })
        }
    }
}

/// Returns a field of options of the type of a leaf.
pub(super) fn option_of(name: &str, leaf: &ColumnDescriptor) -> Outcome<TypePtr> {
    let option = Type::primitive_type_builder(name, leaf.physical_type())
        .with_repetition(Repetition::OPTIONAL)
        .with_converted_type(leaf.converted_type())
        .with_logical_type(leaf.logical_type_ref().cloned())
        .with_length(leaf.type_length())
        .with_precision(leaf.type_precision())
        .with_scale(leaf.type_scale());
    option.build().map(Arc::new)
}
