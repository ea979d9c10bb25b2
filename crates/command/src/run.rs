//! `trainyard run`: one task in any role. Without a cluster, this process runs the whole job, as in TensorFlow.

use clap::{Args, ValueEnum};
use tracing::info;
use trainyard_cluster_spec::Role;
use trainyard_daemon::{Arguments, Context, StopSource, begin, supervise};
use trainyard_diagnostic::Diagnostic;
use trainyard_model::Build;

use crate::arguments::JobArguments;
use crate::ended::Ended;
use crate::progress::Show;
use crate::train::{Train, is_alone, train};

/// Roles by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleName {
    /// Leads the job, and trains unless the job says otherwise.
    Chief,
    /// Trains.
    Worker,
    /// Holds parameters.
    Ps,
    /// Evaluates checkpoints.
    Evaluator,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) arguments: Arguments,
    /// The role, with --cluster. Without --cluster, TF_CONFIG gives the role.
    #[arg(long, value_enum, requires = "cluster")]
    pub(crate) role: Option<RoleName>,
}

/// Runs a task to its end.
pub(crate) fn run(run: &Run, build: Build, stop: StopSource) -> Ended {
    let arguments = &run.arguments;
    if let Err(problem) = begin(arguments.log_format, &arguments.log_level) {
        return Ended::reported(Err(vec![problem]), arguments.log_format);
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
        return Ended::reported(
            train(&whole, build, Show::Nothing, stop),
            arguments.log_format,
        );
    }
    let role = run.role.map(|role| match role {
        RoleName::Chief => Role::Chief,
        RoleName::Worker => Role::Worker,
        RoleName::Ps => Role::Ps,
        RoleName::Evaluator => Role::Evaluator,
    });
    let outcome = Context::from_arguments(role, arguments).and_then(|context| {
        let context = Context { stop, ..context };
        run_task(context, build).map_err(|problem| vec![problem])
    });
    Ended::reported(outcome, arguments.log_format)
}

/// Runs the task of a context to its end.
pub(crate) fn run_task(context: Context, build: Build) -> Result<(), Diagnostic> {
    supervise(context, async move |context, stop| {
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
    })
}
