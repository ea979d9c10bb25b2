//! `crossed_column`: one id for each combination of values (`sparse_cross_hashed`).

use trainyard_input::{Batch, Cells, RowRule};

use crate::fingerprint::fingerprint64;
use crate::ids::{Raw, UNKNOWN};
use crate::weights::Count;

/// TensorFlow's default hash key.
pub const CROSS_HASH_KEY: u64 = 0x00DE_CAFC_AFFE;

/// Combines two fingerprints into one (`FingerprintCat64`, `tensorflow/core/platform/fingerprint.h`).
#[inline]
pub fn fingerprint_concatenate(first: u64, second: u64) -> u64 {
    const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
    let shift_mix = |x: u64| x ^ (x >> 47);
    let mut result = first ^ MULTIPLIER;
    result ^= shift_mix(second.wrapping_mul(MULTIPLIER)).wrapping_mul(MULTIPLIER);
    result = result.wrapping_mul(MULTIPLIER);
    result = shift_mix(result).wrapping_mul(MULTIPLIER);
    shift_mix(result)
}

/// One key of a cross.
#[derive(Debug, Clone)]
pub(crate) enum Key {
    /// The values of a field: hashes of texts, or whole numbers.
    Field(usize),
    /// The ids of another categorical feature.
    Ids(usize),
}

/// A crossed column: the ids of combinations.
#[derive(Debug, Clone)]
pub(crate) struct Crossed {
    pub(crate) keys: Vec<Key>,
    pub(crate) hash_key: u64,
    pub(crate) buckets: u32,
}

/// Most combinations that a cross makes of a row.
const COMBINATIONS_MAX: usize = 1 << 20;

/// The rule that the lists of a row have a bounded number of combinations: two lists of some kilobytes have billions.
#[derive(Debug)]
pub(crate) struct CombinationsBounded {
    /// Numbers whose product is the number of combinations.
    pub(crate) counts: Vec<Count>,
}

impl RowRule for CombinationsBounded {
    fn check(&self, batch: &Batch, row: usize) -> Result<(), String> {
        let made = self.values_made(batch, row);
        if made <= COMBINATIONS_MAX {
            return Ok(());
        }
        Err(format!(
            "a cross may make at most {COMBINATIONS_MAX} combinations of the lists of a row, given lists of {made}"
        ))
    }

    fn values_made(&self, batch: &Batch, row: usize) -> usize {
        Count::combinations(&self.counts, batch, row)
    }
}

/// A row of a batch, with the ids of the categorical features that are keys.
#[derive(Clone, Copy)]
struct CrossedRow<'a> {
    batch: &'a Batch,
    features: &'a [Raw],
    row: usize,
}

impl Crossed {
    /// Appends the ids of a batch. `features` holds the ids of the categorical features that are keys.
    pub(crate) fn ids(&self, batch: &Batch, features: &[Raw], out: &mut Raw) {
        // TensorFlow hashes sparse keys (ids, fields of variable length) before dense keys, each in the given order.
        let sparse = |key: &&Key| match key {
            Key::Ids(_) => true,
            Key::Field(field) => batch.columns[*field].offsets.is_some(),
        };
        let keys: Vec<&Key> = self
            .keys
            .iter()
            .filter(sparse)
            .chain(self.keys.iter().filter(|key| !sparse(key)))
            .collect();
        for row in 0..batch.rows {
            let row = CrossedRow {
                batch,
                features,
                row,
            };
            self.combine(&row, &keys, self.hash_key, out);
            out.end_row();
        }
    }

    /// Visits the combinations of a row. The last key varies fastest.
    fn combine(&self, crossed: &CrossedRow<'_>, keys: &[&Key], hash: u64, out: &mut Raw) {
        let CrossedRow {
            batch,
            features,
            row,
        } = *crossed;
        let Some((key, keys)) = keys.split_first() else {
            out.push((hash % u64::from(self.buckets)) as u32);
            return;
        };
        let mut go = |value: u64| {
            self.combine(crossed, keys, fingerprint_concatenate(hash, value), out);
        };
        match **key {
            Key::Ids(feature) => features[feature].row(row).iter().for_each(|id| {
                go(if *id == UNKNOWN {
                    u64::MAX
                } else {
                    u64::from(*id)
                })
            }),
            Key::Field(field) => {
                let column = &batch.columns[field];
                let places = column.row(row, batch.rows);
                match &column.cells {
                    Cells::Bytes(texts) => {
                        places.for_each(|place| go(fingerprint64(texts.get(place))))
                    }
                    Cells::Int(numbers) => {
                        numbers[places].iter().for_each(|number| go(*number as u64))
                    }
                    Cells::Float(numbers) => numbers[places]
                        .iter()
                        .for_each(|number| go(*number as i64 as u64)),
                }
            }
        }
    }
}
