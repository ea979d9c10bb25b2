//! Schema of an input: the columns that a job reads from each record.

use trainyard_input_options::TimeUnit;

use crate::Batch;
use crate::rule::{RowRule, Rule};
use crate::time_range::{MISSING_TIME, TimeRange};

/// The type into which a field of a record is parsed.
///
/// The values of a TFRecord feature are separate already, so a separator only means that there may be several values.
/// Floats are read from a `float_list` or `int64_list`, integers from an `int64_list` (unless fractions are [`Fraction::Refused`], also from a
/// `float_list`), and texts from a `bytes_list` or `int64_list`. A feature that is absent or has no value is missing.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldKind {
    /// 32-bit floats. A missing field becomes `default`. Without a default, the row is bad.
    Float {
        /// Numbers in a field, at least 1.
        width: usize,
        /// Byte between the numbers; absent = the field is one number.
        separator: Option<u8>,
        /// Values of a missing field, `width` of them.
        default: Option<Vec<f32>>,
    },
    /// 32-bit floats, any number of them: weights of the values of another field. A missing field has none.
    Floats {
        /// Byte between the numbers.
        separator: u8,
    },
    /// A 64-bit integer. A missing integer is -1, and a missing time is [`FieldKind::MISSING_TIME`]. With a separator, any number of integers; a missing field has none.
    Int {
        /// Byte between the numbers; absent = the field is one number.
        separator: Option<u8>,
        /// Treatment of a number with a fraction.
        fraction: Fraction,
    },
    /// A text, as its bytes. A missing text is empty. With a separator, any number of texts; a missing field has none.
    Bytes {
        /// Byte between the texts; absent = the field is one text.
        separator: Option<u8>,
    },
}

impl FieldKind {
    /// One float. A missing float makes the row bad.
    pub const FLOAT: Self = Self::Float {
        width: 1,
        separator: None,
        default: None,
    };
    /// One integer. A missing integer is -1.
    pub const INT: Self = Self::Int {
        separator: None,
        fraction: Fraction::Refused,
    };
    /// One text.
    pub const BYTES: Self = Self::Bytes { separator: None };

    /// The placeholder of a missing time, that of pandas and numpy (`NaT`): -1 is a time, the last second of 1969.
    pub const MISSING_TIME: i64 = MISSING_TIME;

    /// Returns what becomes of the fraction of a number where a value of this kind is wanted.
    pub(crate) fn fraction(&self) -> Fraction {
        match self {
            Self::Int { fraction, .. } => *fraction,
            _ => Fraction::Refused,
        }
    }

    /// Returns the placeholder of a missing integer.
    pub fn missing_integer(&self) -> i64 {
        match self {
            Self::Int {
                fraction: Fraction::Time(_),
                ..
            } => Self::MISSING_TIME,
            _ => -1,
        }
    }

    /// Returns whether rows may hold different numbers of values.
    pub fn is_ragged(&self) -> bool {
        match self {
            Self::Float { .. } => false,
            Self::Floats { .. } => true,
            Self::Int { separator, .. } | Self::Bytes { separator } => separator.is_some(),
        }
    }
}

impl Fraction {
    /// Returns whether a number with a fraction is taken.
    pub(crate) fn is_dropped(self) -> bool {
        self != Self::Refused
    }
}

/// Treatment of a number with a fraction where a whole number is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fraction {
    /// The row is bad.
    Refused,
    /// The fraction is dropped.
    Dropped,
    /// The number is a time in this unit, and its fraction is dropped. A column whose type has a unit of its own is
    /// converted.
    Time(TimeUnit),
}

/// Treatment of a missing value in a list of any length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gaps {
    /// The value is left out.
    LeftOut,
    /// The value is left out at the end of the list. Before another value it makes the row bad: it is a list of weights, or
    /// of values with weights, and a weight must not become that of another value.
    Refused,
}

/// A wanted column.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Name of the column in the header or the job's list of columns.
    pub name: String,
    /// Type into which the column is parsed. A column may be wanted twice, with different kinds.
    pub kind: FieldKind,
    /// Treatment of missing values, if the column holds lists of any length.
    pub gaps: Gaps,
}

/// The wanted columns, in the order in which a [`crate::Batch`] holds them.
#[derive(Debug, Clone, Default)]
pub struct Schema {
    /// Wanted columns.
    pub fields: Vec<Field>,
    /// Rules that each record follows. A record that breaks one is bad, as one that cannot be parsed.
    rules: Vec<Rule>,
    /// Fields that are not parsed: their cells are written elsewhere, so that their columns may have any type.
    pub(crate) kept: Vec<String>,
    /// Fields that are parsed, and whose cells are written elsewhere, too: with all digits of decimals.
    pub(crate) kept_beside: Vec<String>,
}

impl Schema {
    /// Returns all columns of the schema that are not among `known`. `first` is one of them, and comes first.
    pub(crate) fn missing_in(&self, known: &[String], first: String) -> Vec<String> {
        let mut missing = vec![first];
        let fields = self.fields.iter();
        for field in fields.filter(|field| !known.contains(&field.name)) {
            if !missing.contains(&field.name) {
                missing.push(field.name.clone());
            }
        }
        missing
    }

    /// Returns the position of the field with this name and kind. Adds the field if it is new.
    pub fn want(&mut self, name: &str, kind: FieldKind) -> usize {
        let same = |have: &Field| have.name == name && have.kind == kind;
        if let Some(position) = self.fields.iter().position(same) {
            return position;
        }
        let gaps = match kind {
            FieldKind::Floats { .. } => Gaps::Refused,
            _ => Gaps::LeftOut,
        };
        let field = self.fields.len();
        if let FieldKind::Int {
            fraction: Fraction::Time(unit),
            ..
        } = kind
        {
            self.require(field, TimeRange { field, unit });
        }
        self.fields.push(Field {
            name: name.to_owned(),
            kind,
            gaps,
        });
        field
    }

    /// Makes rows bad whose list of this field misses a value before another one: its values have weights.
    pub fn refuse_gaps(&mut self, field: usize) {
        self.fields[field].gaps = Gaps::Refused;
    }

    /// Adds a rule. A record that breaks it is bad for the sake of the column of `field`.
    pub fn require(&mut self, field: usize, rule: impl RowRule + 'static) {
        self.rules.push(Rule::new(field, rule));
    }

    /// Checks a row of a batch of this schema. Returns the first field whose rule the row breaks, and the reason.
    pub(crate) fn check(&self, batch: &Batch, row: usize) -> Result<(), (usize, String)> {
        self.rules
            .iter()
            .try_for_each(|rule| rule.check(batch, row))
    }

    /// Returns the number of values that are made of a row beyond those that it has.
    fn values_made(&self, batch: &Batch, row: usize) -> usize {
        let made = self.rules.iter().map(|rule| rule.values_made(batch, row));
        made.fold(0, usize::saturating_add)
    }

    /// Returns the number of values that are made of a batch beyond those that it has.
    pub(crate) fn values_made_of(&self, batch: &Batch) -> usize {
        let made = (0..batch.rows).map(|row| self.values_made(batch, row));
        made.fold(0, usize::saturating_add)
    }
}
