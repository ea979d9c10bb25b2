//! Stub for programs that are built without a columnar format.

use crate::row::Cell;

/// Rows of a columnar file. A value of this type cannot exist.
#[derive(Debug)]
pub(crate) enum ColumnarRows {}

impl ColumnarRows {
    pub(crate) fn rows(&self) -> usize {
        match *self {}
    }

    pub(crate) fn encoded_len(&self, _row: usize) -> usize {
        match *self {}
    }

    pub(crate) fn cells(&self, _row: usize) -> std::iter::Empty<Cell<'_>> {
        match *self {}
    }

    pub(crate) fn is_like(&self, _other: &Self) -> bool {
        match *self {}
    }

    pub(crate) fn empty(&self) -> Self {
        match *self {}
    }

    pub(crate) fn push(&mut self, _from: &Self, _row: usize) {
        match *self {}
    }

    pub(crate) fn clear(&mut self) {
        match *self {}
    }
}
