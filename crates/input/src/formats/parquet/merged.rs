//! Columns of several files as the columns of one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use half::f16;
use parquet::basic::{ConvertedType, Repetition, Type as Physical};
use parquet::errors::Result as Outcome;
use parquet::file::metadata::KeyValue;
use parquet::schema::types::{ColumnDescriptor, Type, TypePtr};

use super::arrow_message::{ArrowField, schema_text};
use super::arrow_schema::{ARROW_SCHEMA, field_at};
use super::column::Buffer;
use super::column_type::{Class, is_list_of_values};
use super::kept::option_of;
use super::raw::{Agreed, Piece, RawFile, other_type};
use crate::Error;
use crate::{ColumnKind, ColumnLayout, ColumnType, TypeKind};

/// Definition levels of a list of options: no list, an empty one, a place without a value, and a value.
const LIST_LEVELS: [i16; 4] = [0, 1, 2, 3];

/// Greatest whole number up to which floats of 64 bits hold all of them.
const WHOLE_MAX: u64 = 1 << 53;

/// Types of columns, by the names that jobs have for them, on which files must agree.
pub(super) struct Agreement {
    on: Agreed,
    columns: BTreeMap<String, Known>,
}

struct Known {
    class: Class,
    kind: TypeKind,
    list: bool,
    file: PathBuf,
    type_name: String,
}

impl Agreement {
    fn new(on: Agreed) -> Self {
        Self {
            on,
            columns: BTreeMap::new(),
        }
    }

    /// Adds a file. Of its columns, those count of which `counts` says so.
    ///
    /// # Errors
    /// A column has values of a type that does not go with those of an earlier file.
    pub(super) fn add(
        &mut self,
        file: &RawFile,
        counts: impl Fn(&String) -> bool,
    ) -> Result<(), Error> {
        let columns = file.columns().iter().enumerate();
        for (leaf, column) in columns.filter(|(_, column)| counts(&column.name)) {
            let here = Known {
                class: file.class(leaf, self.on),
                kind: column.kind,
                list: column.list,
                file: file.path().to_owned(),
                type_name: file.type_name(leaf),
            };
            match self.columns.get_mut(&column.name) {
                Some(known) if known.class == Class::Untyped => *known = here,
                Some(_) if here.class == Class::Untyped => {}
                Some(known) if known.class == here.class && known.list == here.list => {}
                // pandas writes a column of whole numbers with a missing one as floats.
                Some(known)
                    if are_numbers(&known.class, &here.class) && known.list == here.list =>
                {
                    known.class = Class::Float;
                }
                Some(known) => {
                    let (found, known) = (at(&here), at(known));
                    return Err(other_type(&column.name, found, known));
                }
                None => {
                    self.columns.insert(column.name.clone(), here);
                }
            }
        }
        Ok(())
    }
}

/// Returns whether whole numbers and floats meet.
fn are_numbers(one: &Class, other: &Class) -> bool {
    [(one, other), (other, one)].contains(&(&Class::Whole, &Class::Float))
}

/// Returns the columns of files, or those of these names, with their types.
///
/// # Errors
/// A file cannot be read, or a column has values of types that do not go together.
pub(crate) fn column_types(
    files: &[PathBuf],
    names: Option<&[String]>,
) -> Result<Vec<ColumnType>, Error> {
    let counts = |name: &String| names.is_none_or(|names| names.contains(name));
    let mut agreement = Agreement::new(Agreed::Values);
    for file in files {
        agreement.add(&RawFile::open(file)?, counts)?;
    }
    let columns = agreement.columns.into_iter();
    let column = |(name, known): (String, Known)| ColumnType {
        name,
        kind: known.kind,
        type_name: known.type_name,
    };
    Ok(columns.map(column).collect())
}

fn at(known: &Known) -> (&Path, &str) {
    (&known.file, &known.type_name)
}

/// A leaf of a file, and what its values become.
pub(super) struct SourceLeaf {
    pub(super) leaf: usize,
    /// Absent where the values stay as they are.
    pub(super) change: Option<Change>,
}

/// Change of values to those of the column of all files.
pub(super) struct Change {
    to: Physical,
    is_unsigned: bool,
    /// Definition levels of a place in a list and of a value.
    listed: i16,
    defined: i16,
    arity: ArityChange,
}

/// What becomes of the levels of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ArityChange {
    /// Lists stay lists.
    Lists,
    /// One value or none stays that.
    Options,
    /// A column without a type has no value: none becomes no list.
    NoLists,
}

/// The columns of files as those of one.
pub(super) struct MergedColumns {
    /// Name of the schema.
    pub(super) name: String,
    /// The root fields.
    pub(super) fields: Vec<TypePtr>,
    /// For each file, its leaves in the order of the fields.
    pub(super) leaves: Vec<Vec<SourceLeaf>>,
    /// What the file says beside its rows.
    pub(super) metadata: Option<Vec<KeyValue>>,
}

impl MergedColumns {
    /// Merges the columns of files, which are known by the names of their root fields.
    ///
    /// # Errors
    /// A file lacks a column, or has one of a type that does not go with that of another file.
    pub(super) fn new(files: &[RawFile]) -> Result<Self, Error> {
        let mut agreement = Agreement::new(Agreed::Types);
        files
            .iter()
            .try_for_each(|file| agreement.add(file, |_| true))?;
        let Some(first) = files.first() else {
            return Ok(Self {
                name: String::new(),
                fields: Vec::new(),
                leaves: Vec::new(),
                metadata: None,
            });
        };
        let schema = first.metadata().file_metadata().schema_descr();
        let mut merged = Self {
            name: schema.name().to_owned(),
            fields: Vec::new(),
            leaves: files.iter().map(|_| Vec::new()).collect(),
            metadata: None,
        };
        let mut is_changed = false;
        for root in roots(first) {
            let mut here = Vec::with_capacity(files.len());
            for file in files {
                let found = roots(file)
                    .into_iter()
                    .find(|other| other.field.name() == root.field.name());
                here.push(found.ok_or_else(|| lacks(root.field.name(), file, first))?);
            }
            let field = match here.iter().all(|other| other.field == root.field) {
                true => root.field.clone(),
                false => {
                    is_changed = true;
                    merged_field(files, &here)?
                }
            };
            for ((file, source), leaves) in files.iter().zip(&here).zip(&mut merged.leaves) {
                let is_same = source.field == field;
                for leaf in source.leaves.clone() {
                    let change = (!is_same).then(|| change(file, leaf, &field));
                    leaves.push(SourceLeaf { leaf, change });
                }
            }
            merged.fields.push(field);
        }
        for file in files {
            let mut others = roots(file).into_iter();
            let unknown = others.find(|other| {
                !merged
                    .fields
                    .iter()
                    .any(|field| field.name() == other.field.name())
            });
            if let Some(unknown) = unknown {
                return Err(lacks(unknown.field.name(), first, file));
            }
        }
        merged.metadata = merged.metadata_of(files, is_changed);
        Ok(merged)
    }

    /// Returns the metadata of the first file, with the schema of Arrow of the merged columns.
    fn metadata_of(&self, files: &[RawFile], is_changed: bool) -> Option<Vec<KeyValue>> {
        let of = |file: &RawFile| {
            file.metadata()
                .file_metadata()
                .key_value_metadata()
                .cloned()
        };
        let first = files.first()?;
        if !is_changed {
            return of(first);
        }
        let fits = |file: &&RawFile| {
            let here = roots(file);
            here.len() == self.fields.len()
                && here.iter().zip(&self.fields).all(|(root, field)| {
                    root.field.name() == field.name() && same_values(&root.field, field)
                })
        };
        if let Some(file) = files.iter().find(fits) {
            return of(file);
        }
        // It names types that the columns no longer have.
        let pairs = of(first)?.into_iter();
        let mut pairs: Vec<KeyValue> = pairs.filter(|pair| pair.key != ARROW_SCHEMA).collect();
        let text = self.arrow_schema(files);
        pairs.extend(text.map(|text| KeyValue::new(ARROW_SCHEMA.to_owned(), text)));
        Some(pairs)
    }

    /// Returns the schema of Arrow of the merged columns: the fields of files that have their types, and plain numbers. Without such a field,
    /// Arrow says no more of the columns than Parquet.
    fn arrow_schema(&self, files: &[RawFile]) -> Option<String> {
        let messages: Vec<Option<Vec<u8>>> = files.iter().map(RawFile::arrow_message).collect();
        let plain: Vec<Option<ColumnLayout>> = self.fields.iter().map(plain_layout).collect();
        let fields = self.fields.iter().zip(&plain).map(|(field, plain)| {
            let mut sources = files.iter().zip(&messages);
            let of_file = sources.find_map(|(file, message)| {
                let mut roots = roots(file).into_iter();
                let root = roots.find(|root| root.field.name() == field.name())?;
                let is_same = same_values(&root.field, field);
                field_at(message.as_ref().filter(|_| is_same)?, field.name())
            });
            match of_file {
                Some(table) => Some(ArrowField::Named(field.name().to_owned(), table)),
                None => plain.as_ref().map(ArrowField::Plain),
            }
        });
        Some(schema_text(fields.collect::<Option<_>>()?))
    }
}

/// Returns the layout of a field of plain whole numbers or floats of 64 bits.
fn plain_layout(field: &TypePtr) -> Option<ColumnLayout> {
    let leaf = leaf_of(field)?;
    let info = leaf.get_basic_info();
    let is_plain =
        info.logical_type_ref().is_none() && info.converted_type() == ConvertedType::NONE;
    let kind = match leaf.get_physical_type() {
        Physical::INT64 if is_plain => ColumnKind::Int,
        Physical::DOUBLE if is_plain => ColumnKind::Float,
        _ => return None,
    };
    Some(ColumnLayout {
        name: field.name().to_owned(),
        kind: Some(kind),
        list: !field.is_primitive(),
    })
}

/// A root field of a file, and its leaves.
struct Root {
    field: TypePtr,
    leaves: std::ops::Range<usize>,
}

fn roots(file: &RawFile) -> Vec<Root> {
    let schema = file.metadata().file_metadata().schema_descr();
    let mut roots: Vec<Root> = Vec::new();
    let fields = schema.root_schema().get_fields();
    for leaf in 0..schema.num_columns() {
        let place = schema.get_column_root_idx(leaf);
        if leaf > 0 && schema.get_column_root_idx(leaf - 1) == place {
            if let Some(root) = roots.last_mut() {
                root.leaves.end = leaf + 1;
            }
        } else {
            roots.push(Root {
                field: fields[place].clone(),
                leaves: leaf..leaf + 1,
            });
        }
    }
    roots
}

fn lacks(column: &str, file: &RawFile, with: &RawFile) -> Error {
    let columns = file.columns().iter();
    Error::Column {
        columns: vec![format!("{column} (of {})", with.path().display())],
        file: file.path().to_owned(),
        known: columns.map(|column| column.name.clone()).collect(),
    }
}

/// Returns the field of a column whose type is not the same in all files.
///
/// # Errors
/// The column is a structure, a map or a list in a list.
fn merged_field(files: &[RawFile], here: &[Root]) -> Result<TypePtr, Error> {
    let is_simple = |(file, root): (&RawFile, &Root)| {
        let levels = file.descriptor(root.leaves.start).max_rep_level();
        root.leaves.len() == 1
            && (root.field.is_primitive() && levels == 0 || is_list_of_values(&root.field))
    };
    let mut pairs = files.iter().zip(here);
    if !pairs.clone().all(is_simple) {
        let other = pairs.find(|(_, root)| root.field != here[0].field);
        let Some((file, root)) = other else {
            return Ok(here[0].field.clone());
        };
        let found = shape(&root.field);
        let known = shape(&here[0].field);
        return Err(other_type(
            root.field.name(),
            (file.path(), &found),
            (files[0].path(), &known),
        ));
    }
    let class = |file: &RawFile, leaf: usize| file.class(leaf, Agreed::Types);
    let typed: Vec<(&RawFile, usize)> = files
        .iter()
        .zip(here)
        .map(|(file, root)| (file, root.leaves.start))
        .filter(|(file, leaf)| class(file, *leaf) != Class::Untyped)
        .collect();
    let (file, leaf) = typed
        .first()
        .copied()
        .unwrap_or((&files[0], here[0].leaves.start));
    let descriptor = file.descriptor(leaf);
    let is_alike = typed
        .iter()
        .all(|(other, leaf)| same_value(&other.descriptor(*leaf), &descriptor));
    let name = here[0].field.name();
    let has_floats = typed
        .iter()
        .any(|(file, leaf)| class(file, *leaf) == Class::Float);
    let merged = if has_floats {
        Class::Float
    } else {
        class(file, leaf)
    };
    let build = || -> Outcome<TypePtr> {
        let of = |name: &str| match merged {
            Class::Whole if !is_alike => plain(name, Physical::INT64),
            Class::Float if !is_alike => plain(name, Physical::DOUBLE),
            _ => option_of(name, &descriptor),
        };
        if descriptor.max_rep_level() == 0 {
            return of(name);
        }
        let list = Type::group_type_builder("list")
            .with_repetition(Repetition::REPEATED)
            .with_fields(vec![of("element")?]);
        let list = Type::group_type_builder(name)
            .with_repetition(Repetition::OPTIONAL)
            .with_converted_type(ConvertedType::LIST)
            .with_fields(vec![Arc::new(list.build()?)]);
        list.build().map(Arc::new)
    };
    build().map_err(|error| file.broken(error))
}

fn plain(name: &str, physical: Physical) -> Outcome<TypePtr> {
    let builder = Type::primitive_type_builder(name, physical);
    builder
        .with_repetition(Repetition::OPTIONAL)
        .build()
        .map(Arc::new)
}

/// Returns the change of the values of a leaf to those of a field.
fn change(file: &RawFile, leaf: usize, field: &TypePtr) -> Change {
    let column = &file.columns()[leaf];
    let type_name = file.type_name(leaf);
    Change {
        to: leaf_of(field).map_or(Physical::INT32, |leaf| leaf.get_physical_type()),
        is_unsigned: type_name.trim_start_matches("list<").starts_with("uint"),
        listed: column.listed,
        defined: column.defined,
        arity: match (column.list, field.is_primitive()) {
            (true, _) => ArityChange::Lists,
            (false, true) => ArityChange::Options,
            (false, false) => ArityChange::NoLists,
        },
    }
}

/// Returns the only leaf of a field.
fn leaf_of(field: &Type) -> Option<&Type> {
    let mut node = field;
    while !node.is_primitive() {
        node = node.get_fields().first()?;
    }
    Some(node)
}

/// Returns whether the values of two leaves are of one type, whether they may be missing or not.
fn same_value(left: &ColumnDescriptor, right: &ColumnDescriptor) -> bool {
    let of = |leaf: &ColumnDescriptor| option_of("x", leaf).ok();
    of(left) == of(right)
}

/// Returns whether two fields of one leaf, or two whole fields, hold values of one type.
fn same_values(left: &TypePtr, right: &TypePtr) -> bool {
    if left == right {
        return true;
    }
    let of = |field: &TypePtr| {
        let leaf = leaf_of(field)?;
        let info = leaf.get_basic_info();
        Some((
            leaf.get_physical_type(),
            info.converted_type(),
            info.logical_type_ref().cloned(),
        ))
    };
    of(left).is_some() && of(left) == of(right)
}

/// Returns a field in the words of the format, in one line.
pub(super) fn shape(field: &Type) -> String {
    let mut text = Vec::new();
    parquet::schema::printer::print_schema(&mut text, field);
    let text = String::from_utf8_lossy(&text).into_owned();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Change {
    /// Makes the values of a piece those of the column of all files.
    ///
    /// # Errors
    /// Returns a whole number that is no float of 64 bits.
    pub(super) fn make(&self, piece: &mut Piece) -> Result<(), i64> {
        if self.arity == ArityChange::Lists {
            let level = |level: i16| match level {
                level if level == self.defined => LIST_LEVELS[3],
                level if level >= self.listed => LIST_LEVELS[2],
                level if level == self.listed - 1 => LIST_LEVELS[1],
                _ => LIST_LEVELS[0],
            };
            piece.change_levels(level);
        } else {
            piece.make_optional(self.defined);
            if self.arity == ArityChange::NoLists {
                piece.make_rows();
            }
        }
        let mut rounded = None;
        piece.change_values(|values| self.widened(values, &mut rounded));
        rounded.map_or(Ok(()), Err)
    }

    fn widened(&self, values: Buffer, rounded: &mut Option<i64>) -> Buffer {
        match (self.to, values) {
            (Physical::DOUBLE, Buffer::Int32(values)) if self.is_unsigned => {
                let wide = values.iter().map(|value| f64::from(value.cast_unsigned()));
                Buffer::Double(wide.collect())
            }
            (Physical::DOUBLE, Buffer::Int32(values)) => {
                Buffer::Double(values.into_iter().map(f64::from).collect())
            }
            (Physical::DOUBLE, Buffer::Int64(values)) => {
                let is_exact = |value: &i64| value.unsigned_abs() <= WHOLE_MAX;
                *rounded = values.iter().find(|value| !is_exact(value)).copied();
                Buffer::Double(values.into_iter().map(|value| value as f64).collect())
            }
            (Physical::INT64, Buffer::Int32(values)) if self.is_unsigned => {
                let wide = values.iter().map(|value| i64::from(value.cast_unsigned()));
                Buffer::Int64(wide.collect())
            }
            (Physical::INT64, Buffer::Int32(values)) => {
                Buffer::Int64(values.into_iter().map(i64::from).collect())
            }
            (Physical::DOUBLE, Buffer::Float(values)) => {
                Buffer::Double(values.into_iter().map(f64::from).collect())
            }
            (Physical::DOUBLE, Buffer::Fixed(values)) => {
                let wide = values.iter().map(|value| match value.data() {
                    &[low, high] => f16::from_le_bytes([low, high]).to_f64(),
                    // The column has two bytes for each.
                    _ => f64::NAN,
                });
                Buffer::Double(wide.collect())
            }
            // A column without a type has no values.
            (to, values) if values.len() == 0 => Buffer::of(to),
            (_, values) => values,
        }
    }
}
