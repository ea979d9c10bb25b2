//! Answers of both protocols over HTTP.

use bytes::Bytes;

use crate::intake::AnswerRoom;

/// The body of an answer.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) body: Bytes,
    /// Length of the JSON part, if tensors of bytes follow it.
    pub(crate) header_length: Option<usize>,
    /// Its part of the budget.
    pub(crate) room: AnswerRoom,
}

impl Answer {
    pub(crate) fn json(text: String) -> Self {
        Self {
            body: text.into(),
            header_length: None,
            room: AnswerRoom::default(),
        }
    }

    /// Returns the answer with its part of the budget.
    pub(crate) fn held_by(self, room: AnswerRoom) -> Self {
        Self { room, ..self }
    }
}
