//! Whole jobs on real processes.

mod acknowledged;
mod chiefs;
mod commands;
mod crash_points;
mod dynamic;
mod early_stopping;
mod elastic;
mod endurance;
mod evaluations;
mod failpoints;
mod faults;
mod first_hour;
mod formats;
mod guard;
mod hostile;
mod jobs;
mod lan;
mod large_tables;
mod messages;
mod mirrored;
mod modes;
mod nemesis;
mod network;
mod pki;
mod predictions;
mod provenance;
mod restore;
mod rolling;
mod security;
mod shipped;
mod solo;
mod standby;
mod strategies;
mod takeover;

use trainyard_tests::LIMIT;
