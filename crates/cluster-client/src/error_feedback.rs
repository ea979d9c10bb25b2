//! Error feedback for gradients that are sent in 16 bits.

use bytes::Bytes;
use trainyard_protocol::payload::Encoding;
use trainyard_variable::Gradients;

use crate::split::ShardPlan;

/// Error feedback: the rounding error of a gradient is added to the next gradient of the same values (Seide et al.,
/// 1-Bit Stochastic Gradient Descent, Interspeech 2014; Karimireddy et al., Error Feedback Fixes SignSGD, ICML 2019).
/// Errors are kept for variables that are pushed whole. Gradients of rows are rounded to the nearest value only: to
/// keep their errors, a worker would have to hold the tables.
#[derive(Debug, Clone, Default)]
pub(crate) struct ErrorFeedback {
    /// Rounding errors, by variable; empty until the first push of the variable.
    lost: Vec<Vec<f32>>,
}

impl ErrorFeedback {
    /// Encodes the gradients for one server. `sizes` has, for each variable, the number of values and whether they
    /// are the whole variable.
    pub(crate) fn encode(
        &mut self,
        encoding: Encoding,
        plan: &ShardPlan,
        sizes: &[(usize, bool)],
        gradients: &Gradients,
    ) -> Bytes {
        let width = encoding.value_bytes();
        let mut bytes = vec![0; plan.values() * width];
        self.lost.resize_with(sizes.len(), Vec::new);
        let mut done = 0;
        for (variable, range) in &plan.places {
            let values = &gradients[*variable][range.clone()];
            let (size, whole) = sizes[*variable];
            let out = &mut bytes[done * width..(done + range.len()) * width];
            done += range.len();
            if !whole {
                encoding.write(values, out);
                continue;
            }
            let lost = &mut self.lost[*variable];
            lost.resize(size, 0.0);
            let lost = &mut lost[range.clone()];
            lost.iter_mut()
                .zip(values)
                .for_each(|(lost, value)| *lost += value);
            encoding.write(lost, out);
            encoding.take(lost, out);
        }
        bytes.into()
    }
}

/// Encodes the gradients of a micro-batch for one server, each rounded to the nearest value. Without errors of earlier
/// micro-batches, the bits depend on the micro-batch alone, whichever task computes it.
pub(crate) fn encode_alone(encoding: Encoding, plan: &ShardPlan, gradients: &Gradients) -> Bytes {
    let width = encoding.value_bytes();
    let mut bytes = vec![0; plan.values() * width];
    let mut done = 0;
    for (variable, range) in &plan.places {
        let out = &mut bytes[done * width..(done + range.len()) * width];
        encoding.write(&gradients[*variable][range.clone()], out);
        done += range.len();
    }
    bytes.into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use trainyard_parameter_store::Selection;

    use super::*;

    #[test]
    fn what_rounding_takes_comes_with_the_next_gradient() {
        let plan = ShardPlan {
            selection: Arc::new(Selection::default()),
            places: vec![(0, 0..3)],
            ends: vec![3],
        };
        let values = [1.001_f32, -3.3e-3, 70_001.0];
        for encoding in [Encoding::Bfloat16, Encoding::Float16] {
            let mut error_feedback = ErrorFeedback::default();
            let mut sums = [0.0_f64; 3];
            for _ in 0..1000 {
                let gradients = vec![values.to_vec()];
                let bytes = error_feedback.encode(encoding, &plan, &[(3, true)], &gradients);
                let mut out = [0.0; 3];
                trainyard_protocol::payload::Payload::new(vec![bytes], encoding)
                    .unwrap()
                    .read(0, &mut out);
                sums.iter_mut()
                    .zip(out)
                    .for_each(|(sum, value)| *sum += f64::from(value));
            }
            // Without error feedback, 1.001 in bfloat16 would become 1 each time, and the sum would be 1000.
            let good = |sum: f64, value: f32| (sum / f64::from(value) / 1000.0 - 1.0).abs() < 1e-4;
            let expected = if encoding == Encoding::Float16 { 2 } else { 3 };
            assert!(
                sums.iter()
                    .zip(values)
                    .take(expected)
                    .all(|(sum, value)| good(*sum, value)),
                "{sums:?}"
            );
        }
    }
}
