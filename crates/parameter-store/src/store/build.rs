//! Filling slices with their first values.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;
use trainyard_variable::VariableSpec;

use super::Prepare;
use crate::Error;
use crate::slice::{Slice, SliceValues};

/// Builds every slice, on as many threads as the machine has cores: a large table takes a while to fill.
pub(super) fn build_slices(prepare: &Prepare<'_>) -> Result<Vec<(u32, Slice)>, Error> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let build = || {
        let mut built = Vec::new();
        while let Some((number, slice)) = prepare.slices.get(next.fetch_add(1, Ordering::Relaxed)) {
            built.push((*number, build_slice(prepare, slice)?));
        }
        Ok(built)
    };
    let parts: Vec<Result<Vec<(u32, Slice)>, Error>> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(build)).collect();
        let joined = handles.into_iter().map(|handle| handle.join());
        joined
            .map(|part| part.unwrap_or_else(|_| Err(Error::BadRequest("a slice could not be built".into()))))
            .collect()
    });
    Ok(parts.into_iter().collect::<Result<Vec<_>, Error>>()?.into_iter().flatten().collect())
}

fn build_slice(prepare: &Prepare<'_>, slice: &trainyard_variable::Slice) -> Result<Slice, Error> {
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
    let length = slice.rows.len() * slice.width;
    let mut values = vec![0.0; length];
    let mut slots: Vec<Vec<f32>> = Vec::new();
    match &prepare.restore {
        None => {
            let first = prepare.first_values.as_ref();
            match first.and_then(|first| Some((first.source, first.names.get(&spec.name)?))) {
                Some((source, name)) => {
                    source.read(name, None, slice.rows.clone(), &mut values).map_err(Error::Restore)?;
                }
                None => {
                    let (seed, rows) = (prepare.seed, slice.rows.clone());
                    spec.initializer.fill(seed, &spec.name, &spec.shape, rows, &mut values);
                }
            }
            slots.extend(optimizer.slots().iter().map(|slot| vec![slot.initial; length]));
        }
        Some(restore) => {
            let read = |slot: Option<&str>, out: &mut [f32]| {
                restore.source.read(&spec.name, slot, slice.rows.clone(), out).map_err(Error::Restore)
            };
            read(None, &mut values)?;
            for slot in optimizer.slots().iter() {
                let mut out = vec![0.0; length];
                read(Some(slot.name), &mut out)?;
                slots.push(out);
            }
        }
    }
    Ok(Slice {
        variable: slice.variable,
        part: slice.part,
        rows: slice.rows.clone(),
        width: slice.width,
        optimizer,
        state: RwLock::new(SliceValues { values, slots }),
    })
}
