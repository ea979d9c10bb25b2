//! Parser of `tf.train.Example` records into columns, without intermediate messages (`tf.io.parse_example`).

use std::collections::HashMap;
use std::ops::Range;

use super::wire::{Malformed, Value, Wire};
use crate::cells::{Bad, LeftOut, end_row, missing_cells, missing_part, push_digits, truncate};
use crate::missing::{Missing, MissingValues};
use crate::number::without_fraction;
use crate::record::Content;
use crate::record_format::RecordParser;
use crate::{Batch, Cells, Field, FieldKind, MissingTexts, Schema};

/// Most features of a record whose names are remembered for the next record.
const REMEMBERED_MAX: usize = 4096;

/// Tags of bytes in fields 1, 2 and 3.
const BYTES_1: u8 = 1 << 3 | 2;
const BYTES_2: u8 = 2 << 3 | 2;
const BYTES_3: u8 = 3 << 3 | 2;

/// Parser of the features of a file into columns.
#[derive(Debug)]
pub(super) struct ExampleParser {
    schema: Schema,
    /// For each field of the schema.
    missing: Vec<Missing>,
    wanted: Vec<Wanted>,
    by_name: HashMap<Vec<u8>, usize>,
    /// Names of the last record's features, in order, and their places among the wanted ones. The next record mostly
    /// has the same names.
    remembered: Vec<(Vec<u8>, Option<usize>)>,
    /// Number of the record, from 1; 0 before the first.
    record: u64,
    joined: Vec<u8>,
}

/// A feature that the schema wants.
#[derive(Debug)]
struct Wanted {
    /// Columns that read the feature.
    columns: Vec<usize>,
    /// Number of the last record that held the feature.
    seen: u64,
}

/// The reason why a record cannot be used.
enum Flaw {
    Malformed(Malformed),
    Column(usize, String),
}

impl From<Malformed> for Flaw {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl RecordParser for ExampleParser {
    fn append(&mut self, content: Content<'_>, batch: &mut Batch) -> Result<(), Bad> {
        let record = content.as_bytes();
        self.record += 1;
        let outcome = self.example(record, batch).and_then(|()| {
            for feature in self
                .wanted
                .iter()
                .filter(|feature| feature.seen != self.record)
            {
                for &column in &feature.columns {
                    missing_cells(&mut batch.columns[column], &self.schema.fields[column].kind)
                        .map_err(|reason| Flaw::Column(column, reason))?;
                }
            }
            Ok(())
        });
        outcome.map_err(|flaw| match flaw {
            Flaw::Column(column, reason) => (Some(column), reason),
            Flaw::Malformed(Malformed { at, expected }) => {
                let found = match record.get(at) {
                    Some(byte) => format!("byte {byte:#04x}"),
                    None => "the end".to_owned(),
                };
                let length = record.len();
                let message = format!(
                    "the record is no tf.train.Example: expected {expected} at byte {at} of its {length}, found {found}"
                );
                (None, message)
            }
        })
    }

    fn serves_every_file(&self) -> bool {
        true
    }

    fn unseen(&self) -> Vec<&str> {
        let unseen = self.wanted.iter().filter(|feature| feature.seen == 0);
        unseen
            .map(|feature| self.schema.fields[feature.columns[0]].name.as_str())
            .collect()
    }

    fn names(&self) -> Vec<String> {
        let remembered = self.remembered.iter();
        remembered
            .map(|(name, _)| String::from_utf8_lossy(name).into_owned())
            .collect()
    }
}

impl ExampleParser {
    /// Returns a parser of the features that the schema names.
    pub(super) fn new(schema: &Schema, missing: &MissingTexts) -> Self {
        let mut wanted = Vec::<Wanted>::new();
        let mut by_name = HashMap::new();
        for (column, field) in schema.fields.iter().enumerate() {
            let place = *by_name
                .entry(field.name.as_bytes().to_vec())
                .or_insert(wanted.len());
            match wanted.get_mut(place) {
                Some(feature) => feature.columns.push(column),
                None => wanted.push(Wanted {
                    columns: vec![column],
                    seen: 0,
                }),
            }
        }
        Self {
            schema: schema.clone(),
            missing: MissingValues::of_fields(missing, schema),
            wanted,
            by_name,
            remembered: Vec::new(),
            record: 0,
            joined: Vec::new(),
        }
    }

    /// `Example { Features features = 1; }`
    fn example(&mut self, record: &[u8], batch: &mut Batch) -> Result<(), Flaw> {
        let mut example = Wire::new(record);
        let mut nth = 0;
        while let Some((number, value)) = example.next()? {
            match (number, value) {
                (1, Value::Bytes(features)) => self.features(features, &mut nth, batch)?,
                (1, _) => return Err(example.malformed("a message `features` before this").into()),
                _ => {}
            }
        }
        self.remembered.truncate(nth);
        Ok(())
    }

    /// `Features { map<string, Feature> feature = 1; }`
    fn features(
        &mut self,
        mut features: Wire<'_>,
        nth: &mut usize,
        batch: &mut Batch,
    ) -> Result<(), Flaw> {
        while !features.is_at_end() {
            if let Some(length) = self.short(features, *nth, batch) {
                features.pass(length);
                *nth += 1;
                continue;
            }
            match features.next()? {
                Some((1, Value::Bytes(entry))) => {
                    self.entry(entry, *nth, batch)?;
                    *nth += 1;
                }
                Some((1, _)) => {
                    return Err(features
                        .malformed("an entry of the map `feature` before this")
                        .into());
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Appends the first of these features and returns its length, if the feature has the usual form: below 128 bytes,
    /// key before value, one value, of its column's type. A feature of another form changes nothing in the batch.
    #[inline]
    fn short(&mut self, features: Wire<'_>, nth: usize, batch: &mut Batch) -> Option<usize> {
        let (record, Range { start, .. }) = features.place();
        let (entry, _) = short_field(features.bytes(), BYTES_1)?;
        let end = start + 2 + entry.len();
        let (name, value) = short_field(entry, BYTES_1)?;
        let feature = whole_field(value, BYTES_2)?;
        let Some(place) = self.place(name, nth) else {
            return Some(end - start);
        };
        let wanted = &mut self.wanted[place];
        let &[target] = wanted.columns.as_slice() else {
            return None;
        };
        if wanted.seen == self.record {
            return None;
        }
        let missing = &self.missing[target];
        let kind = *feature.first()?;
        let value = whole_field(whole_field(feature, kind)?, BYTES_1)?;
        match (
            kind,
            value,
            &mut batch.columns[target].cells,
            &self.schema.fields[target].kind,
        ) {
            (BYTES_1, _, Cells::Bytes(cells), FieldKind::Bytes { separator: None }) => {
                if missing.text(value) {
                    return None;
                }
                // Each part ends where the part around it ends, so the value ends at `end`.
                cells.push_part(record, end - value.len()..end);
            }
            (BYTES_2, &[a, b, c, d], Cells::Float(cells), FieldKind::Float { width: 1, .. }) => {
                let number = f32::from_le_bytes([a, b, c, d]);
                if !number.is_finite() || missing.float(number.into()) {
                    return None;
                }
                cells.push(number);
            }
            (
                BYTES_3,
                &[number @ ..0x80],
                Cells::Float(cells),
                kind @ FieldKind::Float { width: 1, .. },
            ) if !missing.integer(number, kind) => {
                cells.push(f32::from(number));
            }
            (
                BYTES_3,
                &[number @ ..0x80],
                Cells::Int(cells),
                kind @ FieldKind::Int {
                    separator: None, ..
                },
            ) if !missing.integer(number, kind) => {
                cells.push(i64::from(number));
            }
            _ => return None,
        }
        wanted.seen = self.record;
        Some(end - start)
    }

    /// Reads an entry of the map: `{ string key = 1; Feature value = 2; }`. The last entry with a key counts.
    fn entry(&mut self, entry: Wire<'_>, nth: usize, batch: &mut Batch) -> Result<(), Flaw> {
        let mut fields = entry;
        let mut key = [].as_slice();
        let mut feature = None;
        let mut split = false;
        while let Some((number, value)) = fields.next()? {
            match (number, value) {
                (1, Value::Bytes(name)) => key = name.bytes(),
                (2, Value::Bytes(value)) => split |= feature.replace(value).is_some(),
                (1 | 2, _) => {
                    return Err(fields
                        .malformed("a text `key` or a message `value` before this")
                        .into());
                }
                _ => {}
            }
        }
        let Some(place) = self.place(key, nth) else {
            return Ok(());
        };
        if !split {
            return self.feature(place, feature.unwrap_or(Wire::new(&[])), batch);
        }
        // The parts of a split message are concatenated.
        let mut joined = std::mem::take(&mut self.joined);
        let mut parts = entry;
        joined.clear();
        while let Some((number, value)) = parts.next()? {
            if let (2, Value::Bytes(part)) = (number, value) {
                joined.extend_from_slice(part.bytes());
            }
        }
        let outcome = self.feature(place, Wire::new(&joined), batch);
        self.joined = joined;
        outcome.map_err(|flaw| match flaw {
            // Offsets in the concatenation are not offsets in the record.
            Flaw::Malformed(Malformed { expected, .. }) => entry.malformed(expected).into(),
            flaw => flaw,
        })
    }

    /// Returns the place of the wanted feature with this name. The name is that of the `nth` feature of a record.
    #[inline]
    fn place(&mut self, name: &[u8], nth: usize) -> Option<usize> {
        if let Some((known, place)) = self.remembered.get(nth)
            && known == name
        {
            return *place;
        }
        let place = self.by_name.get(name).copied();
        match self.remembered.get_mut(nth) {
            Some((known, remembered)) => {
                known.clear();
                known.extend_from_slice(name);
                *remembered = place;
            }
            None if nth < REMEMBERED_MAX => self.remembered.push((name.to_vec(), place)),
            None => {}
        }
        place
    }

    /// `Feature { oneof kind { BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list = 3; } }`
    fn feature(&mut self, place: usize, feature: Wire<'_>, batch: &mut Batch) -> Result<(), Flaw> {
        let again = self.wanted[place].seen == self.record;
        self.wanted[place].seen = self.record;
        for &target in &self.wanted[place].columns {
            let column = &mut batch.columns[target];
            let field = &self.schema.fields[target];
            let kind = &field.kind;
            if again {
                truncate(column, kind, batch.rows);
            }
            let before = column.cells.len();
            let mut lists = feature;
            let held = held(feature)?;
            let mut list = Values {
                field,
                missing: &self.missing[target],
                left_out: LeftOut::new(field.gaps),
                nth: 0,
            };
            let refused = |reason| Flaw::Column(target, reason);
            while let Some((number, value)) = lists.next()? {
                match (number, value) {
                    (1, Value::Bytes(texts)) if held == 1 => {
                        list.texts(texts, &mut column.cells, target)?;
                    }
                    (2, Value::Bytes(numbers)) if held == 2 => {
                        list.floats(numbers, &mut column.cells, target)?;
                    }
                    (3, Value::Bytes(numbers)) if held == 3 => {
                        list.ints(numbers, &mut column.cells, target)?;
                    }
                    // In a oneof, setting another kind clears the values before.
                    (1..=3, _) => {
                        column.cells.truncate(before);
                        list.restart();
                    }
                    _ => {}
                }
            }
            let given = list.nth;
            // TensorFlow refuses a list of another type also if it is empty.
            if given == 0
                && let Some(found) = other_list(held, field, &column.cells)
            {
                return Err(mismatch(&column.cells, found, target));
            }
            let wanted = match kind {
                FieldKind::Float { width, .. } => Some(*width),
                kind if kind.is_ragged() => None,
                _ => Some(1),
            };
            let outcome = match wanted {
                _ if given == 0 => missing_cells(column, kind),
                Some(width) if width != given => hold(width, given),
                // The only value is missing.
                Some(_) if column.cells.len() == before => missing_cells(column, kind),
                Some(_) => Ok(()),
                None => {
                    end_row(column);
                    Ok(())
                }
            };
            outcome.map_err(refused)?;
        }
        Ok(())
    }
}

/// Returns the bytes of the first field and the bytes after it, if the field has this tag and a length below 128.
#[inline]
fn short_field(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    match bytes {
        [first, length @ ..0x80, rest @ ..] if *first == tag => {
            rest.split_at_checked(usize::from(*length))
        }
        _ => None,
    }
}

/// Returns the bytes of a field that fills all of `bytes`.
#[inline]
fn whole_field(bytes: &[u8], tag: u8) -> Option<&[u8]> {
    match short_field(bytes, tag)? {
        (field, []) => Some(field),
        _ => None,
    }
}

/// Returns the kind of list that a feature holds: the kind that was set last; 0 = none.
#[inline]
fn held(mut feature: Wire<'_>) -> Result<u64, Malformed> {
    let mut held = 0;
    while let Some((number, value)) = feature.next()? {
        match (number, value) {
            (1..=3, Value::Bytes(_)) => held = number,
            (1..=3, _) => return Err(feature.malformed("a list of values before this")),
            _ => {}
        }
    }
    Ok(held)
}

/// Returns the name of the list that a feature holds, if its values are no values of the field.
fn other_list(held: u64, field: &Field, cells: &Cells) -> Option<&'static str> {
    match (held, cells) {
        (1, Cells::Float(_) | Cells::Int(_)) => Some("bytes_list"),
        (2, Cells::Bytes(_)) => Some("float_list"),
        (2, Cells::Int(_)) if !field.kind.fraction().is_dropped() => Some("float_list"),
        _ => None,
    }
}

fn hold(width: usize, given: usize) -> Result<(), String> {
    if given == width {
        Ok(())
    } else {
        Err(format!(
            "the feature must hold {width} value{}, given {given}",
            if width == 1 { "" } else { "s" }
        ))
    }
}

fn mismatch(cells: &Cells, found: &str, target: usize) -> Flaw {
    let wanted = match cells {
        Cells::Float(_) => "a float_list or int64_list",
        Cells::Int(_) => "an int64_list",
        Cells::Bytes(_) => "a bytes_list or int64_list",
    };
    Flaw::Column(
        target,
        format!("the feature must be {wanted}, given a {found}"),
    )
}

/// The values of a feature, which are appended to a column.
struct Values<'a> {
    field: &'a Field,
    missing: &'a Missing,
    left_out: LeftOut,
    /// Number of values so far.
    nth: usize,
}

impl Values<'_> {
    /// Forgets the values so far.
    fn restart(&mut self) {
        self.nth = 0;
        self.left_out = LeftOut::new(self.field.gaps);
    }

    /// Counts a value that is missing. A list of fixed length takes the default of its place, others leave it out.
    fn leave_out(&mut self, cells: &mut Cells) -> Result<(), String> {
        let place = self.nth;
        self.nth += 1;
        match (cells, &self.field.kind) {
            // The caller replaces a missing number that is the only one.
            (Cells::Float(out), FieldKind::Float { default, width, .. }) if *width != 1 => {
                missing_part(out, default.as_deref(), place)?;
            }
            _ => self.left_out.add(place),
        }
        Ok(())
    }

    /// Counts a value that is there.
    fn count(&mut self) -> Result<(), String> {
        self.nth += 1;
        self.left_out.check()
    }

    /// `BytesList { repeated bytes value = 1; }`
    #[inline]
    fn texts(&mut self, mut list: Wire<'_>, cells: &mut Cells, target: usize) -> Result<(), Flaw> {
        let refused = |reason| Flaw::Column(target, reason);
        while let Some((number, value)) = list.next()? {
            match (number, value) {
                (1, Value::Bytes(text)) => {
                    let Cells::Bytes(out) = cells else {
                        return Err(mismatch(cells, "bytes_list", target));
                    };
                    if self.missing.text(text.bytes()) {
                        self.leave_out(cells).map_err(refused)?;
                        continue;
                    }
                    self.count().map_err(refused)?;
                    let (record, place) = text.place();
                    out.push_part(record, place);
                }
                (1, _) => return Err(list.malformed("a text before this").into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// `FloatList { repeated float value = 1 [packed = true]; }`; older writers do not pack.
    #[inline]
    fn floats(&mut self, mut list: Wire<'_>, cells: &mut Cells, target: usize) -> Result<(), Flaw> {
        while let Some((number, value)) = list.next()? {
            match (number, value) {
                (1, Value::Bytes(packed)) => {
                    let (numbers, rest) = packed.bytes().as_chunks();
                    if !rest.is_empty() {
                        return Err(packed.malformed("packed floats, of 4 bytes each").into());
                    }
                    for bytes in numbers {
                        self.float(*bytes, cells, target)?;
                    }
                }
                (1, Value::Fixed32(bytes)) => self.float(bytes, cells, target)?,
                (1, _) => return Err(list.malformed("a float before this").into()),
                _ => {}
            }
        }
        Ok(())
    }

    #[inline]
    fn float(&mut self, bytes: [u8; 4], cells: &mut Cells, target: usize) -> Result<(), Flaw> {
        let refused = |reason| Flaw::Column(target, reason);
        let number = f32::from_le_bytes(bytes);
        if other_list(2, self.field, cells).is_some() {
            return Err(mismatch(cells, "float_list", target));
        }
        if number.is_nan() || self.missing.float(number.into()) {
            return self.leave_out(cells).map_err(refused);
        }
        if number.is_infinite() {
            return Err(refused(format!("{number} is not a finite number")));
        }
        self.count().map_err(refused)?;
        match cells {
            Cells::Float(out) => out.push(number),
            Cells::Int(out) => {
                let fraction = self.field.kind.fraction();
                out.push(without_fraction(f64::from(number), fraction).map_err(refused)?);
            }
            Cells::Bytes(_) => {}
        }
        Ok(())
    }

    /// `Int64List { repeated int64 value = 1 [packed = true]; }`; older writers do not pack.
    #[inline]
    fn ints(&mut self, mut list: Wire<'_>, cells: &mut Cells, target: usize) -> Result<(), Flaw> {
        while let Some((number, value)) = list.next()? {
            match (number, value) {
                (1, Value::Bytes(mut packed)) => {
                    while !packed.is_at_end() {
                        self.int(packed.varint()?, cells, target)?;
                    }
                }
                (1, Value::Varint(number)) => self.int(number, cells, target)?,
                (1, _) => return Err(list.malformed("a whole number before this").into()),
                _ => {}
            }
        }
        Ok(())
    }

    #[inline]
    fn int(&mut self, number: u64, cells: &mut Cells, target: usize) -> Result<(), Flaw> {
        let refused = |reason| Flaw::Column(target, reason);
        let number = number as i64;
        if self.missing.integer(number, &self.field.kind) {
            return self.leave_out(cells).map_err(refused);
        }
        self.count().map_err(refused)?;
        match cells {
            Cells::Float(out) => out.push(number as f32),
            Cells::Int(out) => out.push(number),
            Cells::Bytes(out) => push_digits(number, out),
        }
        Ok(())
    }
}
