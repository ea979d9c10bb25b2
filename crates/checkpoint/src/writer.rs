//! Writing a checkpoint: each server its own file, then the chief the manifest, then one rename.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::durable::{flush_folder, rename, write_and_flush};
use crate::model_dir::{MANIFEST, list, step_folder, write_state_file};
use crate::{Checkpoint, Error, Manifest, PositionRecord, ShardRecord, TensorRecord};

/// Bytes collected before a write.
const WRITE_BYTES: usize = 1 << 20;

/// One slice of one variable, with its slots.
#[derive(Debug, Clone)]
pub struct SliceView<'a> {
    /// Variable.
    pub variable: &'a str,
    /// Part of the variable.
    pub part: usize,
    /// Rows of the variable.
    pub rows: Range<usize>,
    /// Values in a row.
    pub width: usize,
    /// `rows x width` values.
    pub values: &'a [f32],
    /// Slots by name, as many values each.
    pub slots: Vec<(&'a str, &'a [f32])>,
}

/// What a server adds to its slices.
#[derive(Debug, Clone)]
pub struct ShardState {
    /// Index of the server.
    pub ps: usize,
    /// Number of servers.
    pub num_ps: usize,
    /// Pushes applied.
    pub version: u64,
    /// Data applied.
    pub positions: Vec<PositionRecord>,
}

/// Makes the folder that a checkpoint is written into.
///
/// # Errors
/// Less space than 1.1 times `bytes_expected`, or the folder cannot be made.
pub fn begin(model_dir: &Path, step: u64, attempt: &str, bytes_expected: u64) -> Result<PathBuf, Error> {
    std::fs::create_dir_all(model_dir).map_err(Error::io("create", model_dir))?;
    let need = bytes_expected + bytes_expected / 10;
    if let Ok(space) = rustix::fs::statvfs(model_dir) {
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        if free < need {
            return Err(Error::Space { path: model_dir.to_owned(), need, free });
        }
    }
    let folder = model_dir.join(format!("tmp.{step}.{attempt}"));
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(Error::io("clear", &folder))?;
    }
    std::fs::create_dir(&folder).map_err(Error::io("create", &folder))?;
    Ok(folder)
}

/// Removes the folder of a checkpoint that will not be.
pub fn abandon(folder: &Path) {
    drop(std::fs::remove_dir_all(folder));
}

/// Writes one server's file and flushes it.
///
/// # Errors
/// The file cannot be written.
pub fn write_shard(
    folder: &Path,
    state: &ShardState,
    slices: &[SliceView<'_>],
) -> Result<ShardRecord, Error> {
    let file_name = format!("shard-{}-of-{}.safetensors", state.ps, state.num_ps);
    let path = folder.join(&file_name);
    let (mut tensors, mut buffers, mut header) = (Vec::new(), Vec::new(), serde_json::Map::new());
    let mut offset = 0_u64;
    for slice in slices {
        let slots = slice.slots.iter().map(|(name, values)| (Some(*name), *values));
        for (slot, values) in std::iter::once((None, slice.values)).chain(slots) {
            let bytes: &[u8] = bytemuck::cast_slice(values);
            let base = slot.map_or(slice.variable.to_owned(), |slot| format!("{}/{slot}", slice.variable));
            let name = format!("{base}/part_{}", slice.part);
            let end = offset + bytes.len() as u64;
            header.insert(
                name.clone(),
                serde_json::json!({"dtype": "F32", "shape": [slice.rows.len(), slice.width], "data_offsets": [offset, end]}),
            );
            tensors.push(TensorRecord {
                name,
                variable: slice.variable.to_owned(),
                slot: slot.map(str::to_owned),
                row_begin: slice.rows.start,
                row_end: slice.rows.end,
                width: slice.width,
                offset,
                crc32c: crc32c::crc32c(bytes),
            });
            buffers.push(bytes);
            offset = end;
        }
    }
    let mut text = serde_json::to_vec(&header).unwrap_or_default();
    // The values begin at a multiple of 8, so that a mapped file can be read in place.
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut front = (text.len() as u64).to_le_bytes().to_vec();
    front.append(&mut text);
    for tensor in &mut tensors {
        tensor.offset += front.len() as u64;
    }
    let file = File::create(&path).map_err(Error::io("create", &path))?;
    let mut writer = BufWriter::with_capacity(WRITE_BYTES, file);
    writer.write_all(&front).map_err(Error::io("write", &path))?;
    for bytes in buffers {
        writer.write_all(bytes).map_err(Error::io("write", &path))?;
    }
    writer.flush().map_err(Error::io("write", &path))?;
    writer.get_ref().sync_all().map_err(Error::io("flush", &path))?;
    Ok(ShardRecord {
        file: file_name,
        bytes: front.len() as u64 + offset,
        header_crc32c: crc32c::crc32c(&front),
        ps: state.ps,
        version: state.version,
        positions: state.positions.clone(),
        tensors,
    })
}

/// Makes a written checkpoint the newest: checks that every file is there, writes the manifest, renames the folder.
///
/// # Errors
/// A file is missing or of another size, or a write fails. The folder is then still a temporary one.
pub fn commit(model_dir: &Path, folder: &Path, manifest: &Manifest) -> Result<Checkpoint, Error> {
    for shard in &manifest.shards {
        let path = folder.join(&shard.file);
        let length = std::fs::metadata(&path).map_err(Error::io("find", &path))?.len();
        if length != shard.bytes {
            return Err(Error::damaged(&path, format!("{length} bytes, expected {}", shard.bytes)));
        }
    }
    let text = serde_json::to_vec_pretty(manifest).unwrap_or_default();
    write_and_flush(&folder.join(MANIFEST), &text)?;
    flush_folder(folder)?;
    let target = model_dir.join(step_folder(manifest.global_step));
    if target.exists() {
        // The same step again: an older epoch wrote it, and this one stands for it. It is moved away first, so that
        // no name is without a checkpoint for longer than two renames.
        let aside =
            model_dir.join(format!("tmp.{}.replaced-{}", manifest.global_step, manifest.cluster_epoch));
        drop(std::fs::remove_dir_all(&aside));
        rename(&target, &aside)?;
        rename(folder, &target)?;
        abandon(&aside);
    } else {
        rename(folder, &target)?;
    }
    let names: Vec<String> = list(model_dir)?.iter().map(|found| step_folder(found.step)).collect();
    write_state_file(model_dir, &names)?;
    Checkpoint::open(&target)
}
