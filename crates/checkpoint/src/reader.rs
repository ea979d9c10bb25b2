//! Reader of checkpoints, by variable and row.

mod held_rows;
mod parts_read;

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use trainyard_storage::{File, Storage, is_remote};

use crate::manifest::{ShardRecord, TensorRecord};
use crate::manifest_file::MANIFEST;
use crate::{Error, Manifest, manifest_file};

pub(crate) use held_rows::RUNS;
use held_rows::{RunsRead, misfit};
pub use parts_read::PartRead;
use parts_read::PartsRead;

/// Bytes of one read while a file is verified.
const VERIFY_BYTES: usize = 1 << 20;

/// Bytes of the piece of a file that one thread verifies before it takes the next piece.
const PIECE_BYTES: u64 = 32 << 20;

/// Bytes of one read while an object is verified. The storage fetches parts of it concurrently.
const VERIFY_REMOTE_BYTES: usize = 32 << 20;

/// An opened checkpoint.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    manifest: Manifest,
    files: BTreeMap<String, File>,
    runs_read: RunsRead,
    parts_read: PartsRead,
}

/// Tries to open a checkpoint whose folder others take away meanwhile. A save takes longer than a try.
const OPEN_TRIES: usize = 5;

/// Returns the numbers of a local folder's device and inode, which another folder of the same name has not got.
fn folder_identity(path: &Path) -> Option<(u64, u64)> {
    let folder = std::fs::metadata(path).ok()?;
    Some((folder.dev(), folder.ino()))
}

/// Returns the CRC-32C of some bytes of a file. It reads `at_once` bytes at a time.
fn checksum(file: &File, bytes: Range<u64>, at_once: usize) -> std::io::Result<u32> {
    let mut buffer = vec![0; at_once.min((bytes.end - bytes.start) as usize)];
    let mut found = 0;
    for begin in bytes.clone().step_by(at_once) {
        let part = &mut buffer[..(bytes.end - begin).min(at_once as u64) as usize];
        file.read_exact_at(begin, part)?;
        found = crc32c::crc32c_append(found, part);
    }
    Ok(found)
}

/// Returns the CRC-32C of some bytes of a file, read by one thread per core. A disk serves several requests at once.
fn checksum_side_by_side(file: &File, bytes: Range<u64>) -> std::io::Result<u32> {
    let pieces: Vec<Range<u64>> = bytes
        .clone()
        .step_by(PIECE_BYTES as usize)
        .map(|begin| begin..(begin + PIECE_BYTES).min(bytes.end))
        .collect();
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(pieces.len());
    if threads <= 1 {
        return checksum(file, bytes, VERIFY_BYTES);
    }
    let next = AtomicUsize::new(0);
    let read = || {
        let mut found = Vec::new();
        while let place = next.fetch_add(1, Ordering::Relaxed)
            && let Some(piece) = pieces.get(place)
        {
            found.push((place, checksum(file, piece.clone(), VERIFY_BYTES)?));
        }
        Ok(found)
    };
    let parts: Vec<std::io::Result<Vec<(usize, u32)>>> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(read)).collect();
        let failed = |_| Err(std::io::Error::other("a thread that reads has failed"));
        handles
            .into_iter()
            .map(|handle| handle.join().unwrap_or_else(failed))
            .collect()
    });
    let mut found: Vec<(usize, u32)> = Vec::with_capacity(pieces.len());
    for part in parts {
        found.extend(part?);
    }
    found.sort_unstable();
    let lengths = pieces
        .iter()
        .map(|piece| (piece.end - piece.start) as usize);
    let combine = |sum: u32, ((_, crc32c), length)| crc32c::crc32c_combine(sum, crc32c, length);
    Ok(found.into_iter().zip(lengths).fold(0, combine))
}

fn plain(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 255
        && !name.starts_with('.')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// Returns the fault in the relations of increments and bases.
fn misfit_of_bases(manifest: &Manifest) -> Option<String> {
    let lacks_base =
        |shard: &&ShardRecord| shard.base.is_some() && manifest.base_of(shard).is_none();
    if let Some(shard) = manifest.shards.iter().find(lacks_base) {
        return Some(format!(
            "the base of `{}` is not listed",
            shard.file.escape_default()
        ));
    }
    let is_unused = |base: &&ShardRecord| manifest.increment_of(base).is_none();
    let unused = manifest.bases.iter().find(is_unused)?;
    Some(format!(
        "no increment is based on `{}`",
        unused.file.escape_default()
    ))
}

/// Checks that a path is a regular file, or a link to one, as tools make them that keep versions of data.
fn regular(path: &Path) -> Result<(), Error> {
    let metadata = std::fs::metadata(path).map_err(Error::io("find", path))?;
    if metadata.is_file() {
        Ok(())
    } else {
        Err(Error::damaged(path, "it is not a regular file"))
    }
}

impl Checkpoint {
    /// Opens the checkpoint in a folder: reads its manifest and checks every file's name, kind and size, and that
    /// every tensor lies within its file.
    ///
    /// # Errors
    /// A file is missing or damaged, or does not match the manifest.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::open_unreplaced(path, |manifest| match misfit_of_bases(manifest) {
            Some(what) => Err(Error::damaged(&path.join(MANIFEST), what)),
            None => Ok(()),
        })
    }

    /// Opens a published cut in a folder, as [`Checkpoint::open`] does. The base of an increment is in another folder: of an
    /// increment, only [`Checkpoint::changes`] may be read.
    ///
    /// # Errors
    /// As [`Checkpoint::open`].
    pub fn open_cut(path: &Path) -> Result<Self, Error> {
        Self::open_unreplaced(path, |_| Ok(()))
    }

    /// Opens the files of one save. A later save of the same step may take the place of the folder between the manifest and the
    /// files; files that are open outlive that.
    fn open_unreplaced(
        path: &Path,
        check: impl Fn(&Manifest) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let mut tries = OPEN_TRIES;
        loop {
            let before = folder_identity(path);
            let opened = manifest_file::read(path).and_then(|manifest| {
                check(&manifest)?;
                Self::open_files(path, manifest)
            });
            tries -= 1;
            if tries == 0 || before == folder_identity(path) {
                return opened;
            }
        }
    }

    fn open_files(path: &Path, manifest: Manifest) -> Result<Self, Error> {
        let manifest_path = path.join(MANIFEST);
        let mut files = BTreeMap::new();
        let storage = Storage::default();
        for shard in manifest.files() {
            if !plain(&shard.file) {
                return Err(Error::damaged(
                    &manifest_path,
                    format!("file name `{}` is not plain", shard.file.escape_default()),
                ));
            }
            let file_path = path.join(&shard.file);
            let file = if is_remote(path) {
                storage.open(&file_path).map_err(|source| {
                    match trainyard_storage::Error::of(&source) {
                        Some(trainyard_storage::Error::Missing { .. }) => {
                            Error::damaged(&file_path, "it does not exist")
                        }
                        _ => Error::io("open", &file_path)(source),
                    }
                })?
            } else {
                regular(&file_path)?;
                storage
                    .open(&file_path)
                    .map_err(Error::io("open", &file_path))?
            };
            let length = file.bytes().map_err(Error::io("find", &file_path))?;
            if length != shard.bytes {
                return Err(Error::damaged(
                    &file_path,
                    format!("{length} bytes, expected {}", shard.bytes),
                ));
            }
            for tensor in &shard.tensors {
                if let Some(what) = misfit(tensor) {
                    return Err(Error::damaged(
                        &manifest_path,
                        format!("tensor `{}`: {what}", tensor.name),
                    ));
                }
                let range = tensor.row_end.checked_sub(tensor.row_begin);
                let rows = range.map(|range| tensor.held.as_ref().map_or(range, |held| held.rows));
                let end = rows.and_then(|rows| rows.checked_mul(tensor.width));
                let end = end
                    .and_then(|values| values.checked_mul(tensor.dtype.bytes()))
                    .and_then(|bytes| tensor.offset.checked_add(bytes as u64));
                if end.is_none_or(|end| end > shard.bytes) {
                    return Err(Error::damaged(
                        &manifest_path,
                        format!("tensor `{}` lies outside its file", tensor.name),
                    ));
                }
            }
            files.insert(shard.file.clone(), file);
        }
        Ok(Self {
            path: path.to_owned(),
            manifest,
            files,
            runs_read: RunsRead::default(),
            parts_read: PartsRead::default(),
        })
    }

    /// Returns the folder of the checkpoint.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the checkpoint is in an object store.
    pub fn is_remote(&self) -> bool {
        is_remote(&self.path)
    }

    /// Returns the manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Reads every byte and compares every checksum.
    ///
    /// # Errors
    /// The first file and tensor that differ, with the expected and the found checksum. A file cannot be read.
    pub fn verify(&self) -> Result<(), Error> {
        self.verify_headers()?;
        for shard in self.manifest.files() {
            for tensor in &shard.tensors {
                self.verify_tensor(shard, tensor)?;
            }
        }
        Ok(())
    }

    /// Reads the bytes before the tensors of each file and compares their checksum. No restore reads these bytes.
    pub(crate) fn verify_headers(&self) -> Result<(), Error> {
        for shard in self.manifest.files() {
            let front = shard
                .tensors
                .iter()
                .map(|tensor| tensor.offset)
                .min()
                .unwrap_or(shard.bytes);
            let found = self.checksum_of(shard, 0..front)?;
            if found != shard.header_crc32c {
                return Err(self.differs(shard, "header at byte 0", found, shard.header_crc32c));
            }
        }
        Ok(())
    }

    /// Reads every byte of a tensor and compares its checksum.
    pub(crate) fn verify_tensor(
        &self,
        shard: &ShardRecord,
        tensor: &TensorRecord,
    ) -> Result<(), Error> {
        let found = self.checksum_of(shard, tensor.offset..tensor.offset + tensor.bytes())?;
        self.agree(shard, tensor, found)
    }

    /// Compares the computed checksum of a tensor with the checksum in its record.
    pub(crate) fn agree(
        &self,
        shard: &ShardRecord,
        tensor: &TensorRecord,
        found: u32,
    ) -> Result<(), Error> {
        if found == tensor.crc32c {
            return Ok(());
        }
        let place = format!("{} at byte {}", tensor.name, tensor.offset);
        Err(self.differs(shard, &place, found, tensor.crc32c))
    }

    fn differs(&self, shard: &ShardRecord, place: &str, found: u32, expected: u32) -> Error {
        let what = format!("{place}: crc32c {found:08x}, expected {expected:08x}");
        Error::damaged(&self.path.join(&shard.file), what)
    }

    fn checksum_of(&self, shard: &ShardRecord, bytes: Range<u64>) -> Result<u32, Error> {
        let file = self.file(&shard.file)?;
        let found = if file.is_remote() {
            // The storage already fetches parts of an object concurrently.
            checksum(file, bytes, VERIFY_REMOTE_BYTES)
        } else {
            checksum_side_by_side(file, bytes)
        };
        found.map_err(Error::io("read", &self.path.join(&shard.file)))
    }

    fn file(&self, name: &str) -> Result<&File, Error> {
        self.files
            .get(name)
            .ok_or_else(|| Error::damaged(&self.path, format!("file `{name}` is not open")))
    }

    pub(crate) fn runs_read(&self) -> &RunsRead {
        &self.runs_read
    }

    pub(crate) fn parts_read(&self) -> &PartsRead {
        &self.parts_read
    }

    /// Reads bytes of a tensor, from its row `row` on.
    pub(crate) fn read_tensor(
        &self,
        shard: &ShardRecord,
        tensor: &TensorRecord,
        row: usize,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let begin = (row * tensor.width * tensor.dtype.bytes()) as u64;
        let path = self.path.join(&shard.file);
        let file = self.file(&shard.file)?;
        file.read_exact_at(tensor.offset + begin, out)
            .map_err(Error::io("read", &path))?;
        self.parts_read.add(shard, tensor, begin, out);
        Ok(())
    }

    /// Reads a whole variable. It must not be a dynamic table.
    ///
    /// # Errors
    /// As [`Checkpoint::read_rows`].
    pub fn read(&self, variable: &str) -> Result<Vec<f32>, Error> {
        let spec = self
            .manifest
            .variables
            .iter()
            .find(|spec| spec.name == variable);
        let (rows, len) = spec.map_or((1, 0), |spec| (spec.rows(), spec.len()));
        let mut out = vec![0.0; len];
        self.read_rows(variable, None, 0..rows, &mut out)?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_the_same_whoever_reads_which_part() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("bytes");
        let bytes: Vec<u8> = (0..(3 * PIECE_BYTES + 77))
            .map(|place| ((place * place) >> 7) as u8)
            .collect();
        std::fs::write(&path, &bytes).expect("they are written");
        let file = Storage::default().open(&path).expect("it is opened");
        for range in [
            0..bytes.len(),
            5..bytes.len() - 3,
            9..9,
            0..1,
            1..PIECE_BYTES as usize + 1,
        ] {
            let within = range.start as u64..range.end as u64;
            let expected = crc32c::crc32c(&bytes[range]);
            assert_eq!(
                checksum_side_by_side(&file, within.clone()).expect("it is read"),
                expected
            );
            assert_eq!(checksum(&file, within, 1000).expect("it is read"), expected);
        }
        let beyond = 0..bytes.len() as u64 + 1;
        checksum_side_by_side(&file, beyond).expect_err("there are no more");
    }
}
