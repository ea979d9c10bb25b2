//! Reductions of the learning rates: whether the evaluations are on a plateau (`torch.optim.lr_scheduler.ReduceLROnPlateau`,
//! `tf.keras.callbacks.ReduceLROnPlateau`). The decision is a function of the evaluations and of the reductions so far, so that
//! a restarted chief decides the same.

use trainyard_model_dir::Reduction;
use trainyard_run_config::ReduceOnPlateauConfig;

use crate::early_stopping::Evaluation;

/// The evaluations after which the rates fall.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Plateau {
    /// The best evaluation; absent if none was finite.
    pub(crate) best: Option<Evaluation>,
    /// The last evaluation of the plateau.
    pub(crate) latest: Evaluation,
}

/// Returns the plateau for which the rates have yet to fall. An evaluation of a step before the latest reduction may be the best
/// one, and says nothing of the reduced rates. Evaluations of steps after `global_step` are of a life that went back.
pub(crate) fn plateau(
    config: &ReduceOnPlateauConfig,
    evaluations: &[Evaluation],
    made: &[Reduction],
    global_step: u64,
) -> Option<Plateau> {
    if config.factor_after(made.len() + 1) >= config.factor_after(made.len()) {
        return None;
    }
    let since = made.last().map(|reduction| reduction.from_step);
    let mut cooldown = if made.is_empty() { 0 } else { config.cooldown };
    let mut best: Option<Evaluation> = None;
    let mut since_best = 0;
    for &latest in evaluations {
        if latest.step > global_step {
            break;
        }
        let is_better = match best {
            None => latest.value.is_finite(),
            Some(best) => config.improvement().is_made(latest.value, best.value),
        };
        if is_better {
            best = Some(latest);
            since_best = 0;
        }
        if since.is_some_and(|since| latest.step <= since) {
            continue;
        }
        if cooldown > 0 {
            cooldown -= 1;
        } else if !is_better {
            since_best += 1;
        }
        if since_best >= config.patience {
            return Some(Plateau { best, latest });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> ReduceOnPlateauConfig {
        ReduceOnPlateauConfig {
            factor: 0.1,
            patience: 2,
            metric: "auc".to_owned(),
            higher_is_better: true,
            min_delta: 0.0,
            cooldown: 0,
            min_factor: 0.001,
        }
    }

    /// Returns the step of the evaluation that reduces the rates, of evaluations at steps 100, 200, ...
    fn reduces(config: &ReduceOnPlateauConfig, values: &[f64], made: &[Reduction]) -> Option<u64> {
        let evaluations: Vec<Evaluation> = values
            .iter()
            .zip(1..)
            .map(|(value, number)| Evaluation {
                step: 100 * number,
                value: *value,
            })
            .collect();
        plateau(config, &evaluations, made, 10_000).map(|plateau| plateau.latest.step)
    }

    fn made(evaluated_step: u64, from_step: u64) -> Reduction {
        Reduction {
            evaluated_step,
            from_step,
        }
    }

    #[test]
    fn rates_fall_after_so_many_evaluations_without_gain_and_not_before() {
        let config = config();
        assert_eq!(reduces(&config, &[], &[]), None);
        assert_eq!(reduces(&config, &[0.5, 0.6, 0.59], &[]), None);
        assert_eq!(reduces(&config, &[0.5, 0.6, 0.59, 0.6], &[]), Some(400));
        assert_eq!(reduces(&config, &[0.5, 0.6, 0.59, 0.61, 0.6], &[]), None);
        let lower = ReduceOnPlateauConfig {
            higher_is_better: false,
            ..config
        };
        assert_eq!(reduces(&lower, &[0.5, 0.6, 0.59, 0.4], &[]), Some(300));
    }

    #[test]
    fn evaluations_of_steps_before_a_reduction_are_no_evidence_against_the_reduced_rates() {
        let config = config();
        let after = [made(300, 420)];
        // 300 brought the first reduction about, and 400 was trained before it.
        let values = [0.6, 0.5, 0.5, 0.5, 0.5];
        assert_eq!(reduces(&config, &values, &after), None);
        assert_eq!(
            reduces(&config, &[&values[..], &[0.5]].concat(), &after),
            Some(600)
        );
        // The best one is older than the reduction.
        assert_eq!(
            reduces(&config, &[0.6, 0.5, 0.5, 0.5, 0.55, 0.55], &after),
            Some(600)
        );
        assert_eq!(
            reduces(&config, &[0.6, 0.5, 0.5, 0.5, 0.55, 0.61, 0.5], &after),
            None
        );
    }

    #[test]
    fn evaluations_of_the_cooldown_do_not_count() {
        let config = ReduceOnPlateauConfig {
            cooldown: 2,
            ..config()
        };
        let after = [made(300, 300)];
        let values = [0.6, 0.5, 0.5, 0.5, 0.5, 0.5];
        assert_eq!(reduces(&config, &values, &after), None);
        assert_eq!(
            reduces(&config, &[&values[..], &[0.5]].concat(), &after),
            Some(700)
        );
        assert_eq!(
            reduces(&config, &values, &[]),
            Some(300),
            "there was no reduction yet"
        );
    }

    #[test]
    fn small_gains_are_none_and_what_is_not_finite_is_never_the_best() {
        let config = ReduceOnPlateauConfig {
            min_delta: 0.05,
            ..config()
        };
        assert_eq!(reduces(&config, &[0.5, 0.52, 0.54], &[]), Some(300));
        assert_eq!(reduces(&config, &[0.5, 0.52, 0.56], &[]), None);
        assert_eq!(reduces(&config, &[f64::NAN, 0.5, f64::NAN], &[]), None);
        assert_eq!(reduces(&config, &[f64::NAN, f64::NAN], &[]), Some(200));
    }

    #[test]
    fn rates_fall_no_further_than_to_their_least_share() {
        let config = ReduceOnPlateauConfig {
            factor: 0.5,
            min_factor: 0.3,
            ..config()
        };
        let factors: Vec<f64> = (0..4).map(|count| config.factor_after(count)).collect();
        assert_eq!(factors, [1.0, 0.5, 0.3, 0.3]);
        let values = [0.5; 9];
        assert_eq!(reduces(&config, &values, &[made(100, 100)]), Some(300));
        assert_eq!(
            reduces(&config, &values, &[made(100, 100), made(200, 200)]),
            None
        );
    }

    #[test]
    fn evaluations_of_a_life_that_went_back_reduce_nothing() {
        let evaluations = [100, 200, 300].map(|step| Evaluation { step, value: 0.5 });
        let at = |global_step| plateau(&config(), &evaluations, &[], global_step);
        assert_eq!(at(250), None);
        assert_eq!(at(300).map(|plateau| plateau.latest.step), Some(300));
    }
}
