//! The columns a job wants from each record.

/// What a field of a record is parsed into.
///
/// A TFRecord's feature holds its values apart: a separator then only says that there may be several. A `float_list` or
/// `int64_list` is taken for floats, an `int64_list` for integers (and a `float_list` where they are cut), a
/// `bytes_list` or `int64_list` for texts. A feature that is absent, or holds no value, is missing.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldKind {
    /// 32-bit floats. A missing field becomes `default`, or is a bad row when there is none.
    Float {
        /// Numbers in a field, at least 1.
        width: usize,
        /// Byte between them; absent = the field is one number.
        separator: Option<u8>,
        /// Stand for a missing field, `width` of them.
        default: Option<Vec<f32>>,
    },
    /// As many 32-bit floats as a field holds; a missing field holds none.
    Floats {
        /// Byte between them.
        separator: u8,
    },
    /// A 64-bit integer; a missing one is -1. With a separator, as many as the field holds, and a missing field none.
    Int {
        /// Byte between them; absent = the field is one number.
        separator: Option<u8>,
        /// Whether a number with a fraction is cut to a whole one; otherwise it is a bad row.
        truncate: bool,
    },
    /// Text, as its bytes; a missing one is the empty string. With a separator, as many texts as the field holds, and
    /// a missing field none.
    Bytes {
        /// Byte between them; absent = the field is one text.
        separator: Option<u8>,
    },
}

impl FieldKind {
    /// One float; a missing one is a bad row.
    pub const FLOAT: Self = Self::Float {
        width: 1,
        separator: None,
        default: None,
    };
    /// One integer; a missing one is -1.
    pub const INT: Self = Self::Int {
        separator: None,
        truncate: false,
    };
    /// One text.
    pub const BYTES: Self = Self::Bytes { separator: None };

    /// Returns whether rows hold different numbers of values.
    pub fn is_ragged(&self) -> bool {
        match self {
            Self::Float { .. } => false,
            Self::Floats { .. } => true,
            Self::Int { separator, .. } | Self::Bytes { separator } => separator.is_some(),
        }
    }
}

/// One wanted column.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Name of the column in the header or the job's list of columns.
    pub name: String,
    /// How it is parsed. The same column may be wanted twice with different kinds.
    pub kind: FieldKind,
}

/// The wanted columns, in the order in which a [`crate::Batch`] holds them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Schema {
    /// Wanted columns.
    pub fields: Vec<Field>,
}

impl Schema {
    /// Returns the position of the field with this name and kind, adding it when it is new.
    pub fn want(&mut self, name: &str, kind: FieldKind) -> usize {
        let field = Field {
            name: name.to_owned(),
            kind,
        };
        if let Some(position) = self.fields.iter().position(|have| *have == field) {
            return position;
        }
        self.fields.push(field);
        self.fields.len() - 1
    }
}
