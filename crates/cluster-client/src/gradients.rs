//! The part of a step's gradients for one server, and its encoding on the wire.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use trainyard_parameter_store as store;
use trainyard_parameter_store::Selection;
use trainyard_protocol::Pool;
use trainyard_protocol::framing::Tensor;
use trainyard_protocol::payload::{Encoding, float_bytes};
use trainyard_variable::Gradients;

use crate::split::ShardPlan;

/// Size of a buffer that collects small gradients.
const CHUNK_BYTES: usize = 256 << 10;
/// Least size at which gradients are sent straight from the memory that holds them. Copying fewer bytes is cheaper
/// than a frame of their own.
const DIRECT_BYTES: usize = 64 << 10;
/// Most bytes of a piece: the size of a frame.
const PIECE_BYTES: usize = 1 << 20;

/// The gradients for one server: ranges of a step's gradients, in the order of the server's plan.
#[derive(Debug)]
pub struct ShardGradients {
    gradients: Arc<Gradients>,
    plan: Arc<ShardPlan>,
    /// The gradients in another encoding than `float32`, ready to send.
    encoded: Option<(Encoding, Bytes)>,
}

impl ShardGradients {
    pub(crate) fn new(gradients: Arc<Gradients>, plan: Arc<ShardPlan>) -> Self {
        Self {
            gradients,
            plan,
            encoded: None,
        }
    }

    /// Returns the same gradients in another encoding.
    pub(crate) fn encoded(self, encoding: Encoding, bytes: Bytes) -> Self {
        Self {
            encoded: Some((encoding, bytes)),
            ..self
        }
    }

    /// Returns the encoding of the gradients on the wire.
    pub(crate) fn encoding(&self) -> Encoding {
        self.encoded
            .as_ref()
            .map_or(Encoding::Float32, |(encoding, _)| *encoding)
    }

    /// Returns the slices, rows and ids to update.
    pub(crate) fn selection(&self) -> &Selection {
        &self.plan.selection
    }

    fn at(&self, place: usize) -> &[f32] {
        let (variable, range) = &self.plan.places[place];
        &self.gradients[*variable][range.clone()]
    }
}

impl store::Gradients for ShardGradients {
    fn values(&self) -> usize {
        self.plan.values()
    }

    fn unfit(&self) -> Option<usize> {
        let begins = std::iter::once(0).chain(self.plan.ends.iter().copied());
        let mut places = begins.zip(0..self.plan.places.len());
        places.find_map(|(begin, place)| Some(begin + store::unfit(self.at(place))?))
    }

    fn get<'a>(&'a self, range: Range<usize>, scratch: &'a mut Vec<f32>) -> &'a [f32] {
        let mut place = self.plan.ends.partition_point(|end| *end <= range.start);
        if range.is_empty() || place == self.plan.ends.len() {
            return &[];
        }
        let begin_of = |place: usize| self.plan.ends[place] - self.plan.places[place].1.len();
        if range.end <= self.plan.ends[place] {
            let begin = begin_of(place);
            return &self.at(place)[range.start - begin..range.end - begin];
        }
        scratch.clear();
        let mut at = range.start;
        while at < range.end {
            let end = self.plan.ends[place].min(range.end);
            let begin = begin_of(place);
            scratch.extend_from_slice(&self.at(place)[at - begin..end - begin]);
            (at, place) = (end, place + 1);
        }
        scratch
    }

    fn copy(&self) -> Vec<f32> {
        let mut values = Vec::with_capacity(self.plan.values());
        (0..self.plan.places.len()).for_each(|place| values.extend_from_slice(self.at(place)));
        values
    }
}

/// Gradients that are being sent.
pub(crate) enum GradientTensor {
    Encoded(VecDeque<Bytes>),
    Floats {
        gradients: Arc<ShardGradients>,
        /// Index of the next range; `sent` is the number of its values that have been sent.
        place: usize,
        sent: usize,
        pool: Pool,
    },
}

impl GradientTensor {
    pub(crate) fn new(gradients: &Arc<ShardGradients>, pool: &Pool) -> Self {
        match &gradients.encoded {
            Some((_, bytes)) => Self::Encoded([bytes.clone()].into()),
            None => Self::Floats {
                gradients: Arc::clone(gradients),
                place: 0,
                sent: 0,
                pool: pool.clone(),
            },
        }
    }
}

impl Tensor for GradientTensor {
    fn bytes(&self) -> usize {
        match self {
            Self::Encoded(bytes) => bytes.bytes(),
            Self::Floats { gradients, .. } => gradients.plan.values() * 4,
        }
    }

    fn next(&mut self) -> Option<Bytes> {
        let (gradients, place, sent, pool) = match self {
            Self::Encoded(bytes) => return bytes.next(),
            Self::Floats {
                gradients,
                place,
                sent,
                pool,
            } => (gradients, place, sent, pool),
        };
        let mut chunk: Option<trainyard_protocol::Pooled> = None;
        while let Some((variable, range)) = gradients.plan.places.get(*place) {
            let left = (range.len() - *sent) * 4;
            let gathered = chunk.as_ref().map_or(0, |chunk| chunk.bytes.len());
            if left >= DIRECT_BYTES {
                if gathered > 0 {
                    break;
                }
                let begin = range.start + *sent;
                let count = (left.min(PIECE_BYTES)) / 4;
                *sent += count;
                if *sent == range.len() {
                    (*place, *sent) = (*place + 1, 0);
                }
                let part = Part(
                    Arc::clone(&gradients.gradients),
                    *variable,
                    begin..begin + count,
                );
                return Some(Bytes::from_owner(part));
            }
            if gathered + left > CHUNK_BYTES {
                break;
            }
            let values = &gradients.at(*place)[*sent..];
            let chunk = chunk.get_or_insert_with(|| {
                let mut chunk = pool.take();
                chunk.bytes.clear();
                chunk
            });
            chunk.bytes.extend_from_slice(float_bytes(values));
            (*place, *sent) = (*place + 1, 0);
        }
        chunk
            .map(trainyard_protocol::Pooled::into_bytes)
            .filter(|bytes| !bytes.is_empty())
    }
}

/// A range of a variable's gradients. It keeps the gradients alive until they have been sent.
struct Part(Arc<Gradients>, usize, Range<usize>);

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        float_bytes(&self.0[self.1][self.2.clone()])
    }
}
