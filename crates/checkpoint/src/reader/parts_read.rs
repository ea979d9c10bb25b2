//! Checksums of the parts of a checkpoint that were read, and their comparison with the manifest.
//!
//! Reading gigabytes twice, once to verify and once to restore, takes twice as long. So every reader of a tensor keeps
//! the checksums of the bytes that it has read. The checksums of adjacent parts are combined. If the parts of all
//! readers cover a tensor, the combination is the checksum of the tensor.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crate::manifest::{ShardRecord, TensorRecord};
use crate::{Checkpoint, Error};

/// A part of a tensor that was read: consecutive bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartRead {
    /// Name of the file.
    pub file: String,
    /// Name of the tensor in it.
    pub tensor: String,
    /// Bytes of the tensor, counted from its first.
    pub bytes: Range<u64>,
    /// CRC-32C of the bytes that were read.
    pub crc32c: u32,
}

/// Parts of one tensor, none of them adjacent: by first byte, one past the last byte and the checksum.
#[derive(Debug, Default)]
struct Parts(BTreeMap<u64, (u64, u32)>);

impl Parts {
    /// Adds a part, and joins it with adjacent parts. A part that overlaps an earlier one is ignored.
    fn add(&mut self, bytes: Range<u64>, crc32c: u32) {
        if bytes.is_empty() {
            return;
        }
        let before = self
            .0
            .range(..=bytes.start)
            .next_back()
            .map(|(begin, part)| (*begin, *part));
        let overlaps = before.is_some_and(|(_, (end, _))| end > bytes.start)
            || self.0.range(bytes.clone()).next().is_some();
        if overlaps {
            return;
        }
        let mut begin = bytes.start;
        let mut end = bytes.end;
        let mut crc32c = crc32c;
        if let Some((first, (_, front))) = before.filter(|(_, (end, _))| *end == begin) {
            crc32c = crc32c::crc32c_combine(front, crc32c, (end - begin) as usize);
            begin = first;
        }
        if let Some((last, rest)) = self.0.remove(&end) {
            crc32c = crc32c::crc32c_combine(crc32c, rest, (last - end) as usize);
            end = last;
        }
        self.0.insert(begin, (end, crc32c));
    }

    /// Returns the checksum of a tensor, if all of its bytes were read.
    fn whole(&self, tensor: &TensorRecord) -> Option<u32> {
        let (end, crc32c) = self.0.get(&0)?;
        (*end == tensor.bytes()).then_some(*crc32c)
    }
}

/// All parts of a checkpoint that were read, by file and name of the tensor.
#[derive(Debug, Default)]
pub(crate) struct PartsRead(Mutex<BTreeMap<(String, String), Parts>>);

impl PartsRead {
    /// Records bytes of a tensor that were read from byte `begin` on.
    pub(crate) fn add(&self, shard: &ShardRecord, tensor: &TensorRecord, begin: u64, read: &[u8]) {
        let crc32c = crc32c::crc32c(read);
        let key = (shard.file.clone(), tensor.name.clone());
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parts
            .entry(key)
            .or_default()
            .add(begin..begin + read.len() as u64, crc32c);
    }
}

impl Checkpoint {
    /// Compares the checksums of all tensors that were read completely. Returns the parts of the other tensors: other
    /// readers have the rest, see [`Checkpoint::check_parts`].
    ///
    /// # Errors
    /// The first tensor that differs, with the expected and the found checksum.
    pub fn check_read(&self) -> Result<Vec<PartRead>, Error> {
        let read = self
            .parts_read()
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut rest = Vec::new();
        for ((file, name), parts) in &*read {
            let Some((shard, tensor)) = self.tensor_of(file, name) else {
                continue;
            };
            if let Some(found) = parts.whole(tensor) {
                self.agree(shard, tensor, found)?;
                continue;
            }
            rest.extend(parts.0.iter().map(|(begin, (end, crc32c))| PartRead {
                file: file.clone(),
                tensor: name.clone(),
                bytes: *begin..*end,
                crc32c: *crc32c,
            }));
        }
        Ok(rest)
    }

    /// Compares the checksums of tensors whose parts several readers have read. If parts of a tensor are missing, the
    /// whole tensor is read and verified.
    ///
    /// # Errors
    /// The first tensor that differs, with the expected and the found checksum; a file cannot be read.
    pub fn check_parts(&self, read: Vec<PartRead>) -> Result<(), Error> {
        let mut tensors: BTreeMap<(String, String), Parts> = BTreeMap::new();
        for part in read {
            tensors
                .entry((part.file, part.tensor))
                .or_default()
                .add(part.bytes, part.crc32c);
        }
        for ((file, name), parts) in tensors {
            let Some((shard, tensor)) = self.tensor_of(&file, &name) else {
                continue;
            };
            match parts.whole(tensor) {
                Some(found) => self.agree(shard, tensor, found)?,
                None => self.verify_tensor(shard, tensor)?,
            }
        }
        Ok(())
    }

    fn tensor_of(&self, file: &str, name: &str) -> Option<(&ShardRecord, &TensorRecord)> {
        let shard = self.manifest().files().find(|shard| shard.file == file)?;
        let tensor = shard.tensors.iter().find(|tensor| tensor.name == name)?;
        Some((shard, tensor))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_in_any_order_combine_to_the_checksum_of_the_whole(
            bytes in prop::collection::vec(any::<u8>(), 1..400),
            cuts in prop::collection::btree_set(1_usize..400, 0..20),
            order in prop::collection::vec(any::<u32>(), 21),
        ) {
            let ends = cuts.into_iter().filter(|cut| *cut < bytes.len()).chain([bytes.len()]);
            let mut begin = 0;
            let mut parts: Vec<Range<usize>> = Vec::new();
            for end in ends {
                parts.push(begin..end);
                begin = end;
            }
            let mut parts: Vec<(u32, Range<usize>)> = order.into_iter().zip(parts).collect();
            parts.sort_by_key(|(place, _)| *place);
            let mut read = Parts::default();
            for (_, part) in &parts {
                prop_assert_ne!(read.0.get(&0).map(|(end, _)| *end), Some(bytes.len() as u64));
                read.add(part.start as u64..part.end as u64, crc32c::crc32c(&bytes[part.clone()]));
                // A part that was read before is ignored.
                read.add(part.start as u64..part.end as u64, 1);
            }
            prop_assert_eq!(read.0.len(), 1);
            prop_assert_eq!(read.0.get(&0), Some(&(bytes.len() as u64, crc32c::crc32c(&bytes))));
        }
    }
}
