//! Everybody's bytes for everybody, as a machine without network.
//!
//! Each member sends its bytes to each other one, in parts, beginning with the next higher rank so that not all send to
//! the same one first.

use bytes::{Bytes, BytesMut};
use trainyard_protocol::limits::{DEPOSIT_BYTES_MAX, GATHER_BYTES_MAX};

use crate::deposit::{Awaited, Deposit, Misfit, Operation, Outgoing, check_bytes};

/// Bytes of a part: what a message may have, less its fields.
const PART_BYTES: usize = DEPOSIT_BYTES_MAX - 1024;

/// One member's gathering.
#[derive(Debug)]
pub(crate) struct Gather {
    rank: usize,
    given: Bytes,
    /// Deposits that were sent.
    sent: usize,
    members: Vec<Gift>,
}

/// What has come of one member.
#[derive(Debug, Default)]
struct Gift {
    /// By part; absent before the first has come.
    parts: Option<Vec<Option<Vec<Bytes>>>>,
    total: usize,
    missing: usize,
}

/// Parts of a gift: at least one, so that nothing, too, is heard of.
fn parts(total: usize) -> usize {
    total.div_ceil(PART_BYTES).max(1)
}

impl Gather {
    pub(crate) fn new(rank: usize, size: usize, given: Bytes) -> Self {
        let members = (0..size).map(|_| Gift::default()).collect();
        Self {
            rank,
            given,
            sent: 0,
            members,
        }
    }

    /// Returns the next deposit, if there is one.
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
            deposit: Deposit {
                operation: Operation::Gather,
                part,
                round: 0,
                total,
                payload,
            },
        })
    }

    /// Takes a deposit of another member.
    pub(crate) fn take(&mut self, from: usize, deposit: Deposit) -> Result<(), Misfit> {
        let part = deposit.part as usize;
        let rank = self.rank;
        let total = usize::try_from(deposit.total).unwrap_or(usize::MAX);
        if total > GATHER_BYTES_MAX {
            return Err(Misfit(format!(
                "a gift must be at most {GATHER_BYTES_MAX} bytes, given {total}"
            )));
        }
        let unexpected = || {
            Misfit(format!(
                "part {part} of a gathering is not to come, or not again"
            ))
        };
        let gift = self
            .members
            .get_mut(from)
            .filter(|_| from != rank)
            .ok_or_else(unexpected)?;
        if deposit.operation != Operation::Gather || deposit.round != 0 || part >= parts(total) {
            return Err(unexpected());
        }
        check_bytes(
            &deposit,
            (total - (part * PART_BYTES).min(total)).min(PART_BYTES),
        )?;
        if gift.parts.is_none() {
            *gift = Gift {
                parts: Some(vec![None; parts(total)]),
                total,
                missing: parts(total),
            };
        }
        if gift.total != total {
            let known = gift.total;
            return Err(Misfit(format!(
                "all parts must be of {known} bytes together, given {total}"
            )));
        }
        let place = gift
            .parts
            .as_mut()
            .and_then(|parts| parts.get_mut(part))
            .ok_or_else(unexpected)?;
        if place.replace(deposit.payload).is_some() {
            return Err(unexpected());
        }
        gift.missing -= 1;
        Ok(())
    }

    fn is_missing(&self, rank: usize) -> bool {
        rank != self.rank && (self.members[rank].parts.is_none() || self.members[rank].missing > 0)
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.awaited().is_none()
    }

    /// Returns whom it waits for first.
    pub(crate) fn awaited(&self) -> Option<Awaited> {
        let from = (0..self.members.len()).find(|rank| self.is_missing(*rank))?;
        Some(Awaited {
            from,
            what: format!("the bytes of rank {from}"),
            behind: 0,
        })
    }

    /// Returns everybody's bytes, by rank.
    pub(crate) fn into_gifts(self) -> Vec<Bytes> {
        let Self {
            rank,
            given,
            members,
            ..
        } = self;
        let mut gifts: Vec<Bytes> = members
            .into_iter()
            .map(|gift| whole(gift.parts, gift.total))
            .collect();
        gifts[rank] = given;
        gifts
    }
}

/// Puts the pieces of a gift together; one alone is taken as it is.
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
        let gift = |rank: usize, bytes: usize| Bytes::from(vec![rank as u8; bytes]);
        let given = [
            gift(0, 0),
            gift(1, 5),
            gift(2, PART_BYTES),
            gift(3, 2 * PART_BYTES + 7),
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
        // The last sent arrives first.
        while let Some((from, sent)) = under_way.pop() {
            assert!(!members[sent.to].is_complete());
            members[sent.to].take(from, sent.deposit).unwrap();
        }
        for member in members {
            assert!(member.is_complete());
            assert_eq!(member.into_gifts(), given);
        }
    }

    #[test]
    fn what_does_not_fit_a_gathering_is_refused() {
        let deposit = |part, total, bytes: usize| Deposit {
            operation: Operation::Gather,
            part,
            round: 0,
            total,
            payload: vec![vec![0; bytes].into()],
        };
        let mut member = Gather::new(0, 3, Bytes::new());
        for (from, deposit) in [
            (0, deposit(0, 4, 4)),
            (3, deposit(0, 4, 4)),
            (1, deposit(1, 4, 4)),
            (1, deposit(0, 4, 5)),
            (1, deposit(0, u64::MAX, 5)),
            (
                1,
                Deposit {
                    round: 1,
                    ..deposit(0, 4, 4)
                },
            ),
            (
                1,
                Deposit {
                    operation: Operation::Tree,
                    ..deposit(0, 4, 4)
                },
            ),
        ] {
            assert!(member.take(from, deposit).is_err());
        }
        member.take(1, deposit(0, 4, 4)).unwrap();
        assert!(member.take(1, deposit(0, 4, 4)).is_err());
        assert!(member.take(1, deposit(0, 5, 5)).is_err());
        assert_eq!(member.awaited().unwrap().from, 2);
    }
}
