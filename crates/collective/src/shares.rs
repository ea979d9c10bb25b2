//! The sum by shares, as a machine without network: what few members do, two rounds for any number of them.
//!
//! Each member has a share of the buffer to add: all others send it their values of that share, it adds them and its own
//! in the order of ranks, whatever arrives first, and sends the sum to all. So each sends and takes `2*(size-1)/size` of
//! the buffer, the least there is (a reduce-scatter and an all-gather, each done directly).

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;
use trainyard_protocol::{Pool, Pooled};

use crate::deposit::{Awaited, Deposit, Misfit, Operation, Outgoing, check_bytes};
use crate::share::share;
use crate::sum::{Own, add_in_order};

/// Round of values to be added.
const ADD: u32 = 0;
/// Round of the sum.
const SUM: u32 = 1;

/// One member's sum.
#[derive(Debug)]
pub(crate) struct Shares {
    rank: usize,
    size: usize,
    length: usize,
    /// Parts of each share.
    parts: usize,
    /// Deposits of own values that have been sent.
    begun: usize,
    /// Parts of this member's share.
    folds: Vec<Fold>,
    /// By part of the whole buffer: whether its sum is there.
    summed: Vec<bool>,
    missing: usize,
}

/// A part of the own share, of which everything before `next` is added up.
#[derive(Debug)]
struct Fold {
    next: usize,
    sum: Option<Pooled>,
    /// By rank: what came before its turn.
    held: Vec<Option<Vec<Bytes>>>,
}

impl Shares {
    /// Cuts a buffer of `length` values into parts of at most `part_values`.
    pub(crate) fn new(rank: usize, size: usize, length: usize, part_values: usize) -> Self {
        let parts = length.div_ceil(size).div_ceil(part_values);
        let fold = |_| Fold {
            next: 0,
            sum: None,
            held: (0..size).map(|_| None).collect(),
        };
        let mut shares = Self {
            rank,
            size,
            length,
            parts,
            begun: 0,
            folds: (0..parts).map(fold).collect(),
            summed: Vec::new(),
            missing: 0,
        };
        // Parts without values are not sent.
        shares.summed = (0..size * parts)
            .map(|part| shares.place(part).is_empty())
            .collect();
        shares.missing = shares.summed.iter().filter(|summed| !**summed).count();
        shares
    }

    /// The place of a part of the whole buffer.
    fn place(&self, part: usize) -> Range<usize> {
        let owner = share(0..self.length, self.size, part / self.parts);
        share(owner, self.parts, part % self.parts)
    }

    fn outgoing(&self, to: usize, part: usize, round: u32, payload: Vec<Bytes>) -> Outgoing {
        let total = self.length as u64;
        Outgoing {
            to,
            deposit: Deposit {
                operation: Operation::Shares,
                part: part as u32,
                round,
                total,
                payload,
            },
        }
    }

    /// Returns the next deposit of own values, if there is one: to each member in turn, the next one first.
    pub(crate) fn begin(&mut self, own: &Own<'_>, pool: &Pool) -> Option<Outgoing> {
        let others = self.size - 1;
        while self.begun < others * self.parts {
            let place = self.begun / others;
            let turn = self.begun % others;
            let to = (self.rank + 1 + turn) % self.size;
            let part = to * self.parts + place;
            self.begun += 1;
            if !self.place(part).is_empty() {
                return Some(self.outgoing(to, part, ADD, vec![own.copy(self.place(part), pool)]));
            }
        }
        None
    }

    /// Takes a deposit of another member.
    pub(crate) fn take(
        &mut self,
        from: usize,
        deposit: Deposit,
        own: &mut Own<'_>,
        pool: &Pool,
        out: &mut VecDeque<Outgoing>,
    ) -> Result<(), Misfit> {
        let part = deposit.part as usize;
        let round = deposit.round;
        let unexpected = || {
            Misfit(format!(
                "round {round} of part {part} is not to come, or not again, from rank {from}"
            ))
        };
        let open = self.summed.get(part) == Some(&false) && from < self.size && from != self.rank;
        if deposit.operation != Operation::Shares || !open {
            return Err(unexpected());
        }
        let owner = part / self.parts;
        let place = self.place(part);
        let bytes = place.len() * size_of::<f32>();
        match round {
            SUM if owner == from => {
                check_bytes(&deposit, bytes)?;
                own.overwrite(&deposit.payload, place);
                self.end(part);
                Ok(())
            }
            ADD if owner == self.rank => {
                check_bytes(&deposit, bytes)?;
                let fold = &mut self.folds[part % self.parts];
                if from < fold.next || fold.held[from].replace(deposit.payload).is_some() {
                    return Err(unexpected());
                }
                if fold.fold(self.rank, own, &place, pool) {
                    let sum = fold.sum.take().map(Pooled::into_bytes).unwrap_or_default();
                    own.overwrite(std::slice::from_ref(&sum), place);
                    self.end(part);
                    let others = (1..self.size).map(|turn| (self.rank + turn) % self.size);
                    out.extend(others.map(|to| self.outgoing(to, part, SUM, vec![sum.clone()])));
                }
                Ok(())
            }
            _ => Err(unexpected()),
        }
    }

    fn end(&mut self, part: usize) {
        self.summed[part] = true;
        self.missing -= 1;
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.missing == 0 && self.begun == (self.size - 1) * self.parts
    }

    pub(crate) fn awaited(&self) -> Option<Awaited> {
        let own = self.rank * self.parts;
        let part = (own..own + self.parts)
            .chain(0..self.summed.len())
            .find(|part| !self.summed[*part])?;
        let owner = part / self.parts;
        let missing = |fold: &Fold| {
            let ranks = fold.next..self.size;
            ranks
                .into_iter()
                .find(|rank| *rank != self.rank && fold.held[*rank].is_none())
        };
        if owner == self.rank {
            let from = missing(&self.folds[part % self.parts])?;
            Some(Awaited {
                from,
                what: format!("round {ADD} of part {part}"),
                behind: 0,
            })
        } else {
            Some(Awaited {
                from: owner,
                what: format!("round {SUM} of part {part}"),
                behind: 1,
            })
        }
    }
}

impl Fold {
    /// Adds what has come, as far as its turn has. Returns whether the sum is there.
    fn fold(&mut self, rank: usize, own: &Own<'_>, place: &Range<usize>, pool: &Pool) -> bool {
        while self.next < self.held.len() {
            let next = if self.next == rank {
                None
            } else {
                match self.held[self.next].take() {
                    None => return false,
                    given => given,
                }
            };
            let sum = self.sum.take();
            self.sum = Some(add_in_order(sum, next.as_deref(), own, place, pool));
            self.next += 1;
        }
        true
    }
}
