//! Values of a tensor in a mapped file.

use std::marker::PhantomData;
use std::ops::Deref;

use bytemuck::AnyBitPattern;
use trainyard_storage::Mapping;

/// Values of a tensor, in the pages of its file. They are read from the disk when they are looked at.
#[derive(Debug)]
pub struct MappedValues<T> {
    map: Mapping,
    kind: PhantomData<T>,
}

impl<T: AnyBitPattern> MappedValues<T> {
    /// Returns the values of a map; nothing if they do not lie as this processor reads them.
    pub(crate) fn of(map: Mapping) -> Option<Self> {
        let fits = bytemuck::try_cast_slice::<u8, T>(map.bytes()).is_ok();
        (fits && cfg!(target_endian = "little")).then_some(Self {
            map,
            kind: PhantomData,
        })
    }
}

impl<T: AnyBitPattern> Deref for MappedValues<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        bytemuck::cast_slice(self.map.bytes())
    }
}
