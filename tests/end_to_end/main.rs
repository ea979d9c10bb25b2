//! Whole jobs on real processes.

mod acknowledged;
mod chiefs;
mod crash_points;
mod dynamic;
mod elastic;
mod failpoints;
mod faults;
mod guard;
mod hostile;
mod jobs;
mod lan;
mod messages;
mod mirrored;
mod modes;
mod nemesis;
mod network;
mod rolling;
mod security;
mod standby;
mod takeover;

use std::time::Duration;

/// Longest wait for anything that takes a moment; a slow machine is no failure.
const LIMIT: Duration = Duration::from_secs(60);
