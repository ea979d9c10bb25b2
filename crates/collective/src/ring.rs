//! The sum along a ring, as a machine without network: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for
//! clusters of workstations", 2009.
//!
//! Each part of the buffer is cut into one chunk a member. In rounds 0 to size-2 a chunk travels once around, and each
//! member adds its own values to what passes; the last one holds the sum. In rounds size-1 to 2*size-3 the sum travels
//! around once more, and is copied. So each member sends and takes 2*(size-1)/size of the buffer, the least there is.
//!
//! Chunk `c` begins at member `c` and is added in the order of ranks from there on, whatever arrives first: the bits of
//! the sum depend on size and length alone. A chunk comes by a second time only after this member has added to it, so
//! that deposits can be taken in any order, and only values that are final are written.

use std::collections::VecDeque;
use std::ops::Range;

use trainyard_protocol::Pool;

use crate::deposit::{Awaited, Deposit, Misfit, Operation, Outgoing, check_bytes};
use crate::share::share;
use crate::sum::{add_and_copy, add_apart, copy, overwrite};

/// Cuts of a buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut {
    /// Values of a part that one member sends at once.
    pub(crate) part_values: usize,
    /// Parts under way at a time.
    pub(crate) at_once: usize,
}

/// One member's sum.
#[derive(Debug)]
pub(crate) struct Ring {
    rank: usize,
    size: usize,
    length: usize,
    parts: usize,
    at_once: usize,
    /// Parts of which the first chunk was sent.
    begun: usize,
    /// Parts of which everything has come.
    ended: usize,
    /// By part: which rounds have not come yet.
    missing: Vec<Missing>,
}

/// Rounds of a part that have not come yet.
#[derive(Debug)]
struct Missing {
    rounds: Vec<bool>,
    count: usize,
}

impl Ring {
    pub(crate) fn new(rank: usize, size: usize, length: usize, cut: Cut) -> Self {
        let parts = length.div_ceil(size * cut.part_values);
        let mut ring = Self {
            rank,
            size,
            length,
            parts,
            at_once: cut.at_once,
            begun: 0,
            ended: 0,
            missing: Vec::with_capacity(parts),
        };
        for part in 0..parts {
            // Chunks without values are not sent.
            let rounds: Vec<bool> =
                (0..ring.rounds()).map(|round| !ring.arriving(part, round).is_empty()).collect();
            let count = rounds.iter().filter(|missing| **missing).count();
            ring.missing.push(Missing { rounds, count });
        }
        ring.ended = ring.missing.iter().filter(|missing| missing.count == 0).count();
        ring
    }

    fn rounds(&self) -> usize {
        2 * (self.size - 1)
    }

    /// The place of a chunk of a part.
    fn chunk(&self, part: usize, chunk: usize) -> Range<usize> {
        share(share(0..self.length, self.parts, part), self.size, chunk)
    }

    /// The place of what arrives in a round: in the first half chunks `rank-1, rank-2, ...`, in the second `rank, rank-1,
    /// ...`.
    fn arriving(&self, part: usize, round: usize) -> Range<usize> {
        // In both halves it is `rank - 1 - round`, as the second begins at round size-1.
        self.chunk(part, (self.rank + 2 * self.size - 1 - round) % self.size)
    }

    fn outgoing(&self, part: usize, round: usize, payload: Vec<bytes::Bytes>) -> Outgoing {
        let deposit = Deposit {
            operation: Operation::Ring,
            part: part as u32,
            round: round as u32,
            total: self.length as u64,
            payload,
        };
        Outgoing { to: (self.rank + 1) % self.size, deposit }
    }

    /// Returns the first deposit of the next part, if one may begin.
    pub(crate) fn begin(&mut self, values: &[f32], pool: &Pool) -> Option<Outgoing> {
        while self.size > 1 && self.begun < self.parts && self.begun < self.ended + self.at_once {
            let (part, own) = (self.begun, self.chunk(self.begun, self.rank));
            self.begun += 1;
            if !own.is_empty() {
                return Some(self.outgoing(part, 0, vec![copy(&values[own], pool)]));
            }
        }
        None
    }

    /// Takes a deposit of the member before this one.
    pub(crate) fn take(
        &mut self,
        from: usize,
        deposit: Deposit,
        values: &mut [f32],
        pool: &Pool,
        out: &mut VecDeque<Outgoing>,
    ) -> Result<(), Misfit> {
        let (part, round) = (deposit.part as usize, deposit.round as usize);
        let before = (self.rank + self.size - 1) % self.size;
        if from != before || deposit.operation != Operation::Ring {
            return Err(Misfit(format!(
                "a ring's deposits must come from rank {before}, given a {:?}'s of rank {from}",
                deposit.operation
            )));
        }
        let missing = self.missing.get(part).is_some_and(|part| part.rounds.get(round) == Some(&true));
        if !missing {
            return Err(Misfit(format!("round {round} of part {part} is none that is missing")));
        }
        let place = self.arriving(part, round);
        check_bytes(&deposit, place.len() * size_of::<f32>())?;
        let chunk = &mut values[place];
        let last_sum = self.size - 2;
        let onward = if round < last_sum {
            vec![add_apart(&deposit.payload, chunk, pool)]
        } else if round == last_sum {
            vec![add_and_copy(&deposit.payload, chunk, pool)]
        } else {
            overwrite(&deposit.payload, chunk);
            deposit.payload
        };
        if round + 1 < self.rounds() {
            out.push_back(self.outgoing(part, round + 1, onward));
        }
        let missing = &mut self.missing[part];
        missing.rounds[round] = false;
        missing.count -= 1;
        self.ended += usize::from(missing.count == 0);
        Ok(())
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.ended == self.parts && self.begun == self.parts || self.size == 1
    }

    pub(crate) fn awaited(&self) -> Option<Awaited> {
        let (part, missing) = self.missing.iter().enumerate().find(|(_, missing)| missing.count > 0)?;
        let round = missing.rounds.iter().position(|missing| *missing)?;
        // A member that has sent its first chunk is there; what it waits for itself is behind it.
        let behind = u32::from(round > 0 || part > 0);
        Some(Awaited {
            from: (self.rank + self.size - 1) % self.size,
            what: format!("round {round} of part {part}"),
            behind,
        })
    }
}
