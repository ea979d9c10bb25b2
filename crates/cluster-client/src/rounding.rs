//! Gradients in 16 bits, and what rounding has taken from them.

use bytes::Bytes;
use trainyard_protocol::payload::Encoding;
use trainyard_variable::Gradients;

use crate::split::ShardPlan;

/// Error feedback: what rounding took from a gradient is added to the next one of the same values (Seide et al., 1-Bit
/// Stochastic Gradient Descent, Interspeech 2014; Karimireddy et al., Error Feedback Fixes SignSGD, ICML 2019). Kept for
/// variables that are pushed whole. Gradients of rows are rounded to the nearest and no more: to keep what was lost of
/// them, a worker would have to hold the tables.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rounding {
    /// By variable; empty where nothing was lost yet.
    lost: Vec<Vec<f32>>,
}

impl Rounding {
    /// Returns the bytes of one server's gradients. `sizes` has the values of each variable, and whether they are all
    /// of it.
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
            let mut rounding = Rounding::default();
            let mut sums = [0.0_f64; 3];
            for _ in 0..1000 {
                let gradients = vec![values.to_vec()];
                let bytes = rounding.encode(encoding, &plan, &[(3, true)], &gradients);
                let mut out = [0.0; 3];
                trainyard_protocol::payload::Payload::new(vec![bytes], encoding)
                    .unwrap()
                    .read(0, &mut out);
                sums.iter_mut()
                    .zip(out)
                    .for_each(|(sum, value)| *sum += f64::from(value));
            }
            // Without what was lost, 1.001 in bfloat16 would have become 1 each time, and 1000 in all.
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
