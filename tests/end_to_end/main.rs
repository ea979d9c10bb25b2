//! Whole jobs on real processes.

mod chiefs;
mod crash_points;
mod dynamic;
mod elastic;
mod failpoints;
mod faults;
mod guard;
mod jobs;
mod messages;
mod mirrored;
mod modes;
mod nemesis;
mod network;
mod rolling;
mod standby;
mod takeover;

use std::time::Duration;

/// Longest wait for anything that takes a moment; a slow machine is no failure.
const LIMIT: Duration = Duration::from_secs(60);
