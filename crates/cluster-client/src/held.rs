//! Parameters as a worker holds them from one pull to the next.

use trainyard_variable::Values;

use crate::Error;
use crate::split::ShardPlan;
use crate::{Answer, ShardPull};

/// The values that a pull brought. Where the next pull goes into the same ones, whole slices that have not changed
/// meanwhile need not come again. Good for one session.
#[derive(Debug, Clone, Default)]
pub struct Held {
    /// The values, by variable.
    pub values: Values,
    /// Of each slice of the layout that is held whole, the count of updates that its values stand for; 0 = none.
    updates: Vec<u64>,
}

impl Held {
    /// Makes room for a step: `sizes` has the values of each variable, and whether they are all of it.
    pub(crate) fn resize(&mut self, slices: usize, sizes: &[(usize, bool)]) {
        self.updates.resize(slices, 0);
        self.values.resize_with(sizes.len(), Vec::new);
        for (values, (size, _)) in self.values.iter_mut().zip(sizes) {
            values.resize(*size, 0.0);
        }
    }

    /// Forgets which updates a slice's values stand for.
    pub(crate) fn forget(&mut self, slice: usize) {
        if let Some(updates) = self.updates.get_mut(slice) {
            *updates = 0;
        }
    }

    /// Returns the counts of whole slices.
    pub(crate) fn known(&self, whole: &[u32]) -> Vec<u64> {
        whole
            .iter()
            .map(|number| self.updates.get(*number as usize).copied().unwrap_or(0))
            .collect()
    }

    /// Takes in the answer of one server.
    ///
    /// # Errors
    /// It is not an answer to the question.
    pub(crate) fn take(
        &mut self,
        peer: &str,
        plan: &ShardPlan,
        pull: &ShardPull,
        updates: &[u64],
        mut answer: Answer,
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
        for (place, number) in plan.selection.whole.iter().enumerate() {
            self.updates[*number as usize] = updates.get(place).copied().unwrap_or(0);
        }
        Ok(())
    }
}
