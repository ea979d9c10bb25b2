//! The values of a reply to a pull. They are read from the store while they are sent.

use bytes::Bytes;
use metrics::Histogram;
use tokio::time::Instant;
use trainyard_parameter_store::Reading;
use trainyard_protocol::Pool;
use trainyard_protocol::framing::Tensor;
use trainyard_protocol::payload::{Encoding, float_bytes_mut};

/// Number of values in a piece, unless a single row is longer. A piece still fits the second-level cache when it is
/// sent.
const PIECE_VALUES: usize = 64 << 10;

/// The values of a pull and their encoding on the wire.
pub(crate) struct AnswerTensor {
    reading: Reading,
    encoding: Encoding,
    pool: Pool,
    started: Instant,
    seconds: Histogram,
    scratch: Vec<f32>,
}

impl AnswerTensor {
    /// Returns the values of `reading`. Records in `seconds` the time from `started` until the last value has been
    /// read.
    pub(crate) fn new(
        reading: Reading,
        encoding: Encoding,
        pool: Pool,
        started: Instant,
        seconds: Histogram,
    ) -> Self {
        Self {
            reading,
            encoding,
            pool,
            started,
            seconds,
            scratch: Vec::new(),
        }
    }
}

impl Tensor for AnswerTensor {
    fn bytes(&self) -> usize {
        self.reading.remaining() * self.encoding.value_bytes()
    }

    fn next(&mut self) -> Option<Bytes> {
        let most = PIECE_VALUES
            .max(self.reading.row_values_max())
            .min(self.reading.remaining());
        let mut piece = self.pool.take();
        let width = self.encoding.value_bytes();
        piece.bytes.resize(most * width, 0);
        let count = match float_bytes_mut(&mut piece.bytes)
            .filter(|_| self.encoding == Encoding::Float32)
        {
            Some(values) => self.reading.read(values),
            None => {
                self.scratch.resize(most, 0.0);
                let count = self.reading.read(&mut self.scratch);
                self.encoding
                    .write(&self.scratch[..count], &mut piece.bytes);
                count
            }
        };
        piece.bytes.truncate(count * width);
        if self.reading.remaining() == 0 && count > 0 {
            self.seconds.record(self.started.elapsed());
        }
        (count > 0).then(|| piece.into_bytes())
    }
}
