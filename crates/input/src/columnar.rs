//! Rows of columnar files in memory, with the columns and types that the files have.

use std::ops::Range;

use crate::row::{Cell, Ticks};

/// Texts, end to end.
#[derive(Debug, Default)]
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
    pub(crate) fn get(&self, nth: usize) -> &[u8] {
        let begin = nth.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[begin..self.ends[nth]]
    }
}

/// Values of one type, end to end.
#[derive(Debug)]
pub(crate) enum Values {
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Unsigned(Vec<u64>),
    Time(Vec<i64>, Ticks),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Text(Texts),
}

impl Values {
    #[inline]
    fn cell(&self, nth: usize) -> Cell<'_> {
        match self {
            Self::Int32(values) => Cell::Int(i64::from(values[nth])),
            Self::Int64(values) => Cell::Int(values[nth]),
            Self::Unsigned(values) => Cell::Unsigned(values[nth]),
            Self::Time(values, ticks) => Cell::Time(values[nth], *ticks),
            Self::Float(values) => Cell::Float(f64::from(values[nth])),
            Self::Double(values) => Cell::Float(values[nth]),
            Self::Text(texts) => Cell::Text(texts.get(nth)),
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
#[derive(Debug)]
pub(crate) struct ValueColumn {
    arity: Arity,
    values: Values,
    /// Place of the first value of each row, and at the end the number of values; absent = each row has one value.
    begins: Option<Vec<usize>>,
    /// Where a list has a place without a value: for each place of all lists, that of its value.
    gaps: Option<Vec<Option<usize>>>,
    /// Where some rows of a column of lists have no list: for each row, whether it has none.
    absent: Option<Vec<bool>>,
}

impl ValueColumn {
    /// Returns a column in which each row has one value.
    pub(crate) fn full(values: Values) -> Self {
        Self {
            arity: Arity::Optional,
            values,
            begins: None,
            gaps: None,
            absent: None,
        }
    }

    /// Returns a column whose rows have the values between two `begins`. The first is 0, the last the number of values.
    pub(crate) fn ragged(arity: Arity, values: Values, begins: Vec<usize>) -> Self {
        Self {
            arity,
            values,
            begins: Some(begins),
            gaps: None,
            absent: None,
        }
    }

    /// Returns a column of lists, whose places lie between two `begins`. Some of the places have no value, the others have the
    /// values in turn, as `gaps` says.
    pub(crate) fn with_gaps(values: Values, begins: Vec<usize>, gaps: Vec<Option<usize>>) -> Self {
        Self {
            arity: Arity::List,
            values,
            begins: Some(begins),
            gaps: Some(gaps),
            absent: None,
        }
    }

    /// Says which rows of a column of lists have no list, which is no empty one.
    pub(crate) fn without_lists(mut self, absent: Option<Vec<bool>>) -> Self {
        self.absent = absent;
        self
    }

    fn has_no_list(&self, row: usize) -> bool {
        self.absent.as_ref().is_some_and(|absent| absent[row])
    }

    /// Returns the value at a place.
    #[inline]
    fn cell(&self, place: usize) -> Cell<'_> {
        match &self.gaps {
            None => self.values.cell(place),
            Some(gaps) => gaps[place].map_or(Cell::Missing, |nth| self.values.cell(nth)),
        }
    }

    #[inline]
    fn places(&self, row: usize) -> Range<usize> {
        match &self.begins {
            None => row..row + 1,
            Some(begins) => begins[row]..begins[row + 1],
        }
    }

    /// Adds the bytes of each row's cell in the inline form.
    fn add_encoded_lens(&self, lens: &mut [usize]) {
        let number = Cell::Int(0).encoded_len();
        let list = Cell::List(0).encoded_len();
        match (&self.values, &self.begins) {
            (Values::Text(texts), None) => {
                for (nth, len) in lens.iter_mut().enumerate() {
                    *len += Cell::Text(texts.get(nth)).encoded_len();
                }
            }
            (_, None) => lens.iter_mut().for_each(|len| *len += number),
            (_, Some(begins)) => {
                for (row, (len, ends)) in lens.iter_mut().zip(begins.windows(2)).enumerate() {
                    *len += match self.arity {
                        Arity::List if self.has_no_list(row) => Cell::Missing.encoded_len(),
                        Arity::List => list,
                        Arity::Optional if ends[0] == ends[1] => Cell::Missing.encoded_len(),
                        Arity::Optional => 0,
                    };
                    let cells = (ends[0]..ends[1]).map(|place| self.cell(place));
                    *len += cells.map(Cell::encoded_len).sum::<usize>();
                }
            }
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
            column.add_encoded_lens(&mut encoded_lens);
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
}

/// Iterator over the cells of a row. The values of a list follow its head.
#[derive(Debug, Clone)]
pub(crate) struct CellsOfRow<'a> {
    columns: std::slice::Iter<'a, ValueColumn>,
    row: usize,
    /// The values of the current list that are left.
    list: Option<(&'a ValueColumn, Range<usize>)>,
}

impl<'a> Iterator for CellsOfRow<'a> {
    type Item = Cell<'a>;

    #[inline]
    fn next(&mut self) -> Option<Cell<'a>> {
        if let Some((column, left)) = &mut self.list {
            match left.next() {
                Some(place) => return Some(column.cell(place)),
                None => self.list = None,
            }
        }
        let column = self.columns.next()?;
        let places = column.places(self.row);
        Some(match column.arity {
            Arity::Optional if places.is_empty() => Cell::Missing,
            Arity::Optional => column.cell(places.start),
            Arity::List if column.has_no_list(self.row) => Cell::Missing,
            Arity::List => {
                let count = u32::try_from(places.len()).unwrap_or(u32::MAX);
                self.list = Some((column, places));
                Cell::List(count)
            }
        })
    }
}
