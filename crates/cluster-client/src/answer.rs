//! The values that a server answers a pull with.

use trainyard_parameter_store::Reading;
use trainyard_protocol::payload::Payload;

/// Values as they came: from a store in this process, or in the pieces that the connection read.
#[derive(Debug)]
pub enum Answer {
    /// Of a server in this process; they are read when they are asked for.
    Local(Reading),
    /// Of a remote one.
    Remote {
        /// The values.
        payload: Payload,
        /// Values that have been read.
        read: usize,
        /// Places of whole slices that did not come, since they have not changed.
        unchanged: Vec<u32>,
    },
}

impl Answer {
    /// Returns the places, among the whole slices that were asked for, of those that did not come.
    pub(crate) fn unchanged(&self) -> &[u32] {
        match self {
            Self::Local(reading) => reading.unchanged(),
            Self::Remote { unchanged, .. } => unchanged,
        }
    }

    /// Returns the number of values that have not been read.
    pub(crate) fn remaining(&self) -> usize {
        match self {
            Self::Local(reading) => reading.remaining(),
            Self::Remote { payload, read, .. } => payload.values() - read,
        }
    }

    /// Copies the next values: all of one slice.
    ///
    /// # Panics
    /// Never, as long as no more is read than [`Answer::remaining`] says.
    pub(crate) fn read(&mut self, out: &mut [f32]) {
        match self {
            Self::Local(reading) => {
                let read = reading.read(out);
                debug_assert_eq!(read, out.len(), "a slice is read as a whole");
            }
            Self::Remote { payload, read, .. } => {
                payload.read(*read, out);
                *read += out.len();
            }
        }
    }
}
