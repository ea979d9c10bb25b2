//! The messages between members.

use std::fmt;

use bytes::Bytes;

/// The algorithm that sends a buffer through the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Operation {
    ReduceScatter,
    Ring,
    Tree,
    Gather,
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::ReduceScatter => "reduce-scatter",
            Self::Ring => "ring",
            Self::Tree => "tree",
            Self::Gather => "gather",
        })
    }
}

/// The operation that a message belongs to. A sum and a gather may have the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) step: u64,
    pub(crate) bucket: u32,
    pub(crate) gathers: bool,
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operation = if self.gathers { "gather" } else { "sum" };
        write!(
            formatter,
            "the {operation} of bucket {} in step {}",
            self.bucket, self.step
        )
    }
}

/// A message of one operation.
#[derive(Debug, Clone)]
pub(crate) struct GroupMessage {
    pub(crate) operation: Operation,
    /// Part of the buffer, from 0.
    pub(crate) part: u32,
    /// Round of the part, from 0.
    pub(crate) round: u32,
    /// Number of values of the whole buffer, or of bytes of the whole contribution.
    pub(crate) total: u64,
    pub(crate) payload: Vec<Bytes>,
}

impl GroupMessage {
    pub(crate) fn bytes(&self) -> usize {
        self.payload.iter().map(Bytes::len).sum()
    }
}

/// A message to be sent.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) to: usize,
    pub(crate) message: GroupMessage,
}

/// A message that has arrived.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) from: usize,
    pub(crate) message: GroupMessage,
}

/// The message that an operation waits for next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Awaited {
    pub(crate) from: usize,
    /// Description for people, for example `round 1 of part 0`.
    pub(crate) what: String,
    /// Number of members for which the peer may itself be waiting. It is blamed only after they are.
    pub(crate) behind: u32,
}

/// A message that does not fit: the violated rule, then the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InvalidMessage(pub(crate) String);

/// Checks that a message has the expected length.
pub(crate) fn check_bytes(message: &GroupMessage, expected: usize) -> Result<(), InvalidMessage> {
    let given = message.bytes();
    if given == expected {
        return Ok(());
    }
    let GroupMessage { part, round, .. } = message;
    Err(InvalidMessage(format!(
        "round {round} of part {part} must have {expected} bytes, given {given}"
    )))
}
