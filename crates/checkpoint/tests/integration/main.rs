//! Checkpoints on a real disk: written, cut off, damaged, and read by other numbers of servers.

mod checkpoint;
mod flips;
mod held;
mod table;
