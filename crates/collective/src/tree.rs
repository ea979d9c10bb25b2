//! The sum along a binomial tree, as a state machine without network. It is used for small buffers, whose time depends
//! on the number of rounds.
//!
//! Member `r` receives the buffers of `r+1`, `r+2`, `r+4`, ... (as far as they exist, and below the lowest bit of `r`),
//! each with the buffers below it. It sends them with its own to `r` without its lowest bit: end to end, in the order
//! of ranks, and not added. Rank 0 adds all buffers in that order, as a ring does, and the sum travels back the same
//! way.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use trainyard_protocol::Pool;
use trainyard_protocol::limits::GROUP_MESSAGE_BYTES_MAX;

use crate::message::{
    Arrived, Awaited, GroupMessage, InvalidMessage, Operation, Outgoing, check_bytes,
};
use crate::sum::Own;

/// Round of the buffers to be added.
const UP: u32 = 0;
/// Round of the sum.
const DOWN: u32 = 1;

/// One member's sum.
#[derive(Debug)]
pub(crate) struct Tree {
    parent: Option<usize>,
    /// Children by rank.
    children: Vec<Child>,
    length: usize,
    sent_up: bool,
    complete: bool,
}

#[derive(Debug)]
struct Child {
    rank: usize,
    /// Buffers that the child has sent.
    given: Option<Vec<Bytes>>,
}

impl Tree {
    pub(crate) fn new(rank: usize, size: usize, length: usize) -> Self {
        let lowest = if rank == 0 {
            usize::MAX
        } else {
            rank & rank.wrapping_neg()
        };
        let bits = (0..usize::BITS - 1).map(|bit| 1_usize << bit);
        let children = bits.take_while(|bit| *bit < lowest && rank + bit < size);
        let children = children
            .map(|bit| Child {
                rank: rank + bit,
                given: None,
            })
            .collect();
        let parent = (rank > 0).then(|| rank - lowest);
        Self {
            parent,
            children,
            length,
            sent_up: false,
            complete: size == 1,
        }
    }

    fn outgoing(&self, to: usize, round: u32, payload: Vec<Bytes>) -> Outgoing {
        let total = self.length as u64;
        Outgoing {
            to,
            message: GroupMessage {
                operation: Operation::Tree,
                part: 0,
                round,
                total,
                payload,
            },
        }
    }

    /// Returns the message of a member without children.
    pub(crate) fn begin(&mut self, own: &Own<'_>) -> Option<Outgoing> {
        let parent = self
            .parent
            .filter(|_| self.children.is_empty() && !self.sent_up)?;
        self.sent_up = true;
        Some(self.outgoing(parent, UP, own.buffers()))
    }

    /// Takes a message of a child or of the parent.
    pub(crate) fn take(
        &mut self,
        arrived: Arrived,
        own: &mut Own<'_>,
        pool: &Pool,
        out: &mut VecDeque<Outgoing>,
    ) -> Result<(), InvalidMessage> {
        let Arrived { from, message } = arrived;
        let round = message.round;
        let unexpected = || {
            InvalidMessage(format!(
                "round {round} of a tree from rank {from} must be expected and not received before"
            ))
        };
        if message.operation != Operation::Tree || message.part != 0 || self.complete {
            return Err(unexpected());
        }
        let buffer = self.length * size_of::<f32>();
        if round == DOWN && Some(from) == self.parent && self.sent_up {
            check_bytes(&message, buffer)?;
            own.overwrite(&message.payload, 0..self.length);
            self.spread(message.payload, out);
            return Ok(());
        }
        let child = self
            .children
            .iter_mut()
            .find(|child| child.rank == from && round == UP);
        let child = child
            .filter(|child| child.given.is_none())
            .ok_or_else(unexpected)?;
        check_buffers(&message, buffer)?;
        child.given = Some(message.payload);
        if self.children.iter().any(|child| child.given.is_none()) {
            return Ok(());
        }
        let given = self
            .children
            .iter_mut()
            .filter_map(|child| child.given.take());
        match self.parent {
            Some(parent) => {
                let all = own.buffers().into_iter().chain(given.flatten()).collect();
                self.sent_up = true;
                out.push_back(self.outgoing(parent, UP, all));
            }
            None => {
                own.add_more(&(0..self.length));
                let given: BytesMut = given.flatten().flatten().collect();
                own.add_buffers(&given);
                let sum = vec![own.copy_values(pool)];
                self.spread(sum, out);
            }
        }
        Ok(())
    }

    /// Sends the sum down, first to the child with the most members below it.
    fn spread(&mut self, sum: Vec<Bytes>, out: &mut VecDeque<Outgoing>) {
        for child in self.children.iter().rev() {
            out.push_back(self.outgoing(child.rank, DOWN, sum.clone()));
        }
        self.complete = true;
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    pub(crate) fn awaited(&self) -> Option<Awaited> {
        if self.complete {
            return None;
        }
        let next = self
            .children
            .iter()
            .enumerate()
            .find(|(_, child)| child.given.is_none());
        match (next, self.parent.filter(|_| self.sent_up)) {
            // A tree of height `n` hangs below child `2^n`.
            (Some((height, child)), _) if !self.sent_up => {
                let what = format!(
                    "the values of rank {} and of the ranks below it in the tree",
                    child.rank
                );
                Some(Awaited {
                    from: child.rank,
                    what,
                    behind: height as u32,
                })
            }
            // The parent may wait for any member.
            (_, Some(parent)) => Some(Awaited {
                from: parent,
                what: "the sum".to_owned(),
                behind: usize::BITS / 4,
            }),
            _ => None,
        }
    }
}

/// Checks that a message holds whole buffers of `buffer` bytes, and not too many.
fn check_buffers(message: &GroupMessage, buffer: usize) -> Result<(), InvalidMessage> {
    let given = message.bytes();
    let whole = given
        .checked_rem(buffer)
        .map_or(given == 0, |rest| rest == 0 && given > 0);
    if whole && given <= GROUP_MESSAGE_BYTES_MAX {
        return Ok(());
    }
    Err(InvalidMessage(format!(
        "a message towards the root of a tree must have whole buffers of {buffer} bytes, at most \
        {GROUP_MESSAGE_BYTES_MAX} bytes together, given {given}"
    )))
}
