//! Checkpoints on a real disk: recorded, written in every form, and damaged.

mod damage;
mod golden;
mod memory;
mod messages;
mod round_trip;
mod writer;
