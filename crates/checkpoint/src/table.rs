//! Dynamic tables in a checkpoint: ids, times of last use and sightings beside values and slots.

use std::ops::Range;

use trainyard_variable::{Candidate, DynamicRows, FirstRows, Idle};

use crate::manifest::{Dtype, ShardRecord, TensorRecord};
use crate::{Checkpoint, Error};

/// Name of the tensor of ids, where slots have theirs: `[rows]`, ascending.
const IDS: &str = "ids";
/// Pushes and seconds since last use: `[rows, 2]`.
const IDLE: &str = "idle";
/// Ids without a row, pushes and seconds since they were seen, sightings: `[candidates, 4]`.
const CANDIDATES: &str = "candidates";

/// A slice of a dynamic table, to be written.
#[derive(Debug, Clone)]
pub struct TableView<'a> {
    /// Variable.
    pub variable: &'a str,
    /// Part of the variable.
    pub part: usize,
    /// Values in a row.
    pub width: usize,
    /// Names of the slots, in the order of those in `rows`.
    pub slot_names: Vec<&'a str>,
    /// The rule of the first values of ids without a row; absent = that of the manifest's seed.
    pub first: Option<&'a FirstRows>,
    /// Ids, values and slots.
    pub rows: &'a DynamicRows,
}

/// Whole numbers of a table: name, numbers in a row, and the rows, end to end.
pub(crate) type Integers = (&'static str, usize, Vec<u64>);

impl TableView<'_> {
    pub(crate) fn integers(&self) -> [Integers; 3] {
        let idle = self.rows.idle.iter().flat_map(|idle| [idle.pushes, idle.secs]).collect();
        let candidates = self.rows.candidates.iter();
        let candidates = candidates
            .flat_map(|known| [known.id, known.idle.pushes, known.idle.secs, known.sightings])
            .collect();
        [(IDS, 1, self.rows.ids.clone()), (IDLE, 2, idle), (CANDIDATES, 4, candidates)]
    }
}

impl Checkpoint {
    /// Reads the rows of a dynamic table whose ids lie in `ids`, with these slots, in ascending order of id, whatever
    /// files they lie in.
    ///
    /// # Errors
    /// It holds no such table or slot, its tensors do not belong together, or a file cannot be read.
    pub fn read_dynamic(
        &self,
        variable: &str,
        slots: &[&str],
        ids: Range<u128>,
    ) -> Result<DynamicRows, Error> {
        let mut parts = Vec::new();
        for shard in &self.manifest().shards {
            if let Some(part) = self.read_part(shard, variable, slots, &ids)? {
                parts.push(part);
            }
        }
        if parts.is_empty() {
            return Err(self.lacking(variable, None));
        }
        let mut out = DynamicRows { slots: vec![Vec::new(); slots.len()], ..DynamicRows::default() };
        parts.sort_by_key(|part| part.ids.first().copied());
        for part in &mut parts {
            out.ids.append(&mut part.ids);
            out.idle.append(&mut part.idle);
            out.values.append(&mut part.values);
            out.slots.iter_mut().zip(&mut part.slots).for_each(|(all, slot)| all.append(slot));
            out.candidates.append(&mut part.candidates);
        }
        out.candidates.sort_by_key(|candidate| candidate.id);
        Ok(out)
    }

    /// Returns the rows in use of a dynamic table.
    pub fn rows_used(&self, variable: &str) -> usize {
        let shards = self.manifest().shards.iter();
        let ids = shards.filter_map(|shard| tensor(shard, variable, Some(IDS)));
        ids.map(|ids| ids.row_end - ids.row_begin).sum()
    }

    fn read_part(
        &self,
        shard: &ShardRecord,
        variable: &str,
        slots: &[&str],
        range: &Range<u128>,
    ) -> Result<Option<DynamicRows>, Error> {
        let Some(record) = tensor(shard, variable, Some(IDS)) else { return Ok(None) };
        let all = self.read_integers(shard, record, 0..record.row_end)?;
        if let Some(pair) = all.windows(2).find(|pair| pair[0] >= pair[1]) {
            let what = format!("{}: ids must ascend, {} stands before {}", record.name, pair[0], pair[1]);
            return Err(self.wrong(shard, what));
        }
        let place = |bound: u128| all.partition_point(|id| u128::from(*id) < bound);
        let rows = place(range.start)..place(range.end);
        let find = |slot: Option<&str>| {
            let found = tensor(shard, variable, slot).ok_or_else(|| self.lacking(variable, slot))?;
            if slot != Some(CANDIDATES) && (found.row_begin, found.row_end) != (0, all.len()) {
                let what = format!("{}: {} rows, expected {}", found.name, found.row_end, all.len());
                return Err(self.wrong(shard, what));
            }
            Ok(found)
        };
        let floats = |slot: Option<&str>| {
            let record = find(slot)?;
            if record.dtype != Dtype::F32 {
                return Err(self.wrong(shard, format!("{} must hold floats", record.name)));
            }
            let mut out = vec![0.0_f32; rows.len() * record.width];
            self.read_tensor(shard, record, rows.start, bytemuck::cast_slice_mut(&mut out))?;
            Ok(out)
        };
        let idle = self.read_integers(shard, find(Some(IDLE))?, rows.clone())?;
        let candidates = find(Some(CANDIDATES))?;
        let candidates = self.read_integers(shard, candidates, 0..candidates.row_end)?;
        let candidate = |row: &[u64; 4]| Candidate {
            id: row[0],
            idle: Idle { pushes: row[1], secs: row[2] },
            sightings: row[3],
        };
        Ok(Some(DynamicRows {
            ids: all[rows.clone()].to_vec(),
            idle: idle.as_chunks().0.iter().map(|&[pushes, secs]| Idle { pushes, secs }).collect(),
            values: floats(None)?,
            slots: slots.iter().map(|slot| floats(Some(slot))).collect::<Result<_, Error>>()?,
            candidates: candidates
                .as_chunks()
                .0
                .iter()
                .map(candidate)
                .filter(|candidate| range.contains(&u128::from(candidate.id)))
                .collect(),
        }))
    }

    fn read_integers(
        &self,
        shard: &ShardRecord,
        record: &TensorRecord,
        rows: Range<usize>,
    ) -> Result<Vec<u64>, Error> {
        let width = match record.slot.as_deref() {
            Some(IDLE) => 2,
            Some(CANDIDATES) => 4,
            _ => 1,
        };
        if record.dtype != Dtype::U64 || record.width != width || record.row_begin != 0 {
            return Err(self.wrong(shard, format!("{} must hold {width} whole numbers a row", record.name)));
        }
        let mut out = vec![0_u64; rows.len() * width];
        self.read_tensor(shard, record, rows.start, bytemuck::cast_slice_mut(&mut out))?;
        Ok(out)
    }

    fn wrong(&self, shard: &ShardRecord, what: String) -> Error {
        Error::damaged(&self.path().join(&shard.file), what)
    }

    fn lacking(&self, variable: &str, slot: Option<&str>) -> Error {
        let tensor = slot.map_or(variable.to_owned(), |slot| format!("{variable}/{slot}"));
        Error::Lacking { path: self.path().to_owned(), tensor }
    }
}

fn tensor<'a>(shard: &'a ShardRecord, variable: &str, slot: Option<&str>) -> Option<&'a TensorRecord> {
    shard.tensors.iter().find(|tensor| tensor.variable == variable && tensor.slot.as_deref() == slot)
}
