//! Building the contents of a store, from initial values or from a checkpoint.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use trainyard_optimizer::OptimizerConfig;
use trainyard_variable::{FirstRows, Idle, InitialRows, VariableSpec};

use super::request::holds_changed_rows;
use super::{Prepare, Progress, TensorSource};
use crate::Error;
use crate::SliceValues;
use crate::dynamic::DynamicSlice;
use crate::lru::Timestamp;
use crate::slice::{Parts, Slice, listed_max, stripe_rows};
use crate::stripe::{Rows, Stripe};

/// The slices that were built, by number.
#[derive(Default)]
pub(super) struct Built {
    pub(super) slices: Vec<(u32, Slice)>,
    pub(super) tables: Vec<(u32, DynamicSlice)>,
}

/// Progress of building, and whether it is cancelled.
#[derive(Debug, Default)]
pub(super) struct BuildStanding {
    done_bytes: AtomicU64,
    total_bytes: AtomicU64,
    cancelled: AtomicBool,
}

impl BuildStanding {
    pub(super) fn begin(&self, total_bytes: u64) {
        self.done_bytes.store(0, Ordering::Relaxed);
        self.total_bytes.store(total_bytes, Ordering::Relaxed);
        self.cancelled.store(false, Ordering::Relaxed);
    }

    /// Makes the threads that build stop after their current piece.
    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    pub(super) fn progress(&self) -> Progress {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Progress {
            done_bytes: read(&self.done_bytes),
            total_bytes: read(&self.total_bytes),
        }
    }

    fn add(&self, bytes: usize) {
        self.done_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// The unit of work of a building thread.
enum Piece {
    /// All rows of a stripe of the slice with this index. Rows are counted from the slice's first row.
    Stripe { slice: usize, rows: Range<usize> },
    /// The rows of such a stripe that a checkpoint holds, counted in the same way.
    Listed {
        slice: usize,
        rows: Range<usize>,
        held: Vec<Range<usize>>,
    },
    /// The slice of a dynamic table with this index.
    Table { slice: usize },
}

/// A piece that has been built.
enum BuiltPiece {
    Stripe {
        slice: usize,
        first_row: usize,
        stripe: Box<Stripe>,
    },
    Table {
        slice: usize,
        table: Box<DynamicSlice>,
    },
}

/// A slice to be built: its variable, its update rule, and the initial values of its rows.
struct PlannedSlice<'a> {
    spec: &'a VariableSpec,
    optimizer: OptimizerConfig,
    first: InitialRows,
    /// Source of the values, and the variable's name there; absent = initial values.
    source: Option<(&'a dyn TensorSource, &'a str)>,
}

/// A plan of what is to be built.
pub(super) struct Building<'a> {
    prepare: &'a Prepare<'a>,
    slices: Vec<PlannedSlice<'a>>,
    pieces: Vec<Piece>,
}

/// Counts further bytes, or refuses them.
type CountRows<'a> = dyn Fn(u64) -> Result<(), Error> + Sync + 'a;

/// Plans what has to be built.
pub(super) fn plan<'a>(prepare: &'a Prepare<'a>) -> Result<Building<'a>, Error> {
    let mut slices = Vec::with_capacity(prepare.slices.len());
    let mut pieces = Vec::new();
    for (place, (_, slice)) in prepare.slices.iter().enumerate() {
        let planned = plan_slice(prepare, slice)?;
        let stripes = stripe_rows(slice.rows.len(), slice.width);
        if planned.spec.dynamic().is_some() {
            pieces.push(Piece::Table { slice: place });
        } else if !holds_changed_rows(planned.spec, &planned.optimizer) {
            pieces.extend(stripes.map(|rows| Piece::Stripe { slice: place, rows }));
        } else if let Some((source, name)) = planned.source {
            let held = source
                .held(name, slice.rows.clone())
                .map_err(Error::Restore)?;
            for rows in stripes {
                let held = held_in(&held, slice.rows.start, &rows);
                let count: usize = held.iter().map(Range::len).sum();
                if count > listed_max(slice.rows.len(), slice.width, rows.len()) {
                    pieces.push(Piece::Stripe { slice: place, rows });
                } else if count > 0 {
                    pieces.push(Piece::Listed {
                        slice: place,
                        rows,
                        held,
                    });
                }
            }
        }
        slices.push(planned);
    }
    Ok(Building {
        prepare,
        slices,
        pieces,
    })
}

/// Returns the `held` rows of a variable that lie in `rows` of a slice. The slice begins at row `begin` of the
/// variable, and its rows are counted from there.
fn held_in(held: &[Range<usize>], begin: usize, rows: &Range<usize>) -> Vec<Range<usize>> {
    let from = begin + rows.start;
    let to = begin + rows.end;
    let first = held.partition_point(|held| held.end <= from);
    let within = held[first..].iter().take_while(|held| held.start < to);
    within
        .map(|held| held.start.max(from) - begin..held.end.min(to) - begin)
        .collect()
}

impl Building<'_> {
    /// Returns the bytes to be built, without dynamic tables, whose size only the checkpoint knows.
    pub(super) fn bytes(&self) -> u64 {
        let bytes = |piece: &Piece| {
            let (slice, rows) = match piece {
                Piece::Stripe { slice, rows } => (*slice, rows.len()),
                Piece::Listed { slice, held, .. } => (*slice, held.iter().map(Range::len).sum()),
                Piece::Table { .. } => return 0,
            };
            let slots = self.slices[slice].optimizer.slots().len();
            (rows * self.prepare.slices[slice].1.width * (1 + slots) * 4) as u64
        };
        self.pieces.iter().map(bytes).sum()
    }

    /// Builds every slice, stripe by stripe. The number of threads is that of the cores, or of the reads that a remote
    /// source serves in parallel. A large table takes a while to fill, and is never held twice.
    /// `count_rows` receives the bytes of the rows of dynamic tables as they are read, and its refusal ends the build.
    pub(super) fn build(
        self,
        now: Timestamp,
        metadata: &BuildStanding,
        count_rows: &CountRows<'_>,
    ) -> Result<Built, Error> {
        let next = AtomicUsize::new(0);
        let build = || {
            let mut built = Vec::new();
            while !metadata.is_cancelled()
                && let Some(piece) = self.pieces.get(next.fetch_add(1, Ordering::Relaxed))
            {
                let outcome = self.build_piece(now, piece, metadata, count_rows);
                let piece = outcome.inspect_err(|_| metadata.cancel())?;
                metadata.add(piece.bytes());
                built.push(piece);
            }
            Ok(built)
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let sources = self.slices.iter().filter_map(|slice| slice.source);
        let wanted = sources.map(|(source, _)| source.reads_at_once()).max();
        let threads = wanted.unwrap_or(cores).max(cores).min(self.pieces.len());
        let parts: Vec<Result<Vec<BuiltPiece>, Error>> = std::thread::scope(|scope| {
            let handles: Vec<_> = (0..threads).map(|_| scope.spawn(build)).collect();
            let joined = handles.into_iter().map(|handle| handle.join());
            joined
                .map(|part| {
                    part.unwrap_or_else(|_| {
                        Err(Error::BadRequest("a slice could not be built".into()))
                    })
                })
                .collect()
        });
        let mut stripes: Vec<BTreeMap<usize, Stripe>> = Vec::new();
        stripes.resize_with(self.slices.len(), BTreeMap::new);
        let mut built = Built::default();
        for part in parts {
            for piece in part? {
                match piece {
                    BuiltPiece::Stripe {
                        slice,
                        first_row,
                        stripe,
                    } => {
                        stripes[slice].insert(first_row, *stripe);
                    }
                    BuiltPiece::Table { slice, table } => {
                        built.tables.push((self.prepare.slices[slice].0, *table));
                    }
                }
            }
        }
        if metadata.is_cancelled() {
            return Err(Error::NotReady(
                "another chief wants it to hold something else",
            ));
        }
        for ((number, slice), (planned, mut stripes)) in self
            .prepare
            .slices
            .iter()
            .zip(self.slices.into_iter().zip(stripes))
        {
            if planned.spec.dynamic().is_none() {
                let PlannedSlice {
                    optimizer, first, ..
                } = planned;
                let parts = Parts {
                    variable: slice.variable,
                    part: slice.part,
                    rows: slice.rows.clone(),
                    width: slice.width,
                    optimizer,
                    first,
                };
                // A stripe that was not built holds no row.
                let all = stripe_rows(slice.rows.len(), slice.width);
                let all = all.map(|rows| stripes.remove(&rows.start).unwrap_or_default());
                built.slices.push((*number, Slice::new(parts, all)));
            }
        }
        Ok(built)
    }

    fn build_piece(
        &self,
        now: Timestamp,
        piece: &Piece,
        metadata: &BuildStanding,
        count_rows: &CountRows<'_>,
    ) -> Result<BuiltPiece, Error> {
        match piece {
            Piece::Stripe { slice, rows } => {
                let stripe = Stripe::new(Rows::All, self.build_stripe(*slice, rows)?);
                Ok(BuiltPiece::Stripe {
                    slice: *slice,
                    first_row: rows.start,
                    stripe: Box::new(stripe),
                })
            }
            Piece::Listed { slice, rows, held } => {
                let stripe = self.build_list(*slice, rows, held)?;
                Ok(BuiltPiece::Stripe {
                    slice: *slice,
                    first_row: rows.start,
                    stripe: Box::new(stripe),
                })
            }
            Piece::Table { slice } => {
                let table = self.build_table(*slice, now, metadata, count_rows)?;
                Ok(BuiltPiece::Table {
                    slice: *slice,
                    table: Box::new(table),
                })
            }
        }
    }

    /// Builds the slice of a dynamic table. If building is cancelled, the slice is incomplete.
    fn build_table(
        &self,
        place: usize,
        now: Timestamp,
        metadata: &BuildStanding,
        count_rows: &CountRows<'_>,
    ) -> Result<DynamicSlice, Error> {
        let PlannedSlice {
            spec,
            optimizer,
            first,
            source,
        } = &self.slices[place];
        let slice = &self.prepare.slices[place].1;
        let slots = optimizer.slots();
        let table = DynamicSlice::new(spec, slice, optimizer.clone(), first.clone(), now)?;
        if let Some((source, name)) = source {
            let ids = slice.ids(spec.rows());
            // Rows of another run are loaded without their slots.
            let restores = self.prepare.restore.is_some();
            let names: Vec<&str> = slots
                .iter()
                .map(|slot| slot.name)
                .filter(|_| restores)
                .collect();
            for lot in source
                .read_dynamic(name, &names, ids)
                .map_err(Error::Restore)?
            {
                let mut lot = lot.map_err(Error::Restore)?;
                if !restores {
                    // The ids count as just used, and their slots have their initial values.
                    lot.slots = slots
                        .iter()
                        .map(|slot| vec![slot.initial; lot.values.len()])
                        .collect();
                    lot.idle.fill(Idle::default());
                    lot.candidates.clear();
                }
                let before = table.memory_bytes();
                table.load(&lot)?;
                count_rows(table.memory_bytes().saturating_sub(before))?;
                if metadata.is_cancelled() {
                    return Ok(table);
                }
            }
            table.has_loaded();
        }
        Ok(table)
    }

    /// Initializes or reads all rows of a stripe.
    fn build_stripe(&self, place: usize, rows: &Range<usize>) -> Result<SliceValues, Error> {
        let PlannedSlice { first, source, .. } = &self.slices[place];
        let slice = &self.prepare.slices[place].1;
        let rows = slice.rows.start + rows.start..slice.rows.start + rows.end;
        let mut values = self.read_parts(place, rows.len(), |source, name, slot, out| {
            source.read(name, slot, rows.clone(), out)
        })?;
        if source.is_none() {
            first.fill_rows(rows.map(|row| row as u64), &mut values.values);
        }
        Ok(values)
    }

    /// Reads the rows of a stripe that a checkpoint holds.
    fn build_list(
        &self,
        place: usize,
        rows: &Range<usize>,
        held: &[Range<usize>],
    ) -> Result<Stripe, Error> {
        let slice = &self.prepare.slices[place].1;
        let of_variable = slice.rows.start + rows.start..slice.rows.start + rows.end;
        let listed = held
            .iter()
            .flat_map(|held| held.start - rows.start..held.end - rows.start);
        let places: HashMap<u32, u32, _> = listed
            .zip(0..)
            .map(|(row, place)| (row as u32, place))
            .collect();
        let values = self.read_parts(place, places.len(), |source, name, slot, out| {
            source.read_held(name, slot, of_variable.clone(), out)
        })?;
        Ok(Stripe::new(Rows::Listed(places), values))
    }

    /// Reads the values and slots of `rows` rows of a slice from their source. Without a source, values are 0 and slots
    /// have their initial values. Slots also have their initial values if the model starts from another run, whose
    /// slots do not apply.
    fn read_parts(
        &self,
        place: usize,
        rows: usize,
        read: impl Fn(&dyn TensorSource, &str, Option<&str>, &mut [f32]) -> Result<(), String>,
    ) -> Result<SliceValues, Error> {
        let PlannedSlice {
            optimizer, source, ..
        } = &self.slices[place];
        let length = rows * self.prepare.slices[place].1.width;
        let part = |slot: Option<&str>, initial: f32| {
            let mut out = vec![initial; length];
            if let Some((source, name)) = source
                && (slot.is_none() || self.prepare.restore.is_some())
            {
                read(*source, name, slot, &mut out).map_err(Error::Restore)?;
            }
            Ok(out)
        };
        let slots = optimizer.slots();
        let slots = slots.iter().map(|slot| part(Some(slot.name), slot.initial));
        Ok(SliceValues {
            values: part(None, 0.0)?,
            slots: slots.collect::<Result<_, Error>>()?,
        })
    }
}

impl BuiltPiece {
    fn bytes(&self) -> usize {
        match self {
            Self::Stripe { stripe, .. } => {
                let SliceValues { values, slots } = &stripe.now;
                values.len() * (1 + slots.len()) * 4
            }
            Self::Table { .. } => 0,
        }
    }
}

fn plan_slice<'a>(
    prepare: &'a Prepare<'_>,
    slice: &trainyard_variable::Slice,
) -> Result<PlannedSlice<'a>, Error> {
    let (spec, optimizer) = described(prepare, slice)?;
    let source = match &prepare.restore {
        Some(restore) => Some((restore.source, spec.name.as_str())),
        None => prepare.given(&spec.name),
    };
    // The rule for rows that have not changed stays that of the checkpoint, whatever the job says by now.
    let kept = source.and_then(|(source, name)| source.first_rows(name));
    let first = InitialRows::of(kept.unwrap_or_else(|| FirstRows::new(spec, prepare.seed)));
    Ok(PlannedSlice {
        spec,
        optimizer,
        first,
        source,
    })
}

/// Returns the variable of a slice, and its update rule.
fn described<'a>(
    prepare: &'a Prepare<'_>,
    slice: &trainyard_variable::Slice,
) -> Result<(&'a VariableSpec, OptimizerConfig), Error> {
    let spec: &VariableSpec = prepare.variables.get(slice.variable).ok_or_else(|| {
        Error::BadRequest(format!(
            "slice names variable {}, which does not exist",
            slice.variable
        ))
    })?;
    let group = &spec.optimizer_group;
    let optimizer = prepare.optimizers.get(group).cloned().ok_or_else(|| {
        Error::BadRequest(format!(
            "variable `{}` names optimizer group `{group}`, which does not exist",
            spec.name
        ))
    })?;
    Ok((spec, optimizer))
}
