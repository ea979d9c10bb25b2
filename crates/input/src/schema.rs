//! The columns a job wants from each record.

/// What a field of a record is parsed into.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldKind {
    /// A 32-bit float. A missing value becomes `default`, or is a bad row when there is none.
    Float {
        /// Stands for a missing value.
        default: Option<f32>,
    },
    /// A 64-bit integer. A missing value becomes `default`, or -1 when there is none.
    Int {
        /// Stands for a missing value.
        default: Option<i64>,
    },
    /// Text, as its bytes. A missing value is the empty string.
    Bytes,
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
        let field = Field { name: name.to_owned(), kind };
        if let Some(position) = self.fields.iter().position(|have| *have == field) {
            return position;
        }
        self.fields.push(field);
        self.fields.len() - 1
    }
}
