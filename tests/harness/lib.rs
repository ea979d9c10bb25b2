//! Starts, kills and watches real daemons for the tests.

mod admin;
mod cluster;
mod crash_points;
mod draw;
mod endurance;
mod lan;
mod ledger;
mod made_once;
mod memory_group;
mod mount;
mod need;
mod nemesis;
mod ports;
mod power_cut;
mod program;
mod proxy;
mod supervisor;
mod trial;
mod unreadable;
mod way;

use std::process::ExitCode;
use std::time::Duration;

pub use admin::{get, is_ready, metric};
pub use cluster::{TestCluster, census_rows, write_job};
pub use crash_points::{CrashPoints, Survived};
pub use draw::{Draw, is_thorough, seed};
pub use endurance::{Clicks, Endurance, EnduranceReport, Series, Trend, Unit};
pub use lan::{Lan, Network};
pub use ledger::{Account, Counting, Ledger, Mismatch, passes_to_go};
pub use made_once::made_once;
pub use memory_group::MemoryGroup;
pub use mount::{FrozenDisk, Mount};
pub use need::Need;
pub use nemesis::{Kind, LimitReport, Nemesis, Periods, Recovery, Report, Resource};
pub use ports::free_ports;
pub use power_cut::{Act, Left, Recording, Tree};
pub use program::{Ended, Program, program};
pub use proxy::{Blow, Direction, Link, Proxy};
pub use supervisor::{End, Supervisor};
pub use trial::{Trial, names, run_suite};
pub use unreadable::{Unreadable, files_below};
pub use way::Way;

#[doc(hidden)]
pub use inventory;

/// Longest wait for a program or for anything that it says. Only what hangs outlasts it: a slow machine is no failure.
pub const LIMIT: Duration = Duration::from_secs(180);

/// Is a task of a counting job, or any command of ours for one, where the first argument says so. The programs of the tests
/// call it first: they start themselves as the tasks that they try.
pub fn as_task() -> Option<ExitCode> {
    let first = std::env::args().nth(1)?;
    [
        "run", "train", "up", "check", "evaluate", "predict", "inspect",
    ]
    .contains(&first.as_str())
    .then(|| trainyard::main_with(Counting::from_job))
}
