//! The sum along a binomial tree, as a machine without network: for small buffers, whose time is that of their rounds.
//!
//! Member `r` adds what comes from `r+1`, `r+2`, `r+4`, ... (as far as they are, and below the lowest bit of `r`), in
//! this order whatever arrives first, and passes it on to `r` without its lowest bit. Rank 0 holds the sum, which goes
//! the same way back and is copied.

use std::collections::VecDeque;

use trainyard_protocol::Pool;

use crate::deposit::{Awaited, Deposit, Misfit, Operation, Outgoing, check_bytes};
use crate::sum::{add, copy, overwrite};

/// Round of a partial sum.
const UP: u32 = 0;
/// Round of the sum.
const DOWN: u32 = 1;

/// One member's sum.
#[derive(Debug)]
pub(crate) struct Tree {
    parent: Option<usize>,
    /// In the order in which they are added.
    children: Vec<Child>,
    /// Children that have been added.
    added: usize,
    length: usize,
    sent_up: bool,
    complete: bool,
}

#[derive(Debug)]
struct Child {
    rank: usize,
    /// Came before its turn.
    held: Option<Deposit>,
}

impl Tree {
    pub(crate) fn new(rank: usize, size: usize, length: usize) -> Self {
        let lowest = if rank == 0 { usize::MAX } else { rank & rank.wrapping_neg() };
        let bits = (0..usize::BITS - 1).map(|bit| 1_usize << bit);
        let children = bits.take_while(|bit| *bit < lowest && rank + bit < size);
        let children = children.map(|bit| Child { rank: rank + bit, held: None }).collect();
        let parent = (rank > 0).then(|| rank - lowest);
        Self { parent, children, added: 0, length, sent_up: false, complete: size == 1 }
    }

    fn outgoing(&self, to: usize, round: u32, payload: Vec<bytes::Bytes>) -> Outgoing {
        let total = self.length as u64;
        Outgoing { to, deposit: Deposit { operation: Operation::Tree, part: 0, round, total, payload } }
    }

    /// Returns the deposit of a member without children.
    pub(crate) fn begin(&mut self, values: &[f32], pool: &Pool) -> Option<Outgoing> {
        let parent = self.parent.filter(|_| self.children.is_empty() && !self.sent_up)?;
        self.sent_up = true;
        Some(self.outgoing(parent, UP, vec![copy(values, pool)]))
    }

    /// Takes a deposit of a child or of the parent.
    pub(crate) fn take(
        &mut self,
        from: usize,
        deposit: Deposit,
        values: &mut [f32],
        pool: &Pool,
        out: &mut VecDeque<Outgoing>,
    ) -> Result<(), Misfit> {
        check_bytes(&deposit, self.length * size_of::<f32>())?;
        let round = deposit.round;
        let unexpected =
            || Misfit(format!("round {round} of a tree is not to come, or not again, from rank {from}"));
        if deposit.operation != Operation::Tree || deposit.part != 0 || self.complete {
            return Err(unexpected());
        }
        if round == DOWN && Some(from) == self.parent && self.sent_up {
            overwrite(&deposit.payload, values);
            self.spread(deposit.payload, out);
            return Ok(());
        }
        let place = self.children.iter().position(|child| child.rank == from && round == UP);
        let place = place.filter(|place| *place >= self.added).ok_or_else(unexpected)?;
        if self.children[place].held.replace(deposit).is_some() {
            return Err(unexpected());
        }
        while let Some(next) = self.children.get_mut(self.added).and_then(|child| child.held.take()) {
            add(&next.payload, values);
            self.added += 1;
        }
        if self.added == self.children.len() {
            let sum = vec![copy(values, pool)];
            match self.parent {
                Some(parent) => {
                    self.sent_up = true;
                    out.push_back(self.outgoing(parent, UP, sum));
                }
                None => self.spread(sum, out),
            }
        }
        Ok(())
    }

    /// Sends the sum down, first to the child with the most below it.
    fn spread(&mut self, sum: Vec<bytes::Bytes>, out: &mut VecDeque<Outgoing>) {
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
        let next = self.children.iter().enumerate().skip(self.added).find(|(_, child)| child.held.is_none());
        match (next, self.parent) {
            // Child `2^n` has a tree of height `n` below it.
            (Some((height, child)), _) => {
                let what = format!("the partial sum of rank {}", child.rank);
                Some(Awaited { from: child.rank, what, behind: height as u32 })
            }
            // It may wait for anybody.
            (None, Some(parent)) => {
                Some(Awaited { from: parent, what: "the sum".to_owned(), behind: usize::BITS / 4 })
            }
            (None, None) => None,
        }
    }
}
