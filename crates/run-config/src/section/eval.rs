//! `[eval]`: schedule and kind of evaluations.

use serde::Serialize;
use trainyard_diagnostic::{Code, Section, section};

section! {
    /// Schedule and kind of evaluations (`tf.estimator.EvalSpec`).
    #[derive(Debug, Clone, PartialEq, Serialize)]
    pub struct EvalSpec {
        /// number of batches of an evaluation
        steps: Option<u64> = integer(1..=u64::MAX).optional("all");
        /// seconds before the first evaluation
        start_delay_secs: u64 = integer(0..=u64::MAX).or(120);
        /// minimum seconds between evaluations; the last checkpoint is always evaluated
        throttle_secs: u64 = integer(0..=u64::MAX).or(600);
        /// evaluates the training data too, to show overfitting
        on_training_data: bool = flag().or(false);
        /// evaluates every checkpoint, in order, instead of the newest from time to time. The chief keeps each checkpoint
        /// until it is evaluated, even beyond `run.keep_checkpoint_max`. Excludes the delay and the throttle
        every_checkpoint: bool = flag().or(false);
        /// column that divides the examples into groups for `auc_group`, for example a user id
        /// ([above](#labels-weights-and-groups))
        group_auc_column: Option<String> = text().optional("none");
    }
}

pub(crate) fn read(section: Section<'_>) -> Option<EvalSpec> {
    let eval = EvalSpec::read_keys(&section)?;
    if eval.every_checkpoint {
        for key in ["start_delay_secs", "throttle_secs"]
            .into_iter()
            .filter(|key| section.node(key).is_some())
        {
            let message = format!(
                "{key} has no meaning with every_checkpoint = true: no checkpoint is passed over"
            );
            section.fail(Code::E1006, key, message);
        }
    }
    section.finish();
    Some(eval)
}
