//! What Parquet does not say of columns: durations, which it holds as plain whole numbers, and lists of one length. The schema of
//! Arrow, which Arrow's writers put into the file's metadata as a base64 text of an IPC message, says the unit and the length.
//! <https://github.com/apache/arrow/blob/main/format/Schema.fbs>

use std::collections::BTreeMap;

use parquet::file::metadata::FileMetaData;

use crate::row::Ticks;

/// Key of the metadata that holds Arrow's schema.
pub(super) const ARROW_SCHEMA: &str = "ARROW:schema";
/// Deepest field that is looked at.
const DEPTH_MAX: usize = 32;

// Places of members in the tables of `Schema.fbs` and `Message.fbs`, and numbers of types there.
const MESSAGE_HEADER: usize = 2;
const SCHEMA_FIELDS: usize = 1;
const FIELD_NAME: usize = 0;
const FIELD_TYPE_NUMBER: usize = 2;
const FIELD_TYPE: usize = 3;
const FIELD_CHILDREN: usize = 5;
const DURATION_UNIT: usize = 0;
const LIST_SIZE: usize = 0;
const TYPE_LIST: u8 = 12;
const TYPE_FIXED_SIZE_LIST: u8 = 16;
const TYPE_DURATION: u8 = 18;
const TYPE_LARGE_LIST: u8 = 21;
/// Unit of a duration whose table does not name one.
const MILLISECONDS: u16 = 1;

/// What Arrow says of columns, by their paths: fields of structures stand behind a dot, and the values of a list have the path of the
/// list.
#[derive(Debug, Default)]
pub(super) struct ArrowTypes {
    /// Units of durations.
    pub(super) durations: BTreeMap<String, Unit>,
    /// Lengths of lists that all have the same.
    pub(super) list_sizes: BTreeMap<String, u32>,
}

/// Returns what Arrow says of the columns of a file.
pub(super) fn arrow_types(metadata: &FileMetaData) -> ArrowTypes {
    let mut found = ArrowTypes::default();
    let keys = metadata.key_value_metadata().into_iter().flatten();
    let mut texts = keys.filter(|pair| pair.key == ARROW_SCHEMA);
    if let Some(text) = texts.find_map(|pair| pair.value.as_deref())
        && let Some(message) = decode_base64(text)
    {
        // A schema that cannot be read says nothing: readers of Arrow ignore it, too.
        let _ = collect(&message, &mut found);
    }
    found
}

fn collect(message: &[u8], found: &mut ArrowTypes) -> Option<()> {
    // Since version 0.15, four bytes of ones stand before the length of the message.
    let content = match message.get(..4)? {
        [0xff, 0xff, 0xff, 0xff] => message.get(8..)?,
        _ => message.get(4..)?,
    };
    let schema = Table::root(content)?.table(MESSAGE_HEADER)?;
    collect_fields(&schema, SCHEMA_FIELDS, ("", DEPTH_MAX), found)
}

fn collect_fields(
    parent: &Table<'_>,
    member: usize,
    (path, depth): (&str, usize),
    found: &mut ArrowTypes,
) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    for field in parent.tables(member) {
        let kind = field.byte(FIELD_TYPE_NUMBER).unwrap_or(0);
        let name = field.text(FIELD_NAME).unwrap_or("");
        let here = match path.strip_suffix("[]") {
            Some(list) => list.to_owned(),
            None if path.is_empty() => name.to_owned(),
            None => format!("{path}.{name}"),
        };
        match kind {
            TYPE_DURATION => {
                let unit = field.table(FIELD_TYPE)?.short(DURATION_UNIT);
                let unit = Unit::of(unit.unwrap_or(MILLISECONDS));
                found.durations.insert(here, unit);
            }
            TYPE_LIST | TYPE_LARGE_LIST | TYPE_FIXED_SIZE_LIST => {
                if kind == TYPE_FIXED_SIZE_LIST {
                    let size = field.table(FIELD_TYPE)?.int(LIST_SIZE).unwrap_or(0);
                    found.list_sizes.insert(here.clone(), size);
                }
                collect_fields(&field, FIELD_CHILDREN, (&format!("{here}[]"), depth), found)?;
            }
            _ => collect_fields(&field, FIELD_CHILDREN, (&here, depth), found)?,
        }
    }
    Some(())
}

/// Unit of durations: its name in Arrow, and what it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unit {
    pub(super) name: &'static str,
    ticks: Ticks,
}

impl Unit {
    fn of(number: u16) -> Self {
        let (name, ticks) = match number {
            0 => ("s", Ticks::Seconds),
            2 => ("us", Ticks::Microseconds),
            3 => ("ns", Ticks::Nanoseconds),
            _ => ("ms", Ticks::Milliseconds),
        };
        Self { name, ticks }
    }
}

/// Returns the units of the columns of durations, by the names that jobs have for them.
pub(super) fn durations(metadata: &FileMetaData) -> BTreeMap<String, Ticks> {
    let found = arrow_types(metadata).durations.into_iter();
    found.map(|(path, unit)| (path, unit.ticks)).collect()
}

/// A table of a flatbuffer (<https://flatbuffers.dev/internals/>).
struct Table<'a> {
    bytes: &'a [u8],
    at: usize,
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

    fn byte(&self, number: usize) -> Option<u8> {
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

    fn table(&self, number: usize) -> Option<Self> {
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
