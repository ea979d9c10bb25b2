//! The values that a server answers a pull with.

use trainyard_protocol::payload::Reader;

/// Values as they came: in memory of this process, or in the pieces that the connection read.
#[derive(Debug, Default)]
pub struct Answer {
    /// Values of a server in this process; the memory is used again.
    pub(crate) floats: Vec<f32>,
    /// Values of a remote one.
    pub(crate) pieces: Option<Reader>,
    /// Values of `floats` that were read.
    taken: usize,
}

impl Answer {
    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.floats.clear();
        self.pieces = None;
        self.taken = 0;
    }

    /// Copies the next values.
    ///
    /// # Panics
    /// Never, as long as no more is read than was asked for.
    pub(crate) fn read(&mut self, out: &mut [f32]) {
        match &mut self.pieces {
            Some(pieces) => pieces.read(out),
            None => {
                out.copy_from_slice(&self.floats[self.taken..self.taken + out.len()]);
                self.taken += out.len();
            }
        }
    }
}
