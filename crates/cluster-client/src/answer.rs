//! The values in a server's reply to a pull.

use trainyard_parameter_store::Reading;
use trainyard_protocol::payload::Payload;

/// Values of a pull, from a store in this process or in the pieces that the connection read.
#[derive(Debug)]
pub enum Answer {
    /// Values of a server in this process. The store is read on demand.
    Local(Reading),
    /// Values of a remote server.
    Remote {
        /// The values.
        payload: Payload,
        /// Number of values that have been read.
        read: usize,
        /// Places of the whole slices that the server left out because they have not changed.
        unchanged: Vec<u32>,
    },
}

impl Answer {
    /// Returns the places of the slices that were left out, among the whole slices of the pull.
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

    /// Copies the next values, all of one slice, to `out`.
    ///
    /// # Panics
    /// Never, if `out` is at most as long as [`Answer::remaining`].
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
