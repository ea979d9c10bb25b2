//! Checkpoints: a manifest, of the format without a checksum so that the search goes on behind it, and a shard.

use trainyard_checkpoint::{Checkpoint, latest_good};

use crate::numbers::two;
use crate::scratch;

/// Most values that are read of a variable: what a model asks for is bounded by the model.
const VALUES_MAX: usize = 1 << 16;

/// Opens, verifies and reads a checkpoint of one manifest and one shard.
pub fn run(data: &[u8]) {
    let (manifest, shard) = two(data);
    let folder = scratch::folder();
    let path = folder.path().join("model.ckpt-1");
    std::fs::create_dir_all(&path).expect("a folder");
    std::fs::write(path.join("manifest.json"), manifest).expect("a manifest");
    std::fs::write(path.join("shard-0-of-1.safetensors"), shard).expect("a shard");
    if let Ok(checkpoint) = Checkpoint::open(&path) {
        let whole = checkpoint.verify();
        if let Err(error) = &whole {
            let _ = error.to_string();
        }
        for spec in &checkpoint.manifest().variables {
            let values = spec
                .shape
                .iter()
                .try_fold(1_usize, |all, size| all.checked_mul(*size));
            match spec.dynamic() {
                Some(_) => {
                    drop(checkpoint.read_dynamic(&spec.name, &["accumulator"], 0..u128::MAX))
                }
                None if values.is_some_and(|values| values <= VALUES_MAX) => {
                    drop(checkpoint.read(&spec.name))
                }
                None => {}
            }
        }
    }
    let _ = latest_good(folder.path(), &mut |warning| drop(warning.render()));
}
