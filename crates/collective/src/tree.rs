//! The sum along a binomial tree, as a machine without network: for small buffers, whose time is that of their rounds.
//!
//! Member `r` gets what `r+1`, `r+2`, `r+4`, ... have (as far as they are, and below the lowest bit of `r`), each of them
//! with all that is below it, and passes it on with its own to `r` without its lowest bit: end to end, in the order of
//! ranks, and not added up. Rank 0 adds everything in that order, as a ring does, and the sum goes the same way back.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use trainyard_protocol::Pool;
use trainyard_protocol::limits::DEPOSIT_BYTES_MAX;

use crate::deposit::{Awaited, Deposit, Misfit, Operation, Outgoing, check_bytes};
use crate::sum::Own;

/// Round of what is to be added.
const UP: u32 = 0;
/// Round of the sum.
const DOWN: u32 = 1;

/// One member's sum.
#[derive(Debug)]
pub(crate) struct Tree {
    parent: Option<usize>,
    /// By rank.
    children: Vec<Child>,
    length: usize,
    sent_up: bool,
    complete: bool,
}

#[derive(Debug)]
struct Child {
    rank: usize,
    /// What it has sent.
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
            deposit: Deposit {
                operation: Operation::Tree,
                part: 0,
                round,
                total,
                payload,
            },
        }
    }

    /// Returns the deposit of a member without children.
    pub(crate) fn begin(&mut self, own: &Own<'_>) -> Option<Outgoing> {
        let parent = self
            .parent
            .filter(|_| self.children.is_empty() && !self.sent_up)?;
        self.sent_up = true;
        Some(self.outgoing(parent, UP, own.buffers()))
    }

    /// Takes a deposit of a child or of the parent.
    pub(crate) fn take(
        &mut self,
        from: usize,
        deposit: Deposit,
        own: &mut Own<'_>,
        pool: &Pool,
        out: &mut VecDeque<Outgoing>,
    ) -> Result<(), Misfit> {
        let round = deposit.round;
        let unexpected = || {
            Misfit(format!(
                "round {round} of a tree is not to come, or not again, from rank {from}"
            ))
        };
        if deposit.operation != Operation::Tree || deposit.part != 0 || self.complete {
            return Err(unexpected());
        }
        let buffer = self.length * size_of::<f32>();
        if round == DOWN && Some(from) == self.parent && self.sent_up {
            check_bytes(&deposit, buffer)?;
            own.overwrite(&deposit.payload, 0..self.length);
            self.spread(deposit.payload, out);
            return Ok(());
        }
        let child = self
            .children
            .iter_mut()
            .find(|child| child.rank == from && round == UP);
        let child = child
            .filter(|child| child.given.is_none())
            .ok_or_else(unexpected)?;
        check_buffers(&deposit, buffer)?;
        child.given = Some(deposit.payload);
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

    /// Sends the sum down, first to the child with the most below it.
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
            // Child `2^n` has a tree of height `n` below it.
            (Some((height, child)), _) if !self.sent_up => {
                let what = format!("what rank {} and those below it add", child.rank);
                Some(Awaited {
                    from: child.rank,
                    what,
                    behind: height as u32,
                })
            }
            // It may wait for anybody.
            (_, Some(parent)) => Some(Awaited {
                from: parent,
                what: "the sum".to_owned(),
                behind: usize::BITS / 4,
            }),
            _ => None,
        }
    }
}

/// Returns whether a deposit holds whole buffers of so many bytes, and not too many.
fn check_buffers(deposit: &Deposit, buffer: usize) -> Result<(), Misfit> {
    let given = deposit.bytes();
    let whole = given
        .checked_rem(buffer)
        .map_or(given == 0, |rest| rest == 0 && given > 0);
    if whole && given <= DEPOSIT_BYTES_MAX {
        return Ok(());
    }
    Err(Misfit(format!(
        "what goes up a tree must be buffers of {buffer} bytes, at most {DEPOSIT_BYTES_MAX} together, given {given}"
    )))
}
