//! The parameters that a worker keeps from one pull to the next.

use trainyard_parameter_store::{Pull, Pulled};
use trainyard_variable::Values;

use crate::Answer;
use crate::Error;
use crate::shared_rows::SharedReads;
use crate::split::ShardPlan;

/// The values of a pull. The next pull into the same values leaves out whole slices that have not changed. Valid for
/// one session.
#[derive(Debug, Clone, Default)]
pub struct CachedParameters {
    /// The values, by variable.
    pub values: Values,
    /// Number of updates that the values of each slice include, for slices that are held whole; 0 = none.
    updates: Vec<u64>,
}

impl CachedParameters {
    /// Resizes the buffers for a step. `sizes` has, for each variable, the number of values and whether they are the
    /// whole variable.
    pub(crate) fn resize(&mut self, slices: usize, sizes: &[(usize, bool)]) {
        self.updates.resize(slices, 0);
        self.values.resize_with(sizes.len(), Vec::new);
        for (values, (size, _)) in self.values.iter_mut().zip(sizes) {
            values.resize(*size, 0.0);
        }
    }

    /// Forgets the number of updates of a slice, so that the next pull reads the slice.
    pub(crate) fn forget(&mut self, slice: usize) {
        if let Some(updates) = self.updates.get_mut(slice) {
            *updates = 0;
        }
    }

    /// Returns the number of updates of each whole slice.
    pub(crate) fn known(&self, whole: &[u32]) -> Vec<u64> {
        whole
            .iter()
            .map(|number| self.updates.get(*number as usize).copied().unwrap_or(0))
            .collect()
    }

    /// Stores the values of one server's reply, and in `shared` the ids that have no row.
    ///
    /// # Errors
    /// The reply does not match the pull.
    pub(crate) fn take(
        &mut self,
        peer: &str,
        plan: &ShardPlan,
        pull: &Pull,
        (pulled, mut answer): (Pulled, Box<dyn Answer>),
        shared: &mut SharedReads,
    ) -> Result<(), Error> {
        let wrong = |message: String| Error::Protocol {
            peer: peer.to_owned(),
            message,
        };
        let unchanged = answer.unchanged().to_vec();
        if !unchanged.is_sorted_by(|one, next| one < next) {
            return Err(wrong(format!(
                "places left out must ascend, given {unchanged:?}"
            )));
        }
        let mut left_out = 0;
        for &place in &unchanged {
            match pull.known.get(place as usize) {
                None | Some(0) => {
                    let message =
                        format!("slice {place} of the pull is not held here, it was left out");
                    return Err(wrong(message));
                }
                Some(_) => left_out += plan.places[place as usize].1.len(),
            }
        }
        let expected = plan.values().saturating_sub(left_out);
        let given = answer.remaining();
        if given != expected {
            return Err(wrong(format!(
                "the answer must hold {expected} values, it holds {given}"
            )));
        }
        for (place, (variable, range)) in plan.places.iter().enumerate() {
            if !unchanged.contains(&(place as u32)) {
                answer.read(&mut self.values[*variable][range.clone()]);
            }
        }
        shared.note(plan, &pulled.without_row).map_err(wrong)?;
        for (place, number) in plan.selection.whole.iter().enumerate() {
            self.updates[*number as usize] = pulled.updates.get(place).copied().unwrap_or(0);
        }
        Ok(())
    }
}
