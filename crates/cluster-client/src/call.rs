//! What one server is asked in one round trip, and what it answers.

use std::sync::Arc;

use trainyard_parameter_store::{BatchId, Contribution, Pulled, Pushed, Rejection, Selection};
use trainyard_protocol::payload::Encoding;

use crate::{Answer, ShardGradients};

/// A push, a pull, or both: then the pull sees what was pushed.
#[derive(Debug, Clone, Default)]
pub struct ShardCall {
    /// Gradients of a step.
    pub push: Option<ShardPush>,
    /// What a later step reads.
    pub pull: Option<ShardPull>,
}

/// One step's gradients for one server.
#[derive(Debug, Clone)]
pub struct ShardPush {
    /// Of the step's pull.
    pub seq: u64,
    /// The batch that they were computed from.
    pub batch: BatchId,
    /// Batches that they are of, from that one on.
    pub batches: u32,
    /// Version of this server that was pulled.
    pub pulled_version: u64,
    /// Its place in its step, under synchronous updates.
    pub contribution: Option<Contribution>,
    /// What they update; absent = what the pull of `seq` read.
    pub selection: Option<Arc<Selection>>,
    /// Their values.
    pub gradients: Arc<ShardGradients>,
    /// Why the worker has refused them itself, if it has.
    pub rejected: Option<Rejection>,
}

/// What one step reads of one server.
#[derive(Debug, Clone)]
pub struct ShardPull {
    /// Of the step, from 1.
    pub seq: u64,
    /// What is read.
    pub selection: Arc<Selection>,
    /// Of each whole slice, the count of updates that the reader's values stand for; 0 = none.
    pub known: Vec<u64>,
    /// Whether the right to push the step is asked for.
    pub reserve_step: bool,
    /// Version that the values must have at least.
    pub at_least: u64,
    /// Whether the values of that very version are wanted, although the server is a step ahead.
    pub or_before: bool,
    /// Whether other servers have applied the batch of the step.
    pub half_applied: bool,
    /// How the values travel.
    pub encoding: Encoding,
}

/// What became of a call.
#[derive(Debug)]
pub struct ShardAnswer {
    /// The push's outcome, if there was one.
    pub pushed: Option<Pushed>,
    /// The pull's, and its values.
    pub pulled: Option<(Pulled, Answer)>,
}
