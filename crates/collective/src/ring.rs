//! The sum along a ring that begins at rank 0, as a state machine without network.
//!
//! The buffer is cut into parts, of which a few are in progress at a time. A part travels from rank 0 to the last rank,
//! and each member adds its own values to it. The last member then holds the sum, which travels around once more and is
//! copied. Every value is thus added in the order of ranks, whatever arrives first and however the buffer is cut. The
//! sum has the bits of a server that adds its workers' gradients in order.
//!
//! A ring whose parts begin at different members (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for
//! clusters of workstations", 2009) sends `2*(size-1)/size` of the buffer for each member. This ring sends up to 2: the
//! same for two members, half as much again for three, and ever less in excess for more. That is the price of one
//! order.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;
use trainyard_protocol::Pool;

use crate::message::{
    Arrived, Awaited, GroupMessage, InvalidMessage, Operation, Outgoing, check_bytes,
};
use crate::share::share;
use crate::sum::Own;

/// The division of a buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut {
    /// Most values of a part.
    pub(crate) part_values: usize,
    /// Number of parts in progress at a time.
    pub(crate) at_once: usize,
}

/// One member's sum.
#[derive(Debug)]
pub(crate) struct Ring {
    rank: usize,
    size: usize,
    length: usize,
    at_once: usize,
    /// Number of parts that rank 0 has sent.
    begun: usize,
    /// Number of parts of which everything has arrived.
    ended: usize,
    /// By part: the messages that have not arrived.
    missing: Vec<Missing>,
}

/// The messages of a part that have not arrived.
#[derive(Debug, Clone, Copy)]
struct Missing {
    /// The sum of all members before this one.
    partial: bool,
    /// The sum of all members.
    sum: bool,
}

impl Missing {
    fn anything(self) -> bool {
        self.partial || self.sum
    }
}

impl Ring {
    pub(crate) fn new(rank: usize, size: usize, length: usize, cut: Cut) -> Self {
        let parts = if size > 1 {
            length.div_ceil(cut.part_values)
        } else {
            0
        };
        let missing = Missing {
            partial: rank > 0,
            sum: rank + 1 < size,
        };
        Self {
            rank,
            size,
            length,
            at_once: cut.at_once,
            begun: 0,
            ended: 0,
            missing: vec![missing; parts],
        }
    }

    fn place(&self, part: usize) -> Range<usize> {
        share(0..self.length, self.missing.len(), part)
    }

    /// Returns the round of the message from the members before this one.
    fn partial_round(&self) -> Option<u32> {
        self.rank.checked_sub(1).map(|round| round as u32)
    }

    /// Returns the round in which the sum arrives.
    fn sum_round(&self) -> u32 {
        (self.size - 1 + self.rank) as u32
    }

    fn outgoing(&self, part: u32, round: u32, payload: Vec<Bytes>) -> Outgoing {
        let to = (self.rank + 1) % self.size;
        let total = self.length as u64;
        Outgoing {
            to,
            message: GroupMessage {
                operation: Operation::Ring,
                part,
                round,
                total,
                payload,
            },
        }
    }

    /// Returns the first message of the next part, if this member begins the parts and the next one may begin.
    pub(crate) fn begin(&mut self, own: &Own<'_>, pool: &Pool) -> Option<Outgoing> {
        let next = self.begun;
        if self.rank > 0 || next == self.missing.len() || next >= self.ended + self.at_once {
            return None;
        }
        self.begun += 1;
        Some(self.outgoing(next as u32, 0, vec![own.copy(self.place(next), pool)]))
    }

    /// Takes a message of the member before this one.
    pub(crate) fn take(
        &mut self,
        arrived: Arrived,
        own: &mut Own<'_>,
        pool: &Pool,
        out: &mut VecDeque<Outgoing>,
    ) -> Result<(), InvalidMessage> {
        let Arrived { from, message } = arrived;
        let GroupMessage { part, round, .. } = message;
        let before = (self.rank + self.size - 1) % self.size;
        if from != before || message.operation != Operation::Ring {
            return Err(InvalidMessage(format!(
                "a message of a ring must come from rank {before}, given one of a {} from rank {from}",
                message.operation
            )));
        }
        let missing = self.missing.get(part as usize).copied();
        let missing = missing.unwrap_or(Missing {
            partial: false,
            sum: false,
        });
        let partial = missing.partial && Some(round) == self.partial_round();
        // The sum does not exist before this member has added its values.
        let added = if self.rank == 0 {
            (part as usize) < self.begun
        } else {
            !missing.partial
        };
        let sum = missing.sum && added && round == self.sum_round();
        if !partial && !sum {
            return Err(InvalidMessage(format!(
                "round {round} of part {part} must be missing, but this member does not wait for \
                it"
            )));
        }
        let place = self.place(part as usize);
        check_bytes(&message, place.len() * size_of::<f32>())?;
        let last = self.rank + 1 == self.size;
        if partial {
            let onward = if last {
                own.add_and_copy(&message.payload, place, pool)
            } else {
                own.add_apart(&message.payload, place, pool)
            };
            out.push_back(self.outgoing(part, round + 1, vec![onward]));
        } else {
            own.overwrite(&message.payload, place);
            if self.rank + 2 < self.size {
                out.push_back(self.outgoing(part, round + 1, message.payload));
            }
        }
        let missing = &mut self.missing[part as usize];
        *missing = Missing {
            partial: false,
            sum: missing.sum && partial,
        };
        self.ended += usize::from(!missing.anything());
        Ok(())
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.ended == self.missing.len()
    }

    pub(crate) fn awaited(&self) -> Option<Awaited> {
        let part = self.missing.iter().position(|missing| missing.anything())?;
        let round = match self.partial_round().filter(|_| self.missing[part].partial) {
            Some(round) => round,
            None => self.sum_round(),
        };
        // The member before this one waits for all members before it.
        Some(Awaited {
            from: (self.rank + self.size - 1) % self.size,
            what: format!("round {round} of part {part}"),
            behind: round,
        })
    }
}
