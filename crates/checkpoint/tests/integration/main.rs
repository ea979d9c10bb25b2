//! Integration tests with checkpoints on disk: written, interrupted, damaged, and read by other numbers of servers.

mod checkpoint;
mod flips;
mod held;
mod table;
