//! Factorization machine: products of all pairs of embeddings, `½ Σ ((Σᵢ vᵢ)² - Σᵢ vᵢ²)` (Rendle 2010).

/// The embeddings of a row: their first columns, and their common dimension.
#[derive(Debug, Clone)]
pub(crate) struct Factorization {
    pub(crate) begins: Vec<usize>,
    pub(crate) dimension: usize,
    /// Number of values of a row.
    pub(crate) width: usize,
}

impl Factorization {
    /// Adds the term to the logit of each row.
    pub(crate) fn forward(&self, input: &[f32], logits: &mut [f32]) {
        for (row, logit) in input.chunks_exact(self.width).zip(logits) {
            for place in 0..self.dimension {
                let values = self.begins.iter().map(|begin| row[begin + place]);
                let (sum, squares) =
                    values.fold((0.0, 0.0), |(sum, squares), v| (sum + v, squares + v * v));
                *logit += 0.5 * (sum * sum - squares);
            }
        }
    }

    /// Adds the gradient of the input: `δ (Σⱼ vⱼ - vᵢ)`.
    pub(crate) fn backward(&self, input: &[f32], delta: &[f32], out: &mut [f32]) {
        let rows = input
            .chunks_exact(self.width)
            .zip(out.chunks_exact_mut(self.width));
        for ((row, out), delta) in rows.zip(delta) {
            for place in 0..self.dimension {
                let sum: f32 = self.begins.iter().map(|begin| row[begin + place]).sum();
                for begin in &self.begins {
                    out[begin + place] += delta * (sum - row[begin + place]);
                }
            }
        }
    }
}
