//! Search for the model of a job: which candidate is trained next, for how long, and which one has won. It is greedy: first the kind
//! of model, then what each doubtful column is, then learning rate, penalty, encoding of numbers and dimension, each on the best so far, and with more time
//! than usual further kinds.

use std::collections::VecDeque;
use std::time::Duration;

use super::design::{DIMENSION, Design, Family, LAYERS_PENALTY, NumberEncoding, PENALTY};
use super::plan::{Reading, Shape};

/// Least time that a candidate is worth.
const LEAST_TIME: Duration = Duration::from_millis(500);

/// Share of the time that is kept for what comes after the kinds of models.
const LATER_SHARE: f64 = 0.25;

/// Time of a candidate, in even shares of what is left: some need less, and leave more to others. All are compared with the first, and
/// the products of DLRM take the longest.
const SHARES: f64 = 1.5;
const SHARES_OF_FIRST: f64 = 3.0;

/// Standard deviations of a metric's estimate by which a candidate must be ahead of another. Both are measured on the same records, so
/// that their difference is known better than either of them.
const AHEAD: f64 = 0.5;

/// The same where the measurement says less: time has ended the other candidate, which may still have learned, or the sample is a part
/// of the data, of which large models make more than small ones do.
const FAR_AHEAD: f64 = 10.0;

/// The same among models with layers, of which none is the larger one: both make as much of more data and of more time.
const AHEAD_OF_PEER: f64 = 3.0;

/// Standard deviations by which an area must be ahead of a constant's: it is the best of many candidates and evaluations.
const AHEAD_OF_CONSTANT: f64 = 4.0;

/// Most candidates that are compared again on more records.
const FINALISTS_MAX: usize = 3;

/// Learning rates that are tried, if they are the next to the best.
const LEARNING_RATES: [f64; 5] = [0.01, 0.005, 0.003, 0.001, 0.0005];

/// A model to train, and the columns that are read in another way than the rules say.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) shape: Shape,
    pub(crate) design: Design,
    pub(crate) readings: Vec<(String, Reading)>,
}

/// A column that may be a quantity or a name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Doubt {
    pub(crate) column: String,
    /// What the rules do not say, and might be right.
    pub(crate) others: Vec<Reading>,
}

/// What may be chosen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Space {
    pub(crate) rules: Candidate,
    /// A factorized model is possible.
    pub(crate) factorized: bool,
    /// The sample is a part of the data only.
    pub(crate) samples_a_part: bool,
    /// There is time for kinds of models that seldom are the best.
    pub(crate) further_kinds: bool,
    /// The label has one logit, as products of embeddings do.
    pub(crate) one_logit: bool,
    /// There are numbers with buckets, which may have other encodings.
    pub(crate) has_numbers: bool,
    /// There are lists of ids of which another column has one.
    pub(crate) has_histories: bool,
    pub(crate) doubts: Vec<Doubt>,
}

/// The metric that decides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Metric {
    /// The area under the ROC curve: higher is better.
    Auc,
    /// The mean loss: cross entropy of classes, or squared error.
    Loss,
}

/// Result of a candidate on the records that were held out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Measured {
    /// Value of the deciding metric, finite.
    pub(crate) value: f64,
    /// Value that is shown beside: log loss, or accuracy of classes.
    pub(crate) beside: Option<f64>,
    /// Time ended the candidate before its last pass.
    pub(crate) is_cut: bool,
    /// Its last evaluation was its best: it still learned.
    pub(crate) is_learning: bool,
}

/// Reason why a candidate has no result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Failure {
    /// Time ended it before its first evaluation.
    Time,
    Problem(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Time => formatter.write_str("time ended it before its first evaluation"),
            Self::Problem(why) => formatter.write_str(why),
        }
    }
}

/// A candidate that was trained.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Trial {
    pub(crate) candidate: Candidate,
    /// Its result, or why there is none.
    pub(crate) outcome: Result<Measured, Failure>,
    pub(crate) seconds: f64,
}

/// The respect in which the next candidates differ from the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Axis {
    /// All doubtful columns in one way.
    AllColumns,
    /// One doubtful column.
    Column(usize),
    LearningRate,
    Penalty,
    Numbers,
    Dimension,
    /// Kinds of models that are not among the first.
    FurtherKinds,
}

/// The search.
#[derive(Debug)]
pub(crate) struct Search {
    metric: Metric,
    /// Standard deviation of the metric's estimate.
    deviation: f64,
    /// Time of all candidates.
    total: Duration,
    samples_a_part: bool,
    doubts: Vec<Doubt>,
    queue: VecDeque<Candidate>,
    axes: VecDeque<Axis>,
    /// The candidates of the queue are kinds of models.
    compares_kinds: bool,
    trials: Vec<Trial>,
    winner: Option<usize>,
    /// Time ended the search before its last candidate.
    is_cut: bool,
}

impl Search {
    /// Begins a search that the candidate of the rules wins, unless another is better by more than chance.
    pub(crate) fn new(space: Space, metric: Metric, deviation: f64, total: Duration) -> Self {
        let mut queue: VecDeque<Candidate> = VecDeque::new();
        let doubts = space.doubts.clone();
        for candidate in kinds(&space) {
            if !queue.contains(&candidate) {
                queue.push_back(candidate);
            }
        }
        let mut axes = VecDeque::from([Axis::LearningRate, Axis::Penalty]);
        match doubts.len() {
            0 => {}
            1 => axes.push_front(Axis::Column(0)),
            count => {
                axes.push_front(Axis::AllColumns);
                axes.extend((0..count).map(Axis::Column));
            }
        }
        if space.has_numbers {
            axes.push_back(Axis::Numbers);
        }
        axes.push_back(Axis::Dimension);
        if space.further_kinds {
            axes.push_back(Axis::FurtherKinds);
        }
        Self {
            metric,
            deviation,
            total,
            samples_a_part: space.samples_a_part,
            doubts,
            queue,
            axes,
            compares_kinds: true,
            trials: Vec::new(),
            winner: None,
            is_cut: false,
        }
    }

    /// Begins a search among the finalists of another one, the winner first, on more records than that had. Then whole numbers that may be
    /// names are read in another way.
    pub(crate) fn among(
        finalists: Vec<Candidate>,
        space: Space,
        metric: Metric,
        deviation: f64,
        total: Duration,
    ) -> Self {
        Self {
            queue: finalists.into(),
            axes: (!space.doubts.is_empty())
                .then_some(Axis::AllColumns)
                .into_iter()
                .collect(),
            ..Self::new(space, metric, deviation, total)
        }
    }

    /// Returns the winner, and the best of those other families with layers that are not far behind: of more records, they may make more.
    pub(crate) fn finalists(&self) -> Vec<Candidate> {
        let Some((winner, best)) = self
            .best()
            .and_then(|best| Some((best, best.outcome.as_ref().ok()?)))
        else {
            return Vec::new();
        };
        let mut others: Vec<(&Candidate, f64)> = Vec::new();
        for trial in &self.trials {
            let Ok(measured) = &trial.outcome else {
                continue;
            };
            let candidate = &trial.candidate;
            let family = candidate.design.family;
            if !family.has_layers()
                || family == winner.candidate.design.family
                || self.is_ahead(best.value, measured.value, FAR_AHEAD)
            {
                continue;
            }
            match others
                .iter_mut()
                .find(|(other, _)| other.design.family == family)
            {
                Some(other) if self.is_ahead(measured.value, other.1, 0.0) => {
                    *other = (candidate, measured.value)
                }
                Some(_) => {}
                None => others.push((candidate, measured.value)),
            }
        }
        others.sort_by(|(_, left), (_, right)| match self.metric {
            Metric::Auc => right.total_cmp(left),
            Metric::Loss => left.total_cmp(right),
        });
        // Columns are read as by the winner.
        let others = others.into_iter().map(|(other, _)| Candidate {
            readings: winner.candidate.readings.clone(),
            ..other.clone()
        });
        [winner.candidate.clone()]
            .into_iter()
            .chain(others)
            .take(FINALISTS_MAX)
            .collect()
    }

    /// Returns the next candidate and the most time that it may take, with so much time left; `None` if the search has ended.
    pub(crate) fn next(&mut self, left: Duration) -> Option<(Candidate, Duration)> {
        if self.is_perfect() {
            return None;
        }
        while self.queue.is_empty() {
            let axis = self.axes.pop_front()?;
            self.compares_kinds = false;
            if let Some(best) = self.best() {
                let varied = self.vary(&best.candidate, axis);
                let is_new = |candidate: &Candidate| {
                    let mut tried = self.trials.iter();
                    !tried.any(|trial| trial.candidate == *candidate)
                };
                self.queue = varied.into_iter().filter(is_new).collect();
            }
        }
        if left < LEAST_TIME {
            self.is_cut = true;
            return None;
        }
        let kept = if self.compares_kinds {
            self.total.mul_f64(LATER_SHARE)
        } else {
            Duration::ZERO
        };
        let waiting = self.queue.len() as u32;
        let candidate = self.queue.pop_front()?;
        let shares = if self.trials.is_empty() || candidate.design.family == Family::Dlrm {
            SHARES_OF_FIRST
        } else {
            SHARES
        };
        let share = left.saturating_sub(kept).mul_f64(shares) / waiting;
        Some((candidate, share.clamp(LEAST_TIME, left.max(LEAST_TIME))))
    }

    /// Returns whether no candidate could be better by more than chance. The first two, the rules' and a linear model, are always measured.
    fn is_perfect(&self) -> bool {
        let best = self.best().and_then(|trial| trial.outcome.as_ref().ok());
        let goal = match self.metric {
            Metric::Auc => 1.0,
            Metric::Loss => 0.0,
        };
        self.trials.len() >= 2 && best.is_some_and(|best| !self.is_ahead(goal, best.value, AHEAD))
    }

    /// Takes the outcome of a candidate.
    pub(crate) fn record(&mut self, trial: Trial) {
        self.trials.push(trial);
        let latest = self.trials.len() - 1;
        let result = |index: usize| self.trials.get(index)?.outcome.as_ref().ok();
        let Some(new) = result(latest) else { return };
        let family = |index: usize| self.trials[index].candidate.design.family;
        let is_linear = family(latest) == Family::Linear;
        let are_peers = |best: usize| family(best).has_layers() && family(latest).has_layers();
        let wins = match self.winner.and_then(|best| Some((best, result(best)?))) {
            None => !self.lacks_rules(),
            Some((_, best)) if !best.is_cut && !self.samples_a_part => {
                self.is_ahead(new.value, best.value, AHEAD)
            }
            Some((place, best)) if are_peers(place) => {
                self.is_ahead(new.value, best.value, AHEAD_OF_PEER)
            }
            // A model that holds the other one, or has less of the data than it needs, may still pass it.
            Some((_, best))
                if best.is_cut && best.is_learning && (self.samples_a_part || is_linear) =>
            {
                false
            }
            Some((_, best)) => self.is_ahead(new.value, best.value, FAR_AHEAD),
        };
        if wins {
            self.winner = Some(latest);
        }
    }

    /// Returns whether time ended the candidate of the rules before its first evaluation: no other can be compared with it.
    pub(crate) fn lacks_rules(&self) -> bool {
        let first = self.trials.first();
        first.is_some_and(|rules| rules.outcome == Err(Failure::Time))
    }

    /// Returns the winner, if any candidate was measured.
    pub(crate) fn best(&self) -> Option<&Trial> {
        self.trials.get(self.winner?)
    }

    pub(crate) fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// Returns whether time ended the search, or a candidate of it.
    pub(crate) fn is_cut(&self) -> bool {
        let mut outcomes = self.trials.iter().map(|trial| &trial.outcome);
        self.is_cut || outcomes.any(|outcome| matches!(outcome, Ok(Measured { is_cut: true, .. })))
    }

    /// Returns whether a better candidate may not have won, because of what the sample or the time does not show.
    pub(crate) fn is_cautious(&self) -> bool {
        self.lacks_rules()
            || self.samples_a_part
            || self
                .best()
                .is_some_and(|best| matches!(best.outcome, Ok(Measured { is_cut: true, .. })))
    }

    /// Returns whether a value is better than another by so many standard deviations.
    fn is_ahead(&self, new: f64, old: f64, deviations: f64) -> bool {
        let margin = deviations * self.deviation;
        match self.metric {
            Metric::Auc => new > old + margin,
            Metric::Loss => new < old - margin,
        }
    }

    /// Returns whether a value is better than that of a model that predicts the same for each record. By chance, areas lie on both sides of
    /// a constant's, and losses seldom below it.
    pub(crate) fn is_better_than_constant(&self, value: f64, constant: f64) -> bool {
        match self.metric {
            Metric::Auc => self.is_ahead(value, constant, AHEAD_OF_CONSTANT),
            Metric::Loss => self.is_ahead(value, constant, AHEAD),
        }
    }

    /// Returns the trial of the job: the winner, unless it is no better than a constant and others are, of which it is the best one. Their
    /// caution is for models that may make more of more data, and one that knows nothing gives no reason for it.
    pub(crate) fn chosen(&self, constant: f64) -> Option<&Trial> {
        let best = self.best()?;
        let value = |trial: &Trial| trial.outcome.as_ref().ok().map(|measured| measured.value);
        let knows = |trial: &&Trial| {
            value(trial).is_some_and(|value| self.is_better_than_constant(value, constant))
        };
        if knows(&best) {
            return Some(best);
        }
        let others = self.trials.iter().filter(knows);
        let better = others.reduce(|one, other| match (value(one), value(other)) {
            (Some(first), Some(second)) if self.is_ahead(second, first, 0.0) => other,
            _ => one,
        });
        Some(better.unwrap_or(best))
    }

    /// Returns the candidates that differ from the best in one respect.
    fn vary(&self, best: &Candidate, axis: Axis) -> Vec<Candidate> {
        if best.shape != Shape::Factorized {
            return Vec::new();
        }
        let with = |design: Design| Candidate {
            design,
            ..best.clone()
        };
        let design = best.design;
        match axis {
            Axis::AllColumns => {
                let ways = [Reading::Name, Reading::Number, Reading::Both];
                let read = |way: Reading| {
                    let can = self
                        .doubts
                        .iter()
                        .filter(|doubt| doubt.others.contains(&way));
                    let readings: Vec<_> = can.map(|doubt| (doubt.column.clone(), way)).collect();
                    (readings.len() > 1).then(|| Candidate {
                        readings,
                        ..best.clone()
                    })
                };
                ways.into_iter().filter_map(read).collect()
            }
            Axis::Column(index) => {
                let doubt = &self.doubts[index];
                let mut kept = best.readings.clone();
                kept.retain(|(column, _)| *column != doubt.column);
                let mut out: Vec<Candidate> = Vec::new();
                if kept.len() != best.readings.len() {
                    out.push(Candidate {
                        readings: kept.clone(),
                        ..best.clone()
                    });
                }
                out.extend(doubt.others.iter().map(|reading| {
                    let mut readings = kept.clone();
                    readings.push((doubt.column.clone(), *reading));
                    Candidate {
                        readings,
                        ..best.clone()
                    }
                }));
                out.retain(|candidate| candidate != best);
                out
            }
            Axis::LearningRate => {
                let rates = LEARNING_RATES.into_iter().filter(|rate| {
                    let factor = rate / design.learning_rate;
                    *rate != design.learning_rate && (0.25..4.0).contains(&factor)
                });
                rates
                    .map(|learning_rate| {
                        with(Design {
                            learning_rate,
                            ..design
                        })
                    })
                    .collect()
            }
            Axis::Penalty if !design.family.has_embeddings() => Vec::new(),
            Axis::Penalty if design.penalty == 0.0 => vec![with(Design {
                penalty: LAYERS_PENALTY,
                ..design
            })],
            Axis::Penalty => [2.0, 0.5]
                .map(|factor| {
                    with(Design {
                        penalty: design.penalty * factor,
                        ..design
                    })
                })
                .to_vec(),
            Axis::Numbers => [NumberEncoding::Quantile, NumberEncoding::PiecewiseLinear]
                .map(|numbers| with(Design { numbers, ..design }))
                .to_vec(),
            Axis::FurtherKinds => [Family::FinalMlp, Family::MaskNet]
                .map(|family| with(design.as_layers(family)))
                .to_vec(),
            Axis::Dimension if !design.family.has_embeddings() => Vec::new(),
            Axis::Dimension => [2 * DIMENSION, DIMENSION / 2]
                .map(|dimension| {
                    with(Design {
                        dimension,
                        ..design
                    })
                })
                .to_vec(),
        }
    }
}

/// Returns the kinds of models that are compared: the rules' and a linear one, and then the most promising first.
fn kinds(space: &Space) -> Vec<Candidate> {
    let rules = &space.rules;
    let of = |shape: Shape, design: Design| Candidate {
        shape,
        design,
        readings: Vec::new(),
    };
    let linear = of(rules.shape, Design::of(Family::Linear));
    if !space.factorized {
        return vec![rules.clone(), linear];
    }
    let fm = Design::of(Family::Fm);
    let deepfm = Design::of(Family::DeepFm);
    let factorized = [
        Design {
            penalty: PENALTY,
            ..fm
        },
        deepfm,
        // Its layers weigh each product of two embeddings, where a factorization machine adds all of them.
        Design::of(Family::Dlrm),
        Design::of(Family::Din),
        Design {
            penalty: LAYERS_PENALTY,
            dropout: 0.5,
            ..deepfm
        },
        Design::of(Family::Dcn),
        fm,
        Design::of(Family::WideAndDeep),
    ];
    let factorized = factorized
        .into_iter()
        .filter(|design| space.one_logit || !matches!(design.family, Family::Fm | Family::DeepFm))
        .filter(|design| space.has_histories || design.family != Family::Din)
        .map(|design| of(Shape::Factorized, design));
    [rules.clone(), linear]
        .into_iter()
        .chain(factorized)
        .collect()
}

#[cfg(test)]
mod tests;
