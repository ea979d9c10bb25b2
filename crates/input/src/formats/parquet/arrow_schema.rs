//! What Parquet does not say of columns: durations, which it holds as plain whole numbers, lists of one length, time zones, extension
//! types, and whether bytes are no texts, which early writers of Parquet did not say of texts either. The schema of Arrow, which Arrow's writers put into the file's metadata as a base64 text of an IPC message, says them.
//! <https://github.com/apache/arrow/blob/main/format/Schema.fbs>

use std::collections::BTreeMap;

use parquet::file::metadata::FileMetaData;

use crate::row::Ticks;

/// Key of the metadata that holds Arrow's schema.
pub(super) const ARROW_SCHEMA: &str = "ARROW:schema";
/// Key of a field's metadata that names its extension type.
const EXTENSION_NAME: &str = "ARROW:extension:name";
/// Deepest field that is looked at.
const DEPTH_MAX: usize = 32;

// Places of members in the tables of `Schema.fbs` and `Message.fbs`, and numbers of types there.
pub(super) const MESSAGE_VERSION: usize = 0;
pub(super) const MESSAGE_HEADER_TYPE: usize = 1;
pub(super) const MESSAGE_HEADER: usize = 2;
pub(super) const SCHEMA_FIELDS: usize = 1;
pub(super) const FIELD_NAME: usize = 0;
pub(super) const FIELD_NULLABLE: usize = 1;
pub(super) const FIELD_TYPE_NUMBER: usize = 2;
pub(super) const FIELD_TYPE: usize = 3;
pub(super) const FIELD_DICTIONARY: usize = 4;
pub(super) const FIELD_CHILDREN: usize = 5;
pub(super) const FIELD_METADATA: usize = 6;
pub(super) const INT_BITS: usize = 0;
pub(super) const INT_SIGNED: usize = 1;
pub(super) const FLOAT_PRECISION: usize = 0;
const METADATA_KEY: usize = 0;
const METADATA_VALUE: usize = 1;
const DURATION_UNIT: usize = 0;
const TIMESTAMP_ZONE: usize = 1;
const LIST_SIZE: usize = 0;
pub(super) const TYPE_INT: u8 = 2;
pub(super) const TYPE_FLOAT: u8 = 3;
pub(super) const TYPE_BINARY: u8 = 4;
pub(super) const TYPE_UTF8: u8 = 5;
pub(super) const TYPE_BOOL: u8 = 6;
const TYPE_TIMESTAMP: u8 = 10;
pub(super) const TYPE_LIST: u8 = 12;
const TYPE_STRUCT: u8 = 13;
const TYPE_FIXED_SIZE_BINARY: u8 = 15;
const TYPE_FIXED_SIZE_LIST: u8 = 16;
const TYPE_DURATION: u8 = 18;
const TYPE_LARGE_BINARY: u8 = 19;
const TYPE_LARGE_LIST: u8 = 21;
const TYPE_BINARY_VIEW: u8 = 23;
/// Unit of a duration whose table does not name one.
const MILLISECONDS: u16 = 1;

/// What Arrow says of a column.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ArrowColumn {
    /// Unit of durations.
    pub(super) duration: Option<Ticks>,
    /// Length of lists that all have the same.
    pub(super) list_size: Option<u32>,
    /// Time zone of timestamps.
    pub(super) zone: Option<String>,
    /// Name of an extension type, also that of a structure which holds the column.
    pub(super) extension: Option<String>,
    /// The values are bytes, and no texts.
    pub(super) holds_bytes: bool,
}

impl ArrowColumn {
    /// Returns what distinguishes types whose values have the same form in a file.
    pub(super) fn beyond_parquet(&self) -> Option<Self> {
        let column = Self {
            holds_bytes: false,
            ..self.clone()
        };
        Some(column).filter(|column| *column != Self::default())
    }
}

/// What Arrow says of columns, by their paths: fields of structures stand behind a dot, and the values of a list have the path of the
/// list. A column of which it says no more than Parquet is not there.
pub(super) type ArrowColumns = BTreeMap<String, ArrowColumn>;

/// Returns what Arrow says of the columns of a file.
pub(super) fn arrow_columns(metadata: &FileMetaData) -> ArrowColumns {
    let mut found = ArrowColumns::new();
    if let Some(message) = arrow_message(metadata) {
        // A schema that cannot be read says nothing: readers of Arrow ignore it, too.
        let _ = collect(&message, &mut found);
        found.retain(|_, column| *column != ArrowColumn::default());
    }
    found
}

/// Returns the message of a file that holds Arrow's schema.
pub(super) fn arrow_message(metadata: &FileMetaData) -> Option<Vec<u8>> {
    let keys = metadata.key_value_metadata().into_iter().flatten();
    let mut texts = keys.filter(|pair| pair.key == ARROW_SCHEMA);
    decode_base64(texts.find_map(|pair| pair.value.as_deref())?)
}

fn collect(message: &[u8], found: &mut ArrowColumns) -> Option<()> {
    let schema = Table::root(flatbuffer(message)?)?.table(MESSAGE_HEADER)?;
    let root = Parent {
        path: String::new(),
        is_list: false,
        extension: None,
        depth: DEPTH_MAX,
    };
    collect_fields(&schema, SCHEMA_FIELDS, &root, found)
}

/// Returns the flatbuffer of an IPC message.
fn flatbuffer(message: &[u8]) -> Option<&[u8]> {
    // Since version 0.15, four bytes of ones stand before the length of the message.
    match message.get(..4)? {
        [0xff, 0xff, 0xff, 0xff] => message.get(8..),
        _ => message.get(4..),
    }
}

/// The field whose children are collected.
struct Parent {
    path: String,
    is_list: bool,
    extension: Option<String>,
    depth: usize,
}

fn collect_fields(
    table: &Table<'_>,
    member: usize,
    parent: &Parent,
    found: &mut ArrowColumns,
) -> Option<()> {
    let depth = parent.depth.checked_sub(1)?;
    for field in table.tables(member) {
        let kind = field.byte(FIELD_TYPE_NUMBER).unwrap_or(0);
        let name = field.text(FIELD_NAME).unwrap_or("");
        let path = match parent.path.as_str() {
            list if parent.is_list => list.to_owned(),
            "" => name.to_owned(),
            outer => format!("{outer}.{name}"),
        };
        let column = found.entry(path.clone()).or_default();
        let extension = extension(&field).or_else(|| parent.extension.clone());
        column.extension = extension.clone().or(column.extension.take());
        match kind {
            TYPE_DURATION => {
                let unit = field.table(FIELD_TYPE)?.short(DURATION_UNIT);
                column.duration = Some(unit_of(unit.unwrap_or(MILLISECONDS)));
            }
            TYPE_TIMESTAMP => {
                let zone = field.table(FIELD_TYPE)?.text(TIMESTAMP_ZONE);
                column.zone = zone.map(str::to_owned);
            }
            TYPE_BINARY | TYPE_LARGE_BINARY | TYPE_BINARY_VIEW | TYPE_FIXED_SIZE_BINARY => {
                column.holds_bytes = true;
            }
            TYPE_FIXED_SIZE_LIST => {
                let size = field.table(FIELD_TYPE)?.int(LIST_SIZE);
                column.list_size = Some(size.unwrap_or(0));
            }
            _ => {}
        }
        let here = Parent {
            path,
            is_list: matches!(kind, TYPE_LIST | TYPE_LARGE_LIST | TYPE_FIXED_SIZE_LIST),
            extension,
            depth,
        };
        collect_fields(&field, FIELD_CHILDREN, &here, found)?;
    }
    Some(())
}

/// Returns the field of Arrow's schema at the path of a column; the whole field of a column of lists.
pub(super) fn field_at<'a>(message: &'a [u8], path: &str) -> Option<Table<'a>> {
    let schema = Table::root(flatbuffer(message)?)?.table(MESSAGE_HEADER)?;
    let (mut table, mut member) = (schema, SCHEMA_FIELDS);
    let mut rest = path;
    // A name may hold dots.
    loop {
        let mut fields = table.tables(member);
        let (field, name) = fields.find_map(|field| {
            let name = field.text(FIELD_NAME)?;
            let follows = rest.strip_prefix(name)?;
            let is_struct = field.byte(FIELD_TYPE_NUMBER) == Some(TYPE_STRUCT);
            let fits = follows.is_empty() || is_struct && follows.starts_with('.');
            fits.then_some((field, name))
        })?;
        rest = &rest[name.len()..];
        match rest.strip_prefix('.') {
            Some(inner) => rest = inner,
            None => return Some(field),
        }
        (table, member) = (field, FIELD_CHILDREN);
    }
}

/// Returns the name of a field's extension type.
fn extension(field: &Table<'_>) -> Option<String> {
    let mut pairs = field.tables(FIELD_METADATA);
    let named = pairs.find(|pair| pair.text(METADATA_KEY) == Some(EXTENSION_NAME))?;
    named.text(METADATA_VALUE).map(str::to_owned)
}

fn unit_of(number: u16) -> Ticks {
    match number {
        0 => Ticks::Seconds,
        2 => Ticks::Microseconds,
        3 => Ticks::Nanoseconds,
        _ => Ticks::Milliseconds,
    }
}

/// A table of a flatbuffer (<https://flatbuffers.dev/internals/>).
pub(super) struct Table<'a> {
    /// The whole flatbuffer.
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Table<'a> {
    fn root(bytes: &'a [u8]) -> Option<Self> {
        let at = u32_at(bytes, 0)?;
        Some(Self { bytes, at })
    }

    /// Returns the place of a member that is there.
    fn member(&self, number: usize) -> Option<usize> {
        let back = i32::from_le_bytes(*self.bytes.get(self.at..)?.first_chunk()?);
        let members = i64::try_from(self.at).ok()?.checked_sub(i64::from(back))?;
        let members = usize::try_from(members).ok()?;
        let offset = 4 + 2 * number;
        if offset + 2 > usize::from(u16_at(self.bytes, members)?) {
            return None;
        }
        match u16_at(self.bytes, members + offset)? {
            0 => None,
            offset => Some(self.at + usize::from(offset)),
        }
    }

    pub(super) fn byte(&self, number: usize) -> Option<u8> {
        self.bytes.get(self.member(number)?).copied()
    }

    fn short(&self, number: usize) -> Option<u16> {
        u16_at(self.bytes, self.member(number)?)
    }

    fn int(&self, number: usize) -> Option<u32> {
        let bytes = self.bytes.get(self.member(number)?..)?;
        Some(u32::from_le_bytes(*bytes.first_chunk()?))
    }

    /// Returns the place that a member points to.
    fn target(&self, number: usize) -> Option<usize> {
        let place = self.member(number)?;
        place.checked_add(u32_at(self.bytes, place)?)
    }

    /// Returns the table, or another object, that a member points to.
    pub(super) fn table(&self, number: usize) -> Option<Self> {
        let at = self.target(number)?;
        let bytes = self.bytes;
        Some(Self { bytes, at })
    }

    fn text(&self, number: usize) -> Option<&'a str> {
        let at = self.target(number)?;
        let length = u32_at(self.bytes, at)?;
        let text = self.bytes.get(at + 4..)?.get(..length)?;
        std::str::from_utf8(text).ok()
    }

    fn tables(&self, number: usize) -> impl Iterator<Item = Self> + use<'a> {
        let bytes = self.bytes;
        let vector = self.target(number);
        let length = vector.and_then(|at| u32_at(bytes, at)).unwrap_or(0);
        // Each has four bytes: a broken length names no more than there are.
        let length = length.min(bytes.len() / 4);
        (0..length).filter_map(move |nth| {
            let place = vector? + 4 + 4 * nth;
            let at = place.checked_add(u32_at(bytes, place)?)?;
            Some(Self { bytes, at })
        })
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    let number = u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?);
    usize::try_from(number).ok()
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text.trim_end_matches('=').bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Some(out)
}
