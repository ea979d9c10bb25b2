//! The transport of messages from one member to the others.

use std::future::Future;
use std::pin::Pin;

use crate::error::Cause;
use crate::message::{GroupMessage, Key};

/// A send in progress.
pub(crate) type Sent<'a> = Pin<Box<dyn Future<Output = Result<(), Cause>> + Send + 'a>>;

/// Carries messages to the mailboxes of other members. Messages from one member to another keep their order.
pub(crate) trait Transport: std::fmt::Debug + Send + Sync {
    /// Sends a message, once there is room.
    fn send(&self, to: usize, key: Key, message: GroupMessage) -> Sent<'_>;

    /// Tells the other members that this member has ended the generation, unless another part of it does.
    fn tell(&self, cause: &Cause);

    /// Waits until everything that was sent has been received, and announces that nothing more will come.
    fn leave(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}
