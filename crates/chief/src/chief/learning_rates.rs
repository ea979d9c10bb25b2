//! Learning rates that fall when evaluations bring no gain. The stores are prepared with the reduced rates as with those of a
//! job file that has changed: each update has the rates of its store's plan, and a store that repeats its log repeats them.

use tracing::info;
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model_dir::{Reduction, Reductions};
use trainyard_runtime::blocking;
use trainyard_variable::MOVING_AVERAGE;

use super::{Chief, Run};
use crate::plateau::Plateau;

impl Chief {
    /// Returns what the reductions multiply the learning rates of the job by.
    fn rate_factor(&self, run: &Run) -> f64 {
        let config = self.job.train.reduce_on_plateau.as_ref();
        let made = run.reductions.reductions.len() + usize::from(run.plateau.is_some());
        config.map_or(1.0, |config| config.factor_after(made))
    }

    /// Puts the learning rates of this run into the plan.
    pub(super) fn set_rates(&mut self, run: &Run) {
        let factor = self.rate_factor(run) as f32;
        self.plan.optimizers = self.optimizers.clone();
        for (group, rule) in &mut self.plan.optimizers {
            // Moving averages have no learning rate.
            if group != MOVING_AVERAGE {
                *rule = rule.clone().with_learning_rate_times(factor);
            }
        }
    }

    /// Reads the reductions of earlier chiefs, once this chief has claimed its term.
    ///
    /// # Errors
    /// They cannot be read.
    pub(super) async fn recall_reductions(&self, run: &mut Run) -> Result<(), Diagnostic> {
        if self.job.train.reduce_on_plateau.is_none() {
            return Ok(());
        }
        let model_dir = self.job.model_dir.clone();
        let read = blocking(move || Reductions::read(&model_dir));
        run.reductions = read.await.map_err(failed)??;
        let made = run.reductions.reductions.len();
        if made > 0 {
            info!(
                reductions = made,
                factor = self.rate_factor(run),
                "evaluations of earlier runs have reduced the learning rates"
            );
        }
        Ok(())
    }

    /// Records the reduction of the plateau that was found, from the step on that the stores have, and forgets reductions that
    /// the job went back behind.
    ///
    /// # Errors
    /// They cannot be written, or another chief leads.
    pub(super) async fn record_reductions(&mut self, run: &mut Run) -> Result<(), Diagnostic> {
        let plateau = run.plateau.take();
        if self.job.train.reduce_on_plateau.is_none() {
            return Ok(());
        }
        let before = run.reductions.clone();
        if let Some(plateau) = plateau {
            run.reductions.reductions.push(Reduction {
                evaluated_step: plateau.latest.step,
                from_step: run.global_step,
            });
        }
        run.reductions.go_back_to(run.global_step);
        self.set_rates(run);
        if run.reductions == before {
            return Ok(());
        }
        let made = run.reductions.clone();
        let model_dir = self.job.model_dir.clone();
        let epoch = run.epoch;
        self.folder.check("no reduction is written into it")?;
        blocking(move || made.write(&model_dir, epoch))
            .await
            .map_err(failed)??;
        match plateau.filter(|_| run.reductions.reductions.len() > before.reductions.len()) {
            Some(plateau) => self.tell_of_plateau(run, plateau),
            None => info!(
                step = run.global_step,
                factor = self.rate_factor(run),
                "the job goes back behind reductions of the learning rates, which are undone"
            ),
        }
        Ok(())
    }

    fn tell_of_plateau(&self, run: &Run, plateau: Plateau) {
        let metric = self
            .job
            .train
            .reduce_on_plateau
            .as_ref()
            .map_or("", |config| config.metric.as_str());
        let best = plateau.best.map_or_else(
            || "no finite value".to_owned(),
            |best| format!("{} at step {}", best.value, best.step),
        );
        info!(
            step = run.global_step,
            factor = self.rate_factor(run),
            reductions = run.reductions.reductions.len(),
            "the learning rates fall: {metric} is {} at step {}, and the best one is {best}",
            plateau.latest.value,
            plateau.latest.step
        );
    }
}

fn failed(panic: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::error(
        Code::E9001,
        format!("the reductions of the learning rates could not be kept: {panic}"),
    )
}
