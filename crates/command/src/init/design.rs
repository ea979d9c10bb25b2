//! The model of a job that `trainyard init` writes: its kind, and what keeps it from learning its records by heart.

use super::plan::{Plan, Shape};

/// Numbers of an embedding in a factorized model, the same for all features.
pub(crate) const DIMENSION: usize = 16;

/// Learning rate of Adam in a factorized model, which the field's benchmarks use.
pub(crate) const LEARNING_RATE: f64 = 0.001;

/// Learning rate of Adam for a linear model, whose weights are larger than the numbers of an embedding.
const LINEAR_LEARNING_RATE: f64 = 0.005;

/// Learning rate of Adam for a factorization machine, which has no layers that a larger rate upsets.
const FM_LEARNING_RATE: f64 = 0.003;

/// Learning rate of Adam for DLRM. Its layers see embeddings as products alone, whose gradients are small as long as both are near 0: at
/// a smaller rate, ids are learned by heart before their products say anything.
const DLRM_LEARNING_RATE: f64 = 0.003;

/// Penalty of the embeddings by the record, `l2` times the records of a batch: 1e-4 at a batch of 256. The gradient of a row is a
/// mean over the batch, and its penalty is not, so that the same penalty at a larger batch holds a rare row back more.
pub(crate) const PENALTY: f64 = 0.0256;

/// Penalty of embeddings in front of layers, which a larger one keeps at 0.
pub(crate) const LAYERS_PENALTY: f64 = PENALTY / 5.0;

/// Kind of a model, without its goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    Linear,
    Fm,
    Dnn,
    WideAndDeep,
    DeepFm,
    Dcn,
    Dlrm,
    FinalMlp,
    MaskNet,
    /// Attention over histories of ids.
    Din,
}

impl Family {
    /// Returns the first part of `model.kind`.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Fm => "fm",
            Self::Dnn => "dnn",
            Self::WideAndDeep => "dnn_linear_combined",
            Self::DeepFm => "deepfm",
            Self::Dcn => "dcn",
            Self::Dlrm => "dlrm",
            Self::FinalMlp => "final_mlp",
            Self::MaskNet => "masknet",
            Self::Din => "din",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::WideAndDeep => "wide and deep",
            _ => self.key(),
        }
    }

    pub(crate) fn has_linear(self) -> bool {
        matches!(
            self,
            Self::Linear | Self::Fm | Self::WideAndDeep | Self::DeepFm
        )
    }

    pub(crate) fn has_embeddings(self) -> bool {
        self != Self::Linear
    }

    pub(crate) fn has_layers(self) -> bool {
        !matches!(self, Self::Linear | Self::Fm)
    }
}

/// How numbers feed a factorized model, besides the embeddings of their buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NumberEncoding {
    /// As one number, by its logarithm or its deviations from the mean.
    Scaled,
    /// As the normal score of its share of the records.
    Quantile,
    /// As the filled share of each bin between the boundaries of its buckets.
    PiecewiseLinear,
}

/// The model of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Design {
    pub(crate) family: Family,
    /// Numbers of an embedding in a factorized model.
    pub(crate) dimension: usize,
    /// `l2` of the embeddings times the records of a batch; 0 = no penalty.
    pub(crate) penalty: f64,
    /// Share of the outputs of a hidden layer that training drops.
    pub(crate) dropout: f64,
    /// Learning rate of Adam in a factorized model.
    pub(crate) learning_rate: f64,
    pub(crate) numbers: NumberEncoding,
}

impl Design {
    pub(crate) fn of(family: Family) -> Self {
        Self {
            family,
            dimension: DIMENSION,
            penalty: 0.0,
            dropout: 0.0,
            numbers: NumberEncoding::Scaled,
            learning_rate: match family {
                Family::Linear => LINEAR_LEARNING_RATE,
                Family::Fm => FM_LEARNING_RATE,
                Family::Dlrm => DLRM_LEARNING_RATE,
                Family::Dnn
                | Family::WideAndDeep
                | Family::DeepFm
                | Family::Dcn
                | Family::FinalMlp
                | Family::MaskNet
                | Family::Din => LEARNING_RATE,
            },
        }
    }

    /// Returns the design of another kind of layers, with what of this one suits it.
    pub(crate) fn as_layers(&self, family: Family) -> Self {
        let of_layers = Self::of(family);
        Self {
            family,
            // A factorization machine takes a larger penalty, and a larger rate, than layers do.
            penalty: if self.family.has_layers() {
                self.penalty
            } else {
                self.penalty.min(LAYERS_PENALTY)
            },
            learning_rate: if self.family.has_layers() {
                self.learning_rate
            } else {
                of_layers.learning_rate
            },
            ..*self
        }
    }

    /// Returns the design that the rules choose, without a measurement.
    pub(crate) fn by_rules(plan: &Plan) -> Self {
        Self::of(match plan.shape {
            Shape::Factorized => Family::DeepFm,
            Shape::WideAndDeep if plan.has_categories() => Family::WideAndDeep,
            Shape::WideAndDeep => Family::Dnn,
        })
    }

    /// Returns the penalty of the embeddings at a batch of this size, as the job file writes it.
    pub(crate) fn l2(&self, batch_size: u64) -> f64 {
        if self.penalty == 0.0 {
            return 0.0;
        }
        let exact = self.penalty / batch_size.max(1) as f64;
        // Two digits are enough, and read well.
        let scale = 10_f64.powi(1 - exact.log10().floor() as i32);
        (exact * scale).round() / scale
    }

    /// Returns the words for a design of a shape, with the penalty at a batch of this size.
    pub(crate) fn describe(&self, shape: Shape, batch_size: u64) -> String {
        let mut text = self.family.name().to_owned();
        if shape == Shape::WideAndDeep {
            return text;
        }
        if self.family == Family::WideAndDeep {
            text += ", embeddings of numbers too";
        }
        let rules = Self::of(self.family);
        if self.family.has_embeddings() && self.dimension != rules.dimension {
            text += &format!(", dimension {}", self.dimension);
        }
        if self.penalty > 0.0 {
            text += &format!(", l2 {:e}", self.l2(batch_size));
        }
        if self.dropout > 0.0 {
            text += &format!(", dropout {}", self.dropout);
        }
        match self.numbers {
            NumberEncoding::Scaled => {}
            NumberEncoding::Quantile => text += ", numbers as quantiles",
            NumberEncoding::PiecewiseLinear => text += ", numbers piecewise linear",
        }
        if self.learning_rate != rules.learning_rate {
            text += &format!(", learning rate {}", self.learning_rate);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_penalty_falls_with_the_batch_so_that_a_rare_row_is_held_back_alike() {
        let design = Design {
            penalty: PENALTY,
            ..Design::of(Family::Fm)
        };
        assert_eq!(design.l2(256), 1e-4);
        assert_eq!(design.l2(4096), 6.3e-6);
        assert_eq!(Design::of(Family::Fm).l2(256), 0.0);
    }

    #[test]
    fn another_kind_of_layers_keeps_what_suits_layers() {
        let fm = Design {
            penalty: PENALTY,
            dimension: 32,
            ..Design::of(Family::Fm)
        };
        let expected = Design {
            penalty: LAYERS_PENALTY,
            dimension: 32,
            ..Design::of(Family::FinalMlp)
        };
        assert_eq!(fm.as_layers(Family::FinalMlp), expected);
        let deepfm = Design {
            learning_rate: 0.003,
            dropout: 0.5,
            ..Design::of(Family::DeepFm)
        };
        let expected = Design {
            family: Family::Dlrm,
            ..deepfm
        };
        assert_eq!(deepfm.as_layers(Family::Dlrm), expected);
    }

    #[test]
    fn a_design_names_only_what_differs_from_the_rules() {
        let design = Design {
            dropout: 0.5,
            penalty: PENALTY,
            learning_rate: 0.003,
            numbers: NumberEncoding::Quantile,
            ..Design::of(Family::DeepFm)
        };
        assert_eq!(
            design.describe(Shape::Factorized, 256),
            "deepfm, l2 1e-4, dropout 0.5, numbers as quantiles, learning rate 0.003"
        );
        assert_eq!(
            Design::of(Family::Linear).describe(Shape::Factorized, 256),
            "linear"
        );
    }
}
