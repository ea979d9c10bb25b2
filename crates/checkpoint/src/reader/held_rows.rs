//! Held rows: the rows of a variable that a checkpoint stores. The other rows have their initial values; the checkpoint
//! stores the rule to compute them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use trainyard_variable::{FirstRows, InitialRows};

use crate::manifest::{Dtype, GENERATOR, Others, ShardRecord, TensorRecord};
use crate::packed_runs::unpack;
use crate::{Checkpoint, Error};

/// Name, in the place of a slot name, of the tensor that lists the held rows, ascending: `[runs, 2]`, the first row and one
/// past the last row of each run; or `[words, 1]`, a packed list.
pub(crate) const RUNS: &str = "runs";

/// Consecutive held rows: they are adjacent in the variable and in the tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    begin: usize,
    end: usize,
    /// Number of held rows before the run.
    before: usize,
}

/// Runs of held rows that have been read, by file and name of the list.
pub(crate) type RunsRead = Mutex<BTreeMap<(String, String), Arc<Vec<Run>>>>;

/// File of a tensor: the whole file of a server, or the increment over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    Whole,
    Increment,
}

/// Some held rows of a tensor: the rows of the variable, by run, and the place of the first row in the tensor.
struct Stretch<'a> {
    layer: Layer,
    shard: &'a ShardRecord,
    tensor: &'a TensorRecord,
    runs: Vec<Range<usize>>,
    first: usize,
}

impl Stretch<'_> {
    fn rows(&self) -> usize {
        self.runs.iter().map(Range::len).sum()
    }
}

impl Checkpoint {
    /// Returns the held rows among `rows` of a variable, ascending. The other rows have their initial values: see
    /// [`Checkpoint::first_rows`].
    ///
    /// # Errors
    /// No file covers some of the rows, or a list of rows is damaged or cannot be read.
    pub fn held(&self, variable: &str, rows: Range<usize>) -> Result<Vec<Range<usize>>, Error> {
        let stretches = self.stretches(variable, None, &rows)?;
        Ok(united(&stretches))
    }

    /// Reads the held rows among `rows` of a variable, or of one of its slots, into `out`, without gaps.
    ///
    /// # Errors
    /// As [`Checkpoint::held`]. `out` does not have the length of the held rows, or a file cannot be read.
    pub fn read_held(
        &self,
        variable: &str,
        slot: Option<&str>,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), Error> {
        let mut stretches = self.stretches(variable, slot, &rows)?;
        if stretches
            .iter()
            .any(|stretch| stretch.layer == Layer::Increment)
        {
            let held = united(&stretches);
            let width = stretches.first().map_or(0, |stretch| stretch.tensor.width);
            if out.len() != held.iter().map(Range::len).sum::<usize>() * width {
                return Err(self.absent(variable, slot, &rows));
            }
            let places = Places::of(&held);
            return self.lay(&stretches, out, |row| places.of_row(row));
        }
        stretches.sort_by_key(|stretch| stretch.runs.first().map(|run| run.start));
        let mut rest = out;
        for stretch in &stretches {
            let length = stretch.rows() * stretch.tensor.width;
            let Some((part, later)) = rest.split_at_mut_checked(length) else {
                return Err(self.absent(variable, slot, &rows));
            };
            self.read_tensor(
                stretch.shard,
                stretch.tensor,
                stretch.first,
                bytemuck::cast_slice_mut(part),
            )?;
            rest = later;
        }
        if rest.is_empty() {
            Ok(())
        } else {
            Err(self.absent(variable, slot, &rows))
        }
    }

    /// Reads `rows` of a variable, or of one of its slots, into `out`, from any number of files. Rows that are not held
    /// get their initial values.
    ///
    /// # Errors
    /// No file covers a row, or a file cannot be read.
    pub fn read_rows(
        &self,
        variable: &str,
        slot: Option<&str>,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), Error> {
        let stretches = self.stretches(variable, slot, &rows)?;
        let width = self
            .tensors_of(variable, slot)
            .next()
            .map_or(0, |(_, tensor)| tensor.width);
        if out.len() != rows.len() * width {
            return Err(self.absent(variable, slot, &rows));
        }
        let whole = stretches
            .iter()
            .filter(|stretch| stretch.layer == Layer::Whole);
        if whole.map(Stretch::rows).sum::<usize>() < rows.len() {
            self.fill_others(variable, slot, &rows, out)?;
        }
        self.lay(&stretches, out, |row| row - rows.start)
    }

    /// Reads stretches, bases before increments, into `out`. `place_of` returns the place in `out` of the first row of a
    /// run.
    fn lay(
        &self,
        stretches: &[Stretch<'_>],
        out: &mut [f32],
        place_of: impl Fn(usize) -> usize,
    ) -> Result<(), Error> {
        let mut read = Vec::new();
        for stretch in stretches {
            let width = stretch.tensor.width;
            let place = |run: &Range<usize>| {
                let begin = place_of(run.start);
                begin * width..(begin + run.len()) * width
            };
            if let [run] = &stretch.runs[..] {
                let part = bytemuck::cast_slice_mut(&mut out[place(run)]);
                self.read_tensor(stretch.shard, stretch.tensor, stretch.first, part)?;
                continue;
            }
            read.resize(stretch.rows() * width, 0.0_f32);
            let bytes = bytemuck::cast_slice_mut(&mut read);
            self.read_tensor(stretch.shard, stretch.tensor, stretch.first, bytes)?;
            let mut rest = &read[..];
            for run in &stretch.runs {
                let (part, later) = rest.split_at(run.len() * width);
                out[place(run)].copy_from_slice(part);
                rest = later;
            }
        }
        Ok(())
    }

    /// Returns the rule of the initial values, for rows of a variable that are not held, or for ids without a row.
    /// Returns nothing if all rows are held.
    pub fn first_rows(&self, variable: &str) -> Option<FirstRows> {
        let told = self
            .tensors_of(variable, None)
            .find_map(|(_, tensor)| match &tensor.others {
                Some(Others::First { rows, .. }) => Some(rows.clone()),
                _ => None,
            });
        // Older checkpoints do not store the rule. There, ids without a row have the values that the seed of the job
        // gives.
        let of_manifest = || {
            let manifest = self.manifest();
            let spec = manifest
                .variables
                .iter()
                .find(|spec| spec.name == variable)?;
            spec.dynamic().map(|_| FirstRows::new(spec, manifest.seed))
        };
        told.or_else(of_manifest)
    }

    /// Writes the initial values of `rows` into `out`. The caller then overwrites the held rows.
    fn fill_others(
        &self,
        variable: &str,
        slot: Option<&str>,
        rows: &Range<usize>,
        out: &mut [f32],
    ) -> Result<(), Error> {
        let mut others = self
            .tensors_of(variable, slot)
            .filter_map(|(_, tensor)| tensor.others.as_ref())
            .filter(|others| **others != Others::Base);
        match others.next() {
            Some(Others::First { rows: first, .. }) => {
                let first = InitialRows::of(first.clone());
                first.fill_rows(rows.clone().map(|row| row as u64), out);
            }
            Some(Others::Value(value)) => out.fill(*value),
            Some(Others::Base) | None => return Err(self.absent(variable, slot, rows)),
        }
        Ok(())
    }

    /// Reads the rows of a variable that a published increment holds. Returns them in the order of the files, with their
    /// values and the width of a row.
    ///
    /// # Errors
    /// A list of rows is damaged, or a file cannot be read.
    pub(crate) fn changed_rows(
        &self,
        variable: &str,
    ) -> Result<(Vec<u64>, Vec<f32>, usize), Error> {
        let mut rows = Vec::new();
        let mut values = Vec::new();
        let mut width = 0;
        for (shard, tensor) in self.tensors_of(variable, None) {
            width = tensor.width;
            match &tensor.held {
                None => rows.extend(tensor.row_begin as u64..tensor.row_end as u64),
                Some(held) => {
                    let runs = self.runs(shard, tensor, &held.listed_in)?;
                    rows.extend(runs.iter().flat_map(|run| run.begin as u64..run.end as u64));
                }
            }
            let begin = values.len();
            values.resize(begin + tensor.rows_held() * width, 0.0_f32);
            let out = bytemuck::cast_slice_mut(&mut values[begin..]);
            self.read_tensor(shard, tensor, 0, out)?;
        }
        Ok((rows, values, width))
    }

    fn tensors_of<'a>(
        &'a self,
        variable: &'a str,
        slot: Option<&'a str>,
    ) -> impl Iterator<Item = (&'a ShardRecord, &'a TensorRecord)> {
        let all = self.manifest().files().flat_map(|shard| {
            let tensors = shard.tensors.iter();
            tensors.map(move |tensor| (shard, tensor))
        });
        all.filter(move |(_, tensor)| {
            tensor.variable == variable
                && tensor.slot.as_deref() == slot
                && tensor.dtype == Dtype::F32
        })
    }

    /// Returns the places of the held rows among `rows`: those of whole files, then those of increments.
    ///
    /// # Errors
    /// No tensor covers some of the rows, or a list of rows is damaged or cannot be read.
    fn stretches<'a>(
        &'a self,
        variable: &'a str,
        slot: Option<&'a str>,
        rows: &Range<usize>,
    ) -> Result<Vec<Stretch<'a>>, Error> {
        let mut covered = 0;
        let mut stretches = Vec::new();
        for (shard, tensor) in self.tensors_of(variable, slot) {
            let begin = rows.start.max(tensor.row_begin);
            let end = rows.end.min(tensor.row_end);
            if begin >= end {
                continue;
            }
            let layer = match shard.base {
                Some(_) => Layer::Increment,
                None => Layer::Whole,
            };
            if layer == Layer::Whole {
                covered += end - begin;
            }
            let Some(held) = &tensor.held else {
                let runs = std::iter::once(begin..end).collect();
                let first = begin - tensor.row_begin;
                stretches.push(Stretch {
                    layer,
                    shard,
                    tensor,
                    runs,
                    first,
                });
                continue;
            };
            let all = self.runs(shard, tensor, &held.listed_in)?;
            let from = all.partition_point(|run| run.end <= begin);
            let within = all[from..].iter().take_while(|run| run.begin < end);
            let runs: Vec<Range<usize>> = within
                .map(|run| run.begin.max(begin)..run.end.min(end))
                .collect();
            if let Some(run) = runs.first() {
                let first = all[from].before + (run.start - all[from].begin);
                stretches.push(Stretch {
                    layer,
                    shard,
                    tensor,
                    runs,
                    first,
                });
            }
        }
        if covered == rows.len() {
            stretches.sort_by_key(|stretch| stretch.layer);
            Ok(stretches)
        } else {
            Err(self.absent(variable, slot, rows))
        }
    }

    /// Returns the runs of rows that a tensor holds. Each list is read once.
    fn runs(
        &self,
        shard: &ShardRecord,
        tensor: &TensorRecord,
        list: &str,
    ) -> Result<Arc<Vec<Run>>, Error> {
        let key = (shard.file.clone(), list.to_owned());
        let mut read = self
            .runs_read()
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(runs) = read.get(&key) {
            return Ok(Arc::clone(runs));
        }
        let wrong = |what: String| {
            Error::damaged(&self.path().join(&shard.file), format!("{list}: {what}"))
        };
        let listed = shard
            .tensors
            .iter()
            .find(|listed| listed.name == list && listed.dtype == Dtype::U64);
        let Some(record) = listed.filter(|listed| [1, 2].contains(&listed.width)) else {
            return Err(wrong("it must list the rows of ".to_owned() + &tensor.name));
        };
        let mut list = vec![0_u64; record.width * record.rows_held()];
        self.read_tensor(shard, record, 0, bytemuck::cast_slice_mut(&mut list))?;
        let listed: Vec<Range<usize>> = if record.width == 1 {
            let rows = tensor.row_begin..tensor.row_end;
            unpack(&list, &rows, tensor.rows_held()).map_err(wrong)?
        } else {
            let bounds = list.as_chunks().0.iter();
            bounds
                .map(|[from, to]| *from as usize..*to as usize)
                .collect()
        };
        let mut runs = Vec::with_capacity(listed.len());
        let mut end = tensor.row_begin;
        let mut before = 0;
        for Range { start, end: to } in listed {
            let run = Run {
                begin: start,
                end: to,
                before,
            };
            if run.begin < end || run.begin >= run.end || run.end > tensor.row_end {
                let range = tensor.row_begin..tensor.row_end;
                return Err(wrong(format!(
                    "runs of rows {range:?} must ascend, given {start}..{to}"
                )));
            }
            end = run.end;
            before += run.end - run.begin;
            runs.push(run);
        }
        if before != tensor.rows_held() {
            return Err(wrong(format!(
                "{before} rows, `{}` has {}",
                tensor.name,
                tensor.rows_held()
            )));
        }
        let runs = Arc::new(runs);
        read.insert(key, Arc::clone(&runs));
        Ok(runs)
    }

    fn absent(&self, variable: &str, slot: Option<&str>, rows: &Range<usize>) -> Error {
        let tensor = slot.map_or(variable.to_owned(), |slot| format!("{variable}/{slot}"));
        Error::Absent {
            path: self.path().to_owned(),
            tensor,
            begin: rows.start,
            end: rows.end,
        }
    }
}

/// Returns the rows of all stretches, ascending, without overlaps.
fn united(stretches: &[Stretch<'_>]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = stretches
        .iter()
        .flat_map(|stretch| stretch.runs.iter().cloned())
        .collect();
    runs.sort_unstable_by_key(|run| run.start);
    let mut united: Vec<Range<usize>> = Vec::with_capacity(runs.len());
    for run in runs {
        match united.last_mut() {
            Some(last) if last.end > run.start => last.end = last.end.max(run.end),
            _ => united.push(run),
        }
    }
    united
}

/// The places of rows that lie without gaps.
struct Places<'a> {
    runs: &'a [Range<usize>],
    /// Number of rows before each run.
    before: Vec<usize>,
}

impl<'a> Places<'a> {
    fn of(runs: &'a [Range<usize>]) -> Self {
        let before = runs.iter().scan(0, |rows, run| {
            let before = *rows;
            *rows += run.len();
            Some(before)
        });
        Self {
            before: before.collect(),
            runs,
        }
    }

    /// Returns the place of a row, which must lie in one of the runs.
    fn of_row(&self, row: usize) -> usize {
        let run = self.runs.partition_point(|run| run.end <= row);
        self.before[run] + row - self.runs[run].start
    }
}

/// Returns the fault in a tensor's record of rows that it does not hold.
pub(crate) fn misfit(tensor: &TensorRecord) -> Option<String> {
    match (&tensor.held, &tensor.others) {
        (_, Some(Others::First { generator, rows })) => {
            let width = rows.shape.iter().skip(1).product::<usize>();
            if *generator != GENERATOR {
                return Some(format!(
                    "first values of generator {generator}, this release has {GENERATOR}"
                ));
            }
            (width != tensor.width).then(|| {
                format!(
                    "first values of {width} in a row, the tensor has {}",
                    tensor.width
                )
            })
        }
        (Some(_), None) => {
            Some("it does not say what the rows are that it does not hold".to_owned())
        }
        (Some(held), Some(Others::Value(_) | Others::Base)) => {
            let most = tensor.row_end.saturating_sub(tensor.row_begin);
            (held.rows > most).then(|| format!("{} rows of {most}", held.rows))
        }
        (None, _) => None,
    }
}
