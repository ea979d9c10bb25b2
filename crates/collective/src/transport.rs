//! The way from one member to the others.

use std::future::Future;
use std::pin::Pin;

use crate::deposit::{Deposit, Key};
use crate::error::Cause;

/// What a send comes to.
pub(crate) type Sent<'a> = Pin<Box<dyn Future<Output = Result<(), Cause>> + Send + 'a>>;

/// Carries deposits to the mailboxes of other members: those of one member to one other in the order of their sending.
pub(crate) trait Transport: std::fmt::Debug + Send + Sync {
    /// Takes a deposit on its way, once there is room on it.
    fn send(&self, to: usize, key: Key, deposit: Deposit) -> Sent<'_>;

    /// Tells the others that this member has ended the generation, if nobody else does.
    fn tell(&self, cause: &Cause);

    /// Waits until everything that was sent has been taken, and says that nothing more will come.
    fn leave(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}
