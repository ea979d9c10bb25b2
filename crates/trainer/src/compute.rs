//! The computation of one step: from features and parameters to gradients.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;
use tracing::warn;
use trainyard_cluster_client::{CachedParameters, Step};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_input::Position;
use trainyard_model::{AnyModel, HookedGradients, Own};
use trainyard_optimizer::Clipping;
use trainyard_parameter_store::{Fault, Found, Guard, Look, Nonfinite, Rejection, zero_nonfinite};
use trainyard_run_config::OptimizerSection;
use trainyard_variable::{Gradients, MOVING_AVERAGE, Read, Reads, VariableSpec};

use crate::batch_source::Prepared;
use crate::layout::guard;
use crate::step_metrics::{Sent, StepMetrics, batch_of};
use crate::{Config, Threads};

/// Computes the steps of a session.
pub(crate) struct Computing<'a> {
    config: &'a Config,
    model: &'a AnyModel,
    threads: &'a Threads,
    clipping: Option<Clipping>,
    guard: Guard,
    scratch: Option<Own>,
}

/// A step that was pulled, and its parameters.
pub(crate) struct Pulled<'a> {
    pub(crate) step: &'a mut Step,
    pub(crate) held: &'a CachedParameters,
}

impl<'a> Computing<'a> {
    pub(crate) fn new(
        config: &'a Config,
        model: &'a AnyModel,
        threads: &'a Threads,
    ) -> Result<Self, Diagnostic> {
        let clipping = config
            .job
            .train
            .clip_gradients
            .as_ref()
            .map(clipping)
            .transpose()?;
        let guard = guard(&config.job);
        let scratch = None;
        Ok(Self {
            config,
            model,
            threads,
            clipping,
            guard,
            scratch,
        })
    }

    /// Computes the gradients of a batch. The hook is not called if the gradients are clipped.
    pub(crate) fn step(
        &mut self,
        prepared: Prepared,
        pulled: Pulled<'_>,
        hooked: HookedGradients<'_>,
        metrics: &StepMetrics<'_>,
    ) -> Result<Sent, Diagnostic> {
        #[cfg(feature = "failpoints")]
        fail::fail_point!("worker.after_pull");
        let position = prepared.position;
        let Pulled { step, held } = pulled;
        let values = &held.values;
        let HookedGradients { gradients, hook } = hooked;
        let Some(features) = prepared.features else {
            self.empty(gradients);
            return Ok(Sent {
                position,
                examples: 0,
                loss: None,
                rejected: None,
            });
        };
        let began = Instant::now();
        let model = self.model;
        let scratch = &mut self.scratch;
        let out = &mut *gradients;
        // The features are moved into the closure, because another thread may use them, but not two threads at once.
        let clips = self.clipping.is_some();
        let compute = move || {
            if clips {
                model.train(&features, values, out, scratch)
            } else {
                let mut hooked = HookedGradients {
                    gradients: out,
                    hook,
                };
                model.train_hooked(&features, values, &mut hooked, scratch)
            }
        };
        let done = self.threads.run(compute)?;
        step.share_gradients(gradients);
        if let Some(clipping) = &self.clipping {
            // Moving averages have no gradients. For them, the push holds how far they move.
            let variables = model.variables();
            clipping.apply(gradients, |place| {
                variables[place].optimizer_group != MOVING_AVERAGE
            });
        }
        let rejected = self.refuse(gradients, position, done.loss, metrics.last_loss())?;
        if rejected.is_some() {
            self.empty(gradients);
            step.count_nothing();
        }
        metrics.computed(began.elapsed());
        let loss = Some(done.loss).filter(|loss| loss.is_finite() && rejected.is_none());
        Ok(Sent {
            position,
            examples: done.examples as u64,
            loss,
            rejected,
        })
    }

    /// Replaces the gradients by those of a step that updates nothing.
    fn empty(&self, gradients: &mut Gradients) {
        gradients.iter_mut().for_each(Vec::clear);
        gradients.resize_with(self.model.variables().len(), Vec::new);
    }

    /// Checks loss and gradients before they are sent, so that all servers reject a batch, or none.
    fn refuse(
        &self,
        gradients: &mut Gradients,
        position: Position,
        loss: f64,
        last: Option<f64>,
    ) -> Result<Option<Rejection>, Diagnostic> {
        let nonfinite = self.guard.nonfinite;
        if nonfinite == Nonfinite::Zero {
            let zeroed: usize = gradients
                .iter_mut()
                .map(|values| zero_nonfinite(values))
                .sum();
            if zeroed > 0 {
                let batch = batch_of(position);
                warn!(task = %self.config.task, %batch, zeroed, "infinite or NaN gradients were set to 0");
            }
        }
        let of_loss = || {
            let bits = (loss as f32).to_bits();
            Rejection {
                fault: Fault::Nonfinite,
                variable: None,
                position: 0,
                bits,
            }
        };
        let found = match nonfinite {
            Nonfinite::Reject | Nonfinite::Halt if !loss.is_finite() => Some(of_loss()),
            _ => find(self.guard, self.model.variables(), gradients),
        };
        let Some(rejection) = found else {
            return Ok(None);
        };
        let name = |variable: usize| {
            self.model
                .variables()
                .get(variable)
                .map(|variable| variable.name.as_str())
        };
        let what = rejection.describe(name);
        if rejection.fault == Fault::Nonfinite && nonfinite == Nonfinite::Halt {
            return Err(not_finite(self.config, position, &what, last));
        }
        let batch = batch_of(position);
        let reason = rejection.fault.name();
        warn!(task = %self.config.task, %batch, reason, "batch rejected: {what}; it updates nothing");
        Ok(Some(rejection))
    }
}

/// Finds a value that violates the guard, and its variable. The bounds do not apply to moving averages, whose values are no
/// gradients.
fn find(guard: Guard, variables: &[VariableSpec], gradients: &Gradients) -> Option<Rejection> {
    let mut bounded = Look::new(guard);
    let mut unbounded = Look::new(guard.without_bounds());
    let rejection = |variable: Option<usize>, found: Found| {
        let variable = variable.map(|variable| variable as u32);
        let position = found.position as u64;
        Rejection {
            fault: found.fault,
            variable,
            position,
            bits: found.value.to_bits(),
        }
    };
    for (variable, values) in gradients.iter().enumerate() {
        let is_average = variables[variable].optimizer_group == MOVING_AVERAGE;
        let look = if is_average {
            &mut unbounded
        } else {
            &mut bounded
        };
        if let Some(found) = look.at(values) {
            return Some(rejection(Some(variable), found));
        }
    }
    bounded.end().map(|found| rejection(None, found))
}

/// Runs `compute` while calls are in progress: tells the runtime that this thread does not serve them meanwhile.
pub fn beside<R>(compute: impl FnOnce() -> R) -> R {
    let threads = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
    if threads {
        tokio::task::block_in_place(compute)
    } else {
        compute()
    }
}

/// Returns the gradient clipping of the job.
fn clipping(section: &OptimizerSection) -> Result<Clipping, Diagnostic> {
    serde_json::from_value(section.fields().into())
        .map_err(|error| Diagnostic::error(Code::E1006, format!("train.clip_gradients: {error}")))
}

/// Returns what a step over this batch reads. A batch without a good record reads nothing.
pub(crate) fn reads(model: &AnyModel, batch: &Prepared) -> Reads {
    match &batch.features {
        Some(features) => model.reads(features),
        None => vec![Read::Nothing; model.variables().len()],
    }
}

fn not_finite(config: &Config, position: Position, what: &str, last: Option<f64>) -> Diagnostic {
    let message = format!(
        "training diverged in {}, batch {}: {what}",
        config.task,
        batch_of(position)
    );
    let problem = Diagnostic::error(Code::E5001, message)
        .note("the task did not send the update; the parameters are finite");
    let problem = match last {
        Some(last) => problem.note(format!("last finite loss {last:.4}")),
        None => problem,
    };
    problem.help(
        "lower learning_rate, look for extreme values in the data, or let parameter_servers.guard reject such batches",
    )
}

#[cfg(test)]
mod tests {
    use trainyard_variable::{Access, Initializer};

    use super::*;

    #[test]
    fn bounds_leave_moving_averages_out_but_for_values_that_are_not_finite() {
        let spec = |group: &str| VariableSpec {
            name: group.to_owned(),
            shape: vec![2],
            access: Access::Whole,
            initializer: Initializer::Zeros,
            optimizer_group: group.to_owned(),
        };
        let variables = [spec(MOVING_AVERAGE), spec("dnn")];
        for (max_norm, max_abs) in [(Some(2.0), None), (None, Some(2.0))] {
            let guard = Guard {
                max_norm,
                max_abs,
                ..Guard::default()
            };
            let fault = |averages: [f32; 2], gradients: [f32; 2]| {
                let values = vec![averages.to_vec(), gradients.to_vec()];
                find(guard, &variables, &values).map(|found| found.fault)
            };
            assert_eq!(fault([900.0, -900.0], [1.0, 1.0]), None);
            assert_eq!(fault([900.0, f32::NAN], [1.0, 1.0]), Some(Fault::Nonfinite));
            assert!(fault([0.0, 0.0], [1.0, 3.0]).is_some());
        }
    }
}
