//! Checkpoints on a real disk: recorded ones, written ones of every form, damaged ones.

mod damage;
mod golden;
mod memory;
mod messages;
mod round_trip;
mod writer;
