//! Starts, kills and watches real daemons for the tests.

mod cluster;
mod program;

pub use cluster::{TestCluster, census_rows, free_ports, write_job};
pub use program::{Ended, Program};
