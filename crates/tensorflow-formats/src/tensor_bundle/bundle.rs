//! An opened checkpoint.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use prost::Message as _;

use crate::generated::BundleHeaderProto;
use crate::tensor_bundle::byte_order::ByteOrder;
use crate::tensor_bundle::error::shown;
use crate::tensor_bundle::prefix::{index_path, read_file, resolve, shard_path};
use crate::tensor_bundle::shard::Shard;
use crate::tensor_bundle::stored::Stored;
use crate::tensor_bundle::table;
use crate::tensor_bundle::{Error, TensorInfo};

/// Largest index file, in bytes.
const INDEX_BYTES_MAX: u64 = 128 << 20;
/// Most data files. Their numbers have five digits.
const SHARDS_MAX: i32 = 99_999;
/// Version of the format that this crate reads (`kTensorBundleVersion`).
const VERSION: i32 = 1;
/// Key of the header.
const HEADER_KEY: &[u8] = b"";
/// First key of a name. Smaller keys belong to the header and to slices.
const FIRST_NAME: [u8; 1] = [1];

/// A TensorFlow checkpoint whose index was read and checked. Values stay on disk until they are read.
#[derive(Debug)]
pub struct Bundle {
    prefix: PathBuf,
    pub(crate) index: PathBuf,
    pub(crate) order: ByteOrder,
    pub(crate) shards: Vec<Shard>,
    pub(crate) tensors: BTreeMap<String, Stored>,
}

impl Bundle {
    /// Opens a checkpoint by its prefix (`model.ckpt-30`), by its index file (`model.ckpt-30.index`), or by a folder
    /// with a state file `checkpoint`, whose `model_checkpoint_path` is followed.
    ///
    /// Checks the whole index: checksums, version, existence of every data file, values of every tensor within these
    /// files, and exact coverage of every partitioned variable by its slices.
    ///
    /// # Errors
    /// A file is missing, damaged, over a limit, or of an unsupported format.
    pub fn open(prefix: &Path) -> Result<Self, Error> {
        let prefix = resolve(prefix)?;
        let index = index_path(&prefix);
        let file = read_file(&index, INDEX_BYTES_MAX)?;
        let mut entries = table::entries(&index, &file)?;
        let header = header(&index, entries.remove(HEADER_KEY))?;
        let order = byte_order(&index, &header)?;
        let shards = shards(&index, &prefix, &header)?;
        let named = entries.split_off(FIRST_NAME.as_slice());
        let mut slices = entries;
        let mut tensors = BTreeMap::new();
        for (key, value) in named {
            let name = String::from_utf8(key).map_err(|error| {
                Error::damaged(
                    &index,
                    format!(
                        "the name `{}` is not UTF-8",
                        error.as_bytes().escape_ascii()
                    ),
                )
            })?;
            let assembled = Stored::assemble(name.clone(), &value, &mut slices, &shards);
            let stored = assembled.map_err(|what| {
                Error::damaged(&index, format!("tensor `{}`: {what}", shown(&name)))
            })?;
            tensors.insert(name, stored);
        }
        Ok(Self {
            prefix,
            index,
            order,
            shards,
            tensors,
        })
    }

    /// Returns the prefix that was opened, such as `model_dir/model.ckpt-30`.
    pub fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// Returns all tensors in the byte order of their names. A partitioned variable is one tensor.
    pub fn tensors(&self) -> impl Iterator<Item = &TensorInfo> {
        self.tensors.values().map(|stored| &stored.info)
    }

    /// Returns the tensor of this name, if there is one.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(name).map(|stored| &stored.info)
    }
}

fn header(index: &Path, value: Option<Vec<u8>>) -> Result<BundleHeaderProto, Error> {
    let Some(value) = value else {
        return Err(Error::damaged(
            index,
            "it has no header, expected an entry with an empty key",
        ));
    };
    let header = BundleHeaderProto::decode(value.as_slice()).map_err(|error| {
        Error::damaged(
            index,
            format!("its header is no BundleHeaderProto: {error}"),
        )
    })?;
    let version = header.version.clone().unwrap_or_default();
    if version.min_consumer > VERSION || version.bad_consumers.contains(&VERSION) {
        return Err(Error::unsupported(
            index,
            format!(
                "format version {} of it asks for readers of version {} or higher and not one of {:?}, this is one of \
                 version {VERSION}",
                version.producer,
                version.min_consumer,
                version
                    .bad_consumers
                    .get(..8)
                    .unwrap_or(&version.bad_consumers)
            ),
        ));
    }
    if version.producer < 0 {
        return Err(Error::damaged(
            index,
            format!(
                "its format version is {}, expected at least 0",
                version.producer
            ),
        ));
    }
    Ok(header)
}

fn byte_order(index: &Path, header: &BundleHeaderProto) -> Result<ByteOrder, Error> {
    ByteOrder::from_header(header.endianness).ok_or_else(|| {
        let what = format!(
            "its endianness is {}, expected 0 (little) or 1 (big)",
            header.endianness
        );
        Error::unsupported(index, what)
    })
}

fn shards(index: &Path, prefix: &Path, header: &BundleHeaderProto) -> Result<Vec<Shard>, Error> {
    let count = header.num_shards;
    if !(1..=SHARDS_MAX).contains(&count) {
        return Err(Error::damaged(
            index,
            format!("{count} data files, expected 1 to {SHARDS_MAX}"),
        ));
    }
    let count = count as usize;
    (0..count)
        .map(|shard| Shard::find(shard_path(prefix, shard, count)))
        .collect()
}
