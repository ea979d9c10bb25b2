//! Choices of an input, which the job file names and the reader of records carries out.
//!
//! They are apart from the reader so that a program that reads job files, such as a parameter server, links no reader.

mod bad_rows;
mod compression;
mod format;
mod missing_texts;
mod sharding;
mod text_style;
mod time_unit;

pub use bad_rows::BadRows;
pub use compression::Compression;
pub use format::{Format, IndexBase};
pub use missing_texts::MissingTexts;
pub use sharding::Sharding;
pub use text_style::{Decimal, NumberStyle, TextEncoding, TextStyle};
pub use time_unit::TimeUnit;
