//! TensorFlow's checkpoints: an index and a data file.

use trainyard_tensorflow_formats::tensor_bundle::Bundle;

use crate::numbers::two;
use crate::scratch;

/// Most values that are read of a tensor here.
const VALUES_MAX: usize = 1 << 16;

/// Opens a bundle of one index and one data file, and reads its tensors.
pub fn run(data: &[u8]) {
    let (index, values) = two(data);
    let folder = scratch::folder();
    let prefix = folder.path().join("model.ckpt");
    std::fs::write(prefix.with_extension("ckpt.index"), index).expect("an index");
    std::fs::write(prefix.with_extension("ckpt.data-00000-of-00001"), values).expect("data");
    match Bundle::open(&prefix) {
        Ok(bundle) => {
            for tensor in bundle.tensors() {
                let length = tensor
                    .shape
                    .iter()
                    .try_fold(1_usize, |all, size| all.checked_mul(*size));
                if length.is_some_and(|length| length <= VALUES_MAX) {
                    drop(bundle.read(&tensor.name));
                }
            }
        }
        Err(error) => drop(error.to_string()),
    }
}
