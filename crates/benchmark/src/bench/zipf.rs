//! Distribution of the rows that the load reads from a table.

use rand::{Rng, RngExt as _};
use rand_distr::{Distribution as _, Zipf};
use trainyard_diagnostic::{Code, Diagnostic};

/// Factor that spreads the ranks of Zipf's law over a table, as hashing does: rows of neighbouring ranks lie on
/// different servers. It is prime, so that different ranks have different rows.
const SPREAD: u64 = 2_654_435_761;

/// A distribution of rows.
#[derive(Debug, Clone, Copy)]
pub(super) enum ZipfRows {
    /// Every row has the same probability.
    Uniform { rows: u32 },
    /// The row of rank k is drawn in proportion to k to the power of minus the exponent.
    Zipf { rows: u32, ranks: Zipf<f64> },
}

impl ZipfRows {
    /// Makes the distribution over a table with `rows` rows, at least one. Without an exponent it is uniform.
    ///
    /// # Errors
    /// The table is empty, or the exponent is negative or not a number.
    pub(super) fn new(rows: usize, exponent: Option<f64>) -> Result<Self, Diagnostic> {
        let rows = u32::try_from(rows)
            .ok()
            .filter(|rows| *rows > 0)
            .ok_or_else(|| {
                let message = format!("--table-rows must be 1 to {}, given {rows}", u32::MAX);
                Diagnostic::error(Code::E1000, message)
            })?;
        let Some(exponent) = exponent else {
            return Ok(Self::Uniform { rows });
        };
        let ranks = Zipf::new(f64::from(rows), exponent).map_err(|error| {
            Diagnostic::error(
                Code::E1000,
                format!("--zipf must be 0 or more, given {exponent}: {error}"),
            )
        })?;
        Ok(Self::Zipf { rows, ranks })
    }

    /// Draws a row.
    pub(super) fn draw(&self, random: &mut impl Rng) -> u32 {
        match self {
            Self::Uniform { rows } => random.random_range(0..*rows),
            Self::Zipf { rows, ranks } => row_of_rank(ranks.sample(random) as u64, *rows),
        }
    }
}

/// Returns the row of a rank, 1 to `rows`. Different ranks have different rows.
fn row_of_rank(rank: u64, rows: u32) -> u32 {
    ((rank.saturating_sub(1) * SPREAD) % u64::from(rows)) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use rand::SeedableRng as _;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn every_rank_has_a_row_of_its_own() {
        for rows in [1, 2, 10, 1000, 4096] {
            let all: BTreeSet<u32> = (1..=u64::from(rows))
                .map(|rank| row_of_rank(rank, rows))
                .collect();
            assert_eq!(all.len(), rows as usize);
            assert!(all.iter().all(|row| *row < rows));
        }
    }

    #[test]
    fn zipf_draws_the_second_rank_half_as_often_as_the_first() {
        let rows = 1000;
        let draws = 100_000;
        let law = ZipfRows::new(rows, Some(1.0)).expect("a law");
        let mut random = ChaCha8Rng::seed_from_u64(3);
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for _ in 0..draws {
            *counts.entry(law.draw(&mut random)).or_default() += 1;
        }
        let count = |rank| counts[&row_of_rank(rank, rows as u32)] as f64;
        // Rank 1 of 1000 has a share of one in H(1000) = 7.485.
        assert!(
            (count(1) / draws as f64 - 1.0 / 7.485).abs() < 0.01,
            "{}",
            count(1)
        );
        assert!((count(2) / count(1) - 0.5).abs() < 0.05, "{}", count(2));
    }

    #[test]
    fn uniform_draws_stay_in_the_table() {
        let law = ZipfRows::new(3, None).expect("a law");
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let seen: BTreeSet<u32> = (0..100).map(|_| law.draw(&mut random)).collect();
        assert_eq!(seen, BTreeSet::from([0, 1, 2]));
    }

    #[test]
    fn laws_of_nothing_are_refused() {
        assert!(ZipfRows::new(0, None).is_err());
        assert!(
            ZipfRows::new(10, Some(-1.0)).is_err() && ZipfRows::new(10, Some(f64::NAN)).is_err()
        );
    }
}
