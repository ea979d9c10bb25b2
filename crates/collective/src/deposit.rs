//! What one member sends another.

use std::fmt;

use bytes::Bytes;

/// How a buffer goes through the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Operation {
    Shares,
    Ring,
    Tree,
    Gather,
}

/// What a deposit belongs to. A sum and a gathering may have the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) step: u64,
    pub(crate) bucket: u32,
    pub(crate) gathers: bool,
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.gathers { "gathering" } else { "sum" };
        write!(
            formatter,
            "the {what} of bucket {} in step {}",
            self.bucket, self.step
        )
    }
}

/// A message of one operation.
#[derive(Debug, Clone)]
pub(crate) struct Deposit {
    pub(crate) operation: Operation,
    /// Of the buffer, from 0.
    pub(crate) part: u32,
    /// Of the part, from 0.
    pub(crate) round: u32,
    /// Values of the whole buffer, or bytes of the whole gift.
    pub(crate) total: u64,
    pub(crate) payload: Vec<Bytes>,
}

impl Deposit {
    pub(crate) fn bytes(&self) -> usize {
        self.payload.iter().map(Bytes::len).sum()
    }
}

/// A deposit on its way out.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) to: usize,
    pub(crate) deposit: Deposit,
}

/// What an operation waits for next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Awaited {
    pub(crate) from: usize,
    /// For people, for example `round 1 of part 0`.
    pub(crate) what: String,
    /// Members behind the peer that it may itself be waiting for: it is not blamed before they are.
    pub(crate) behind: u32,
}

/// A deposit that does not fit: rule, then value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Misfit(pub(crate) String);

/// Returns whether a deposit is as long as it should be.
pub(crate) fn check_bytes(deposit: &Deposit, expected: usize) -> Result<(), Misfit> {
    let given = deposit.bytes();
    if given == expected {
        return Ok(());
    }
    let Deposit { part, round, .. } = deposit;
    Err(Misfit(format!(
        "round {round} of part {part} must be {expected} bytes, given {given}"
    )))
}
