//! Writer of checkpoints: tensors of numbers as a stream of bytes, so that no tensor is in memory as a whole.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use prost::Message as _;

use super::ordered_code::slice_key;
use super::prefix::{index_path, shard_path};
use super::table_writer::table;
use crate::generated::bundle_header_proto::Endianness;
use crate::generated::tensor_shape_proto::Dim;
use crate::generated::tensor_slice_proto::Extent;
use crate::generated::{
    BundleEntryProto, BundleHeaderProto, DataType, TensorShapeProto, TensorSliceProto, VersionDef,
};
use crate::tfrecord::mask;

/// Version of the format that is written (`kTensorBundleVersion`).
const VERSION: i32 = 1;

/// A checkpoint that cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A file operation failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The operation: `create` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: std::io::Error,
    },
    /// The caller has given another number of bytes than the tensors have.
    #[error("the tensors of {} have {wanted} bytes, given {given}", prefix.display())]
    Length {
        /// The prefix of the files.
        prefix: PathBuf,
        /// Bytes of all tensors.
        wanted: u64,
        /// Bytes that were given.
        given: u64,
    },
}

fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> WriteError {
    let path = path.to_owned();
    move |source| WriteError::Io {
        action,
        path,
        source,
    }
}

/// Name, type and shape of a tensor that is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSpec {
    /// Name, unique in the checkpoint.
    pub name: String,
    /// Type of the elements, with a fixed width.
    pub dtype: DataType,
    /// Size of each dimension.
    pub shape: Vec<usize>,
}

impl TensorSpec {
    fn element_bytes(&self) -> u64 {
        match self.dtype {
            DataType::DtInt64 | DataType::DtUint64 | DataType::DtDouble => 8,
            DataType::DtFloat | DataType::DtInt32 | DataType::DtUint32 => 4,
            DataType::DtBfloat16 | DataType::DtHalf | DataType::DtInt16 | DataType::DtUint16 => 2,
            DataType::DtBool | DataType::DtUint8 | DataType::DtInt8 => 1,
            DataType::DtInvalid | DataType::DtString | DataType::DtResource => 0,
        }
    }

    /// Returns the bytes of a row: of all elements with one index in the first dimension.
    fn row_bytes(&self) -> u64 {
        let width: u64 = self.shape.iter().skip(1).map(|size| *size as u64).product();
        width * self.element_bytes()
    }

    fn rows(&self) -> u64 {
        self.shape.first().map_or(1, |rows| *rows as u64)
    }

    fn shape_proto(&self) -> TensorShapeProto {
        let dim = |size: &usize| Dim { size: *size as i64 };
        TensorShapeProto {
            dim: self.shape.iter().map(dim).collect(),
            unknown_rank: false,
        }
    }
}

/// Rows of a tensor that lie in one data file, end to end.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    tensor: usize,
    first_row: u64,
    rows: u64,
    shard: usize,
    offset: u64,
    bytes: u64,
}

/// A checkpoint that is being written. The bytes of all tensors are given in the order of the tensors.
///
/// A data file holds at most `shard_bytes`, unless a single row has more. A tensor that exceeds it is divided into
/// slices of rows, as a partitioned variable is. [`BundleWriter::finish`] writes the index last: without it, there is
/// no checkpoint.
#[derive(Debug)]
pub struct BundleWriter {
    prefix: PathBuf,
    tensors: Vec<TensorSpec>,
    pieces: Vec<Piece>,
    shards: usize,
    file: Option<(usize, File)>,
    /// The piece that the next byte belongs to, the bytes of it that are written, and their checksum.
    piece: usize,
    written: u64,
    crc32c: u32,
    checksums: Vec<u32>,
    given: u64,
}

impl BundleWriter {
    /// Begins a checkpoint with this prefix, such as `variables/variables`.
    pub fn new(prefix: &Path, tensors: Vec<TensorSpec>, shard_bytes: u64) -> Self {
        let pieces = plan(&tensors, shard_bytes.max(1));
        Self {
            prefix: prefix.to_owned(),
            tensors,
            shards: pieces.last().map_or(0, |piece| piece.shard) + 1,
            pieces,
            file: None,
            piece: 0,
            written: 0,
            crc32c: 0,
            checksums: Vec::new(),
            given: 0,
        }
    }

    /// Appends bytes, little-endian.
    ///
    /// # Errors
    /// A file cannot be written, or all tensors are complete.
    pub fn append(&mut self, mut bytes: &[u8]) -> Result<(), WriteError> {
        while !bytes.is_empty() {
            self.pass_complete();
            let Some(piece) = self.pieces.get(self.piece).cloned() else {
                return Err(self.wrong_length(self.given + bytes.len() as u64));
            };
            let room = usize::try_from(piece.bytes - self.written).unwrap_or(usize::MAX);
            let (part, rest) = bytes.split_at(room.min(bytes.len()));
            let path = shard_path(&self.prefix, piece.shard, self.shards);
            let file = self.shard(piece.shard)?;
            file.write_all(part).map_err(io("write", &path))?;
            self.crc32c = crc32c::crc32c_append(self.crc32c, part);
            self.written += part.len() as u64;
            self.given += part.len() as u64;
            bytes = rest;
        }
        Ok(())
    }

    /// Writes the index.
    ///
    /// # Errors
    /// A file cannot be written, or a tensor is not complete.
    pub fn finish(mut self) -> Result<(), WriteError> {
        self.pass_complete();
        if self.piece < self.pieces.len() {
            return Err(self.wrong_length(self.given));
        }
        // Tensors without elements may have written no file at all.
        self.shard(self.shards - 1)?;
        let path = index_path(&self.prefix);
        std::fs::write(&path, self.index()).map_err(io("write", &path))
    }

    /// Goes on to the first piece that has bytes left.
    fn pass_complete(&mut self) {
        while let Some(piece) = self.pieces.get(self.piece)
            && self.written == piece.bytes
        {
            self.checksums.push(mask(self.crc32c));
            self.piece += 1;
            self.written = 0;
            self.crc32c = 0;
        }
    }

    /// Returns the data file with this number, which is created if it is not the last one.
    fn shard(&mut self, shard: usize) -> Result<&mut File, WriteError> {
        if self.file.as_ref().is_none_or(|(open, _)| *open != shard) {
            let path = shard_path(&self.prefix, shard, self.shards);
            let file = File::create(&path).map_err(io("create", &path))?;
            self.file = Some((shard, file));
        }
        let (_, file) = self.file.as_mut().expect("it was opened above");
        Ok(file)
    }

    fn wrong_length(&self, given: u64) -> WriteError {
        WriteError::Length {
            prefix: self.prefix.clone(),
            wanted: self.pieces.iter().map(|piece| piece.bytes).sum(),
            given,
        }
    }

    fn index(&self) -> Vec<u8> {
        let header = BundleHeaderProto {
            num_shards: self.shards as i32,
            endianness: Endianness::Little.into(),
            version: Some(VersionDef {
                producer: VERSION,
                ..VersionDef::default()
            }),
        };
        let mut entries = BTreeMap::from([(Vec::new(), header.encode_to_vec())]);
        let mut pieces = self.pieces.iter().zip(&self.checksums).peekable();
        for (place, spec) in self.tensors.iter().enumerate() {
            let mut own = Vec::new();
            while let Some(next) = pieces.next_if(|(piece, _)| piece.tensor == place) {
                own.push(next);
            }
            let whole = BundleEntryProto {
                dtype: spec.dtype.into(),
                shape: Some(spec.shape_proto()),
                ..BundleEntryProto::default()
            };
            let entry = match own.as_slice() {
                [(piece, checksum)] => entry(whole, piece, **checksum),
                parts => {
                    let mut slices = Vec::new();
                    for (piece, checksum) in parts {
                        let slice = slice(piece, spec);
                        let mut part = whole.clone();
                        if let Some(rows) = part.shape.iter_mut().flat_map(|s| &mut s.dim).next() {
                            rows.size = piece.rows as i64;
                        }
                        let part = entry(part, piece, **checksum);
                        entries.insert(slice_key(&spec.name, &slice), part.encode_to_vec());
                        slices.push(slice);
                    }
                    BundleEntryProto { slices, ..whole }
                }
            };
            entries.insert(spec.name.clone().into_bytes(), entry.encode_to_vec());
        }
        table(&entries)
    }
}

fn entry(whole: BundleEntryProto, piece: &Piece, crc32c: u32) -> BundleEntryProto {
    BundleEntryProto {
        shard_id: piece.shard as i32,
        offset: piece.offset as i64,
        size: piece.bytes as i64,
        crc32c,
        ..whole
    }
}

fn slice(piece: &Piece, spec: &TensorSpec) -> TensorSliceProto {
    let rows = Extent {
        start: piece.first_row as i64,
        length: Some(piece.rows as i64),
    };
    // TensorFlow marks a whole dimension by the absence of a length.
    let whole = spec.shape.iter().skip(1).map(|_| Extent {
        start: 0,
        length: None,
    });
    TensorSliceProto {
        extent: [rows].into_iter().chain(whole).collect(),
    }
}

/// Returns the pieces of all tensors, in order.
fn plan(tensors: &[TensorSpec], shard_bytes: u64) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut shard = 0;
    let mut offset = 0;
    for (tensor, spec) in tensors.iter().enumerate() {
        let row_bytes = spec.row_bytes();
        let mut first_row = 0;
        loop {
            let left = spec.rows() - first_row;
            // A tensor that fits into a file of its own is not divided.
            let whole = first_row == 0 && left * row_bytes <= shard_bytes;
            if offset > 0 && left * row_bytes > shard_bytes.saturating_sub(offset) {
                shard += 1;
                offset = 0;
            }
            let rows = if whole {
                left
            } else {
                (shard_bytes / row_bytes.max(1)).clamp(1, left)
            };
            let bytes = rows * row_bytes;
            pieces.push(Piece {
                tensor,
                first_row,
                rows,
                shard,
                offset,
                bytes,
            });
            offset += bytes;
            first_row += rows;
            if first_row >= spec.rows() {
                break;
            }
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor_bundle::Bundle;

    fn spec(name: &str, dtype: DataType, shape: &[usize]) -> TensorSpec {
        TensorSpec {
            name: name.to_owned(),
            dtype,
            shape: shape.to_vec(),
        }
    }

    fn specs() -> Vec<TensorSpec> {
        vec![
            spec("step", DataType::DtInt64, &[]),
            spec("table", DataType::DtFloat, &[10, 3]),
            spec("none", DataType::DtFloat, &[0, 3]),
            spec("bias", DataType::DtFloat, &[5]),
        ]
    }

    #[test]
    fn a_bundle_reads_back_whole_or_in_slices_however_its_bytes_arrive() {
        let table: Vec<f32> = (0..30).map(|number| number as f32 / 7.0).collect();
        let bias = [1.0, -2.0, 3.5, 0.0, f32::MIN_POSITIVE];
        let floats = |values: &[f32]| -> Vec<u8> {
            values
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect()
        };
        let bytes = [42_i64.to_le_bytes().to_vec(), floats(&table), floats(&bias)].concat();
        for (shard_bytes, shards) in [(1 << 30, 1), (120, 3), (40, 5), (1, 16)] {
            for at_once in [1, 7, bytes.len()] {
                let folder = tempfile::tempdir().expect("a folder");
                let prefix = folder.path().join("variables");
                let mut writer = BundleWriter::new(&prefix, specs(), shard_bytes);
                for part in bytes.chunks(at_once) {
                    writer.append(part).expect("it is written");
                }
                writer.finish().expect("it is complete");
                let files = std::fs::read_dir(folder.path()).expect("files").count();
                assert_eq!(files, shards + 1, "{shard_bytes}");
                let bundle = Bundle::open(&prefix).expect("a bundle");
                let mut read = vec![0.0; 30];
                bundle
                    .read_f32_rows("table", 0..10, &mut read)
                    .expect("rows");
                assert_eq!(read, table);
                let mut read = vec![0.0; 5];
                bundle.read_f32_rows("bias", 0..5, &mut read).expect("rows");
                assert_eq!(read, bias);
                let none = bundle.tensor("none").expect("it is listed");
                assert_eq!(none.shape, [0, 3]);
            }
        }
    }

    #[test]
    fn too_few_and_too_many_bytes_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let begin = || BundleWriter::new(&folder.path().join("v"), specs(), 1 << 30);
        let whole = 8 + 30 * 4 + 5 * 4;
        let mut few = begin();
        few.append(&vec![0; whole - 1]).expect("it is written");
        let error = few.finish().expect_err("a byte is missing").to_string();
        assert!(error.contains("148") && error.contains("147"), "{error}");
        let mut many = begin();
        let error = many.append(&vec![0; whole + 1]).expect_err("one too many");
        assert!(error.to_string().contains("149"), "{error}");
        assert!(!folder.path().join("v.index").exists());
    }
}
