//! Bounds on gradients, applied by the worker before it pushes (`tf.clip_by_*`).
//!
//! A row that a batch names several times counts once, with the sum of its gradients.

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::error::positive;

/// A bound on the gradients of a step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Clipping {
    /// Each value lies in `-clip..=clip` (`tf.clip_by_value`).
    Value {
        /// Above 0.
        clip: f32,
    },
    /// The Euclidean norm of each variable's gradient is at most `clip` (`tf.clip_by_norm`).
    Norm {
        /// Above 0.
        clip: f32,
    },
    /// The Euclidean norm of all gradients together is at most `clip` (`tf.clip_by_global_norm`).
    GlobalNorm {
        /// Above 0.
        clip: f32,
    },
}

impl Clipping {
    /// Checks the bound.
    ///
    /// # Errors
    /// The bound is not above 0.
    pub fn validate(&self) -> Result<(), Error> {
        let (Self::Value { clip } | Self::Norm { clip } | Self::GlobalNorm { clip }) = *self;
        positive("clip", clip)
    }

    /// Clips the gradients of a step, one buffer per variable. `counts` selects the variables by index.
    pub fn apply(&self, gradients: &mut [Vec<f32>], counts: impl Fn(usize) -> bool) {
        let chosen = gradients
            .iter_mut()
            .enumerate()
            .filter(|(place, _)| counts(*place));
        let mut gradients: Vec<&mut Vec<f32>> = chosen.map(|(_, gradient)| gradient).collect();
        match *self {
            Self::Value { clip } => {
                let all = gradients
                    .iter_mut()
                    .flat_map(|gradient| gradient.iter_mut());
                all.for_each(|value| *value = value.clamp(-clip, clip));
            }
            Self::Norm { clip } => {
                for gradient in &mut gradients {
                    let norm = square(gradient).sqrt();
                    scale(std::slice::from_mut(gradient), clip, norm);
                }
            }
            Self::GlobalNorm { clip } => {
                let norm = gradients
                    .iter()
                    .map(|gradient| square(gradient))
                    .sum::<f64>()
                    .sqrt();
                scale(&mut gradients, clip, norm);
            }
        }
    }
}

fn square(gradient: &[f32]) -> f64 {
    // The sum is formed in pieces, so that it vectorises and keeps its precision.
    gradient
        .chunks(256)
        .map(|part| f64::from(part.iter().map(|value| value * value).sum::<f32>()))
        .sum()
}

fn scale(gradients: &mut [&mut Vec<f32>], clip: f32, norm: f64) {
    if norm > f64::from(clip) {
        let factor = (f64::from(clip) / norm) as f32;
        gradients
            .iter_mut()
            .flat_map(|gradient| gradient.iter_mut())
            .for_each(|value| *value *= factor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clipped(clipping: Clipping) -> Vec<Vec<f32>> {
        let mut gradients = vec![vec![3.0, -4.0], vec![0.0], vec![12.0], vec![99.0]];
        clipping.apply(&mut gradients, |place| place != 3);
        gradients
    }

    #[test]
    fn gradients_are_clipped_as_tensorflow_does() {
        assert_eq!(
            clipped(Clipping::Value { clip: 3.5 }),
            [vec![3.0, -3.5], vec![0.0], vec![3.5], vec![99.0]]
        );
        assert_eq!(
            clipped(Clipping::Norm { clip: 10.0 }),
            [vec![3.0, -4.0], vec![0.0], vec![10.0], vec![99.0]]
        );
        assert_eq!(
            clipped(Clipping::GlobalNorm { clip: 6.5 }),
            [vec![1.5, -2.0], vec![0.0], vec![6.0], vec![99.0]]
        );
        assert_eq!(
            clipped(Clipping::GlobalNorm { clip: 13.0 }),
            [vec![3.0, -4.0], vec![0.0], vec![12.0], vec![99.0]]
        );
    }
}
