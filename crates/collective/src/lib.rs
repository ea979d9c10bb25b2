//! Allreduce among workers, without a server, for the strategies `multi_worker_mirrored`, `mirrored` and `hybrid`.
//!
//! A strategy that mirrors variables needs two operations among its replicas: the sum of all gradients, with the same
//! bits everywhere, and the sparse gradients of all replicas, by rank. They are a crate of their own, so that the
//! training loop does not know whether the other members are threads of this process ([`local()`]) or other processes
//! ([`Hub`]).
//!
//! A [`Collective`] is one member of one [`Group`]. When a member dies or joins, the group is formed again with a
//! higher generation. The former generation ends for all its members at once, with an [`Error`] that names the missing
//! member.

mod collective;
mod error;
mod gather;
mod group;
mod local;
mod mailbox;
mod message;
mod plan;
mod reduce_scatter;
mod reduction;
mod remote;
mod ring;
mod share;
mod sum;
mod transport;
mod tree;

pub use collective::Collective;
pub use error::{Cause, Error, Wait};
pub use group::{Deadlines, Group, Membership};
pub use local::local;
pub use plan::{Piece, Plan};
pub use remote::{CollectiveService, Hub, Peer};
