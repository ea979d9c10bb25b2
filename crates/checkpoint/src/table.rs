//! Dynamic tables in a checkpoint: ids, idle times and occurrence counts, beside values and slots.

use std::ops::Range;

use trainyard_variable::{Candidate, DynamicRows, FirstRows, Idle};

use crate::manifest::{Dtype, ShardRecord, TensorRecord};
use crate::{Checkpoint, Error, FilePurpose};

/// Name, in the place of a slot name, of the tensor of ids: `[rows]`, ascending.
pub(crate) const IDS: &str = "ids";
/// Name of the tensor of pushes and seconds since the last use: `[rows, 2]`; `[0, 2]` in a file for predictions.
const IDLE: &str = "idle";
/// Name of the tensor of ids without a row: id, pushes and seconds since the last occurrence, and occurrence count:
/// `[candidates, 4]`.
const CANDIDATES: &str = "candidates";

/// Name of the tensor of ids that have lost their rows since the base: `[ids]`, ascending. Only increments have it.
const GONE: &str = "gone";

/// Bytes of values and slots that are read at once. From a bucket, more bytes are read, because parts are fetched
/// concurrently.
const LOT_BYTES: usize = 8 << 20;
const REMOTE_LOT_BYTES: usize = 128 << 20;
/// Ids that are read at once while some of them are searched.
const IDS_AT_ONCE: usize = 1 << 20;
/// Ids without a row that are read at once.
const CANDIDATES_AT_ONCE: usize = 64 << 10;

/// Callback that receives some rows of a dynamic table.
pub type OnLot<'a> = dyn FnMut(&DynamicRows) -> Result<(), Error> + 'a;

/// Source of the rows of a dynamic table.
pub trait TableSource {
    /// Returns the number of rows, and the number of ids without a row.
    fn counts(&self) -> (usize, usize);

    /// Passes all rows to `each`, some at a time, in ascending order of id.
    ///
    /// # Errors
    /// Returns the error of `each`.
    fn read(&self, each: &mut OnLot<'_>) -> Result<(), Error>;
}

impl TableSource for DynamicRows {
    fn counts(&self) -> (usize, usize) {
        (self.ids.len(), self.candidates.len())
    }

    fn read(&self, each: &mut OnLot<'_>) -> Result<(), Error> {
        each(self)
    }
}

/// A slice of a dynamic table to be written.
pub struct TableView<'a> {
    /// Variable.
    pub variable: &'a str,
    /// Part of the variable.
    pub part: usize,
    /// Values in a row.
    pub width: usize,
    /// Names of the slots, in the order of the slots in `source`.
    pub slot_names: Vec<&'a str>,
    /// The rule of the initial values of ids without a row; absent = the rule by the manifest's seed.
    pub first: Option<&'a FirstRows>,
    /// Changes since the base; absent = the table is whole.
    pub increment: Option<TableIncrement>,
    /// Ids, values and slots.
    pub source: &'a dyn TableSource,
}

/// Changes of a dynamic table since the base of an increment, besides the rows that are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableIncrement {
    /// Ids that have lost their rows since the base, ascending. Some of them may have a row again.
    pub gone: Vec<u64>,
    /// Rows in use.
    pub rows_in_use: usize,
}

impl TableView<'_> {
    /// Returns the name, the numbers per row, and the rows of each tensor of whole numbers.
    pub(crate) fn integers(
        &self,
        purpose: FilePurpose,
    ) -> impl Iterator<Item = (&'static str, usize, usize)> {
        let (rows, candidates) = self.source.counts();
        let idle = match purpose {
            FilePurpose::Checkpoint => rows,
            FilePurpose::Publication => 0,
        };
        let always = [(IDS, 1, rows), (IDLE, 2, idle), (CANDIDATES, 4, candidates)];
        let increment = self.increment.as_ref();
        let gone = increment.map(|increment| (GONE, 1, increment.gone.len()));
        always.into_iter().chain(gone)
    }

    /// Returns the place of the tensor of ids that are gone, among those of [`TableView::integers`], and the ids.
    pub(crate) fn gone(&self) -> Option<(usize, &[u64])> {
        let place = self
            .integers(FilePurpose::default())
            .position(|(name, ..)| name == GONE)?;
        Some((place, &self.increment.as_ref()?.gone))
    }

    /// Returns the rows in use, if the table is an increment.
    pub(crate) fn rows_in_use(&self) -> Option<usize> {
        self.increment
            .as_ref()
            .map(|increment| increment.rows_in_use)
    }
}

/// Returns the whole numbers of some rows, in the order of the tensors of [`TableView::integers`].
pub(crate) fn integers_of(lot: &DynamicRows, purpose: FilePurpose) -> [Vec<u64>; 3] {
    let idle = match purpose {
        FilePurpose::Checkpoint => lot.idle.as_slice(),
        FilePurpose::Publication => &[],
    };
    let idle = idle.iter().flat_map(|idle| [idle.pushes, idle.secs]);
    let idle = idle.collect();
    let candidates = lot.candidates.iter();
    let candidates = candidates
        .flat_map(|known| {
            [
                known.id,
                known.idle.pushes,
                known.idle.secs,
                known.occurrences,
            ]
        })
        .collect();
    [lot.ids.clone(), idle, candidates]
}

impl Checkpoint {
    /// Reads the rows of a dynamic table whose ids are in `ids`, with these slots, in ascending order of id, from any
    /// number of files.
    ///
    /// # Errors
    /// The checkpoint holds no such table or slot, its tensors do not match, or a file cannot be read.
    pub fn read_dynamic(
        &self,
        variable: &str,
        slots: &[&str],
        ids: Range<u128>,
    ) -> Result<DynamicRows, Error> {
        let lots = self.lots(variable, slots, ids)?;
        let lots = lots.collect::<Result<Vec<DynamicRows>, Error>>()?;
        let mut rows = DynamicRows::united(lots);
        rows.slots.resize(slots.len(), Vec::new());
        Ok(rows)
    }

    /// Reads the rows of these ids of a dynamic table, without slots, in ascending order of id. `ids` must ascend; those without a
    /// row are left out. All ids of the table are read, some at a time, and of the values only these rows.
    ///
    /// # Errors
    /// As [`Checkpoint::read_dynamic`].
    pub fn read_ids(&self, variable: &str, ids: &[u64]) -> Result<DynamicRows, Error> {
        let mut lots = self.lots(variable, &[], 0..1 << 64)?;
        let mut found = Vec::new();
        while let Some(part) = lots.parts.last_mut() {
            if part.row < part.ids.row_end {
                found.push(part.find_rows(self, ids)?);
            } else {
                lots.parts.pop();
            }
        }
        Ok(DynamicRows::united(found))
    }

    /// Reads the rows of [`Checkpoint::read_dynamic`] in lots: file by file, in ascending order of id within a file.
    ///
    /// # Errors
    /// The checkpoint holds no such table or slot, or its tensors do not match. The iterator returns the errors of
    /// reading.
    pub fn lots<'a>(
        &'a self,
        variable: &'a str,
        slots: &'a [&'a str],
        ids: Range<u128>,
    ) -> Result<Lots<'a>, Error> {
        let mut parts = Vec::new();
        for shard in self.manifest().files() {
            let Some(mut part) = self.table_part(shard, variable, slots)? else {
                continue;
            };
            if let Some(increment) = self.manifest().increment_of(shard) {
                part.replaced = Some(self.replaced(shard, increment, variable)?);
                // An increment holds all ids without a row.
                part.candidate = part.candidates.row_end;
            }
            parts.push(part);
        }
        if parts.is_empty() {
            return Err(self.lacking(variable, None));
        }
        parts.reverse();
        Ok(Lots {
            checkpoint: self,
            ids,
            parts,
        })
    }

    /// Returns the number of rows of a dynamic table that are in use.
    pub fn rows_used(&self, variable: &str) -> usize {
        let shards = self.manifest().shards.iter();
        let ids = shards.filter_map(|shard| tensor(shard, variable, Some(IDS)));
        ids.map(|ids| ids.rows_in_use.unwrap_or(ids.row_end - ids.row_begin))
            .sum()
    }

    /// Reads the ids that have lost their rows since the cut before, ascending, from a published increment.
    ///
    /// # Errors
    /// A list is damaged, or a file cannot be read.
    pub(crate) fn gone(&self, variable: &str) -> Result<Vec<u64>, Error> {
        let mut all = Vec::new();
        for shard in &self.manifest().shards {
            if let Some(record) = tensor(shard, variable, Some(GONE)) {
                all.extend(self.read_integers(shard, record, 0..record.row_end)?);
            }
        }
        all.sort_unstable();
        Ok(all)
    }

    /// Reads which rows of a base its increment replaces.
    fn replaced(
        &self,
        base: &ShardRecord,
        increment: &ShardRecord,
        variable: &str,
    ) -> Result<Replaced, Error> {
        let read = |name: &str| {
            let record = tensor(increment, variable, Some(name))
                .ok_or_else(|| self.lacking(variable, Some(name)))?;
            let ids = self.read_integers(increment, record, 0..record.row_end)?;
            if ids.is_sorted() {
                Ok(ids)
            } else {
                Err(self.wrong(increment, format!("{}: ids must ascend", record.name)))
            }
        };
        Ok(Replaced {
            ids: read(IDS)?,
            gone: read(GONE)?,
            since: Idle {
                pushes: increment.version.saturating_sub(base.version),
                secs: u64::try_from(increment.secs.saturating_sub(base.secs)).unwrap_or(0),
            },
        })
    }

    /// Returns the tensors of a table in a file, if the file has them.
    fn table_part<'a>(
        &'a self,
        shard: &'a ShardRecord,
        variable: &str,
        slots: &[&str],
    ) -> Result<Option<TablePart<'a>>, Error> {
        let Some(ids) = tensor(shard, variable, Some(IDS)) else {
            return Ok(None);
        };
        let find = |slot: Option<&str>| {
            let found =
                tensor(shard, variable, slot).ok_or_else(|| self.lacking(variable, slot))?;
            let is_left_out = slot == Some(IDLE) && found.row_end == 0;
            let has_its_own_rows = slot == Some(CANDIDATES) || is_left_out;
            if !has_its_own_rows && (found.row_begin, found.row_end) != (0, ids.row_end) {
                let what = format!(
                    "{}: {} rows, expected {}",
                    found.name, found.row_end, ids.row_end
                );
                return Err(self.wrong(shard, what));
            }
            Ok(found)
        };
        let floats = |slot: Option<&str>| {
            let record = find(slot)?;
            if record.dtype != Dtype::F32 {
                return Err(self.wrong(shard, format!("{} must hold floats", record.name)));
            }
            Ok(record)
        };
        let idle = find(Some(IDLE))?;
        let candidates = find(Some(CANDIDATES))?;
        let values = floats(None)?;
        let slots = slots
            .iter()
            .map(|slot| floats(Some(slot)))
            .collect::<Result<Vec<_>, Error>>()?;
        let row_bytes = values.width * values.dtype.bytes() * (1 + slots.len());
        let lot_bytes = if self.is_remote() {
            REMOTE_LOT_BYTES
        } else {
            LOT_BYTES
        };
        Ok(Some(TablePart {
            shard,
            ids,
            idle,
            values,
            slots,
            candidates,
            rows_at_once: (lot_bytes / row_bytes.max(1)).max(1),
            row: 0,
            last: None,
            candidate: 0,
            replaced: None,
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
            return Err(self.wrong(
                shard,
                format!("{} must hold {width} whole numbers a row", record.name),
            ));
        }
        let mut out = vec![0_u64; rows.len() * width];
        self.read_tensor(
            shard,
            record,
            rows.start,
            bytemuck::cast_slice_mut(&mut out),
        )?;
        Ok(out)
    }

    fn wrong(&self, shard: &ShardRecord, what: String) -> Error {
        Error::damaged(&self.path().join(&shard.file), what)
    }

    fn lacking(&self, variable: &str, slot: Option<&str>) -> Error {
        let tensor = slot.map_or(variable.to_owned(), |slot| format!("{variable}/{slot}"));
        Error::Lacking {
            path: self.path().to_owned(),
            tensor,
        }
    }
}

/// The tensors of a table in one file, and the position of reading.
struct TablePart<'a> {
    shard: &'a ShardRecord,
    ids: &'a TensorRecord,
    idle: &'a TensorRecord,
    values: &'a TensorRecord,
    slots: Vec<&'a TensorRecord>,
    candidates: &'a TensorRecord,
    rows_at_once: usize,
    /// The next row.
    row: usize,
    /// The id of the row before the next row.
    last: Option<u64>,
    /// The next id without a row.
    candidate: usize,
    /// Rows that the increment over this file replaces.
    replaced: Option<Replaced>,
}

/// The rows of a base that an increment replaces, and the time between the two.
struct Replaced {
    /// Ids with a row in the increment, ascending.
    ids: Vec<u64>,
    /// Ids without a row any more, ascending.
    gone: Vec<u64>,
    /// Pushes and seconds from the base to the increment.
    since: Idle,
}

impl Replaced {
    /// Returns whether the base still has the row of an id.
    fn leaves(&self, id: u64) -> bool {
        self.ids.binary_search(&id).is_err() && self.gone.binary_search(&id).is_err()
    }

    /// Removes the replaced rows, and counts the idle times of the others up to the increment.
    fn apply(&self, rows: &mut DynamicRows, width: usize) {
        let kept: Vec<usize> = (0..rows.ids.len())
            .filter(|row| self.leaves(rows.ids[*row]))
            .collect();
        if kept.len() < rows.ids.len() {
            let gather = |part: &mut Vec<f32>| {
                for (to, from) in kept.iter().enumerate() {
                    part.copy_within(from * width..(from + 1) * width, to * width);
                }
                part.truncate(kept.len() * width);
            };
            std::iter::once(&mut rows.values)
                .chain(&mut rows.slots)
                .for_each(gather);
            rows.ids = kept.iter().map(|row| rows.ids[*row]).collect();
            rows.idle = kept.iter().map(|row| rows.idle[*row]).collect();
        }
        for idle in &mut rows.idle {
            idle.pushes = idle.pushes.saturating_add(self.since.pushes);
            idle.secs = idle.secs.saturating_add(self.since.secs);
        }
    }
}

/// Iterator over the rows of a dynamic table, some at a time.
pub struct Lots<'a> {
    checkpoint: &'a Checkpoint,
    ids: Range<u128>,
    /// Files that remain to be read. The next file is the last.
    parts: Vec<TablePart<'a>>,
}

impl Lots<'_> {
    /// Reads the next lot; nothing after the last lot. A lot may be empty.
    fn read(&mut self) -> Result<Option<DynamicRows>, Error> {
        while let Some(part) = self.parts.last_mut() {
            if part.row < part.ids.row_end {
                return part.read_rows(self.checkpoint, &self.ids).map(Some);
            }
            if part.candidate < part.candidates.row_end {
                return part.read_candidates(self.checkpoint, &self.ids).map(Some);
            }
            self.parts.pop();
        }
        Ok(None)
    }
}

impl Iterator for Lots<'_> {
    type Item = Result<DynamicRows, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        // The iterator ends after an error.
        self.read().inspect_err(|_| self.parts.clear()).transpose()
    }
}

impl TablePart<'_> {
    /// Reads the next ids, at most `at_once`. Returns the row of the first one, and the ids.
    fn next_ids(
        &mut self,
        checkpoint: &Checkpoint,
        at_once: usize,
    ) -> Result<(usize, Vec<u64>), Error> {
        let begin = self.row;
        self.row = (begin + at_once).min(self.ids.row_end);
        let ids = checkpoint.read_integers(self.shard, self.ids, begin..self.row)?;
        let mut before = self.last;
        for id in &ids {
            if let Some(before) = before.filter(|before| before >= id) {
                let what = format!(
                    "{}: ids must ascend, {before} stands before {id}",
                    self.ids.name
                );
                return Err(checkpoint.wrong(self.shard, what));
            }
            before = Some(*id);
        }
        self.last = before;
        Ok((begin, ids))
    }

    /// Reads the rows of those `ids`, which ascend, that are among the next ids of the file.
    fn find_rows(&mut self, checkpoint: &Checkpoint, ids: &[u64]) -> Result<DynamicRows, Error> {
        let (begin, here) = self.next_ids(checkpoint, IDS_AT_ONCE)?;
        let (Some(first), Some(last)) = (here.first(), here.last()) else {
            return Ok(DynamicRows::default());
        };
        let from = ids.partition_point(|id| id < first);
        let to = ids.partition_point(|id| id <= last);
        let rows = ids[from..to].iter().flat_map(|id| here.binary_search(id));
        let rows: Vec<usize> = rows.collect();
        let width = self.values.width;
        let mut values = vec![0.0_f32; rows.len() * width];
        let mut rest = &mut values[..];
        for run in rows.chunk_by(|row, next| row + 1 == *next) {
            let (part, later) = rest.split_at_mut(run.len() * width);
            let first = begin + run[0];
            let bytes = bytemuck::cast_slice_mut(part);
            checkpoint.read_tensor(self.shard, self.values, first, bytes)?;
            rest = later;
        }
        let mut found = DynamicRows {
            ids: rows.iter().map(|row| here[*row]).collect(),
            idle: vec![Idle::default(); rows.len()],
            values,
            ..DynamicRows::default()
        };
        if let Some(replaced) = &self.replaced {
            replaced.apply(&mut found, width);
        }
        Ok(found)
    }

    fn read_rows(
        &mut self,
        checkpoint: &Checkpoint,
        range: &Range<u128>,
    ) -> Result<DynamicRows, Error> {
        let shard = self.shard;
        let (begin, mut ids) = self.next_ids(checkpoint, self.rows_at_once)?;
        let place = |bound: u128| ids.partition_point(|id| u128::from(*id) < bound);
        let within = place(range.start)..place(range.end);
        ids.truncate(within.end);
        ids.drain(..within.start);
        let rows = begin + within.start..begin + within.end;
        let floats = |record: &TensorRecord| {
            let mut out = vec![0.0_f32; rows.len() * record.width];
            checkpoint.read_tensor(
                shard,
                record,
                rows.start,
                bytemuck::cast_slice_mut(&mut out),
            )?;
            Ok(out)
        };
        let idle = if self.idle.row_end == 0 {
            // The file is for predictions.
            vec![Idle::default(); rows.len()]
        } else {
            let times = checkpoint.read_integers(shard, self.idle, rows.clone())?;
            let times = times.as_chunks().0.iter();
            times.map(|&[pushes, secs]| Idle { pushes, secs }).collect()
        };
        let mut out = DynamicRows {
            ids,
            idle,
            values: floats(self.values)?,
            slots: self
                .slots
                .iter()
                .map(|slot| floats(slot))
                .collect::<Result<_, Error>>()?,
            candidates: Vec::new(),
        };
        if let Some(replaced) = &self.replaced {
            replaced.apply(&mut out, self.values.width);
        }
        Ok(out)
    }

    fn read_candidates(
        &mut self,
        checkpoint: &Checkpoint,
        range: &Range<u128>,
    ) -> Result<DynamicRows, Error> {
        let begin = self.candidate;
        self.candidate = (begin + CANDIDATES_AT_ONCE).min(self.candidates.row_end);
        let rows = checkpoint.read_integers(self.shard, self.candidates, begin..self.candidate)?;
        let candidate = |row: &[u64; 4]| Candidate {
            id: row[0],
            idle: Idle {
                pushes: row[1],
                secs: row[2],
            },
            occurrences: row[3],
        };
        let all = rows.as_chunks().0.iter().map(candidate);
        let candidates = all
            .filter(|candidate| range.contains(&u128::from(candidate.id)))
            .collect();
        Ok(DynamicRows {
            slots: vec![Vec::new(); self.slots.len()],
            candidates,
            ..DynamicRows::default()
        })
    }
}

fn tensor<'a>(
    shard: &'a ShardRecord,
    variable: &str,
    slot: Option<&str>,
) -> Option<&'a TensorRecord> {
    shard
        .tensors
        .iter()
        .find(|tensor| tensor.variable == variable && tensor.slot.as_deref() == slot)
}
