//! Steps that are under way: their parameters are read while earlier ones are computed.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;

use tokio_util::task::AbortOnDropHandle;
use trainyard_cluster_client::{Error, Held, Push, Returned};
use trainyard_variable::Gradients;

use crate::compute::Sent;

/// A step that has been computed.
#[derive(Debug)]
pub(crate) struct Computed {
    pub(crate) push: Push,
    pub(crate) sent: Sent,
}

/// A call to the parameter servers.
#[allow(missing_debug_implementations)]
pub enum Call {
    /// It makes its way by itself.
    Spawned(AbortOnDropHandle<Result<Returned, Error>>),
    /// It begins when it is waited for.
    Waiting(Pin<Box<dyn Future<Output = Result<Returned, Error>> + Send>>),
}

impl Call {
    /// Waits for the answer.
    ///
    /// # Errors
    /// A server refuses, or gives no answer in time.
    pub async fn returned(self) -> Result<Returned, Error> {
        match self {
            Self::Waiting(call) => call.await,
            Self::Spawned(handle) => match handle.await {
                Ok(returned) => returned,
                Err(error) => {
                    let message = format!("the call was broken off: {error}");
                    Err(Error::Protocol {
                        peer: "this task".to_owned(),
                        message,
                    })
                }
            },
        }
    }
}

/// A call under way, and what the caller wants to know of it when it is answered.
#[allow(missing_debug_implementations)]
pub struct Ahead<T> {
    /// What it is about.
    pub about: T,
    /// The call.
    pub call: Call,
}

/// The calls under way, oldest first, and memory that steps use one after the other.
///
/// With a depth of 0 there is one call at a time: it pushes step t and pulls step t + 1. With a depth of 1 the pull of
/// step t + 1 goes with the push of step t - 1, and both travel while step t is computed.
pub struct Pipeline<T> {
    depth: usize,
    ahead: VecDeque<Ahead<T>>,
    held: Vec<Held>,
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

    /// Returns whether no call is under way.
    pub fn is_empty(&self) -> bool {
        self.ahead.is_empty()
    }

    /// Returns whether another batch may be begun.
    pub fn has_room(&self) -> bool {
        self.ahead.len() <= self.depth
    }

    /// Takes in a call.
    pub fn push(
        &mut self,
        about: T,
        call: impl Future<Output = Result<Returned, Error>> + Send + 'static,
    ) {
        let call = match self.depth {
            0 => Call::Waiting(Box::pin(call)),
            _ => Call::Spawned(AbortOnDropHandle::new(tokio::spawn(call))),
        };
        self.ahead.push_back(Ahead { about, call });
    }

    /// Returns the oldest call.
    pub fn pop(&mut self) -> Option<Ahead<T>> {
        self.ahead.pop_front()
    }

    /// Returns memory for the values of a pull.
    pub fn spare_held(&mut self) -> Held {
        self.held.pop().unwrap_or_default()
    }

    /// Keeps the values of a pull for another.
    pub fn keep(&mut self, held: Held) {
        self.held.push(held);
    }

    /// Returns memory for gradients.
    pub fn spare_gradients(&mut self) -> Gradients {
        self.gradients.pop().unwrap_or_default()
    }

    /// Keeps the memory of gradients.
    pub fn keep_gradients(&mut self, gradients: Gradients) {
        self.gradients.push(gradients);
    }
}
