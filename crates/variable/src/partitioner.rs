//! Partitioners: the number of slices of a variable.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// A rule that cuts variables into slices along axis 0 (`tf.distribute.experimental.partitioners`). By default, slices
/// of at least 256 KiB, at most one for each parameter server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Partitioner {
    /// `FixedShardsPartitioner`.
    Fixed {
        /// Slices of every variable, at least 1, at most its rows.
        num_shards: usize,
    },
    /// `MinSizePartitioner`: as many slices as keep each at `min_shard_bytes` or more.
    MinSize {
        /// Least bytes of a slice, at least 1.
        min_shard_bytes: usize,
        /// Most slices, at least 1; none = the number of parameter servers.
        max_shards: Option<usize>,
    },
    /// `MaxSizePartitioner`: as few slices as keep each at `max_shard_bytes` or less.
    MaxSize {
        /// Most bytes of a slice, at least 1.
        max_shard_bytes: usize,
        /// Most slices, at least 1; none = no bound.
        max_shards: Option<usize>,
    },
}

impl Default for Partitioner {
    fn default() -> Self {
        Self::MinSize {
            min_shard_bytes: Self::MIN_SHARD_BYTES,
            max_shards: None,
        }
    }
}

impl Partitioner {
    /// TensorFlow's least size of a slice under `MinSizePartitioner`, in bytes.
    pub const MIN_SHARD_BYTES: usize = 256 << 10;

    /// Checks the bounds.
    ///
    /// # Errors
    /// A bound is 0, although the least is 1. The error is the name of the bound.
    pub fn validate(self) -> Result<(), &'static str> {
        let (first, second) = match self {
            Self::Fixed { num_shards } => (("num_shards", num_shards), None),
            Self::MinSize {
                min_shard_bytes,
                max_shards,
            } => (
                ("min_shard_bytes", min_shard_bytes),
                max_shards.map(|most| ("max_shards", most)),
            ),
            Self::MaxSize {
                max_shard_bytes,
                max_shards,
            } => (
                ("max_shard_bytes", max_shard_bytes),
                max_shards.map(|most| ("max_shards", most)),
            ),
        };
        match [Some(first), second]
            .into_iter()
            .flatten()
            .find(|(_, bound)| *bound == 0)
        {
            Some((name, _)) => Err(name),
            None => Ok(()),
        }
    }

    /// Returns the number of slices of a variable of `rows` rows of `row_bytes` bytes, on `num_ps` servers: at least 1,
    /// at most `rows`. A variable without rows or without values is one slice.
    pub fn num_slices(self, rows: usize, row_bytes: usize, num_ps: usize) -> usize {
        if rows == 0 || row_bytes == 0 {
            return 1;
        }
        let slices = match self {
            Self::Fixed { num_shards } => num_shards,
            Self::MinSize {
                min_shard_bytes,
                max_shards,
            } => (rows * row_bytes)
                .div_ceil(min_shard_bytes.max(1))
                .min(max_shards.unwrap_or(num_ps)),
            Self::MaxSize {
                max_shard_bytes,
                max_shards,
            } => {
                let rows_per_slice = (max_shard_bytes / row_bytes).max(1);
                rows.div_ceil(rows_per_slice)
                    .min(max_shards.unwrap_or(usize::MAX))
            }
        };
        slices.clamp(1, rows)
    }
}

/// Returns the rows of part `part` of `parts`: the first `rows mod parts` parts hold one row more.
pub(crate) fn part_rows(rows: usize, parts: usize, part: usize) -> Range<usize> {
    let each = rows / parts;
    let more = rows % parts;
    let begin = part * each + part.min(more);
    begin..begin + each + usize::from(part < more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_follow_tensorflow() {
        let table = [
            // rows, width, Fixed(2), Min(4,2), Min(4,10), Min(256K,16 ps), Max(4), Max(4,2), Max(1024)
            (6, 1, [2, 2, 6, 1, 6, 2, 1]),
            (10, 3, [2, 2, 10, 1, 10, 2, 1]),
            (1024, 1024, [2, 2, 10, 16, 1024, 2, 1024]),
            (7, 1, [2, 2, 7, 1, 7, 2, 1]),
        ];
        for (rows, width, expected) in table {
            let rules = [
                Partitioner::Fixed { num_shards: 2 },
                Partitioner::MinSize {
                    min_shard_bytes: 4,
                    max_shards: Some(2),
                },
                Partitioner::MinSize {
                    min_shard_bytes: 4,
                    max_shards: Some(10),
                },
                Partitioner::MinSize {
                    min_shard_bytes: 256 << 10,
                    max_shards: None,
                },
                Partitioner::MaxSize {
                    max_shard_bytes: 4,
                    max_shards: None,
                },
                Partitioner::MaxSize {
                    max_shard_bytes: 4,
                    max_shards: Some(2),
                },
                Partitioner::MaxSize {
                    max_shard_bytes: 1024,
                    max_shards: None,
                },
            ];
            assert_eq!(
                rules.map(|rule| rule.num_slices(rows, width * 4, 16)),
                expected,
                "[{rows}, {width}]"
            );
        }
    }

    #[test]
    fn first_parts_hold_the_odd_rows() {
        let lengths: Vec<usize> = (0..5).map(|part| part_rows(13, 5, part).len()).collect();
        assert_eq!(lengths, [3, 3, 3, 2, 2]);
        assert_eq!(part_rows(13, 5, 4).end, 13);
    }
}
