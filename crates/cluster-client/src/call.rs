//! The request and the reply of one round trip to one server.

use std::sync::Arc;

use trainyard_parameter_store::{BatchId, MicroBatch, Pulled, Pushed, Rejection, Selection};
use trainyard_protocol::payload::Encoding;

use crate::{Answer, ShardGradients};

/// A push, a pull, or a push and then a pull, which sees the pushed gradients.
#[derive(Debug, Clone, Default)]
pub struct ShardCall {
    /// Gradients of a step.
    pub push: Option<ShardPush>,
    /// Parameters that a later step reads.
    pub pull: Option<ShardPull>,
}

/// One step's gradients for one server.
#[derive(Debug, Clone)]
pub struct ShardPush {
    /// Sequence number of the step.
    pub seq: u64,
    /// The batch that the gradients were computed from, or the first of several.
    pub batch: BatchId,
    /// Number of consecutive batches that the gradients are of.
    pub batches: u32,
    /// Version of this server at the pull.
    pub pulled_version: u64,
    /// Micro-batch of the step, under synchronous updates.
    pub micro_batch: Option<MicroBatch>,
    /// Slices, rows and ids to update; absent = those that the pull of `seq` read.
    pub selection: Option<Arc<Selection>>,
    /// Values of the gradients.
    pub gradients: Arc<ShardGradients>,
    /// Why the worker has rejected its own gradients, if it has.
    pub rejected: Option<Rejection>,
}

/// The parameters that one step reads from one server.
#[derive(Debug, Clone)]
pub struct ShardPull {
    /// Sequence number of the step, from 1.
    pub seq: u64,
    /// Slices, rows and ids to read.
    pub selection: Arc<Selection>,
    /// Number of updates that the reader's values include, for each whole slice; 0 = none.
    pub known: Vec<u64>,
    /// Whether a ticket is requested.
    pub reserve_step: bool,
    /// Least version of the values.
    pub at_least: u64,
    /// Whether the values of exactly that version are wanted, although the server is one step ahead.
    pub or_before: bool,
    /// Whether other servers have applied the batch of the step.
    pub half_applied: bool,
    /// Encoding of the values on the wire.
    pub encoding: Encoding,
}

/// Reply to a [`ShardCall`].
#[derive(Debug)]
pub struct ShardAnswer {
    /// Outcome of the push, if there was one.
    pub pushed: Option<Pushed>,
    /// Outcome of the pull and its values, if there was one.
    pub pulled: Option<(Pulled, Box<dyn Answer>)>,
}
