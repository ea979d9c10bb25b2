//! The preparation of a server: all of its values, initialized or restored.

use std::path::PathBuf;

use tracing::warn;
use trainyard_checkpoint::{Checkpoint, Origin, PartRead};
use trainyard_parameter_store::{FirstValues, Identity, Prepare, Restore, version_of};
use trainyard_protocol::Reason;
use trainyard_runtime::blocking;
use trainyard_variable::Slice;

use crate::error::chain;
use crate::restore::{FirstSource, InitialSource, Source, is_final};
use crate::{Error, LocalServer, Plan};

impl LocalServer {
    /// Replaces the contents of the server by its slices of `plan`. Returns the parts that it has read of checkpoint
    /// tensors which other servers have read too.
    ///
    /// # Errors
    /// The store refuses, or the checkpoint cannot be read.
    pub async fn prepare(&self, identity: Identity, plan: &Plan) -> Result<Vec<PartRead>, Error> {
        let (place, _) = *self.place.lock();
        let slices = plan
            .layout
            .of_ps(place)
            .map(|(number, slice)| (number as u32, slice.clone()))
            .collect();
        self.prepare_slices(identity, plan.clone(), place, slices)
            .await?;
        Ok(self.parts_read())
    }

    /// Returns the parts that preparing has read of checkpoint tensors which other servers have read too.
    pub fn parts_read(&self) -> Vec<PartRead> {
        self.parts_read.lock().clone()
    }

    /// As [`LocalServer::prepare`], with explicit slices, as the store at `place` of the job.
    ///
    /// # Errors
    /// The store refuses, or the checkpoint cannot be read.
    pub async fn prepare_slices(
        &self,
        identity: Identity,
        plan: Plan,
        place: usize,
        slices: Vec<(u32, Slice)>,
    ) -> Result<(), Error> {
        let this = self.clone();
        let work = move || this.prepare_now(&identity, plan, place, slices);
        blocking(work)
            .await
            .map_err(|error| self.refused(Reason::Storage, error.to_string()))?
    }

    /// As [`LocalServer::prepare_slices`], on this thread.
    ///
    /// # Errors
    /// The store refuses, the checkpoint cannot be read, or a tensor that was read whole is damaged.
    pub fn prepare_now(
        &self,
        identity: &Identity,
        plan: Plan,
        place: usize,
        slices: Vec<(u32, Slice)>,
    ) -> Result<(), Error> {
        self.prepare_by(identity, plan, place, slices, None)
    }

    /// As [`LocalServer::prepare_now`]. `initial` replaces a checkpoint.
    pub(crate) fn prepare_by(
        &self,
        identity: &Identity,
        plan: Plan,
        place: usize,
        slices: Vec<(u32, Slice)>,
        initial: Option<&InitialSource>,
    ) -> Result<(), Error> {
        *self.place.lock() = (place, plan.layout.num_ps);
        let open = |path: &PathBuf| {
            Checkpoint::open(path).map_err(|error| self.refused(Reason::Storage, chain(&error)))
        };
        let checkpoint = plan.checkpoint.as_ref().map(open).transpose()?;
        let source = checkpoint.as_ref().map(Source::of);
        let mut restore = checkpoint
            .as_ref()
            .zip(source.as_ref())
            .map(|(checkpoint, source)| self.restore(checkpoint, source, plan.update));
        if let Some(restore) = restore.as_mut().filter(|_| plan.forget_positions) {
            restore.positions.clear();
        }
        if let Some(source) = initial {
            restore = Some(Restore {
                source,
                version: version_of(plan.update, 0),
                global_step: 0,
                positions: Vec::new(),
            });
        }
        let origin = match &plan.warm_start {
            Some(start) => Some(
                Origin::open(&start.path, &mut |warning| warn!("{}", warning.log_line())).map_err(
                    |problem| {
                        let reason = if is_final(&problem) {
                            Reason::Unfit
                        } else {
                            Reason::Storage
                        };
                        self.refused(reason, problem.message)
                    },
                )?,
            ),
            None => None,
        };
        let path = plan.warm_start.as_ref().map(|start| start.path.clone());
        let first = origin.as_ref().zip(path.as_deref());
        let first = first.map(|(origin, path)| FirstSource::new(origin, path));
        let first_values = first
            .as_ref()
            .zip(plan.warm_start)
            .map(|(source, start)| FirstValues {
                source,
                names: start.names,
            });
        let prepare = Prepare {
            variables: plan.variables,
            slices,
            optimizers: plan.optimizers,
            seed: plan.seed,
            layout_fingerprint: plan.fingerprint,
            counts_steps: place == 0,
            global_step_max: plan.global_step_max,
            update: plan.update,
            guard: plan.guard,
            stores: if plan.hybrid { 1 } else { plan.layout.num_ps },
            restore,
            first_values,
        };
        let prepared = self.store.prepare(identity, prepare);
        if let Err(error @ trainyard_parameter_store::Error::Restore(_)) = &prepared
            && first.as_ref().is_some_and(FirstSource::is_unfit)
        {
            return Err(self.refused(Reason::Unfit, error.to_string()));
        }
        self.check(prepared)?;
        *self.prepared_with.lock() = (plan.settings, plan.provenance);
        *self.parts_read.lock() = source
            .map(|source| source.parts_read.into_inner())
            .unwrap_or_default();
        Ok(())
    }
}
