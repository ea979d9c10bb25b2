//! TensorFlow's V2 checkpoints ("tensor bundles"), read and written without TensorFlow.
//!
//! A checkpoint `model.ckpt-30` is a sorted table `model.ckpt-30.index`, which lists every tensor, and data files
//! `model.ckpt-30.data-00000-of-00001`, which hold the values. The reader exists so that TensorFlow models can
//! be imported, and [`BundleWriter`] so that models can be exported. The reader trusts no file: [`Bundle::open`] checks
//! every length, offset and count against the files and against named limits before it allocates memory, and a
//! checksum covers every byte that is read. The format is that of `tensorflow/core/util/tensor_bundle`.
//!
//! ```no_run
//! # fn main() -> Result<(), trainyard_tensorflow_formats::tensor_bundle::Error> {
//! let bundle = trainyard_tensorflow_formats::tensor_bundle::Bundle::open("model_dir".as_ref())?;
//! for tensor in bundle.tensors() {
//!     println!("{} {} {:?}", tensor.name, tensor.dtype, tensor.shape);
//! }
//! let mut rows = vec![0.0; 2 * 16];
//! bundle.read_f32_rows("dnn/table", 10..12, &mut rows)?;
//! # Ok(())
//! # }
//! ```

mod block;
mod bundle;
mod byte_order;
mod cursor;
mod dtype;
mod entry;
mod error;
mod ordered_code;
mod piece;
mod prefix;
mod read;
mod region;
mod shard;
mod stored;
mod strings;
mod table;
mod table_writer;
mod tensor;
mod writer;

pub use bundle::Bundle;
pub use dtype::{DType, bf16_to_f32, f16_to_f32};
pub use error::Error;
pub use tensor::{Tensor, TensorInfo, Values};
pub use writer::{BundleWriter, TensorSpec, WriteError};
