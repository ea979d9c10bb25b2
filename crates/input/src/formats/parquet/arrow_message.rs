//! The message that says to readers of Arrow what Parquet does not say of columns: a schema of Arrow whose fields are those of other files,
//! and plain ones. The flatbuffers of the other files are in it as they are, and its own tables point into them: so the fields keep all
//! that their files say of them.
//! <https://arrow.apache.org/docs/format/Columnar.html#encapsulated-message-format>

use super::arrow_schema::{
    FIELD_CHILDREN, FIELD_DICTIONARY, FIELD_METADATA, FIELD_NAME, FIELD_NULLABLE, FIELD_TYPE,
    FIELD_TYPE_NUMBER, FLOAT_PRECISION, INT_BITS, INT_SIGNED, MESSAGE_HEADER, MESSAGE_HEADER_TYPE,
    MESSAGE_VERSION, SCHEMA_FIELDS, TYPE_BINARY, TYPE_BOOL, TYPE_FLOAT, TYPE_INT, TYPE_LIST,
    TYPE_UTF8, Table,
};
use crate::{ColumnKind, ColumnLayout};

/// Version 5 of the metadata.
const VERSION: u16 = 4;
/// Number of the schema among the headers of messages.
const HEADER_SCHEMA: u8 = 1;
/// Number of the floats of 64 bits among the precisions.
const DOUBLE: u16 = 2;
/// Alignment of the embedded flatbuffers, which is that of their files.
const ALIGNMENT: usize = 8;
/// Bytes that stand before the length of a message.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// A field of the schema.
pub(super) enum ArrowField<'a> {
    /// A field of another file, as it is.
    Whole(Table<'a>),
    /// A field of another file, under another name.
    Named(String, Table<'a>),
    /// A column of this program.
    Plain(&'a ColumnLayout),
}

/// Returns the text of the file's metadata that holds a schema of these fields.
pub(super) fn schema_text(fields: Vec<ArrowField<'_>>) -> String {
    let fields = Node::Vector(fields.into_iter().map(node).collect());
    let schema = Node::Table(vec![(SCHEMA_FIELDS, Member::Node(fields))]);
    let message = Node::Table(vec![
        (MESSAGE_VERSION, Member::Short(VERSION)),
        (MESSAGE_HEADER_TYPE, Member::Byte(HEADER_SCHEMA)),
        (MESSAGE_HEADER, Member::Node(schema)),
    ]);
    let mut buffer = Flatbuffer::default();
    let root = buffer.reserve();
    buffer.put(root, message);
    let bytes = buffer.finish();
    let length = u32::try_from(bytes.len()).expect("a schema is under 4 GiB");
    encode_base64(&[&CONTINUATION[..], &length.to_le_bytes(), &bytes].concat())
}

fn node(field: ArrowField<'_>) -> Node<'_> {
    match field {
        ArrowField::Whole(table) => Node::Embedded(table),
        ArrowField::Named(name, table) => named(name, &table),
        ArrowField::Plain(column) => plain(&column.name, column),
    }
}

fn named<'a>(name: String, table: &Table<'a>) -> Node<'a> {
    let mut members = vec![
        (FIELD_NAME, Member::Node(Node::Text(name))),
        (FIELD_NULLABLE, Member::Byte(1)),
        (
            FIELD_TYPE_NUMBER,
            Member::Byte(table.byte(FIELD_TYPE_NUMBER).unwrap_or(0)),
        ),
    ];
    for member in [FIELD_TYPE, FIELD_DICTIONARY, FIELD_CHILDREN, FIELD_METADATA] {
        match table.table(member) {
            Some(there) => members.push((member, Member::Node(Node::Embedded(there)))),
            None if member == FIELD_CHILDREN => members.push((member, no_children())),
            None => {}
        }
    }
    Node::Table(members)
}

fn no_children<'a>() -> Member<'a> {
    Member::Node(Node::Vector(Vec::new()))
}

fn plain<'a>(name: &str, column: &ColumnLayout) -> Node<'a> {
    if column.list {
        let value = ColumnLayout {
            list: false,
            ..column.clone()
        };
        let children = Member::Node(Node::Vector(vec![plain("element", &value)]));
        return plain_field(name, TYPE_LIST, Vec::new(), children);
    }
    let (number, members) = match column.kind {
        Some(ColumnKind::Boolean) => (TYPE_BOOL, Vec::new()),
        Some(ColumnKind::Int) => (
            TYPE_INT,
            vec![(INT_BITS, Member::Int(64)), (INT_SIGNED, Member::Byte(1))],
        ),
        Some(ColumnKind::Float) => (TYPE_FLOAT, vec![(FLOAT_PRECISION, Member::Short(DOUBLE))]),
        Some(ColumnKind::Text) => (TYPE_UTF8, Vec::new()),
        None => (TYPE_BINARY, Vec::new()),
    };
    plain_field(name, number, members, no_children())
}

fn plain_field<'a>(
    name: &str,
    number: u8,
    of_type: Vec<(usize, Member<'a>)>,
    children: Member<'a>,
) -> Node<'a> {
    Node::Table(vec![
        (FIELD_NAME, Member::Node(Node::Text(name.to_owned()))),
        (FIELD_NULLABLE, Member::Byte(1)),
        (FIELD_TYPE_NUMBER, Member::Byte(number)),
        (FIELD_TYPE, Member::Node(Node::Table(of_type))),
        (FIELD_CHILDREN, children),
    ])
}

/// What an offset of a flatbuffer points to.
enum Node<'a> {
    Table(Vec<(usize, Member<'a>)>),
    Vector(Vec<Node<'a>>),
    Text(String),
    /// A table, or another object, of another flatbuffer.
    Embedded(Table<'a>),
}

/// A member of a table.
enum Member<'a> {
    Byte(u8),
    Short(u16),
    Int(u32),
    Node(Node<'a>),
}

impl Member<'_> {
    fn size(&self) -> usize {
        match self {
            Self::Byte(_) => 1,
            Self::Short(_) => 2,
            Self::Int(_) | Self::Node(_) => 4,
        }
    }
}

/// A flatbuffer that is written from its root on: offsets point forward.
#[derive(Default)]
struct Flatbuffer<'a> {
    bytes: Vec<u8>,
    /// Places of offsets into other flatbuffers.
    embedded: Vec<(usize, Table<'a>)>,
}

impl<'a> Flatbuffer<'a> {
    fn align(&mut self, to: usize) {
        let length = self.bytes.len().next_multiple_of(to);
        self.bytes.resize(length, 0);
    }

    /// Returns the place of four bytes that are written later.
    fn reserve(&mut self) -> usize {
        self.align(4);
        self.bytes.extend([0; 4]);
        self.bytes.len() - 4
    }

    fn write_u32(&mut self, place: usize, number: usize) {
        let number = u32::try_from(number).expect("a schema is under 4 GiB");
        self.bytes[place..place + 4].copy_from_slice(&number.to_le_bytes());
    }

    fn point(&mut self, place: usize, target: usize) {
        self.write_u32(place, target - place);
    }

    /// Appends an object, and points to it.
    fn put(&mut self, place: usize, node: Node<'a>) {
        match node {
            Node::Embedded(table) => self.embedded.push((place, table)),
            Node::Text(text) => {
                let begin = self.reserve();
                self.write_u32(begin, text.len());
                self.bytes.extend(text.as_bytes());
                self.bytes.push(0);
                self.point(place, begin);
            }
            Node::Vector(nodes) => {
                let begin = self.reserve();
                self.write_u32(begin, nodes.len());
                let places: Vec<usize> = nodes.iter().map(|_| self.reserve()).collect();
                self.point(place, begin);
                for (place, node) in places.into_iter().zip(nodes) {
                    self.put(place, node);
                }
            }
            Node::Table(members) => self.put_table(place, members),
        }
    }

    fn put_table(&mut self, place: usize, mut members: Vec<(usize, Member<'a>)>) {
        // The larger ones first, so that each is aligned.
        members.sort_by_key(|(_, member)| std::cmp::Reverse(member.size()));
        let slots = members.iter().map(|(number, _)| number + 1).max();
        let vtable_size = 4 + 2 * slots.unwrap_or(0);
        let sizes = members.iter().map(|(_, member)| member.size());
        let table_size = 4 + sizes.sum::<usize>();
        let short = |number: usize| u16::try_from(number).expect("a table has few members");
        // The table follows its list of members, and begins at a multiple of four.
        while !(self.bytes.len() + vtable_size).is_multiple_of(4) {
            self.bytes.push(0);
        }
        let vtable = self.bytes.len();
        let table = vtable + vtable_size;
        self.bytes.resize(table + table_size, 0);
        let mut write = |at: usize, bytes: &[u8]| {
            self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        };
        write(vtable, &short(vtable_size).to_le_bytes());
        write(vtable + 2, &short(table_size).to_le_bytes());
        write(table, &u32::from(short(vtable_size)).to_le_bytes());
        let mut at = 4;
        let mut nodes = Vec::new();
        for (number, member) in members {
            write(vtable + 4 + 2 * number, &short(at).to_le_bytes());
            let size = member.size();
            match member {
                Member::Byte(byte) => write(table + at, &[byte]),
                Member::Short(number) => write(table + at, &number.to_le_bytes()),
                Member::Int(number) => write(table + at, &number.to_le_bytes()),
                Member::Node(node) => nodes.push((table + at, node)),
            }
            at += size;
        }
        self.point(place, table);
        for (place, node) in nodes {
            self.put(place, node);
        }
    }

    /// Appends the other flatbuffers, each once, and returns the bytes.
    fn finish(mut self) -> Vec<u8> {
        let mut begins: Vec<(*const u8, usize)> = Vec::new();
        for (place, table) in std::mem::take(&mut self.embedded) {
            let known = begins
                .iter()
                .find(|(bytes, _)| *bytes == table.bytes.as_ptr());
            let begin = match known {
                Some((_, begin)) => *begin,
                None => {
                    self.align(ALIGNMENT);
                    let begin = self.bytes.len();
                    self.bytes.extend(table.bytes);
                    begins.push((table.bytes.as_ptr(), begin));
                    begin
                }
            };
            self.point(place, begin + table.at);
        }
        self.align(ALIGNMENT);
        self.bytes
    }
}

fn encode_base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |place: usize| u32::from(group.get(place).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            if digit <= group.len() {
                let value = bits >> (18 - 6 * digit) & 63;
                out.push(char::from(DIGITS[value as usize]));
            } else {
                out.push('=');
            }
        }
    }
    out
}
