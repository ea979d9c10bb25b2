//! Sparse gradients that workers exchange: indexed slices (`tf.IndexedSlices`), by lane.

use std::collections::BTreeSet;

use bytes::Bytes;
use trainyard_cluster_client::CountedIds;
use trainyard_variable::{Gradients, Read, Reads, VariableSpec, add_by_key, union_of_keys};

/// The rows and ids for which the batch of one lane has gradients.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SparsePart {
    pub(crate) lane: u32,
    pub(crate) reads: Reads,
    /// Ids that have read a shared row: they are counted and have no gradients.
    pub(crate) counted: Vec<CountedIds>,
    /// Gradients by variable; empty for variables that are held whole.
    pub(crate) gradients: Gradients,
}

/// The mean over the micro-batches of a step.
#[derive(Debug, PartialEq)]
pub(crate) struct MeanGradients {
    /// The variables, rows and ids that the step updates.
    pub(crate) reads: Reads,
    /// Ids that the step counts without gradients.
    pub(crate) counted: Vec<CountedIds>,
    /// The gradients of `reads`.
    pub(crate) gradients: Gradients,
}

/// Kinds of keys on the wire.
const ROWS: u32 = 1;
const IDS: u32 = 2;
/// Ids without values.
const COUNTED: u32 = 3;

/// Encodes parts as bytes, all numbers little-endian: the number of parts; for each part its lane and the number of its
/// variables; for each variable its number, the kind and number of its keys, the keys and the values. A table whose ids
/// are counted counts as a variable more, without values.
pub(crate) fn encode(parts: &[SparsePart]) -> Bytes {
    let mut out = Vec::new();
    let put =
        |out: &mut Vec<u8>, number: usize| out.extend_from_slice(&(number as u32).to_le_bytes());
    put(&mut out, parts.len());
    for part in parts {
        put(&mut out, part.lane as usize);
        let named = |read: &Read| matches!(read, Read::Rows(_) | Read::Ids(_));
        let chosen = part.reads.iter().zip(&part.gradients).enumerate();
        let chosen: Vec<_> = chosen
            .filter(|(_, (read, values))| named(read) && !values.is_empty())
            .collect();
        put(&mut out, chosen.len() + part.counted.len());
        for CountedIds { table, ids } in &part.counted {
            put(&mut out, *table);
            put(&mut out, COUNTED as usize);
            put(&mut out, ids.len());
            ids.iter()
                .for_each(|id| out.extend_from_slice(&id.to_le_bytes()));
        }
        for (variable, (read, values)) in chosen {
            put(&mut out, variable);
            match read {
                Read::Rows(rows) => {
                    put(&mut out, ROWS as usize);
                    put(&mut out, rows.len());
                    rows.iter()
                        .for_each(|row| out.extend_from_slice(&row.to_le_bytes()));
                }
                Read::Ids(ids) => {
                    put(&mut out, IDS as usize);
                    put(&mut out, ids.len());
                    ids.iter()
                        .for_each(|id| out.extend_from_slice(&id.to_le_bytes()));
                }
                Read::Nothing | Read::Whole => {}
            }
            values
                .iter()
                .for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
        }
    }
    out.into()
}

/// Decodes the bytes of [`encode`].
///
/// # Errors
/// The bytes are malformed. The message says in which way.
pub(crate) fn decode(bytes: &[u8], variables: &[VariableSpec]) -> Result<Vec<SparsePart>, String> {
    let mut rest = bytes;
    let parts = number(&mut rest)?;
    let mut out = Vec::new();
    for _ in 0..parts {
        let lane = number(&mut rest)?;
        let count = number(&mut rest)?;
        let mut part = SparsePart {
            lane,
            reads: vec![Read::Nothing; variables.len()],
            counted: Vec::new(),
            gradients: vec![Vec::new(); variables.len()],
        };
        for _ in 0..count {
            let place = number(&mut rest)? as usize;
            let spec = variables.get(place).ok_or_else(|| {
                format!(
                    "the number of a variable must be below {}, given {place}",
                    variables.len()
                )
            })?;
            let kind = number(&mut rest)?;
            let keys = number(&mut rest)? as usize;
            part.reads[place] = match kind {
                ROWS => Read::Rows(take(&mut rest, keys, u32::from_le_bytes)?.into()),
                IDS => Read::Ids(take(&mut rest, keys, u64::from_le_bytes)?.into()),
                COUNTED => {
                    part.counted.push(CountedIds {
                        table: place,
                        ids: take(&mut rest, keys, u64::from_le_bytes)?.into(),
                    });
                    continue;
                }
                other => {
                    return Err(format!(
                        "the kind of keys must be rows (1), ids (2) or counted ids (3), given {other}"
                    ));
                }
            };
            part.gradients[place] = take(&mut rest, keys * spec.width(), f32::from_le_bytes)?;
        }
        out.push(part);
    }
    match rest {
        [] => Ok(out),
        rest => Err(format!(
            "the message must end after its last part, given {} more bytes",
            rest.len()
        )),
    }
}

fn number(rest: &mut &[u8]) -> Result<u32, String> {
    take(rest, 1, u32::from_le_bytes).map(|numbers: Vec<u32>| numbers[0])
}

fn take<T, const N: usize>(
    rest: &mut &[u8],
    count: usize,
    read: impl Fn([u8; N]) -> T,
) -> Result<Vec<T>, String> {
    let bytes = count.checked_mul(N).filter(|bytes| *bytes <= rest.len());
    let Some(bytes) = bytes else {
        return Err(format!(
            "the message must have {count} more values of {N} bytes, given {} bytes",
            rest.len()
        ));
    };
    let (head, tail) = rest.split_at(bytes);
    *rest = tail;
    Ok(head
        .as_chunks::<N>()
        .0
        .iter()
        .map(|chunk| read(*chunk))
        .collect())
}

/// Sums parts in the order of their lanes, and multiplies the sums by `share`. Returns the rows and ids of all parts,
/// and the gradients.
pub(crate) fn merge(
    parts: &mut [&SparsePart],
    variables: &[VariableSpec],
    share: f32,
) -> MeanGradients {
    parts.sort_by_key(|part| part.lane);
    let mut reads = Vec::with_capacity(variables.len());
    let mut gradients = Vec::with_capacity(variables.len());
    // Variables that are read at the same rows in every part have the same rows in the sum, which are then stored once.
    let mut known: Vec<Read> = Vec::new();
    for (place, spec) in variables.iter().enumerate() {
        let named: Vec<&Read> = parts.iter().map(|part| &part.reads[place]).collect();
        let union = match named.iter().find(|read| !matches!(read, Read::Nothing)) {
            Some(Read::Rows(_)) => Read::Rows(
                union_of_keys(named.iter().filter_map(|read| match read {
                    Read::Rows(rows) => Some(&**rows),
                    _ => None,
                }))
                .into(),
            ),
            Some(Read::Ids(_)) => Read::Ids(
                union_of_keys(named.iter().filter_map(|read| match read {
                    Read::Ids(ids) => Some(&**ids),
                    _ => None,
                }))
                .into(),
            ),
            _ => Read::Nothing,
        };
        let union = shared(&mut known, union);
        let given = parts
            .iter()
            .map(|part| (&part.reads[place], part.gradients[place].as_slice()));
        let sums = match &union {
            Read::Rows(keys) => sum(
                keys,
                spec.width(),
                given.filter_map(|(read, values)| match read {
                    Read::Rows(rows) => Some((&**rows, values)),
                    _ => None,
                }),
            ),
            Read::Ids(keys) => sum(
                keys,
                spec.width(),
                given.filter_map(|(read, values)| match read {
                    Read::Ids(ids) => Some((&**ids, values)),
                    _ => None,
                }),
            ),
            Read::Nothing | Read::Whole => Vec::new(),
        };
        reads.push(union);
        gradients.push(sums.into_iter().map(|value| value * share).collect());
    }
    MeanGradients {
        counted: counted(parts, &reads),
        reads,
        gradients,
    }
}

/// Returns the ids that parts count. All parts have read the same values, so that none has a gradient of them.
fn counted(parts: &[&SparsePart], reads: &Reads) -> Vec<CountedIds> {
    let all = || parts.iter().flat_map(|part| &part.counted);
    let tables: BTreeSet<usize> = all().map(|counted| counted.table).collect();
    let of_table = |table: usize| {
        let named = all().filter(|counted| counted.table == table);
        let mut ids = union_of_keys(named.map(|counted| &*counted.ids));
        if let Read::Ids(with_gradient) = &reads[table] {
            ids.retain(|id| with_gradient.binary_search(id).is_err());
        }
        CountedIds {
            table,
            ids: ids.into(),
        }
    };
    tables.into_iter().map(of_table).collect()
}

/// Returns the copy of the same keys that an earlier variable has, if there is one.
fn shared(known: &mut Vec<Read>, union: Read) -> Read {
    match known.iter().find(|earlier| **earlier == union) {
        Some(same) => same.clone(),
        None => {
            known.push(union.clone());
            union
        }
    }
}

fn sum<'a, K: Ord + 'a>(
    keys: &[K],
    width: usize,
    parts: impl Iterator<Item = (&'a [K], &'a [f32])>,
) -> Vec<f32> {
    let mut sums = vec![0.0; keys.len() * width];
    parts.for_each(|(named, values)| add_by_key(keys, &mut sums, named, values, width));
    sums
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use trainyard_variable::{Access, DynamicTable, Initializer};

    use super::*;

    fn spec(shape: &[usize], access: Access) -> VariableSpec {
        let initializer = Initializer::Zeros;
        let optimizer_group = "g".to_owned();
        VariableSpec {
            name: "v".into(),
            shape: shape.into(),
            access,
            initializer,
            optimizer_group,
        }
    }

    fn variables() -> Vec<VariableSpec> {
        let dynamic = Access::Dynamic(DynamicTable::KEEP_ALL);
        vec![
            spec(&[4], Access::Whole),
            spec(&[20, 2], Access::Rows),
            spec(&[9, 1], Access::Rows),
            spec(&[50, 3], dynamic),
        ]
    }

    prop_compose! {
        fn part(lane: u32)(
            rows in prop::collection::btree_set(0_u32..20, 0..8), others in prop::collection::btree_set(0_u32..9, 0..5),
            ids in prop::collection::btree_set(any::<u64>(), 0..6), seed in 0_u32..1000,
        ) -> SparsePart {
            let values = |count: usize| (0..count).map(|place| ((seed + place as u32) as f32).sin()).collect::<Vec<f32>>();
            let gradients = vec![Vec::new(), values(rows.len() * 2), values(others.len()), values(ids.len() * 3)];
            let keep = |read: Read, empty: bool| if empty { Read::Nothing } else { read };
            let reads = vec![
                Read::Nothing,
                keep(Read::Rows(rows.iter().copied().collect::<Vec<_>>().into()), rows.is_empty()),
                keep(Read::Rows(others.iter().copied().collect::<Vec<_>>().into()), others.is_empty()),
                keep(Read::Ids(ids.iter().copied().collect::<Vec<_>>().into()), ids.is_empty()),
            ];
            let few: Vec<u64> = ids.iter().map(|id| id / 2).collect::<BTreeSet<u64>>().into_iter().collect();
            let counted = vec![CountedIds { table: 3, ids: few.into() }];
            SparsePart { lane, reads, counted, gradients }
        }
    }

    proptest! {
        #[test]
        fn parts_come_back_as_they_went(parts in (part(4), part(0), part(7)).prop_map(|(a, b, c)| vec![a, b, c])) {
            prop_assert_eq!(decode(&encode(&parts), &variables()).expect("it is whole"), parts);
        }

        #[test]
        fn damage_is_told_and_never_panics(part in part(1), cut in 0_usize..400, place in 0_usize..400, flip in any::<u8>()) {
            let whole = encode(&[part]).to_vec();
            let mut damaged = whole.clone();
            damaged.truncate(cut);
            if let Some(byte) = damaged.get_mut(place) {
                *byte ^= flip;
            }
            let _ = decode(&damaged, &variables());
            if cut < whole.len() && place >= cut {
                prop_assert!(decode(&damaged, &variables()).is_err());
            }
        }

        #[test]
        fn the_sum_has_the_same_bits_in_any_order(parts in (part(0), part(1), part(2)).prop_map(|(a, b, c)| [a, b, c])) {
            let [a, b, c] = parts;
            let one = merge(&mut [&a, &b, &c], &variables(), 1.0 / 3.0);
            let other = merge(&mut [&c, &a, &b], &variables(), 1.0 / 3.0);
            prop_assert_eq!(&one, &other);
            let Read::Ids(ids) = &one.reads[3] else { return Ok(()) };
            prop_assert!(one.counted[0].ids.iter().all(|id| ids.binary_search(id).is_err()));
            let Read::Rows(rows) = &one.reads[1] else { return Ok(()) };
            for (place, row) in rows.iter().enumerate() {
                let own = |part: &SparsePart| match &part.reads[1] {
                    Read::Rows(rows) => rows.iter().position(|own| own == row).map_or(0.0, |own| part.gradients[1][own * 2]),
                    _ => 0.0,
                };
                let expected = (own(&a) + own(&b) + own(&c)) * (1.0 / 3.0);
                prop_assert!((one.gradients[1][place * 2] - expected).abs() < 1e-6);
            }
        }
    }
}
