//! The sum by reduce-scatter, as a state machine without network. It takes two rounds, and is used in small groups.
//!
//! Each member owns a share of the buffer. All others send it their values of that share. It adds these and its own in
//! the order of ranks, whatever arrives first, and sends the sum to all. Each member thus sends and receives
//! `2*(size-1)/size` of the buffer, which is the minimum (a reduce-scatter and an all-gather, each done directly).

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;
use trainyard_protocol::{Pool, Pooled};

use crate::message::{
    Arrived, Awaited, GroupMessage, InvalidMessage, Operation, Outgoing, check_bytes,
};
use crate::share::share;
use crate::sum::{Own, add_in_order};

/// Round of values to be added.
const ADD: u32 = 0;
/// Round of the sum.
const SUM: u32 = 1;

/// One member's sum.
#[derive(Debug)]
pub(crate) struct ReduceScatter {
    rank: usize,
    size: usize,
    length: usize,
    /// Number of parts of each share.
    parts: usize,
    /// Number of messages with own values that have been sent.
    begun: usize,
    /// Parts of this member's share.
    folds: Vec<Fold>,
    /// By part of the whole buffer: whether its sum is complete.
    summed: Vec<bool>,
    missing: usize,
}

/// A part of this member's share. The values of all ranks before `next` have been added.
#[derive(Debug)]
struct Fold {
    next: usize,
    sum: Option<Pooled>,
    /// By rank: values that have arrived before their turn.
    held: Vec<Option<Vec<Bytes>>>,
}

impl ReduceScatter {
    /// Cuts a buffer of `length` values into parts of at most `part_values`.
    pub(crate) fn new(rank: usize, size: usize, length: usize, part_values: usize) -> Self {
        let parts = length.div_ceil(size).div_ceil(part_values);
        let fold = |_| Fold {
            next: 0,
            sum: None,
            held: (0..size).map(|_| None).collect(),
        };
        let mut reduce_scatter = Self {
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
        reduce_scatter.summed = (0..size * parts)
            .map(|part| reduce_scatter.place(part).is_empty())
            .collect();
        reduce_scatter.missing = reduce_scatter
            .summed
            .iter()
            .filter(|summed| !**summed)
            .count();
        reduce_scatter
    }

    /// Returns the range of a part of the whole buffer.
    fn place(&self, part: usize) -> Range<usize> {
        let owner = share(0..self.length, self.size, part / self.parts);
        share(owner, self.parts, part % self.parts)
    }

    fn outgoing(&self, to: usize, part: usize, round: u32, payload: Vec<Bytes>) -> Outgoing {
        let total = self.length as u64;
        Outgoing {
            to,
            message: GroupMessage {
                operation: Operation::ReduceScatter,
                part: part as u32,
                round,
                total,
                payload,
            },
        }
    }

    /// Returns the next message with own values, if there is one. Members are served in turn, the next rank first.
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

    /// Takes a message of another member.
    pub(crate) fn take(
        &mut self,
        arrived: Arrived,
        own: &mut Own<'_>,
        pool: &Pool,
        out: &mut VecDeque<Outgoing>,
    ) -> Result<(), InvalidMessage> {
        let Arrived { from, message } = arrived;
        let part = message.part as usize;
        let round = message.round;
        let unexpected = || {
            InvalidMessage(format!(
                "round {round} of part {part} from rank {from} must be expected and not received \
                before"
            ))
        };
        let open = self.summed.get(part) == Some(&false) && from < self.size && from != self.rank;
        if message.operation != Operation::ReduceScatter || !open {
            return Err(unexpected());
        }
        let owner = part / self.parts;
        let place = self.place(part);
        let bytes = place.len() * size_of::<f32>();
        match round {
            SUM if owner == from => {
                check_bytes(&message, bytes)?;
                own.overwrite(&message.payload, place);
                self.end(part);
                Ok(())
            }
            ADD if owner == self.rank => {
                check_bytes(&message, bytes)?;
                let fold = &mut self.folds[part % self.parts];
                if from < fold.next || fold.held[from].replace(message.payload).is_some() {
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
    /// Adds the values that have arrived, as far as the order of ranks allows. Returns whether the sum is complete.
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
