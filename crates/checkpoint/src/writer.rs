//! Writing a checkpoint: each server its own file, then the chief the manifest, then one rename.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::durable::{flush_folder, rename, write_and_flush};
use crate::model_dir::{MANIFEST, list, step_folder, write_state_file};
use crate::{Checkpoint, Dtype, Error, Manifest, PositionRecord, ShardRecord, TableView, TensorRecord};

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

/// The tensors of a file, before their places are known.
#[derive(Default)]
struct Contents<'a> {
    tensors: Vec<TensorRecord>,
    buffers: Vec<Cow<'a, [u8]>>,
    header: serde_json::Map<String, serde_json::Value>,
    bytes: u64,
}

impl<'a> Contents<'a> {
    /// Adds the tensor of a (variable, slot, part).
    fn add(
        &mut self,
        (variable, slot, part): (&str, Option<&str>, usize),
        rows: Range<usize>,
        width: usize,
        dtype: Dtype,
        buffer: Cow<'a, [u8]>,
    ) {
        let base = slot.map_or(variable.to_owned(), |slot| format!("{variable}/{slot}"));
        let name = format!("{base}/part_{part}");
        let (begin, end) = (self.bytes, self.bytes + buffer.len() as u64);
        let shape = [rows.len(), width];
        self.header.insert(
            name.clone(),
            serde_json::json!({"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}),
        );
        self.tensors.push(TensorRecord {
            name,
            variable: variable.to_owned(),
            slot: slot.map(str::to_owned),
            row_begin: rows.start,
            row_end: rows.end,
            width,
            dtype,
            offset: begin,
            crc32c: crc32c::crc32c(&buffer),
        });
        self.buffers.push(buffer);
        self.bytes = end;
    }
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
    tables: &[TableView<'_>],
) -> Result<ShardRecord, Error> {
    let file_name = format!("shard-{}-of-{}.safetensors", state.ps, state.num_ps);
    let path = folder.join(&file_name);
    let mut contents = Contents::default();
    // Whole numbers first: they lie at multiples of 8 then, whatever floats follow.
    for table in tables {
        for (name, width, values) in table.integers() {
            let rows = 0..values.len() / width;
            let what = (table.variable, Some(name), table.part);
            contents.add(what, rows, width, Dtype::U64, bytemuck::cast_slice(&values).to_vec().into());
        }
    }
    for slice in slices {
        let slots = slice.slots.iter().map(|(name, values)| (Some(*name), *values));
        for (slot, values) in std::iter::once((None, slice.values)).chain(slots) {
            let bytes: &[u8] = bytemuck::cast_slice(values);
            let what = (slice.variable, slot, slice.part);
            contents.add(what, slice.rows.clone(), slice.width, Dtype::F32, bytes.into());
        }
    }
    for table in tables {
        let slots =
            table.slot_names.iter().zip(&table.rows.slots).map(|(name, values)| (Some(*name), values));
        for (slot, values) in std::iter::once((None, &table.rows.values)).chain(slots) {
            let bytes: &[u8] = bytemuck::cast_slice(values);
            let (what, rows) = ((table.variable, slot, table.part), 0..table.rows.ids.len());
            contents.add(what, rows, table.width, Dtype::F32, bytes.into());
        }
    }
    let Contents { mut tensors, buffers, header, bytes: offset } = contents;
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
        writer.write_all(&bytes).map_err(Error::io("write", &path))?;
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
