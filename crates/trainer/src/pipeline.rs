//! Steps in progress: their parameters are read while earlier steps are computed.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;

use tokio_util::task::AbortOnDropHandle;
use trainyard_cluster_client::{CachedParameters, Error, Push, Returned};
use trainyard_variable::Gradients;

use crate::step_metrics::Sent;

/// A step that has been computed.
#[derive(Debug)]
pub(crate) struct Computed {
    pub(crate) push: Push,
    pub(crate) sent: Sent,
}

/// A call to the parameter servers.
#[allow(missing_debug_implementations)]
pub enum Call {
    /// The call runs in a spawned task.
    Spawned(AbortOnDropHandle<Result<Returned, Error>>),
    /// The call starts when it is awaited.
    Waiting(Pin<Box<dyn Future<Output = Result<Returned, Error>> + Send>>),
}

impl Call {
    /// Waits for the reply.
    ///
    /// # Errors
    /// A server refuses, or does not reply in time.
    pub async fn returned(self) -> Result<Returned, Error> {
        match self {
            Self::Waiting(call) => call.await,
            Self::Spawned(handle) => match handle.await {
                Ok(returned) => returned,
                Err(error) => {
                    let message = format!("the call has failed in this task: {error}");
                    Err(Error::Protocol {
                        peer: "this task".to_owned(),
                        message,
                    })
                }
            },
        }
    }
}

/// A call in progress, with the context that the caller needs when the reply arrives.
#[allow(missing_debug_implementations)]
pub struct InFlightCall<T> {
    /// Context of the caller.
    pub about: T,
    /// The call.
    pub call: Call,
}

/// The calls in progress, oldest first, and buffers that steps reuse.
///
/// With a depth of 0 there is one call at a time: it pushes step t and pulls step t + 1. With a depth of 1 the pull of
/// step t + 1 goes with the push of step t - 1, and both travel while step t is computed.
pub struct Pipeline<T> {
    depth: usize,
    ahead: VecDeque<InFlightCall<T>>,
    held: Vec<CachedParameters>,
    gradients: Vec<Gradients>,
}

impl<T> Pipeline<T> {
    /// Returns a pipeline that reads `depth` steps ahead.
    pub fn new(depth: usize) -> Self {
        Self {
            depth,
            ahead: VecDeque::new(),
            held: Vec::new(),
            gradients: Vec::new(),
        }
    }

    /// Returns whether no call is in progress.
    pub fn is_empty(&self) -> bool {
        self.ahead.is_empty()
    }

    /// Returns whether another call may begin beside those in progress and so many whose replies are not used yet.
    pub fn has_room(&self, unused: usize) -> bool {
        self.ahead.len() + unused <= self.depth
    }

    /// Adds a call.
    pub fn push(
        &mut self,
        about: T,
        call: impl Future<Output = Result<Returned, Error>> + Send + 'static,
    ) {
        let call = match self.depth {
            0 => Call::Waiting(Box::pin(call)),
            _ => Call::Spawned(AbortOnDropHandle::new(tokio::spawn(call))),
        };
        self.ahead.push_back(InFlightCall { about, call });
    }

    /// Removes and returns the oldest call.
    pub fn pop(&mut self) -> Option<InFlightCall<T>> {
        self.ahead.pop_front()
    }

    /// Returns a buffer for the values of a pull.
    pub fn spare_held(&mut self) -> CachedParameters {
        self.held.pop().unwrap_or_default()
    }

    /// Keeps the buffer of a pull for reuse.
    pub fn keep(&mut self, held: CachedParameters) {
        self.held.push(held);
    }

    /// Returns buffers for gradients.
    pub fn spare_gradients(&mut self) -> Gradients {
        self.gradients.pop().unwrap_or_default()
    }

    /// Keeps the buffers of gradients for reuse.
    pub fn keep_gradients(&mut self, gradients: Gradients) {
        self.gradients.push(gradients);
    }
}
