//! Writer of checkpoints: each server writes its file, then the chief writes the manifest and renames the folder.

use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use trainyard_model_dir::durable::{create_all, exchange, flush_folder, rename, write_and_flush};
use trainyard_model_dir::{Bucket, ModelDir, encode, refuse_if_deposed};
use trainyard_variable::FirstRows;

use crate::committed::{PREFIX, list, state_name, step_folder, write_state_file};
use crate::flushing::{Flusher, let_go_up_to};
use crate::manifest_file::MANIFEST;
use crate::packed_runs::pack;
use crate::reader::RUNS;
use crate::table::{IDS, integers_of};
use crate::{
    Checkpoint, Dtype, Error, FilePurpose, HeldRows, Manifest, Others, PositionRecord, ShardRecord,
    TableView, TensorRecord, manifest_file,
};

/// Bytes of one read while a file is read back.
const READ_BACK_BYTES: usize = 1 << 20;
/// Number of reads back after which their pages are dropped from the page cache.
const READ_BACK_KEPT: u64 = 16;

/// Callback that receives the values of some rows and, in the order of the slot names, as many values of each slot.
pub type OnRows<'a> = dyn FnMut(&[f32], &[&[f32]]) -> Result<(), Error> + 'a;

/// Source of the values and slots of a slice.
pub trait SliceSource {
    /// Passes all rows to `each`, in order, some at a time.
    ///
    /// # Errors
    /// Returns the error of `each`.
    fn read(&self, each: &mut OnRows<'_>) -> Result<(), Error>;
}

/// A slice in memory.
#[derive(Debug, Clone, Default)]
pub struct InMemory<'a> {
    /// `rows x width` values.
    pub values: &'a [f32],
    /// Values of each slot, as many as `values`.
    pub slots: Vec<&'a [f32]>,
}

impl SliceSource for InMemory<'_> {
    fn read(&self, each: &mut OnRows<'_>) -> Result<(), Error> {
        each(self.values, &self.slots)
    }
}

/// One slice of one variable, with its slots.
pub struct SliceView<'a> {
    /// Variable.
    pub variable: &'a str,
    /// Part of the variable.
    pub part: usize,
    /// Rows of the variable.
    pub rows: Range<usize>,
    /// Values in a row.
    pub width: usize,
    /// Names of the slots.
    pub slot_names: Vec<&'a str>,
    /// The held rows; absent = all rows.
    pub held: Option<HeldView<'a>>,
    /// Values and slots of the held rows.
    pub source: &'a dyn SliceSource,
}

/// The held rows of a slice, and the initial values of the other rows.
#[derive(Debug, Clone)]
pub struct HeldView<'a> {
    /// Rows of the variable, ascending.
    pub rows: Vec<Range<usize>>,
    /// Values of the other rows.
    pub others: OtherRows<'a>,
}

/// The values of the rows of a slice that a file does not hold.
#[derive(Debug, Clone, Copy)]
pub enum OtherRows<'a> {
    /// Initial values.
    Initial {
        /// Rule of the values.
        first: &'a FirstRows,
        /// Initial value of each slot, in the order of the slot names.
        first_slots: &'a [f32],
    },
    /// The values in the base of the increment.
    Base,
}

impl OtherRows<'_> {
    /// Returns the record of the values, or of the slot at `place`.
    fn record(&self, slot: Option<usize>) -> Others {
        match self {
            Self::Base => Others::Base,
            Self::Initial { first, first_slots } => {
                let value = slot.and_then(|slot| first_slots.get(slot));
                value.map_or_else(|| Others::first(first), |value| Others::Value(*value))
            }
        }
    }
}

impl HeldView<'_> {
    fn len(&self) -> usize {
        self.rows.iter().map(Range::len).sum()
    }

    /// Returns the first row and one past the last row of each run.
    fn runs(&self) -> Vec<u64> {
        self.rows
            .iter()
            .flat_map(|run| [run.start as u64, run.end as u64])
            .collect()
    }
}

impl SliceView<'_> {
    /// Returns the held rows, unless all rows are held.
    fn some_held(&self) -> Option<&HeldView<'_>> {
        self.held
            .as_ref()
            .filter(|held| held.len() < self.rows.len())
    }
}

/// State of a server, besides its slices.
#[derive(Debug, Clone, Default)]
pub struct ShardState {
    /// Index of the server.
    pub ps: usize,
    /// Number of servers.
    pub num_ps: usize,
    /// Pushes applied.
    pub version: u64,
    /// Training data applied.
    pub positions: Vec<PositionRecord>,
    /// Name of the snapshot, if increments may be based on it.
    pub cut: Option<String>,
    /// Name of the snapshot that the file is an increment of; `None` if the file is whole.
    pub base: Option<String>,
    /// Seconds of training.
    pub secs: i64,
    /// Purpose of the file.
    pub purpose: FilePurpose,
}

/// The tensors of a file, in the order of the file.
#[derive(Default)]
struct Contents {
    tensors: Vec<TensorRecord>,
}

impl Contents {
    /// Adds an unwritten tensor of a (variable, slot, part), and returns its record.
    fn add(
        &mut self,
        what @ (variable, slot, _): (&str, Option<&str>, usize),
        rows: Range<usize>,
        width: usize,
        dtype: Dtype,
    ) -> &mut TensorRecord {
        let name = tensor_name(what);
        self.tensors.push(TensorRecord {
            name,
            variable: variable.to_owned(),
            slot: slot.map(str::to_owned),
            row_begin: rows.start,
            row_end: rows.end,
            width,
            dtype,
            held: None,
            rows_in_use: None,
            others: None,
            offset: 0,
            crc32c: 0,
        });
        let last = self.tensors.len() - 1;
        &mut self.tensors[last]
    }

    /// Assigns each tensor the place after the tensor before. Returns the header with the places, and the size of all
    /// tensors in bytes.
    fn lay_out(&mut self) -> (serde_json::Map<String, serde_json::Value>, u64) {
        let mut header = serde_json::Map::new();
        let mut end = 0;
        for tensor in &mut self.tensors {
            let rows = tensor.rows_held();
            let begin = end;
            end += (rows * tensor.width * tensor.dtype.bytes()) as u64;
            tensor.offset = begin;
            let shape = [rows, tensor.width];
            let entry = serde_json::json!({"dtype": tensor.dtype, "shape": shape, "data_offsets": [begin, end]});
            header.insert(tensor.name.clone(), entry);
        }
        (header, end)
    }
}

/// Returns the name in the file of the tensor of a (variable, slot, part).
fn tensor_name((variable, slot, part): (&str, Option<&str>, usize)) -> String {
    let base = slot.map_or(variable.to_owned(), |slot| format!("{variable}/{slot}"));
    format!("{base}/part_{part}")
}

/// A file under construction. Each tensor is written piece by piece, from its beginning.
struct Writing<'a> {
    file: File,
    path: &'a Path,
    tensors: &'a mut [TensorRecord],
    /// Number of bytes written of each tensor.
    written: Vec<u64>,
    /// Absent if the file will be uploaded.
    flusher: Option<Flusher>,
}

impl Writing<'_> {
    /// Checks that each tensor was written with the size in its record.
    fn check_is_whole(&self) -> Result<(), Error> {
        for (record, written) in self.tensors.iter().zip(&self.written) {
            if *written != record.bytes() {
                let what = format!(
                    "{}: {written} bytes were written, expected {}",
                    record.name,
                    record.bytes()
                );
                return Err(Error::damaged(self.path, what));
            }
        }
        Ok(())
    }

    fn append(&mut self, tensor: usize, bytes: &[u8]) -> Result<(), Error> {
        let record = &mut self.tensors[tensor];
        let written = &mut self.written[tensor];
        self.file
            .write_all_at(bytes, record.offset + *written)
            .map_err(Error::io("write", self.path))?;
        record.crc32c = crc32c::crc32c_append(record.crc32c, bytes);
        *written += bytes.len() as u64;
        if let Some(flusher) = &mut self.flusher {
            flusher
                .wrote(&self.file, bytes.len() as u64)
                .map_err(Error::io("flush", self.path))?;
        }
        Ok(())
    }
}

/// Returns the bytes that a disk must have free for a checkpoint of `bytes_expected` bytes of values and slots.
pub fn room_needed(bytes_expected: u64) -> u64 {
    bytes_expected.saturating_add(bytes_expected / 10)
}

/// Creates the temporary folder of a checkpoint. In a bucket, only a unique name is chosen.
///
/// # Errors
/// The disk has less space than 1.1 times `bytes_expected`, or the folder cannot be created.
pub fn begin(
    model_dir: &Path,
    step: u64,
    attempt: &str,
    bytes_expected: u64,
) -> Result<PathBuf, Error> {
    if let Some(bucket) = ModelDir::at(model_dir)?.bucket() {
        // The keys of the standard library's hashes are random, so no other attempt has this name.
        let number = RandomState::new().build_hasher().finish();
        return Ok(bucket
            .path()
            .join(format!("{PREFIX}{step}.{attempt}-{number:016x}")));
    }
    create_all(model_dir)?;
    let need = room_needed(bytes_expected);
    if let Ok(space) = rustix::fs::statvfs(model_dir) {
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        if free < need {
            return Err(Error::Space {
                path: model_dir.to_owned(),
                need,
                free,
            });
        }
    }
    let folder = model_dir.join(format!("tmp.{step}.{attempt}"));
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(Error::io("clear", &folder))?;
    }
    std::fs::create_dir(&folder).map_err(Error::io("create", &folder))?;
    Ok(folder)
}

/// Removes the folder of a checkpoint that will not be committed. Errors are ignored.
pub fn abandon(folder: &Path) {
    match ModelDir::at(folder) {
        // A folder with a manifest is committed, even if a later operation failed. The next chief sweeps what remains.
        Ok(ModelDir::Bucket(bucket)) => {
            let bucket = bucket.hastily();
            if matches!(bucket.bytes(MANIFEST), Ok(None)) {
                drop(bucket.remove_all(None));
            }
        }
        Ok(ModelDir::Folder(_)) => drop(std::fs::remove_dir_all(folder)),
        Err(_) => {}
    }
}

/// Writes one server's file and flushes it. For a bucket, the file is written locally as a temporary file and then
/// uploaded: its tensors are written in alternation, and a failed part must be sent again.
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
    let bucket = ModelDir::at(folder)?.bucket();
    let path = match bucket {
        Some(_) => format!(
            "the temporary file (TMPDIR says where) of {}",
            folder.join(&file_name).display()
        )
        .into(),
        None => folder.join(&file_name),
    };
    let mut contents = Contents::default();
    // Whole numbers come first, so that they are aligned to 8 bytes.
    let mut integers: Vec<Vec<u64>> = Vec::new();
    for slice in slices {
        if let Some(held) = slice.some_held() {
            let (list, width) = match state.purpose {
                FilePurpose::Checkpoint => (held.runs(), 2),
                FilePurpose::Publication => (pack(&held.rows, slice.rows.start), 1),
            };
            contents.add(
                (slice.variable, Some(RUNS), slice.part),
                0..list.len() / width,
                width,
                Dtype::U64,
            );
            integers.push(list);
        }
    }
    for table in tables {
        for (name, width, rows) in table.integers(state.purpose) {
            let record = contents.add(
                (table.variable, Some(name), table.part),
                0..rows,
                width,
                Dtype::U64,
            );
            record.rows_in_use = table.rows_in_use().filter(|_| name == IDS);
        }
    }
    for slice in slices {
        for (place, slot) in std::iter::once(None)
            .chain(slice.slot_names.iter().copied().map(Some))
            .enumerate()
        {
            let what = (slice.variable, slot, slice.part);
            let record = contents.add(what, slice.rows.clone(), slice.width, Dtype::F32);
            if let Some(held) = slice.some_held() {
                let listed_in = tensor_name((slice.variable, Some(RUNS), slice.part));
                record.held = Some(HeldRows {
                    rows: held.len(),
                    listed_in,
                });
                record.others = Some(held.others.record(place.checked_sub(1)));
            }
        }
    }
    for table in tables {
        for slot in std::iter::once(None).chain(table.slot_names.iter().copied().map(Some)) {
            let rows = 0..table.source.counts().0;
            let record = contents.add(
                (table.variable, slot, table.part),
                rows,
                table.width,
                Dtype::F32,
            );
            record.others = table.first.filter(|_| slot.is_none()).map(Others::first);
        }
    }
    let (header, offset) = contents.lay_out();
    let mut tensors = contents.tensors;
    let mut text = encode(&header, &path)?;
    // The values begin at a multiple of 8, so that a memory-mapped file can be read in place.
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut front = (text.len() as u64).to_le_bytes().to_vec();
    front.append(&mut text);
    for tensor in &mut tensors {
        tensor.offset += front.len() as u64;
    }
    let file = match bucket {
        Some(_) => tempfile::tempfile().map_err(Error::io("create", &path))?,
        None => create_file(folder, &file_name)?,
    };
    file.write_all_at(&front, 0)
        .map_err(Error::io("write", &path))?;
    let written = vec![0; tensors.len()];
    let flusher = bucket.is_none().then(Flusher::default);
    let mut writing = Writing {
        file,
        path: &path,
        tensors: &mut tensors,
        written,
        flusher,
    };
    for (place, values) in integers.iter().enumerate() {
        writing.append(place, bytemuck::cast_slice(values))?;
    }
    let runs = integers.len();
    let begins: Vec<usize> = tables
        .iter()
        .scan(runs, |next, table| {
            let begin = *next;
            *next += table.integers(state.purpose).count();
            Some(begin)
        })
        .collect();
    let mut place = runs
        + tables
            .iter()
            .map(|table| table.integers(state.purpose).count())
            .sum::<usize>();
    for slice in slices {
        slice.source.read(&mut |values, slots| {
            for (tensor, values) in std::iter::once(values)
                .chain(slots.iter().copied())
                .enumerate()
            {
                writing.append(place + tensor, bytemuck::cast_slice(values))?;
            }
            Ok(())
        })?;
        place += 1 + slice.slot_names.len();
    }
    for (table, integers) in tables.iter().zip(begins) {
        if let Some((place, gone)) = table.gone() {
            writing.append(integers + place, bytemuck::cast_slice(gone))?;
        }
        table.source.read(&mut |lot| {
            for (tensor, values) in integers_of(lot, state.purpose).iter().enumerate() {
                writing.append(integers + tensor, bytemuck::cast_slice(values))?;
            }
            for (tensor, values) in std::iter::once(&lot.values).chain(&lot.slots).enumerate() {
                writing.append(place + tensor, bytemuck::cast_slice(values))?;
            }
            Ok(())
        })?;
        place += 1 + table.slot_names.len();
    }
    writing.check_is_whole()?;
    #[cfg(feature = "failpoints")]
    fail::fail_point!("ps.ckpt.before_fsync");
    let bytes = front.len() as u64 + offset;
    let Writing { file, flusher, .. } = writing;
    if let Some(flusher) = flusher {
        flusher.finish(&file).map_err(Error::io("flush", &path))?;
    }
    if let Some(bucket) = bucket {
        bucket.send(file, bytes, &file_name)?;
    }
    #[cfg(feature = "failpoints")]
    fail::fail_point!("ps.ckpt.after_fsync");
    Ok(ShardRecord {
        file: file_name,
        bytes,
        header_crc32c: crc32c::crc32c(&front),
        ps: state.ps,
        version: state.version,
        positions: state.positions.clone(),
        cut: state.cut.clone(),
        base: state.base.clone(),
        secs: state.secs,
        tensors,
    })
}

/// Creates a new file in the folder of a save, in place of what an earlier attempt has left. No link is followed: neither of
/// the folder nor of the file.
///
/// # Errors
/// The folder belongs neither to the user of this process nor to the owner of the model directory, or the file cannot be
/// created.
fn create_file(folder: &Path, name: &str) -> Result<File, Error> {
    let path = folder.join(name);
    let system = |action, path| move |errno: Errno| Error::io(action, path)(errno.into());
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(folder, flags, Mode::empty()).map_err(system("open", folder))?;
    let found = rustix::fs::fstat(&opened).map_err(system("look at", folder))?;
    let user = rustix::process::geteuid().as_raw();
    // A file system of a network may give all files another owner than the user.
    let of_model_dir = || {
        let model_dir = folder.parent().map(std::fs::metadata);
        model_dir.and_then(|found| Some(found.ok()?.uid()))
    };
    if found.st_uid != user && Some(found.st_uid) != of_model_dir() {
        let owner = found.st_uid;
        let what = format!("it belongs to user {owner}, and this process runs as user {user}");
        return Err(Error::io("write into", folder)(std::io::Error::other(what)));
    }
    match rustix::fs::unlinkat(&opened, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(system("remove", &path)(errno)),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let created = rustix::fs::openat(&opened, name, flags, Mode::from_raw_mode(0o666));
    created.map(File::from).map_err(system("create", &path))
}

/// Reads a file that [`write_shard`] has written, and verifies every byte, because older checkpoints may be removed in
/// favor of this one. A bucket compares a checksum of the upload, so nothing is read. `each` is called after each part of at
/// most 1 MiB.
///
/// # Errors
/// The file cannot be read, or differs from what was written.
pub fn read_back(folder: &Path, shard: &ShardRecord, mut each: impl FnMut()) -> Result<(), Error> {
    if ModelDir::is_bucket(folder) {
        return Ok(());
    }
    let path = folder.join(&shard.file);
    let file = File::open(&path).map_err(Error::io("open", &path))?;
    let mut buffer = vec![0; READ_BACK_BYTES];
    let mut end = 0;
    let front = shard.tensors.iter().map(|tensor| tensor.offset).min();
    let header = front.map(|front| (front, shard.header_crc32c, "header"));
    let tensors = shard
        .tensors
        .iter()
        .map(|tensor| (tensor.bytes(), tensor.crc32c, tensor.name.as_str()));
    for (bytes, expected, name) in header.into_iter().chain(tensors) {
        let begin = end;
        end += bytes;
        let mut found = 0;
        for place in (begin..end).step_by(READ_BACK_BYTES) {
            let part = &mut buffer[..(end - place).min(READ_BACK_BYTES as u64) as usize];
            file.read_exact_at(part, place)
                .map_err(Error::io("read", &path))?;
            found = crc32c::crc32c_append(found, part);
            each();
            if (place / READ_BACK_BYTES as u64).is_multiple_of(READ_BACK_KEPT) {
                let_go_up_to(&file, place);
            }
        }
        if found != expected {
            let what = format!("{name} at byte {begin}: it was written, and reads otherwise");
            return Err(Error::damaged(&path, what));
        }
    }
    Ok(())
}

/// Links the whole file of an earlier checkpoint into the folder of a checkpoint that is being written, as the base of an
/// increment. Returns its record there.
///
/// # Errors
/// The file system has no hard links, or the file does not exist.
pub(crate) fn link_base(
    earlier: &Path,
    record: &ShardRecord,
    folder: &Path,
) -> Result<ShardRecord, Error> {
    let file = format!("base-{}.safetensors", record.ps);
    let from = earlier.join(&record.file);
    std::fs::hard_link(&from, folder.join(&file)).map_err(Error::io("link", &from))?;
    Ok(ShardRecord {
        file,
        ..record.clone()
    })
}

/// Commits a checkpoint: checks the presence and size of every file, writes the manifest, and renames the folder.
///
/// # Errors
/// A file is missing or has another size, a write fails, or another chief has claimed a later term. The folder then
/// keeps its temporary name.
pub fn commit(model_dir: &Path, folder: &Path, manifest: &Manifest) -> Result<Checkpoint, Error> {
    if let Some(bucket) = ModelDir::at(model_dir)?.bucket() {
        return commit_in(&bucket, folder, manifest);
    }
    check_files(folder, manifest)?;
    #[cfg(feature = "failpoints")]
    fail::fail_point!("chief.ckpt.before_manifest");
    let path = folder.join(MANIFEST);
    write_and_flush(&path, &manifest_file::write(manifest, &path)?)?;
    #[cfg(feature = "failpoints")]
    fail::fail_point!("chief.ckpt.after_manifest");
    flush_folder(folder)?;
    #[cfg(feature = "failpoints")]
    fail::fail_point!("chief.ckpt.before_rename");
    let target = model_dir.join(step_folder(manifest.global_step));
    // A chief that was suspended may have a successor, and must not replace the successor's checkpoint of the same
    // step.
    let _claimed = refuse_if_deposed(model_dir, manifest.cluster_epoch)?;
    if target.exists() && exchange(folder, &target)? {
        // An earlier term has saved the same step. Its checkpoint, now under the temporary name, is removed.
        abandon(folder);
    } else if target.exists() {
        // The old checkpoint is moved aside first, so the name is without a checkpoint only between two renames.
        let aside = model_dir.join(format!(
            "tmp.{}.replaced-{}",
            manifest.global_step, manifest.cluster_epoch
        ));
        drop(std::fs::remove_dir_all(&aside));
        rename(&target, &aside)?;
        rename(folder, &target)?;
        abandon(&aside);
    } else {
        rename(folder, &target)?;
    }
    #[cfg(feature = "failpoints")]
    fail::fail_point!("chief.ckpt.after_rename");
    let names: Vec<String> = list(model_dir)?.iter().map(state_name).collect();
    write_state_file(model_dir, &names)?;
    Checkpoint::open(&target)
}

/// Commits a checkpoint in a bucket, where the manifest makes the folder a checkpoint. No other chief writes to this
/// folder, so the manifest may be written again if a reply is lost.
fn commit_in(bucket: &Bucket, folder: &Path, manifest: &Manifest) -> Result<Checkpoint, Error> {
    let own = ModelDir::at(folder)?
        .bucket()
        .ok_or_else(|| Error::damaged(folder, "it is not in the bucket"))?;
    check_objects(&own, manifest)?;
    refuse_if_deposed(bucket.path(), manifest.cluster_epoch)?;
    #[cfg(feature = "failpoints")]
    fail::fail_point!("chief.ckpt.before_manifest");
    own.put(
        MANIFEST,
        manifest_file::write(manifest, &folder.join(MANIFEST))?,
    )?;
    #[cfg(feature = "failpoints")]
    fail::fail_point!("chief.ckpt.after_manifest");
    let names: Vec<String> = list(bucket.path())?.iter().map(state_name).collect();
    write_state_file(bucket.path(), &names)?;
    Checkpoint::open(folder)
}

/// Checks the presence and size of every file of a manifest in a local folder.
pub(crate) fn check_files(folder: &Path, manifest: &Manifest) -> Result<(), Error> {
    for shard in manifest.files() {
        let path = folder.join(&shard.file);
        let length = std::fs::metadata(&path)
            .map_err(Error::io("find", &path))?
            .len();
        if length != shard.bytes {
            return Err(Error::damaged(
                &path,
                format!("{length} bytes, expected {}", shard.bytes),
            ));
        }
    }
    Ok(())
}

/// Checks the presence and size of every file of a manifest in a bucket.
pub(crate) fn check_objects(own: &Bucket, manifest: &Manifest) -> Result<(), Error> {
    for shard in &manifest.shards {
        let length = own.bytes(&shard.file)?;
        if length != Some(shard.bytes) {
            let found = length.map_or_else(
                || "it does not exist".to_owned(),
                |length| format!("{length} bytes"),
            );
            return Err(Error::damaged(
                &own.path().join(&shard.file),
                format!("{found}, expected {}", shard.bytes),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_of_a_save_is_written_through_no_link() {
        let scratch = tempfile::tempdir().expect("a temporary folder");
        let precious = scratch.path().join("thesis.tex");
        std::fs::write(&precious, "mine").expect("a file");
        let folder = scratch.path().join("tmp.1.1-ff");
        std::fs::create_dir(&folder).expect("a folder");
        std::os::unix::fs::symlink(&precious, folder.join("shard")).expect("a link");
        let file = create_file(&folder, "shard").expect("the link is gone");
        file.write_all_at(b"values", 0).expect("there is room");
        let read = |path: &Path| std::fs::read_to_string(path).expect("it is there");
        assert_eq!(read(&precious), "mine");
        assert_eq!(read(&folder.join("shard")), "values");
        let link = scratch.path().join("tmp.2.1-ff");
        std::os::unix::fs::symlink(&folder, &link).expect("a link");
        create_file(&link, "shard").expect_err("the folder is a link");
    }

    #[test]
    fn a_file_that_does_not_read_as_it_was_written_is_an_error_that_names_the_tensor() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let values: Vec<f32> = (0..1_000_000).map(|value| value as f32).collect();
        let source = InMemory {
            values: &values,
            slots: Vec::new(),
        };
        let slice = SliceView {
            variable: "kernel",
            part: 0,
            rows: 0..values.len(),
            width: 1,
            slot_names: Vec::new(),
            held: None,
            source: &source,
        };
        let state = ShardState {
            ps: 0,
            num_ps: 1,
            version: 1,
            positions: Vec::new(),
            cut: None,
            base: None,
            secs: 0,
            ..ShardState::default()
        };
        let record = write_shard(folder.path(), &state, &[slice], &[]).expect("it is written");
        read_back(folder.path(), &record, || ()).expect("it is as it was written");
        let path = folder.path().join(&record.file);
        let good = std::fs::read(&path).expect("it is there");
        for (place, name) in [
            (9, "header"),
            (3_000_000, "kernel/part_0"),
            (good.len() - 1, "kernel/part_0"),
        ] {
            let mut bad = good.clone();
            bad[place] ^= 4;
            std::fs::write(&path, bad).expect("damage");
            let told = read_back(folder.path(), &record, || ()).expect_err("it is damaged");
            assert!(told.to_string().contains(name), "byte {place}: {told}");
        }
    }
}
