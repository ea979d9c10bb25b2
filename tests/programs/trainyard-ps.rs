//! The daemon `trainyard-ps`, as the tests start it.

use std::process::ExitCode;

use trainyard_cluster_spec::Role;

#[global_allocator]
static ALLOCATOR: trainyard_daemon::Allocator = trainyard_daemon::ALLOCATOR;

fn main() -> ExitCode {
    trainyard_daemon::launch(Role::Ps, trainyard_ps::run)
}
