//! A tensor and the location of its values.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use crate::tfrecord::unmasked;

use crate::tensor_bundle::entry::{Entry, region};
use crate::tensor_bundle::ordered_code::slice_key;
use crate::tensor_bundle::piece::Piece;
use crate::tensor_bundle::region::{Region, check_tiles, strides};
use crate::tensor_bundle::shard::Shard;
use crate::tensor_bundle::{DType, TensorInfo};

/// Bytes of the checksum between the lengths and the contents of strings.
const LENGTHS_CHECKSUM_BYTES: u64 = 4;

/// A tensor whose pieces lie within their files and cover each of its elements exactly once.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) info: TensorInfo,
    pub(crate) elements: usize,
    /// Strides of the dimensions, in elements.
    pub(crate) strides: Vec<usize>,
    pub(crate) pieces: Vec<Piece>,
}

/// Entries of slices by their encoded keys. Assembling a tensor removes those of its slices.
pub(crate) type SliceEntries = BTreeMap<Vec<u8>, Vec<u8>>;

impl Stored {
    /// Assembles a tensor from its entry and the entries of its slices.
    pub(crate) fn assemble(
        name: String,
        value: &[u8],
        slices: &mut SliceEntries,
        shards: &[Shard],
    ) -> Result<Self, String> {
        let entry = Entry::decode(value)?;
        let Some((strides, elements)) = strides(&entry.shape) else {
            return Err(format!("its shape {:?} has too many elements", entry.shape));
        };
        check_total(&entry, elements, shards)?;
        let mut pieces = Vec::new();
        if entry.slices.is_empty() {
            pieces.push(piece(&entry, Region::whole(&entry.shape), shards)?);
        }
        for slice in &entry.slices {
            let region = region(slice, &entry.shape)?;
            let Some(value) = slices.remove(&slice_key(&name, slice)) else {
                return Err(format!(
                    "the index has no entry of its slice at {:?}",
                    region.starts
                ));
            };
            let part = Entry::decode(&value)?;
            if part.dtype != entry.dtype || part.shape != region.lengths || !part.slices.is_empty()
            {
                return Err(format!(
                    "its slice at {:?} is {} {:?} in {} slices, expected {} {:?} in 0",
                    region.starts,
                    part.dtype,
                    part.shape,
                    part.slices.len(),
                    entry.dtype,
                    region.lengths
                ));
            }
            pieces.push(piece(&part, region, shards)?);
        }
        let mut regions: Vec<Region> = pieces.iter().map(|piece| piece.region.clone()).collect();
        check_tiles(&mut regions, elements)?;
        let info = TensorInfo {
            name,
            dtype: entry.dtype,
            shape: entry.shape,
            slices: entry.slices.len(),
        };
        Ok(Self {
            info,
            elements,
            strides,
            pieces,
        })
    }
}

/// Refuses a tensor that is larger than all data files, because slices could otherwise use the same bytes many times.
fn check_total(entry: &Entry, elements: usize, shards: &[Shard]) -> Result<(), String> {
    let Some(width) = entry.dtype.width() else {
        return Ok(());
    };
    let files = shards
        .iter()
        .fold(0_u64, |sum, shard| sum.saturating_add(shard.bytes));
    match (elements as u64).checked_mul(width as u64) {
        Some(bytes) if bytes <= files => Ok(()),
        _ => Err(format!(
            "{elements} elements of {width} bytes, its shape is {:?}, are more than the {files} bytes of all data files",
            entry.shape
        )),
    }
}

/// Checks that an entry's values lie within their file, and that their number matches the shape.
fn piece(entry: &Entry, region: Region, shards: &[Shard]) -> Result<Piece, String> {
    let Some(shard) = shards.get(entry.shard) else {
        return Err(format!(
            "it lies in data file {}, there are {}",
            entry.shard,
            shards.len()
        ));
    };
    let &Entry {
        shard: number,
        offset,
        bytes,
        crc32c,
        ..
    } = entry;
    if offset
        .checked_add(bytes)
        .is_none_or(|end| end > shard.bytes)
    {
        return Err(format!(
            "{bytes} bytes at byte {offset} lie outside of {}, which has {} bytes",
            shard.path.display(),
            shard.bytes
        ));
    }
    let elements = region.elements() as u64;
    if let Some(width) = entry.dtype.width()
        && elements.checked_mul(width as u64) != Some(bytes)
    {
        return Err(format!(
            "{bytes} bytes, expected {elements} elements of {width} bytes"
        ));
    }
    // Each string has a length of at least one byte. A tensor without strings may take no bytes.
    let least = if elements == 0 {
        Some(0)
    } else {
        elements.checked_add(LENGTHS_CHECKSUM_BYTES)
    };
    if entry.dtype == DType::String && least.is_none_or(|least| least > bytes) {
        return Err(format!("{bytes} bytes are too few for {elements} strings"));
    }
    let verified = AtomicBool::new(false);
    Ok(Piece {
        region,
        shard: number,
        offset,
        bytes,
        crc32c: unmasked(crc32c),
        verified,
    })
}
