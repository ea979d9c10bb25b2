//! The normalizer `quantile`: the place of a number among quantiles of the training records, as `QuantileTransformer` of scikit-learn
//! says it.

use serde::Serialize;

/// Distribution of the normalized numbers (`output_distribution` of scikit-learn's `QuantileTransformer`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputDistribution {
    /// From 0 to 1.
    Uniform,
    /// Standard normal scores, within those of 1e-7 and 1 - 1e-7: -5.2 to 5.2.
    Normal,
}

/// Least distance of a share from 0 and from 1 before it becomes a normal score (`BOUNDS_THRESHOLD` of scikit-learn).
pub const SHARE_MIN: f64 = 1e-7;

/// A piecewise linear function from numbers to shares of the training records.
///
/// The first and the last quantile have the shares 0 and 1, and numbers beyond them, too. Between two quantiles the share is linear.
/// Quantiles that are equal are a step: their number has the middle of the shares of the first and the last of them.
#[derive(Debug, Clone, PartialEq)]
pub struct QuantileMap {
    knots: Vec<Knot>,
    output_distribution: OutputDistribution,
}

/// A number with the shares just below it, at it, and just above it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Knot {
    number: f64,
    below: f64,
    at: f64,
    above: f64,
}

/// The range between two different quantiles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// Its lower end.
    pub begin: f64,
    /// Its length, above 0.
    pub length: f64,
    /// Share of the records in it.
    pub share: f64,
}

/// A quantile at which the share is no continuous function.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// The quantile.
    pub number: f64,
    /// What the share increases by for this number and those above it.
    pub at: f64,
    /// What the share increases by for numbers above it, besides.
    pub above: f64,
}

impl QuantileMap {
    /// Returns the function of quantiles at equal steps of the records, in ascending order, of which at least two differ.
    pub fn new(quantiles: &[f32], output_distribution: OutputDistribution) -> Self {
        let last = quantiles.len().saturating_sub(1);
        let share = |index: usize| index as f64 / last.max(1) as f64;
        let mut knots: Vec<Knot> = Vec::new();
        let mut begin = 0;
        for equal in quantiles.chunk_by(|left, right| left == right) {
            let end = begin + equal.len() - 1;
            let (below, above) = (share(begin), share(end));
            let at = match (begin, end) {
                (0, _) => 0.0,
                (_, end) if end == last => 1.0,
                _ => f64::midpoint(below, above),
            };
            knots.push(Knot {
                number: f64::from(equal[0]),
                below,
                at,
                above,
            });
            begin = end + 1;
        }
        Self {
            knots,
            output_distribution,
        }
    }

    /// Returns the distribution of the results.
    pub fn output_distribution(&self) -> OutputDistribution {
        self.output_distribution
    }

    /// Returns the ranges between the quantiles. The share of a number is the sum of the shares of the segments below it, in
    /// proportion of the one that it is in, and of the steps.
    pub fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        self.knots.windows(2).map(|pair| Segment {
            begin: pair[0].number,
            length: pair[1].number - pair[0].number,
            share: pair[1].below - pair[0].above,
        })
    }

    /// Returns the steps.
    pub fn steps(&self) -> impl Iterator<Item = Step> + '_ {
        let steps = self.knots.iter().map(|knot| Step {
            number: knot.number,
            at: knot.at - knot.below,
            above: knot.above - knot.at,
        });
        steps.filter(|step| step.at > 0.0 || step.above > 0.0)
    }

    /// Returns a number in the distribution of the map. What is no number stays so.
    pub fn of(&self, number: f32) -> f32 {
        let share = self.share(f64::from(number));
        match self.output_distribution {
            OutputDistribution::Uniform => share as f32,
            OutputDistribution::Normal => {
                normal_score(share.clamp(SHARE_MIN, 1.0 - SHARE_MIN)) as f32
            }
        }
    }

    fn share(&self, number: f64) -> f64 {
        if number.is_nan() {
            return number;
        }
        let reached = self.knots.partition_point(|knot| knot.number <= number);
        let Some(before) = reached.checked_sub(1).map(|index| self.knots[index]) else {
            return 0.0;
        };
        if before.number == number {
            return before.at;
        }
        match self.knots.get(reached) {
            Some(next) => {
                let part = (number - before.number) / (next.number - before.number);
                before.above + part * (next.below - before.above)
            }
            None => 1.0,
        }
    }
}

/// Coefficients of a rational function: of the numerator and of the denominator, the highest power first.
pub type Rational = [[f64; 8]; 2];

/// Greatest distance of a share from one half for which [`CENTER`] is used.
pub const CENTER_MAX: f64 = 0.425;

/// Square of [`CENTER_MAX`], from which [`CENTER`] counts.
pub const CENTER_SQUARE: f64 = 0.180_625;

/// Number from which [`TAIL`] counts.
pub const TAIL_BEGIN: f64 = 1.6;

/// Normal score divided by q = share - 1/2, as a function of [`CENTER_SQUARE`] - q² (Wichura 1988, algorithm AS 241, PPND16).
pub const CENTER: Rational = [
    [
        2.509_080_928_730_122_7e3,
        3.343_057_558_358_813e4,
        6.726_577_092_700_87e4,
        4.592_195_393_154_987e4,
        1.373_169_376_550_946e4,
        1.971_590_950_306_551_3e3,
        1.331_416_678_917_843_8e2,
        3.387_132_872_796_366_5,
    ],
    [
        5.226_495_278_852_854e3,
        2.872_908_573_572_194_3e4,
        3.930_789_580_009_271e4,
        2.121_379_430_158_659_7e4,
        5.394_196_021_424_751e3,
        6.871_870_074_920_579e2,
        4.231_333_070_160_091e1,
        1.0,
    ],
];

/// Normal score beyond the center, without its sign, as a function of sqrt(-ln(share)) - [`TAIL_BEGIN`], where the share is that of the
/// nearer end and at least e^-25 (Wichura 1988, algorithm AS 241, PPND16).
pub const TAIL: Rational = [
    [
        7.745_450_142_783_414e-4,
        2.272_384_498_926_918_4e-2,
        2.417_807_251_774_506e-1,
        1.270_458_252_452_368_4,
        3.647_848_324_763_204_5,
        5.769_497_221_460_691,
        4.630_337_846_156_546,
        1.423_437_110_749_683_5,
    ],
    [
        1.050_750_071_644_416_9e-9,
        5.475_938_084_995_345e-4,
        1.519_866_656_361_645_7e-2,
        1.481_039_764_274_800_8e-1,
        6.897_673_349_851e-1,
        1.676_384_830_183_803_8,
        2.053_191_626_637_759,
        1.0,
    ],
];

/// Returns the number below which a standard normal variable is with this probability, from e^-25 to 1 - e^-25.
fn normal_score(share: f64) -> f64 {
    let from_middle = share - 0.5;
    if from_middle.abs() <= CENTER_MAX {
        return from_middle * value(&CENTER, CENTER_SQUARE - from_middle * from_middle);
    }
    let nearer = share.min(1.0 - share);
    let score = value(&TAIL, (-nearer.ln()).sqrt() - TAIL_BEGIN);
    score.copysign(from_middle)
}

fn value([numerator, denominator]: &Rational, x: f64) -> f64 {
    let polynomial =
        |coefficients: &[f64; 8]| coefficients.iter().fold(0.0, |sum, next| sum * x + next);
    polynomial(numerator) / polynomial(denominator)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(quantiles: &[f32], distribution: OutputDistribution, numbers: &[f32]) -> Vec<f32> {
        let map = QuantileMap::new(quantiles, distribution);
        numbers.iter().map(|number| map.of(*number)).collect()
    }

    /// The expected numbers are those of scikit-learn 1.9.1: `QuantileTransformer(n_quantiles=9)`, fitted to these quantiles.
    #[test]
    fn a_number_becomes_its_share_of_the_records_as_in_scikit_learn() {
        let quantiles = [1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 3.0, 5.0, 7.0];
        let numbers = [0.0, 1.0, 1.5, 2.0, 2.5, 3.0, 6.0, 7.0, 8.0];
        let uniform = of(&quantiles, OutputDistribution::Uniform, &numbers);
        let expected = [0.0, 0.0, 0.1875, 0.4375, 0.6875, 0.75, 0.9375, 1.0, 1.0];
        assert_eq!(uniform, expected);
        let normal = of(&quantiles, OutputDistribution::Normal, &numbers);
        let expected = [
            -5.199_337_582_605_575,
            -5.199_337_582_605_575,
            -0.887_146_559_018_876,
            -0.157_310_684_610_170_7,
            0.488_776_411_114_669_5,
            0.674_489_750_196_081_7,
            1.534_120_544_352_546_3,
            5.199_337_582_703_42,
            5.199_337_582_703_42,
        ];
        for (score, expected) in normal.iter().zip(expected) {
            assert!((f64::from(*score) - expected).abs() < 1e-6, "{normal:?}");
        }
    }

    #[test]
    fn numbers_that_are_most_of_the_records_at_an_end_keep_the_share_of_the_end() {
        let quantiles = [0.0, 0.0, 0.0, 0.0, 5.0];
        let numbers = [-1.0, 0.0, 1.0, 5.0];
        let found = of(&quantiles, OutputDistribution::Uniform, &numbers);
        assert_eq!(found, [0.0, 0.0, 0.8, 1.0]);
        let quantiles = [0.0, 5.0, 5.0, 5.0, 5.0];
        let found = of(
            &quantiles,
            OutputDistribution::Uniform,
            &[0.0, 4.0, 5.0, 6.0],
        );
        assert_eq!(found, [0.0, 0.2, 1.0, 1.0]);
    }

    #[test]
    fn infinite_numbers_have_the_shares_of_the_ends_and_what_is_no_number_stays_so() {
        let numbers = [f32::NEG_INFINITY, f32::INFINITY, f32::NAN];
        for distribution in [OutputDistribution::Uniform, OutputDistribution::Normal] {
            let found = of(&[1.0, 2.0], distribution, &numbers);
            assert!(found[0] < found[1] && found[2].is_nan(), "{found:?}");
        }
    }

    /// The expected scores are those of `statistics.NormalDist().inv_cdf` of Python.
    #[test]
    fn normal_scores_are_those_of_the_standard_normal_distribution() {
        let shares = [1e-7, 0.001, 0.05, 0.25, 0.5, 0.75, 0.9, 0.975, 1.0 - 1e-7];
        let expected = [
            -5.199_337_582_192_817,
            -3.090_232_306_167_813,
            -1.644_853_626_951_472_7,
            -0.674_489_750_196_081_7,
            0.0,
            0.674_489_750_196_081_7,
            1.281_551_565_544_600_8,
            1.959_963_984_540_053_8,
            5.199_337_582_290_662,
        ];
        for (share, expected) in shares.into_iter().zip(expected) {
            let score = normal_score(share);
            assert!((score - expected).abs() < 1e-12, "{share}: {score}");
        }
    }

    /// Exports add up segments and steps.
    #[test]
    fn segments_and_steps_add_up_to_the_share() {
        let quantiles = [1.0, 1.0, 2.0, 2.0, 2.0, 3.0, 7.0, 7.0];
        let map = QuantileMap::new(&quantiles, OutputDistribution::Uniform);
        for tenths in 0..90 {
            let number = f64::from(tenths) / 10.0;
            let filled = map.segments().map(|segment| {
                let part = (number - segment.begin) / segment.length;
                segment.share * part.clamp(0.0, 1.0)
            });
            let stepped = map.steps().map(|step| {
                let at = if number >= step.number { step.at } else { 0.0 };
                let above = if number > step.number {
                    step.above
                } else {
                    0.0
                };
                at + above
            });
            let sum: f64 = filled.sum::<f64>() + stepped.sum::<f64>();
            assert!((sum - map.share(number)).abs() < 1e-12, "{number}: {sum}");
        }
    }
}
