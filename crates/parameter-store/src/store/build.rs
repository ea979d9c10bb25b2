//! Building what a store holds, from first values or from a checkpoint.

use std::sync::atomic::{AtomicUsize, Ordering};

use trainyard_optimizer::OptimizerConfig;
use trainyard_variable::{Idle, VariableSpec};

use super::Prepare;
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

/// Builds every slice, on as many threads as the machine has cores: a large table takes a while to fill.
pub(super) fn build_slices(prepare: &Prepare<'_>, now: Moment) -> Result<Built, Error> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let build = || {
        let mut built = Built::default();
        while let Some((number, slice)) = prepare.slices.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (spec, optimizer) = described(prepare, slice)?;
            if spec.dynamic().is_some() {
                built.tables.push((*number, build_table(prepare, slice, spec, optimizer, now)?));
            } else {
                built.slices.push((*number, build_slice(prepare, slice, spec, optimizer)?));
            }
        }
        Ok(built)
    };
    let parts: Vec<Result<Built, Error>> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(build)).collect();
        let joined = handles.into_iter().map(|handle| handle.join());
        joined
            .map(|part| part.unwrap_or_else(|_| Err(Error::BadRequest("a slice could not be built".into()))))
            .collect()
    });
    let mut built = Built::default();
    for part in parts {
        let mut part = part?;
        built.slices.append(&mut part.slices);
        built.tables.append(&mut part.tables);
    }
    Ok(built)
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

fn build_slice(
    prepare: &Prepare<'_>,
    slice: &trainyard_variable::Slice,
    spec: &VariableSpec,
    optimizer: OptimizerConfig,
) -> Result<Slice, Error> {
    let slots = optimizer.slots();
    // Stripe by stripe: a large table is never held twice.
    let build = |rows: std::ops::Range<usize>| -> Result<SliceValues, Error> {
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
    };
    let stripes = stripe_rows(slice.rows.len(), slice.width).map(build).collect::<Result<Vec<_>, _>>()?;
    let parts = Parts {
        variable: slice.variable,
        part: slice.part,
        rows: slice.rows.clone(),
        width: slice.width,
        optimizer: optimizer.clone(),
    };
    Ok(Slice::new(parts, stripes))
}
