//! Building what a store holds, from first values or from a checkpoint.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use trainyard_optimizer::OptimizerConfig;
use trainyard_variable::{Idle, VariableSpec};

use super::{Prepare, Progress};
use crate::Error;
use crate::SliceValues;
use crate::dynamic::DynamicSlice;
use crate::recency::Moment;
use crate::slice::{Parts, Slice, stripe_rows};

/// Slices, by number.
#[derive(Default)]
pub(super) struct Built {
    pub(super) slices: Vec<(u32, Slice)>,
    pub(super) tables: Vec<(u32, DynamicSlice)>,
}

/// How far the building has come, and whether it is to end before.
#[derive(Debug, Default)]
pub(super) struct Building {
    done_bytes: AtomicU64,
    total_bytes: AtomicU64,
    cancelled: AtomicBool,
}

impl Building {
    pub(super) fn begin(&self, total_bytes: u64) {
        self.done_bytes.store(0, Ordering::Relaxed);
        self.total_bytes.store(total_bytes, Ordering::Relaxed);
        self.cancelled.store(false, Ordering::Relaxed);
    }

    /// Lets the threads that build end with what they have in hand.
    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    pub(super) fn progress(&self) -> Progress {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Progress { done_bytes: read(&self.done_bytes), total_bytes: read(&self.total_bytes) }
    }

    fn add(&self, bytes: usize) {
        self.done_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// What a thread builds at a time.
enum Piece {
    /// A stripe of the slice at this place: its rows, counted from the slice's first.
    Stripe { slice: usize, rows: Range<usize> },
    /// The slice of a dynamic table at this place.
    Table { slice: usize },
}

/// A piece that is there, in the order of the plan.
enum BuiltPiece {
    Stripe { slice: usize, first_row: usize, values: SliceValues },
    Table { slice: usize, table: Box<DynamicSlice> },
}

/// Builds every slice, stripe by stripe, on as many threads as the machine has cores: a large table takes a while to fill,
/// and is never held twice.
pub(super) fn build_slices(prepare: &Prepare<'_>, now: Moment, building: &Building) -> Result<Built, Error> {
    let mut plans = Vec::with_capacity(prepare.slices.len());
    let mut pieces = Vec::new();
    for (place, (_, slice)) in prepare.slices.iter().enumerate() {
        let plan = described(prepare, slice)?;
        match plan.0.dynamic() {
            Some(_) => pieces.push(Piece::Table { slice: place }),
            None => pieces.extend(
                stripe_rows(slice.rows.len(), slice.width).map(|rows| Piece::Stripe { slice: place, rows }),
            ),
        }
        plans.push(plan);
    }
    let next = AtomicUsize::new(0);
    let build = || {
        let mut built = Vec::new();
        while !building.is_cancelled()
            && let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed))
        {
            let outcome = build_piece(prepare, &plans, now, piece);
            let piece = outcome.inspect_err(|_| building.cancel())?;
            building.add(piece.bytes());
            built.push(piece);
        }
        Ok(built)
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(pieces.len());
    let parts: Vec<Result<Vec<BuiltPiece>, Error>> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(build)).collect();
        let joined = handles.into_iter().map(|handle| handle.join());
        joined
            .map(|part| part.unwrap_or_else(|_| Err(Error::BadRequest("a slice could not be built".into()))))
            .collect()
    });
    let mut stripes: Vec<BTreeMap<usize, SliceValues>> = Vec::new();
    stripes.resize_with(plans.len(), BTreeMap::new);
    let mut built = Built::default();
    for part in parts {
        for piece in part? {
            match piece {
                BuiltPiece::Stripe { slice, first_row, values } => {
                    stripes[slice].insert(first_row, values);
                }
                BuiltPiece::Table { slice, table } => {
                    built.tables.push((prepare.slices[slice].0, *table));
                }
            }
        }
    }
    if building.is_cancelled() {
        return Err(Error::NotReady("another chief wants it to hold something else"));
    }
    for ((number, slice), ((spec, optimizer), stripes)) in
        prepare.slices.iter().zip(plans.into_iter().zip(stripes))
    {
        if spec.dynamic().is_none() {
            let parts = Parts {
                variable: slice.variable,
                part: slice.part,
                rows: slice.rows.clone(),
                width: slice.width,
                optimizer,
            };
            built.slices.push((*number, Slice::new(parts, stripes.into_values())));
        }
    }
    Ok(built)
}

impl BuiltPiece {
    fn bytes(&self) -> usize {
        match self {
            Self::Stripe { values, .. } => values.values.len() * (1 + values.slots.len()) * 4,
            Self::Table { .. } => 0,
        }
    }
}

fn build_piece(
    prepare: &Prepare<'_>,
    plans: &[(&VariableSpec, OptimizerConfig)],
    now: Moment,
    piece: &Piece,
) -> Result<BuiltPiece, Error> {
    match piece {
        Piece::Stripe { slice, rows } => {
            let (spec, optimizer) = &plans[*slice];
            let values = build_stripe(prepare, &prepare.slices[*slice].1, spec, optimizer, rows)?;
            Ok(BuiltPiece::Stripe { slice: *slice, first_row: rows.start, values })
        }
        Piece::Table { slice } => {
            let (spec, optimizer) = &plans[*slice];
            let table = build_table(prepare, &prepare.slices[*slice].1, spec, optimizer.clone(), now)?;
            Ok(BuiltPiece::Table { slice: *slice, table: Box::new(table) })
        }
    }
}

/// What a slice is of, and the rule that updates it.
fn described<'a>(
    prepare: &'a Prepare<'_>,
    slice: &trainyard_variable::Slice,
) -> Result<(&'a VariableSpec, OptimizerConfig), Error> {
    let spec: &VariableSpec = prepare.variables.get(slice.variable).ok_or_else(|| {
        Error::BadRequest(format!("slice names variable {}, which does not exist", slice.variable))
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

fn build_table(
    prepare: &Prepare<'_>,
    slice: &trainyard_variable::Slice,
    spec: &VariableSpec,
    optimizer: OptimizerConfig,
    now: Moment,
) -> Result<DynamicSlice, Error> {
    let (slots, ids) = (optimizer.slots(), slice.ids(spec.rows()));
    let rows = match (&prepare.restore, prepare.given(&spec.name)) {
        (Some(restore), _) => {
            let names: Vec<&str> = slots.iter().map(|slot| slot.name).collect();
            Some(restore.source.read_dynamic(&spec.name, &names, ids).map_err(Error::Restore)?)
        }
        // Another run's rows: as if they had just been seen, with slots that have seen nothing.
        (None, Some((source, name))) => {
            let mut rows = source.read_dynamic(name, &[], ids).map_err(Error::Restore)?;
            rows.slots = slots.iter().map(|slot| vec![slot.initial; rows.values.len()]).collect();
            rows.idle.fill(Idle::default());
            rows.candidates.clear();
            Some(rows)
        }
        (None, None) => None,
    };
    DynamicSlice::new(spec, slice, optimizer, prepare.seed, now, rows)
}

fn build_stripe(
    prepare: &Prepare<'_>,
    slice: &trainyard_variable::Slice,
    spec: &VariableSpec,
    optimizer: &OptimizerConfig,
    rows: &Range<usize>,
) -> Result<SliceValues, Error> {
    let slots = optimizer.slots();
    let length = rows.len() * slice.width;
    let rows = slice.rows.start + rows.start..slice.rows.start + rows.end;
    let mut values = vec![0.0; length];
    let first = |initial: f32| vec![initial; length];
    let Some(restore) = &prepare.restore else {
        match prepare.given(&spec.name) {
            Some((source, name)) => source.read(name, None, rows, &mut values).map_err(Error::Restore)?,
            None => spec.initializer.fill(prepare.seed, &spec.name, &spec.shape, rows, &mut values),
        }
        let slots = slots.iter().map(|slot| first(slot.initial)).collect();
        return Ok(SliceValues { values, slots });
    };
    let read = |slot: Option<&str>, mut out: Vec<f32>| {
        let read = restore.source.read(&spec.name, slot, rows.clone(), &mut out);
        read.map_err(Error::Restore).map(|()| out)
    };
    let slots = slots.iter().map(|slot| read(Some(slot.name), first(0.0)));
    Ok(SliceValues { values: read(None, values)?, slots: slots.collect::<Result<_, _>>()? })
}
