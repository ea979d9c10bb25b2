//! Columns of typed values, and the rows across them.

use std::ops::Range;

use crate::row::Cell;

/// Texts, end to end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Texts {
    bytes: Vec<u8>,
    /// End of each text in `bytes`.
    ends: Vec<usize>,
}

impl Texts {
    /// Appends a text.
    #[inline]
    pub(crate) fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
    }

    #[inline]
    fn get(&self, nth: usize) -> &[u8] {
        let begin = nth.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[begin..self.ends[nth]]
    }
}

/// Values of one type, end to end.
#[derive(Debug, Clone)]
pub(crate) enum Values {
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Text(Texts),
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Self::Int32(values) => values.len(),
            Self::Int64(values) => values.len(),
            Self::Float(values) => values.len(),
            Self::Double(values) => values.len(),
            Self::Text(texts) => texts.ends.len(),
        }
    }

    #[inline]
    fn cell(&self, nth: usize) -> Cell<'_> {
        match self {
            Self::Int32(values) => Cell::Int(i64::from(values[nth])),
            Self::Int64(values) => Cell::Int(values[nth]),
            Self::Float(values) => Cell::Float(f64::from(values[nth])),
            Self::Double(values) => Cell::Float(values[nth]),
            Self::Text(texts) => Cell::Text(texts.get(nth)),
        }
    }

    fn empty(&self) -> Self {
        match self {
            Self::Int32(_) => Self::Int32(Vec::new()),
            Self::Int64(_) => Self::Int64(Vec::new()),
            Self::Float(_) => Self::Float(Vec::new()),
            Self::Double(_) => Self::Double(Vec::new()),
            Self::Text(_) => Self::Text(Texts::default()),
        }
    }

    #[inline]
    fn push(&mut self, from: &Self, nth: usize) {
        match (self, from) {
            (Self::Int32(values), Self::Int32(from)) => values.push(from[nth]),
            (Self::Int64(values), Self::Int64(from)) => values.push(from[nth]),
            (Self::Float(values), Self::Float(from)) => values.push(from[nth]),
            (Self::Double(values), Self::Double(from)) => values.push(from[nth]),
            (Self::Text(texts), Self::Text(from)) => texts.push(from.get(nth)),
            // The caller compares the types once for all columns.
            _ => {}
        }
    }

    fn clear(&mut self) {
        match self {
            Self::Int32(values) => values.clear(),
            Self::Int64(values) => values.clear(),
            Self::Float(values) => values.clear(),
            Self::Double(values) => values.clear(),
            Self::Text(texts) => {
                texts.bytes.clear();
                texts.ends.clear();
            }
        }
    }
}

/// Number of values that a row may hold in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arity {
    /// One value or none.
    Optional,
    /// Any number of values.
    List,
}

/// A column of rows.
#[derive(Debug, Clone)]
pub(crate) struct ValueColumn {
    arity: Arity,
    values: Values,
    /// Place of the first value of each row, and at the end the number of values; absent = each row has one value.
    begins: Option<Vec<usize>>,
}

impl ValueColumn {
    /// Returns a column in which each row has one value.
    pub(crate) fn full(values: Values) -> Self {
        Self {
            arity: Arity::Optional,
            values,
            begins: None,
        }
    }

    /// Returns a column whose rows have the values between two `begins`. The first is 0, the last the number of values.
    pub(crate) fn ragged(arity: Arity, values: Values, begins: Vec<usize>) -> Self {
        Self {
            arity,
            values,
            begins: Some(begins),
        }
    }

    #[inline]
    fn places(&self, row: usize) -> Range<usize> {
        match &self.begins {
            None => row..row + 1,
            Some(begins) => begins[row]..begins[row + 1],
        }
    }

    fn encoded_len(&self, row: usize) -> usize {
        let places = self.places(row);
        let head = match self.arity {
            Arity::Optional if places.is_empty() => Cell::Missing.encoded_len(),
            Arity::Optional => 0,
            Arity::List => Cell::List(0).encoded_len(),
        };
        let values = places.map(|nth| self.values.cell(nth).encoded_len());
        head + values.sum::<usize>()
    }

    fn is_like(&self, other: &Self) -> bool {
        self.arity == other.arity
            && std::mem::discriminant(&self.values) == std::mem::discriminant(&other.values)
    }

    #[inline]
    fn push(&mut self, from: &Self, row: usize) {
        let places = from.places(row);
        if self.begins.is_none() && places.len() != 1 {
            self.begins = Some((0..=self.values.len()).collect());
        }
        for nth in places {
            self.values.push(&from.values, nth);
        }
        if let Some(begins) = &mut self.begins {
            begins.push(self.values.len());
        }
    }
}

/// Rows across columns.
#[derive(Debug)]
pub(crate) struct ColumnarRows {
    columns: Vec<ValueColumn>,
    /// Bytes of each row in its inline form.
    encoded_lens: Vec<usize>,
}

impl ColumnarRows {
    /// Returns the rows of columns, each of which has `rows` rows.
    pub(crate) fn new(columns: Vec<ValueColumn>, rows: usize) -> Self {
        let mut encoded_lens = vec![0; rows];
        for column in &columns {
            for (row, length) in encoded_lens.iter_mut().enumerate() {
                *length += column.encoded_len(row);
            }
        }
        Self {
            columns,
            encoded_lens,
        }
    }

    /// Returns the number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.encoded_lens.len()
    }

    /// Returns the number of bytes of a row in its inline form.
    #[inline]
    pub(crate) fn encoded_len(&self, row: usize) -> usize {
        self.encoded_lens[row]
    }

    /// Returns the number of bytes of all rows in their inline form.
    pub(crate) fn encoded_bytes(&self) -> usize {
        self.encoded_lens.iter().sum()
    }

    /// Returns the cells of a row, in the order of the columns.
    #[inline]
    pub(crate) fn cells(&self, row: usize) -> CellsOfRow<'_> {
        CellsOfRow {
            columns: self.columns.iter(),
            row,
            list: None,
        }
    }

    /// Returns whether both have the same columns: as many, of the same types.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.columns.len() == other.columns.len()
            && self
                .columns
                .iter()
                .zip(&other.columns)
                .all(|(own, other)| own.is_like(other))
    }

    /// Returns the same columns without rows.
    pub(crate) fn empty(&self) -> Self {
        let columns = self.columns.iter().map(|column| ValueColumn {
            arity: column.arity,
            values: column.values.empty(),
            begins: None,
        });
        Self {
            columns: columns.collect(),
            encoded_lens: Vec::new(),
        }
    }

    /// Appends a row of `from`, which has the same columns.
    pub(crate) fn push(&mut self, from: &Self, row: usize) {
        for (column, from) in self.columns.iter_mut().zip(&from.columns) {
            column.push(from, row);
        }
        self.encoded_lens.push(from.encoded_lens[row]);
    }

    /// Removes all rows. The memory is kept.
    pub(crate) fn clear(&mut self) {
        for column in &mut self.columns {
            column.values.clear();
            column.begins = None;
        }
        self.encoded_lens.clear();
    }
}

/// Iterator over the cells of a row. The values of a list follow its head.
#[derive(Debug, Clone)]
pub(crate) struct CellsOfRow<'a> {
    columns: std::slice::Iter<'a, ValueColumn>,
    row: usize,
    /// The values of the current list that are left.
    list: Option<(&'a Values, Range<usize>)>,
}

impl<'a> Iterator for CellsOfRow<'a> {
    type Item = Cell<'a>;

    #[inline]
    fn next(&mut self) -> Option<Cell<'a>> {
        if let Some((values, left)) = &mut self.list {
            match left.next() {
                Some(nth) => return Some(values.cell(nth)),
                None => self.list = None,
            }
        }
        let column = self.columns.next()?;
        let places = column.places(self.row);
        Some(match column.arity {
            Arity::Optional if places.is_empty() => Cell::Missing,
            Arity::Optional => column.values.cell(places.start),
            Arity::List => {
                let count = u32::try_from(places.len()).unwrap_or(u32::MAX);
                self.list = Some((&column.values, places));
                Cell::List(count)
            }
        })
    }
}
