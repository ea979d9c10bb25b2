//! Crash points: a chief or a server is killed at one of its file operations after the other.

mod daemons;
mod trace;

use std::path::PathBuf;

use crate::Draw;
use trace::Call;

/// What became of the crash points.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survived {
    /// Crash points: file operations of a daemon.
    pub points: usize,
    /// Those that were tried: a process came to them, and was killed.
    pub tried: usize,
    /// What went wrong, and where.
    pub failures: Vec<String>,
}

/// The enumeration.
#[derive(Debug, Clone)]
pub struct CrashPoints {
    /// A program that calls [`crate::as_task`].
    pub program: PathBuf,
    /// How many points of each process are tried at most, drawn at random; nothing = all.
    pub sample: Option<usize>,
    /// Of that choice.
    pub seed: u64,
    /// Tries only the points whose names hold this: `ps:1 at rename 1`.
    pub only: Option<String>,
}

impl CrashPoints {
    /// The points in the order in which they are tried.
    fn points(&self, all: Vec<Call>) -> Vec<Call> {
        let mut draw = Draw::new(self.seed);
        let mut all = all;
        if self.sample.is_some() {
            for place in 0..all.len() {
                let other = place + draw.below((all.len() - place) as u64) as usize;
                all.swap(place, other);
            }
        }
        all
    }

    /// How many of so many points are tried.
    fn wanted(&self, all: usize) -> usize {
        self.sample.map_or(all, |sample| sample.min(all))
    }
}
