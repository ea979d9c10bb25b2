//! Gradients of a push, applied from the buffers of the connection.

use std::ops::Range;

use trainyard_parameter_store::{GRADIENT_ABS_BOUND, Gradients, Written};
use trainyard_protocol::convert;
use trainyard_protocol::payload::{Encoding, Payload};

/// The payload of a push.
#[derive(Debug)]
pub struct WireGradients(pub Payload);

impl Gradients for WireGradients {
    fn values(&self) -> usize {
        self.0.values()
    }

    fn unfit(&self) -> Option<usize> {
        self.0.not_below(GRADIENT_ABS_BOUND)
    }

    fn rounding(&self) -> f32 {
        match self.0.pieces().1 {
            Encoding::Float32 => 0.0,
            Encoding::Bfloat16 => 1.0 / 128.0,
            Encoding::Float16 => 1.0 / 1024.0,
        }
    }

    fn get<'a>(&'a self, place: Range<usize>, scratch: &'a mut Vec<f32>) -> &'a [f32] {
        scratch.resize(place.len().max(scratch.len()), 0.0);
        let values = &mut scratch[..place.len()];
        self.0.read(place.start, values);
        values
    }

    fn copy(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.0.values()];
        self.0.read(0, &mut values);
        values
    }

    fn written(&self) -> Written {
        let (pieces, encoding) = self.0.pieces();
        Written {
            encoding: convert::encoding_to_wire(encoding).into(),
            pieces: pieces.to_vec(),
        }
    }
}
