//! Sums among workers, without a server between them: what `multi_worker_mirrored`, `mirrored` and `hybrid` train with.
//!
//! Every strategy that mirrors variables needs the same two things of its replicas: the sum of everybody's gradients,
//! with the same bits everywhere, and everybody's sparse gradients, by rank. They are a crate of their own so that the
//! loop that trains does not know whether its fellows are threads of this process ([`local()`]) or other processes
//! ([`Hub`]).
//!
//! A [`Collective`] is one member of one [`Group`]. When a member dies or joins, the group is formed anew under a higher
//! generation; the former one ends for all its members at once, with an [`Error`] that says who was missed.

mod collective;
mod deposit;
mod error;
mod gather;
mod group;
mod local;
mod mailbox;
mod plan;
mod reduction;
mod remote;
mod ring;
mod share;
mod shares;
mod sum;
mod transport;
mod tree;

pub use collective::Collective;
pub use error::{Cause, Error, Wait};
pub use group::{Deadlines, Group, Membership};
pub use local::local;
pub use plan::{Piece, Plan};
pub use remote::{CollectiveService, Hub, Peer};
