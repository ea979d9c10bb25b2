//! The values in a server's reply to a pull.

use std::fmt::Debug;

use trainyard_parameter_store::Reading;
use trainyard_protocol::payload::Payload;

/// Values of a pull, read in their order.
pub trait Answer: Debug + Send {
    /// Returns the places of the slices that the server left out because they have not changed, among the whole slices
    /// of the pull.
    fn unchanged(&self) -> &[u32];

    /// Returns the number of values that have not been read.
    fn remaining(&self) -> usize;

    /// Copies the next values, all of one slice, to `out`.
    ///
    /// # Panics
    /// Never, if `out` is at most as long as [`Answer::remaining`].
    fn read(&mut self, out: &mut [f32]);
}

/// Values of a server in this process. The store is read on demand.
impl Answer for Reading {
    fn unchanged(&self) -> &[u32] {
        self.unchanged()
    }

    fn remaining(&self) -> usize {
        self.remaining()
    }

    fn read(&mut self, out: &mut [f32]) {
        let read = self.read(out);
        debug_assert_eq!(read, out.len(), "a slice is read as a whole");
    }
}

/// Values of a remote server, in the pieces that the connection read.
#[derive(Debug)]
pub(crate) struct ReceivedAnswer {
    payload: Payload,
    /// Number of values that have been read.
    read: usize,
    unchanged: Vec<u32>,
}

impl ReceivedAnswer {
    pub(crate) fn new(payload: Payload, unchanged: Vec<u32>) -> Self {
        Self {
            payload,
            read: 0,
            unchanged,
        }
    }
}

impl Answer for ReceivedAnswer {
    fn unchanged(&self) -> &[u32] {
        &self.unchanged
    }

    fn remaining(&self) -> usize {
        self.payload.values() - self.read
    }

    fn read(&mut self, out: &mut [f32]) {
        self.payload.read(self.read, out);
        self.read += out.len();
    }
}
