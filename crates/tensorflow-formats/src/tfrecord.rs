//! TFRecord files, which hold TensorFlow's examples and events. A frame is a length, its checksum, that many bytes, and
//! their checksum (`tensorflow/core/lib/io/record_writer.cc`).

mod checksum;
mod frame;
mod records;

pub use checksum::masked;
pub(crate) use checksum::{mask, unmasked};
pub use frame::{FOOTER_BYTES, HEADER_BYTES, write_frame};
pub use records::{Damaged, Records};
