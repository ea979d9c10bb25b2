//! The gather, as a state machine without network: every member receives the bytes of all members.
//!
//! Each member sends its bytes to each other member, in parts. It begins with the next higher rank, so that not all
//! members send to the same one first.

use bytes::{Bytes, BytesMut};
use trainyard_protocol::limits::{GATHER_BYTES_MAX, GROUP_MESSAGE_BYTES_MAX};

use crate::message::{Awaited, GroupMessage, InvalidMessage, Operation, Outgoing, check_bytes};

/// Bytes of a part: the most that a message may have, less its fields.
const PART_BYTES: usize = GROUP_MESSAGE_BYTES_MAX - 1024;

/// One member's gather.
#[derive(Debug)]
pub(crate) struct Gather {
    rank: usize,
    given: Bytes,
    /// Number of messages that have been sent.
    sent: usize,
    members: Vec<Contribution>,
}

/// The bytes that have arrived from one member.
#[derive(Debug, Default)]
struct Contribution {
    /// Bytes by part; absent until the first part has arrived.
    parts: Option<Vec<Option<Vec<Bytes>>>>,
    total: usize,
    missing: usize,
}

/// Returns the number of parts of a contribution. It is at least one, so that an empty contribution is sent, too.
fn parts(total: usize) -> usize {
    total.div_ceil(PART_BYTES).max(1)
}

impl Gather {
    pub(crate) fn new(rank: usize, size: usize, given: Bytes) -> Self {
        let members = (0..size).map(|_| Contribution::default()).collect();
        Self {
            rank,
            given,
            sent: 0,
            members,
        }
    }

    /// Returns the next message, if there is one.
    pub(crate) fn begin(&mut self) -> Option<Outgoing> {
        let size = self.members.len();
        let others = size - 1;
        if self.sent >= parts(self.given.len()) * others {
            return None;
        }
        let part = self.sent / others;
        let to = (self.rank + 1 + self.sent % others) % size;
        self.sent += 1;
        let end = self.given.len().min((part + 1) * PART_BYTES);
        let payload = vec![self.given.slice(part * PART_BYTES..end)];
        let part = part as u32;
        let total = self.given.len() as u64;
        Some(Outgoing {
            to,
            message: GroupMessage {
                operation: Operation::Gather,
                part,
                round: 0,
                total,
                payload,
            },
        })
    }

    /// Takes a message of another member.
    pub(crate) fn take(
        &mut self,
        from: usize,
        message: GroupMessage,
    ) -> Result<(), InvalidMessage> {
        let part = message.part as usize;
        let rank = self.rank;
        let total = usize::try_from(message.total).unwrap_or(usize::MAX);
        if total > GATHER_BYTES_MAX {
            return Err(InvalidMessage(format!(
                "the bytes of a member must be at most {GATHER_BYTES_MAX}, given {total}"
            )));
        }
        let unexpected = || {
            InvalidMessage(format!(
                "part {part} of a gather must be expected and not received before"
            ))
        };
        let contribution = self
            .members
            .get_mut(from)
            .filter(|_| from != rank)
            .ok_or_else(unexpected)?;
        if message.operation != Operation::Gather || message.round != 0 || part >= parts(total) {
            return Err(unexpected());
        }
        check_bytes(
            &message,
            (total - (part * PART_BYTES).min(total)).min(PART_BYTES),
        )?;
        if contribution.parts.is_none() {
            *contribution = Contribution {
                parts: Some(vec![None; parts(total)]),
                total,
                missing: parts(total),
            };
        }
        if contribution.total != total {
            let known = contribution.total;
            return Err(InvalidMessage(format!(
                "all parts must have {known} bytes together, given {total}"
            )));
        }
        let place = contribution
            .parts
            .as_mut()
            .and_then(|parts| parts.get_mut(part))
            .ok_or_else(unexpected)?;
        if place.replace(message.payload).is_some() {
            return Err(unexpected());
        }
        contribution.missing -= 1;
        Ok(())
    }

    fn is_missing(&self, rank: usize) -> bool {
        rank != self.rank && (self.members[rank].parts.is_none() || self.members[rank].missing > 0)
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.awaited().is_none()
    }

    /// Returns the first member that has not sent everything.
    pub(crate) fn awaited(&self) -> Option<Awaited> {
        let from = (0..self.members.len()).find(|rank| self.is_missing(*rank))?;
        Some(Awaited {
            from,
            what: format!("the bytes of rank {from}"),
            behind: 0,
        })
    }

    /// Returns the bytes of all members, by rank.
    pub(crate) fn into_contributions(self) -> Vec<Bytes> {
        let Self {
            rank,
            given,
            members,
            ..
        } = self;
        let mut contributions: Vec<Bytes> = members
            .into_iter()
            .map(|contribution| whole(contribution.parts, contribution.total))
            .collect();
        contributions[rank] = given;
        contributions
    }
}

/// Joins the pieces of a contribution. A single piece is not copied.
fn whole(parts: Option<Vec<Option<Vec<Bytes>>>>, total: usize) -> Bytes {
    let mut pieces: Vec<Bytes> = parts.into_iter().flatten().flatten().flatten().collect();
    if pieces.len() == 1 {
        return pieces.swap_remove(0);
    }
    let mut out = BytesMut::with_capacity(total);
    pieces.iter().for_each(|piece| out.extend_from_slice(piece));
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gifts_of_any_length_arrive_by_rank_in_any_order() {
        let contribution = |rank: usize, bytes: usize| Bytes::from(vec![rank as u8; bytes]);
        let given = [
            contribution(0, 0),
            contribution(1, 5),
            contribution(2, PART_BYTES),
            contribution(3, 2 * PART_BYTES + 7),
        ];
        let mut members: Vec<Gather> = (0..4)
            .map(|rank| Gather::new(rank, 4, given[rank].clone()))
            .collect();
        let mut under_way = Vec::new();
        for (rank, member) in members.iter_mut().enumerate() {
            while let Some(sent) = member.begin() {
                under_way.push((rank, sent));
            }
        }
        // The message that was sent last arrives first.
        while let Some((from, sent)) = under_way.pop() {
            assert!(!members[sent.to].is_complete());
            members[sent.to].take(from, sent.message).unwrap();
        }
        for member in members {
            assert!(member.is_complete());
            assert_eq!(member.into_contributions(), given);
        }
    }

    #[test]
    fn what_does_not_fit_a_gathering_is_refused() {
        let message = |part, total, bytes: usize| GroupMessage {
            operation: Operation::Gather,
            part,
            round: 0,
            total,
            payload: vec![vec![0; bytes].into()],
        };
        let mut member = Gather::new(0, 3, Bytes::new());
        for (from, message) in [
            (0, message(0, 4, 4)),
            (3, message(0, 4, 4)),
            (1, message(1, 4, 4)),
            (1, message(0, 4, 5)),
            (1, message(0, u64::MAX, 5)),
            (
                1,
                GroupMessage {
                    round: 1,
                    ..message(0, 4, 4)
                },
            ),
            (
                1,
                GroupMessage {
                    operation: Operation::Tree,
                    ..message(0, 4, 4)
                },
            ),
        ] {
            assert!(member.take(from, message).is_err());
        }
        member.take(1, message(0, 4, 4)).unwrap();
        assert!(member.take(1, message(0, 4, 4)).is_err());
        assert!(member.take(1, message(0, 5, 5)).is_err());
        assert_eq!(member.awaited().unwrap().from, 2);
    }
}
