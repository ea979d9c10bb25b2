//! Early stopping: whether the evaluations end a job before its last step
//! (`tf.estimator.experimental.stop_if_no_decrease_hook` and its siblings). The decision is a function of all
//! evaluations so far, so that a restarted chief decides the same.

use serde_json::Value;
use trainyard_run_config::EarlyStoppingConfig;

/// The value of the metric for a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Evaluation {
    pub(crate) step: u64,
    pub(crate) value: f64,
}

/// The verdict on the evaluations.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Verdict {
    /// The best evaluation so far.
    pub(crate) best: Option<Evaluation>,
    /// The reason why the job ends now, in a sentence; absent if it continues.
    pub(crate) stop: Option<String>,
}

/// Returns the values of the metric in the results of `eval/metrics.jsonl`, oldest first; NaN where it is not finite, which
/// JSON writes as null. If a job was restored to an
/// earlier checkpoint, the results of later steps before it are left out.
pub(crate) fn values(results: &[Value], metric: &str) -> Vec<Evaluation> {
    let mut out: Vec<Evaluation> = Vec::new();
    for result in results {
        let Some(step) = result["global_step"].as_u64() else {
            continue;
        };
        let value = match result["metrics"].get(metric) {
            Some(Value::Null) => f64::NAN,
            Some(Value::Number(number)) => number.as_f64().unwrap_or(f64::NAN),
            _ => continue,
        };
        out.retain(|before| before.step < step);
        out.push(Evaluation { step, value });
    }
    out
}

/// Judges the evaluations. The first one at which the rule holds ends the job, however many are there when they are looked at,
/// as in TensorFlow.
pub(crate) fn judge(config: &EarlyStoppingConfig, evaluations: &[Evaluation]) -> Verdict {
    let mut best: Option<Evaluation> = None;
    let mut since_best = 0;
    for &evaluation in evaluations {
        let is_first = best.is_none() && evaluation.value.is_finite();
        if is_first
            || best.is_some_and(|best| config.improvement().is_made(evaluation.value, best.value))
        {
            best = Some(evaluation);
            since_best = 0;
        } else {
            since_best += 1;
        }
        let stop = best
            .filter(|_| evaluation.step >= config.min_steps)
            .and_then(|best| reason(config, best, evaluation, since_best));
        if stop.is_some() {
            return Verdict { best, stop };
        }
    }
    Verdict { best, stop: None }
}

/// Returns the reason why the job ends at an evaluation, if it does.
fn reason(
    config: &EarlyStoppingConfig,
    best: Evaluation,
    latest: Evaluation,
    since_best: u64,
) -> Option<String> {
    let metric = &config.metric;
    if let Some(goal) = config.stop_at
        && reaches(config, best.value, goal)
    {
        return Some(format!(
            "{metric} is {} at step {}, and train.early_stopping.stop_at is {goal}",
            best.value, best.step
        ));
    }
    let word = if config.higher_is_better {
        "risen above"
    } else {
        "fallen below"
    };
    let plateau = format!(
        "{metric} has not {word} {} (step {}) in",
        best.value, best.step
    );
    let steps = latest.step - best.step;
    if config
        .max_evaluations_without_improvement
        .is_some_and(|most| since_best >= most)
    {
        Some(format!("{plateau} {since_best} evaluations"))
    } else if config
        .max_steps_without_improvement
        .is_some_and(|most| steps >= most)
    {
        Some(format!("{plateau} {steps} steps"))
    } else {
        None
    }
}

fn reaches(config: &EarlyStoppingConfig, value: f64, goal: f64) -> bool {
    if config.higher_is_better {
        value >= goal
    } else {
        value <= goal
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config() -> EarlyStoppingConfig {
        EarlyStoppingConfig {
            metric: "auc".to_owned(),
            higher_is_better: true,
            max_evaluations_without_improvement: None,
            max_steps_without_improvement: None,
            stop_at: None,
            min_steps: 0,
            min_delta: 0.0,
        }
    }

    /// Returns evaluations at steps 100, 200, ...
    fn evaluations(values: &[f64]) -> Vec<Evaluation> {
        values
            .iter()
            .zip(1..)
            .map(|(value, number)| Evaluation {
                step: 100 * number,
                value: *value,
            })
            .collect()
    }

    fn stops(config: &EarlyStoppingConfig, values: &[f64]) -> Option<String> {
        judge(config, &evaluations(values)).stop
    }

    #[test]
    fn it_ends_after_so_many_evaluations_without_gain_and_not_before() {
        let config = EarlyStoppingConfig {
            max_evaluations_without_improvement: Some(2),
            ..config()
        };
        assert_eq!(stops(&config, &[]), None);
        assert_eq!(stops(&config, &[0.5, 0.6, 0.59]), None);
        let verdict = judge(&config, &evaluations(&[0.5, 0.6, 0.59, 0.6]));
        assert_eq!(
            verdict.best,
            Some(Evaluation {
                step: 200,
                value: 0.6
            })
        );
        let why = "auc has not risen above 0.6 (step 200) in 2 evaluations";
        assert_eq!(verdict.stop.as_deref(), Some(why));
        assert_eq!(
            stops(&config, &[0.5, 0.6, 0.59, 0.61, 0.5]),
            None,
            "a gain begins the count anew"
        );
    }

    #[test]
    fn evaluations_that_are_not_finite_are_never_the_best_and_count_as_no_improvement() {
        let config = EarlyStoppingConfig {
            max_evaluations_without_improvement: Some(2),
            ..config()
        };
        let results: Vec<Value> = [
            (1, json!(null)),
            (2, json!(0.7)),
            (3, json!(null)),
            (4, json!(null)),
        ]
        .into_iter()
        .map(|(step, auc)| json!({"global_step": step, "metrics": {"auc": auc}}))
        .collect();
        let at = |count: usize| judge(&config, &values(&results[..count], "auc"));
        assert_eq!(at(1), Verdict::default());
        assert_eq!(at(3).stop, None);
        let verdict = at(4);
        assert_eq!(verdict.best.map(|best| best.step), Some(2));
        assert!(verdict.stop.is_some());
    }

    #[test]
    fn several_evaluations_at_once_end_it_where_one_after_the_other_would() {
        let config = EarlyStoppingConfig {
            max_steps_without_improvement: Some(200),
            ..config()
        };
        let all = [0.5, 0.6, 0.59, 0.58, 0.57, 0.9];
        let why = "auc has not risen above 0.6 (step 200) in 200 steps";
        for count in 4..=all.len() {
            let verdict = judge(&config, &evaluations(&all[..count]));
            assert_eq!(verdict.stop.as_deref(), Some(why));
            assert_eq!(verdict.best.map(|best| best.step), Some(200));
        }
    }

    #[test]
    fn what_is_lower_is_better_where_the_job_says_so() {
        let config = EarlyStoppingConfig {
            metric: "loss".to_owned(),
            higher_is_better: false,
            max_steps_without_improvement: Some(200),
            ..config()
        };
        assert_eq!(stops(&config, &[0.5, 0.4, 0.41]), None);
        let why = stops(&config, &[0.5, 0.4, 0.41, 0.42]);
        assert_eq!(
            why.as_deref(),
            Some("loss has not fallen below 0.4 (step 200) in 200 steps")
        );
    }

    #[test]
    fn it_ends_at_a_value_that_was_asked_for() {
        let config = EarlyStoppingConfig {
            stop_at: Some(0.7),
            ..config()
        };
        assert_eq!(stops(&config, &[0.5, 0.69]), None);
        let verdict = judge(&config, &evaluations(&[0.5, 0.7]));
        assert_eq!(
            verdict.stop.as_deref(),
            Some("auc is 0.7 at step 200, and train.early_stopping.stop_at is 0.7")
        );
        assert_eq!(verdict.best.map(|best| best.step), Some(200));
    }

    #[test]
    fn nothing_ends_it_before_its_least_steps_and_small_gains_are_none() {
        let patient = EarlyStoppingConfig {
            max_evaluations_without_improvement: Some(1),
            min_steps: 400,
            min_delta: 0.05,
            ..config()
        };
        assert_eq!(stops(&patient, &[0.5, 0.4, 0.4]), None);
        assert!(stops(&patient, &[0.5, 0.52, 0.54, 0.549]).is_some());
        assert_eq!(stops(&patient, &[0.5, 0.52, 0.54, 0.56]), None);
    }

    #[test]
    fn results_of_a_life_that_went_back_count_no_more() {
        let result = |step: u64, auc: f64| json!({"global_step": step, "metrics": {"auc": auc}});
        let results = [
            result(100, 0.5),
            result(200, 0.6),
            result(300, 0.7),
            result(200, 0.61),
            json!({"metrics": {}}),
        ];
        let expected = [
            Evaluation {
                step: 100,
                value: 0.5,
            },
            Evaluation {
                step: 200,
                value: 0.61,
            },
        ];
        assert_eq!(values(&results, "auc"), expected);
        assert!(values(&results, "loss").is_empty());
    }
}
