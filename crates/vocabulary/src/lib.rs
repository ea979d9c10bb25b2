//! The words of vocabularies, and their ids.
//!
//! A vocabulary may have tens of millions of words, and every task of a job holds it. The words therefore lie end to
//! end in one buffer, a table of 32-bit ids finds them, and all users of a list share it.

mod texts;
mod words;

pub use texts::Texts;
pub use words::{Digest, Error, Words};
