//! A push: its header, what it updates, and its gradients.

use std::sync::Arc;

use crate::{BatchId, MicroBatch, Rejection, Selection};

/// A push without its gradients: what identifies it, and how its gradients were computed. Request, log and store use this
/// one description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushHeader {
    /// Sequence number of the step, from 1.
    pub seq: u64,
    /// The batch that the gradients were computed from, or the first of several.
    pub batch: BatchId,
    /// Number of consecutive batches that the gradients are of; at least 1. More than 1 only for a store in the process
    /// of its worker.
    pub batches: u32,
    /// Version that was pulled.
    pub pulled_version: u64,
    /// Micro-batch of its step, under synchronous updates.
    pub micro_batch: Option<MicroBatch>,
    /// Step that the update rules see (of bias corrections and schedules), from 1. `None` if it is the version of the
    /// store after the update: each update is then a step of its own.
    pub optimizer_step: Option<u64>,
    /// Reason for which the worker has rejected its own gradients. They are then not checked.
    pub rejected: Option<Rejection>,
}

/// One step's gradients for one store. `G` holds the values: where they were computed, or as they arrived.
#[derive(Debug, Clone)]
pub struct Push<G> {
    /// All but the gradients.
    pub header: PushHeader,
    /// Slices, rows and ids to update; absent = those that the pull of the same `seq` read.
    pub selection: Option<Arc<Selection>>,
    /// Gradients, in the order of the selection.
    pub gradients: G,
}
