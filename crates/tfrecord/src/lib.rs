//! The frame of TFRecord files, in which TensorFlow keeps examples and events: a length, its checksum, as many bytes, their
//! checksum (`tensorflow/core/lib/io/record_writer.cc`).

mod checksum;
mod frame;
mod records;

pub use checksum::{masked, unmasked};
pub use frame::{FOOTER_BYTES, HEADER_BYTES, write_frame};
pub use records::{Damaged, Records};
