//! `trainyard run`: one task, in whichever role.

use std::process::ExitCode;

use trainyard_cluster_spec::Role;
use trainyard_daemon::{Context, finish, start_logging, supervise};
use trainyard_model::{Error, Model};
use trainyard_run_config::Job;

use crate::command::{RoleName, Run};

/// Runs a task to its end.
pub(crate) fn run<M: Model>(run: &Run, build: fn(&Job) -> Result<M, Error>) -> ExitCode {
    let arguments = &run.arguments;
    if let Err(problem) = start_logging(arguments.log_format, &arguments.log_level) {
        return finish(Err(vec![problem]), arguments.log_format);
    }
    let role = run.role.map(|role| match role {
        RoleName::Chief => Role::Chief,
        RoleName::Worker => Role::Worker,
        RoleName::Ps => Role::Ps,
        RoleName::Evaluator => Role::Evaluator,
    });
    let outcome = Context::from_arguments(role, arguments).and_then(|context| {
        let supervised = supervise(context, async move |context, stop| match context.task.role {
            Role::Chief => trainyard_chief::run(context, build, stop).await,
            Role::Worker => trainyard_worker::run(context, build, stop).await,
            Role::Ps => trainyard_ps::run(context, stop).await,
            Role::Evaluator => {
                trainyard_evaluator::run(trainyard_evaluator::Config::of(&context), build, stop)
                    .await
                    .map(drop)
            }
        });
        supervised.map_err(|problem| vec![problem])
    });
    finish(outcome, arguments.log_format)
}
