//! Areas under the ROC curve and the precision-recall curve, by thresholds.

use super::confusion::Class;

/// Default number of thresholds.
pub(super) const THRESHOLDS: usize = 200;
/// TensorFlow 1's guard against division by zero.
pub(super) const EPSILON: f64 = 1e-6;

/// Returns `-1e-7, 1/(n-1), 2/(n-1), ..., 1 + 1e-7`.
pub(super) fn thresholds(count: usize) -> impl Iterator<Item = f32> {
    let last = count - 1;
    (0..count).map(move |place| match place {
        0 => -1e-7,
        place if place == last => 1.0 + 1e-7,
        place => (place as f64 / last as f64) as f32,
    })
}

/// Summation of the area between two points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Summation {
    /// With trapezoids.
    Trapezoidal,
    /// With the lower of the two heights.
    Minoring,
    /// With the higher of the two heights.
    Majoring,
}

/// Areas under the ROC curve and the precision-recall curve at thresholds (`tf.keras.metrics.AUC`,
/// `tf.compat.v1.metrics.auc`).
#[derive(Debug, Clone)]
pub struct Auc {
    /// Weight of positive and negative examples by number of thresholds: entry `i` holds the examples that exceed `i`
    /// of them.
    positives: Vec<f64>,
    negatives: Vec<f64>,
}

impl Default for Auc {
    fn default() -> Self {
        Self::new(THRESHOLDS)
    }
}

impl Auc {
    /// Returns the empty metric with a number of thresholds, at least 2.
    pub fn new(thresholds: usize) -> Self {
        let count = thresholds.max(2) + 1;
        Self {
            positives: vec![0.0; count],
            negatives: vec![0.0; count],
        }
    }

    /// Adds an example: a probability, its class and a weight.
    pub fn add(&mut self, probability: f32, class: Class, weight: f32) {
        // An example exceeds the first threshold always, the last one never. The product may round to the wrong side of
        // a threshold, so the guess is corrected.
        let thresholds = self.positives.len() - 1;
        let inner = thresholds - 2;
        let threshold = |index: usize| (index as f64 / (thresholds - 1) as f64) as f32;
        let guess = (f64::from(probability) * (thresholds - 1) as f64).ceil() - 1.0;
        let mut exceeded = guess.clamp(0.0, inner as f64) as usize;
        while exceeded < inner && probability > threshold(exceeded + 1) {
            exceeded += 1;
        }
        while exceeded > 0 && probability <= threshold(exceeded) {
            exceeded -= 1;
        }
        let counts = match class {
            Class::Positive => &mut self.positives,
            Class::Negative => &mut self.negatives,
        };
        counts[1 + exceeded] += f64::from(weight);
    }

    /// Returns, for each threshold in ascending order, the weight of positives and negatives above it.
    fn curve(&self) -> Vec<(f64, f64)> {
        let mut positives = 0.0;
        let mut negatives = 0.0;
        let mut curve: Vec<(f64, f64)> = (1..self.positives.len())
            .rev()
            .map(|above| {
                positives += self.positives[above];
                negatives += self.negatives[above];
                (positives, negatives)
            })
            .collect();
        curve.reverse();
        curve
    }

    /// Returns the area under the ROC curve, with trapezoids, or 0 if a class has no weight.
    pub(crate) fn roc(&self) -> f64 {
        self.roc_by(Summation::Trapezoidal)
    }

    /// Returns the area under the ROC curve, or 0 if a class has no weight.
    pub fn roc_by(&self, summation: Summation) -> f64 {
        let curve = self.curve();
        let (all_positive, all_negative) = curve[0];
        let divide = |part: f64, whole: f64| if whole == 0.0 { 0.0 } else { part / whole };
        let rates = curve
            .iter()
            .map(|(tp, fp)| (divide(*fp, all_negative), divide(*tp, all_positive)));
        area(rates, summation)
    }

    /// Returns the area under the precision-recall curve, or 0 without positives.
    pub fn precision_recall_by(&self, summation: Summation) -> f64 {
        let curve = self.curve();
        let all_positive = curve[0].0;
        if all_positive == 0.0 {
            return 0.0;
        }
        let points = curve
            .iter()
            .map(|(tp, fp)| (tp / all_positive, (tp + EPSILON) / (tp + fp + EPSILON)));
        area(points, summation)
    }

    /// Returns the area under the precision-recall curve, interpolated (`interpolate_pr_auc`, `careful_interpolation`;
    /// Davis and Goadrich 2006).
    pub fn precision_recall(&self) -> f64 {
        let curve = self.curve();
        let all_positive = curve[0].0;
        if all_positive == 0.0 {
            return 0.0;
        }
        let mut area = 0.0;
        for pair in curve.windows(2) {
            let (tp, fp) = pair[0];
            let (next_tp, next_fp) = pair[1];
            let p = tp + fp;
            let next_p = next_tp + next_fp;
            let dtp = tp - next_tp;
            let dp = p - next_p;
            let slope = if dp > 0.0 { dtp / dp } else { 0.0 };
            let intercept = next_tp - slope * next_p;
            let ratio = if p > 0.0 && next_p > 0.0 {
                p / next_p
            } else {
                1.0
            };
            area += slope * (dtp + intercept * ratio.ln()) / all_positive;
        }
        area
    }
}

/// Returns the area under points with descending abscissas.
fn area(points: impl Iterator<Item = (f64, f64)>, summation: Summation) -> f64 {
    let points: Vec<(f64, f64)> = points.collect();
    let height = |a: f64, b: f64| match summation {
        Summation::Trapezoidal => (a + b) / 2.0,
        Summation::Minoring => a.min(b),
        Summation::Majoring => a.max(b),
    };
    points
        .windows(2)
        .map(|pair| (pair[0].0 - pair[1].0) * height(pair[0].1, pair[1].1))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perfect_scores_have_area_one() {
        let mut auc = Auc::default();
        for index in 0..100 {
            let class = if index >= 50 {
                Class::Positive
            } else {
                Class::Negative
            };
            auc.add(index as f32 / 100.0, class, 1.0);
        }
        assert!(
            (auc.roc() - 1.0).abs() < 1e-9 && (auc.precision_recall() - 1.0).abs() < 1e-9,
            "{} {}",
            auc.roc(),
            auc.precision_recall()
        );
    }
}
