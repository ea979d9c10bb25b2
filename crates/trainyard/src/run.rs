//! `trainyard run`: one task in any role. Without a cluster, this process runs the whole job, as in TensorFlow.

use std::process::ExitCode;

use tracing::info;
use trainyard_cluster_spec::{Role, TfConfig};
use trainyard_daemon::{Context, finish, start_logging, supervise};
use trainyard_model::Build;

use crate::command::{JobArguments, RoleName, Run, Train};
use crate::train::train;

/// Runs a task to its end.
pub(crate) fn run(run: &Run, build: Build) -> ExitCode {
    let arguments = &run.arguments;
    if let Err(problem) = start_logging(arguments.log_format, &arguments.log_level) {
        return finish(Err(vec![problem]), arguments.log_format);
    }
    if arguments.cluster.is_none() && is_alone(std::env::var("TF_CONFIG").ok().as_deref()) {
        info!(
            "neither TF_CONFIG nor --cluster names other tasks: the whole job runs in this process"
        );
        let job = JobArguments {
            job: arguments.job.clone(),
            model_dir: arguments.model_dir.clone(),
            set: arguments.set.clone(),
            log_format: arguments.log_format,
            log_level: None,
        };
        let whole = Train {
            job,
            report: arguments.report.clone(),
            no_evaluation: false,
            admin_listen: arguments.admin_listen.clone(),
        };
        return finish(train(&whole, build, false), arguments.log_format);
    }
    let role = run.role.map(|role| match role {
        RoleName::Chief => Role::Chief,
        RoleName::Worker => Role::Worker,
        RoleName::Ps => Role::Ps,
        RoleName::Evaluator => Role::Evaluator,
    });
    let outcome = Context::from_arguments(role, arguments).and_then(|context| {
        let supervised = supervise(context, async move |context, stop| {
            match context.task.role {
                Role::Chief => trainyard_chief::run(context, build, stop).await,
                Role::Worker => trainyard_worker::run(context, build, stop).await,
                Role::Ps => trainyard_ps::run(context, stop).await,
                Role::Evaluator => {
                    trainyard_evaluator::run(trainyard_evaluator::Config::of(&context), build, stop)
                        .await
                        .map(drop)
                }
            }
        });
        supervised.map_err(|problem| vec![problem])
    });
    finish(outcome, arguments.log_format)
}

/// Returns whether this process runs the whole job: without `TF_CONFIG`, without a cluster in it, or with a chief as
/// its only task.
pub(crate) fn is_alone(tf_config: Option<&str>) -> bool {
    match tf_config.map(TfConfig::parse) {
        None => true,
        Some(Ok(config)) => config
            .cluster
            .is_none_or(|cluster| cluster.tasks.len() == 1 && config.task.role == Role::Chief),
        Some(Err(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_without_a_cluster_runs_alone() {
        assert!(is_alone(None) && is_alone(Some("{}")));
        assert!(is_alone(Some(
            r#"{"cluster": {"chief": ["a:1"]}, "task": {"type": "chief", "index": 0}}"#
        )));
        assert!(!is_alone(Some(
            r#"{"cluster": {"chief": ["a:1"], "ps": ["b:1"]}, "task": {"type": "chief", "index": 0}}"#
        )));
        assert!(
            !is_alone(Some("not JSON")),
            "the mistake is told, not passed over"
        );
    }
}
