//! Metrics that need more than a sum: the areas under two curves.

/// Thresholds of the approximate areas (`tf.keras.metrics.AUC`).
const THRESHOLDS: usize = 200;
/// Examples that the exact area keeps; beyond it, it is not reported.
const EXACT_EXAMPLES_MAX: usize = 20_000_000;

/// Areas under the ROC and the precision-recall curve at 200 thresholds, as `tf.keras.metrics.AUC` computes them.
#[derive(Debug, Clone)]
pub struct Auc {
    /// Weight of positive and negative examples between two thresholds: entry `i` holds what lies above `i` of them.
    positives: Vec<f64>,
    negatives: Vec<f64>,
}

impl Default for Auc {
    fn default() -> Self {
        Self { positives: vec![0.0; THRESHOLDS + 1], negatives: vec![0.0; THRESHOLDS + 1] }
    }
}

impl Auc {
    /// Adds an example: a probability, a label in [0, 1] and a weight.
    pub fn add(&mut self, probability: f32, label: f32, weight: f32) {
        // Thresholds are -1e-7, 1/199, ..., 198/199, 1 + 1e-7; an example counts above those it exceeds: always the
        // first, never the last. The product may round to the wrong side of one, so that the guess is corrected.
        let inner = THRESHOLDS - 2;
        let threshold = |index: usize| (index as f64 / (THRESHOLDS - 1) as f64) as f32;
        let guess = (f64::from(probability) * (THRESHOLDS - 1) as f64).ceil() - 1.0;
        let mut exceeded = guess.clamp(0.0, inner as f64) as usize;
        while exceeded < inner && probability > threshold(exceeded + 1) {
            exceeded += 1;
        }
        while exceeded > 0 && probability <= threshold(exceeded) {
            exceeded -= 1;
        }
        let above = 1 + exceeded;
        self.positives[above] += f64::from(weight * label);
        self.negatives[above] += f64::from(weight * (1.0 - label));
    }

    /// Returns, for each threshold in ascending order, the weight of positives and negatives above it.
    fn curve(&self) -> Vec<(f64, f64)> {
        let (mut positives, mut negatives) = (0.0, 0.0);
        let mut curve: Vec<(f64, f64)> = (0..THRESHOLDS)
            .rev()
            .map(|threshold| {
                positives += self.positives[threshold + 1];
                negatives += self.negatives[threshold + 1];
                (positives, negatives)
            })
            .collect();
        curve.reverse();
        curve
    }

    /// Returns the area under the ROC curve, by trapezoids; 0 where a class has no weight.
    pub fn roc(&self) -> f64 {
        let curve = self.curve();
        let (all_positive, all_negative) = curve[0];
        let divide = |part: f64, whole: f64| if whole == 0.0 { 0.0 } else { part / whole };
        let rates: Vec<(f64, f64)> =
            curve.iter().map(|(tp, fp)| (divide(*fp, all_negative), divide(*tp, all_positive))).collect();
        rates.windows(2).map(|pair| (pair[0].0 - pair[1].0) * (pair[0].1 + pair[1].1) / 2.0).sum()
    }

    /// Returns the area under the precision-recall curve, interpolated (`interpolate_pr_auc`; Davis and Goadrich 2006).
    pub fn precision_recall(&self) -> f64 {
        let curve = self.curve();
        let all_positive = curve[0].0;
        if all_positive == 0.0 {
            return 0.0;
        }
        let mut area = 0.0;
        for pair in curve.windows(2) {
            let ((tp, fp), (next_tp, next_fp)) = (pair[0], pair[1]);
            let (p, next_p) = (tp + fp, next_tp + next_fp);
            let (dtp, dp) = (tp - next_tp, p - next_p);
            let slope = if dp > 0.0 { dtp / dp } else { 0.0 };
            let intercept = next_tp - slope * next_p;
            let ratio = if p > 0.0 && next_p > 0.0 { p / next_p } else { 1.0 };
            area += slope * (dtp + intercept * ratio.ln()) / all_positive;
        }
        area
    }
}

/// The area under the ROC curve without thresholds: the chance that a positive example scores above a negative one,
/// ties counted half (Mann and Whitney 1947).
#[derive(Debug, Clone, Default)]
pub struct ExactAuc {
    examples: Vec<(f32, f32, f32)>,
    overflow: bool,
}

impl ExactAuc {
    /// Adds an example: a score, a label in [0, 1] and a weight.
    pub fn add(&mut self, score: f32, label: f32, weight: f32) {
        if self.examples.len() < EXACT_EXAMPLES_MAX {
            self.examples.push((score, label, weight));
        } else {
            self.overflow = true;
        }
    }

    /// Returns the area; nothing where a class has no weight or there were more than 20 million examples.
    pub fn value(&self) -> Option<f64> {
        let mut sorted = self.examples.clone();
        sorted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let (mut below, mut all_positive, mut area) = (0.0, 0.0, 0.0);
        let mut begin = 0;
        while begin < sorted.len() {
            let tied =
                sorted[begin..].iter().take_while(|(score, ..)| *score == sorted[begin].0).count().max(1);
            let (mut positive, mut negative) = (0.0, 0.0);
            for (_, label, weight) in &sorted[begin..begin + tied] {
                positive += f64::from(label * weight);
                negative += f64::from((1.0 - label) * weight);
            }
            area += positive * (below + negative / 2.0);
            below += negative;
            all_positive += positive;
            begin += tied;
        }
        let pairs = below * all_positive;
        (pairs > 0.0 && !self.overflow).then(|| area / pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_area_counts_pairs_and_halves_ties() {
        let mut auc = ExactAuc::default();
        for (score, label) in [(0.1, 0.0), (0.4, 1.0), (0.4, 0.0), (0.8, 1.0)] {
            auc.add(score, label, 1.0);
        }
        assert_eq!(auc.value(), Some(3.5 / 4.0));
        assert_eq!(ExactAuc::default().value(), None);
    }

    #[test]
    fn perfect_scores_have_area_one() {
        let mut auc = Auc::default();
        for index in 0..100 {
            let label = f32::from(u8::from(index >= 50));
            auc.add(index as f32 / 100.0, label, 1.0);
        }
        assert!(
            (auc.roc() - 1.0).abs() < 1e-9 && (auc.precision_recall() - 1.0).abs() < 1e-9,
            "{} {}",
            auc.roc(),
            auc.precision_recall()
        );
    }
}
