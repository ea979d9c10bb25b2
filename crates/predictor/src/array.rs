//! Values in memory, or in a mapped file.

use std::ops::Deref;

use bytemuck::AnyBitPattern;
use trainyard_checkpoint::MappedValues;

/// Values of a variable, or ids of its rows.
#[derive(Debug)]
pub(crate) enum Array<T> {
    /// In memory.
    Owned(Vec<T>),
    /// In the pages of a file.
    Mapped(MappedValues<T>),
}

impl<T: AnyBitPattern> Deref for Array<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::Owned(values) => values,
            Self::Mapped(values) => values,
        }
    }
}

impl<T> From<Vec<T>> for Array<T> {
    fn from(values: Vec<T>) -> Self {
        Self::Owned(values)
    }
}
