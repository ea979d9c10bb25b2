//! Checked entries of the index.

use prost::Message as _;

use crate::generated::{BundleEntryProto, TensorShapeProto, TensorSliceProto};
use crate::tensor_bundle::DType;
use crate::tensor_bundle::region::Region;

/// Most dimensions (`TensorShape::MaxDimensions`).
const RANK_MAX: usize = 254;
/// Most slices of one tensor.
const SLICES_MAX: usize = 4096;

/// Entry of the index for one tensor or slice.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    pub(crate) shard: usize,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// Masked checksum, as stored.
    pub(crate) crc32c: u32,
    /// Slices of a partitioned tensor. Their values have keys of their own.
    pub(crate) slices: Vec<TensorSliceProto>,
}

impl Entry {
    /// Decodes the value of a key.
    pub(crate) fn decode(value: &[u8]) -> Result<Self, String> {
        let message = BundleEntryProto::decode(value)
            .map_err(|error| format!("its entry is no BundleEntryProto: {error}"))?;
        if message.slices.len() > SLICES_MAX {
            return Err(format!(
                "it has {} slices, at most {SLICES_MAX} are read",
                message.slices.len()
            ));
        }
        Ok(Self {
            dtype: DType::from_number(message.dtype),
            shape: shape(message.shape.unwrap_or_default())?,
            shard: natural("shard", message.shard_id.into())?,
            offset: natural("offset", message.offset)? as u64,
            bytes: natural("size", message.size)? as u64,
            crc32c: message.crc32c,
            slices: message.slices,
        })
    }
}

fn natural(what: &str, value: i64) -> Result<usize, String> {
    usize::try_from(value).map_err(|_| format!("its {what} is {value}, expected at least 0"))
}

fn shape(message: TensorShapeProto) -> Result<Vec<usize>, String> {
    if message.unknown_rank {
        return Err("its number of dimensions is unknown, expected a whole shape".to_owned());
    }
    if message.dim.len() > RANK_MAX {
        return Err(format!(
            "it has {} dimensions, at most {RANK_MAX} are read",
            message.dim.len()
        ));
    }
    message
        .dim
        .iter()
        .map(|dimension| natural("dimension", dimension.size))
        .collect()
}

/// Returns the part of a tensor of this shape that a slice covers.
pub(crate) fn region(slice: &TensorSliceProto, shape: &[usize]) -> Result<Region, String> {
    if slice.extent.len() != shape.len() {
        return Err(format!(
            "a slice has {} dimensions, expected {}",
            slice.extent.len(),
            shape.len()
        ));
    }
    let mut region = Region::whole(shape);
    let parts = region.starts.iter_mut().zip(&mut region.lengths);
    for (extent, (start, length)) in slice.extent.iter().zip(parts) {
        let whole = *length;
        *start = natural("slice's start", extent.start)?;
        if let Some(given) = extent.length {
            *length = natural("slice's length", given)?;
        }
        if start.checked_add(*length).is_none_or(|end| end > whole) {
            return Err(format!(
                "a slice of length {length} at {start} exceeds a dimension of {whole}"
            ));
        }
    }
    Ok(region)
}
