//! Answers of both protocols over HTTP.

use bytes::Bytes;

use crate::intake::AnswerRoom;

/// The body of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) body: Bytes,
    /// Length of the JSON part, if tensors of bytes follow it.
    pub(crate) header_length: Option<usize>,
}

impl Answer {
    pub(crate) fn json(text: String) -> Self {
        Self {
            body: text.into(),
            header_length: None,
        }
    }

    /// Returns the answer, whose bytes hold a part of the budget.
    pub(crate) fn held_by(self, room: AnswerRoom) -> Self {
        Self {
            body: room.hold(self.body),
            ..self
        }
    }
}
