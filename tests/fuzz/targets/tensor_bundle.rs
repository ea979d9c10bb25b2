//! TensorFlow's checkpoints: an index and a data file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trainyard_fuzz::{scratch, two};
use trainyard_tensor_bundle::Bundle;

/// Most values that are read of a tensor here.
const VALUES_MAX: usize = 1 << 16;

fuzz_target!(|data: &[u8]| {
    let (index, values) = two(data);
    let prefix = scratch("tensor_bundle").join("model.ckpt");
    std::fs::write(prefix.with_extension("ckpt.index"), index).expect("an index");
    std::fs::write(prefix.with_extension("ckpt.data-00000-of-00001"), values).expect("data");
    match Bundle::open(&prefix) {
        Ok(bundle) => {
            for tensor in bundle.tensors() {
                let length = tensor.shape.iter().try_fold(1_usize, |all, size| all.checked_mul(*size));
                if length.is_some_and(|length| length <= VALUES_MAX) {
                    drop(bundle.read(&tensor.name));
                }
            }
        }
        Err(error) => drop(error.to_string()),
    }
});
