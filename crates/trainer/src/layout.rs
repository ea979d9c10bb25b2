//! The contents of a job's stores, which are the same in every task.

use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model::AnyModel;
use trainyard_parameter_server::{Plan, Provenance};
use trainyard_parameter_store::{Guard, Nonfinite, Update};
use trainyard_run_config::{Job, StrategyKind};
use trainyard_variable::{Layout, MOVING_AVERAGE, VariableSpec};

/// Returns the layout that a job's strategy requires, on `num_ps` parameter servers.
fn plan_layout(job: &Job, variables: &[VariableSpec], num_ps: usize) -> Layout {
    let partitioner = job.strategy.partitioner;
    let placement = job.strategy.placement;
    match job.strategy.kind {
        StrategyKind::Hybrid => Layout::hybrid(variables, partitioner, placement, num_ps),
        _ => Layout::new(variables, partitioner, placement, num_ps),
    }
}

/// Returns the contents of a job's stores, without the source of their values.
pub fn plan(job: &Job, model: &AnyModel, num_ps: usize) -> Plan {
    let layout = plan_layout(job, model.variables(), num_ps);
    Plan {
        variables: model.variables().to_vec(),
        fingerprint: layout.fingerprint(model.variables()),
        layout,
        optimizers: model.optimizers(),
        seed: job.run.seed,
        global_step_max: job.train.max_steps.unwrap_or(0),
        update: update(job),
        guard: guard(job),
        hybrid: job.strategy.kind == StrategyKind::Hybrid,
        checkpoint: None,
        warm_start: None,
        settings: 0,
        provenance: Provenance::default(),
        forget_positions: false,
    }
}

/// Multiplies the learning rates of a plan by the number of batches in progress at once, if the job says so.
pub fn scale_learning_rates(job: &Job, plan: &mut Plan, batches: usize) {
    if !job.strategy.scale_learning_rate {
        return;
    }
    for (group, rule) in &mut plan.optimizers {
        // Moving averages have no learning rate. The rate of their rule says how far they move.
        if group != MOVING_AVERAGE {
            *rule = rule.clone().with_learning_rate_times(batches as f32);
        }
    }
}

/// Returns the bounds of the values that a job pushes. If workers sum gradients among themselves, some gradients of a
/// batch have been sent before the others are known. Training then cannot continue without the batch, and halts.
pub(crate) fn guard(job: &Job) -> Guard {
    let guard = job.parameter_servers.guard;
    match job.strategy.kind {
        StrategyKind::ParameterServer | StrategyKind::OneDevice => guard.bounds,
        StrategyKind::Hybrid
        | StrategyKind::MultiWorkerMirrored
        | StrategyKind::Mirrored
        | StrategyKind::CentralStorage => Guard {
            nonfinite: Nonfinite::Halt,
            ..Guard::default()
        },
    }
}

fn update(job: &Job) -> Update {
    match job.strategy.kind {
        StrategyKind::OneDevice => Update::Async,
        _ => job.strategy.update.mode,
    }
}

/// Checks that the job's strategy can train in a cluster with `num_ps` parameter servers.
///
/// # Errors
/// The message says what the strategy needs.
pub fn check_cluster(job: &Job, num_ps: usize) -> Result<(), Diagnostic> {
    let name = job.strategy.kind.name();
    let (message, help) = match job.strategy.kind {
        StrategyKind::ParameterServer | StrategyKind::Hybrid if num_ps == 0 => (
            format!("strategy `{name}` needs at least one ps, the cluster has none"),
            "add a ps address to the cluster, or use kind = \"multi_worker_mirrored\"",
        ),
        StrategyKind::MultiWorkerMirrored if num_ps > 0 => (
            format!(
                "strategy `{name}` keeps the parameters in the workers, the cluster has {num_ps} ps"
            ),
            "remove the ps from the cluster, or use kind = \"parameter_server\"",
        ),
        StrategyKind::Mirrored | StrategyKind::CentralStorage | StrategyKind::OneDevice => (
            format!("strategy `{name}` trains in one process, a cluster was given"),
            "run `trainyard train`, or use kind = \"multi_worker_mirrored\" or \"parameter_server\"",
        ),
        StrategyKind::ParameterServer
        | StrategyKind::Hybrid
        | StrategyKind::MultiWorkerMirrored => {
            return job.lacks_backup(num_ps).map_or(Ok(()), Err);
        }
    };
    Err(Diagnostic::error(Code::E1006, message).help(help))
}
