//! The gradient reducer sums the gradients of a step over the lanes of all members. It sends buckets while the rest is
//! still being computed.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use trainyard_collective::{Collective, Error, Plan};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_protocol::limits::{BUCKET_BYTES, BUCKETS_AT_ONCE};
use trainyard_variable::{Access, Gradients, Read, StepNumber, VariableSpec};

use crate::sparse::{MeanGradients, SparsePart, decode, encode, merge};

/// Number of buckets for a model whose gradients would fit fewer: the first buckets are sent while the last are
/// computed.
const BUCKETS_WANTED: usize = 2;
/// Least bytes of a bucket of such a model, because each message has a cost.
const BUCKET_BYTES_MIN: usize = 128 << 10;
/// Numbers that are sent after the gradients: the count of micro-batches of the step, and of requests to form the group
/// again. Before them come, for each variable, the number of micro-batches that have a gradient of it.
const CONTROL: usize = 2;

/// Gradients of one bucket as they are sent: one buffer for each lane of this member.
type Buffers = Vec<Vec<f32>>;

/// Way of the gradients of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowGradients {
    /// Members gather them.
    Gathered,
    /// Members push them to the servers of tables.
    Pushed,
}

/// Request of this member for the time after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterStep {
    /// The group continues.
    Continue,
    /// The group is formed again.
    Regroup,
}

/// Sums the gradients of one step after another.
pub(super) struct GradientReducer<'a> {
    variables: &'a [VariableSpec],
    collective: &'a Arc<Collective>,
    plan: Plan,
    /// Gradients of rows are gathered, too.
    gathers: bool,
    step: u64,
    /// Number of lanes that this member computes in the step.
    lanes: usize,
    buckets: Vec<Bucket>,
    /// Number of buckets that have been sent.
    sent: usize,
    control: Vec<f32>,
    /// Variables whose gradient the current lane has provided.
    taken: Vec<bool>,
    sparse: Vec<SparsePart>,
    under_way: Option<UnderWay>,
    spare: Gradients,
    /// Buffers in which lanes are computed.
    computed: Vec<Gradients>,
}

struct Bucket {
    buffers: Buffers,
    /// Number of values that the last lane has not provided.
    missing: usize,
}

/// Buckets in progress.
struct UnderWay {
    sender: mpsc::UnboundedSender<(usize, Buffers)>,
    sums: AbortOnDropHandle<Result<Vec<(usize, Buffers)>, Error>>,
}

/// The sums over all members.
pub(super) struct ReducedGradients {
    /// Number of micro-batches of the step.
    pub(super) count: u64,
    /// A member requests that the group is formed again.
    pub(super) regroup: bool,
    /// Gradients of rows of every member, by rank.
    gifts: Vec<Bytes>,
}

impl<'a> GradientReducer<'a> {
    pub(super) fn new(
        variables: &'a [VariableSpec],
        collective: &'a Arc<Collective>,
        rows: RowGradients,
    ) -> Result<Self, Diagnostic> {
        let whole = |spec: &VariableSpec| spec.access == Access::Whole;
        let length = |spec: &VariableSpec| if whole(spec) { spec.len() } else { 0 };
        let lengths: Vec<usize> = variables.iter().map(length).collect();
        // The backward pass computes the gradients of the last variables first.
        let order: Vec<usize> = (0..lengths.len()).rev().collect();
        let bytes = lengths.iter().sum::<usize>() * size_of::<f32>();
        let bucket_bytes = (bytes / BUCKETS_WANTED).clamp(BUCKET_BYTES_MIN, BUCKET_BYTES);
        let plan = Plan::new(&lengths, &order, bucket_bytes).map_err(|problem| {
            Diagnostic::error(
                Code::E9001,
                format!("the plan of the gradient sums is not valid: {problem}"),
            )
        })?;
        let bucket = |_: &usize| Bucket {
            buffers: Buffers::new(),
            missing: 0,
        };
        Ok(Self {
            variables,
            collective,
            gathers: rows == RowGradients::Gathered && variables.iter().any(|spec| !whole(spec)),
            step: 0,
            lanes: 0,
            buckets: plan.buckets().iter().map(bucket).collect(),
            plan,
            sent: 0,
            control: Vec::new(),
            taken: vec![false; variables.len()],
            sparse: Vec::new(),
            under_way: None,
            spare: Gradients::new(),
            computed: Vec::new(),
        })
    }

    /// Begins a step in which this member computes `lanes` lanes.
    pub(super) fn begin(&mut self, step: StepNumber, lanes: usize) {
        (self.step, self.lanes, self.sent) = (step.get(), lanes, 0);
        for (bucket, values) in self.buckets.iter_mut().zip(self.plan.buckets()) {
            bucket
                .buffers
                .resize_with(lanes.max(1), || vec![0.0; *values]);
            bucket.missing = if lanes > 0 { *values } else { 0 };
            if lanes == 0 {
                bucket.buffers[0].fill(0.0);
            }
        }
        self.control.clear();
        self.control.resize(self.variables.len() + CONTROL, 0.0);
        self.computed
            .extend(self.sparse.drain(..).map(|part| part.gradients));
        let (sender, receiver) = mpsc::unbounded_channel();
        let sums = tokio::spawn(sum_all(Arc::clone(self.collective), step.get(), receiver));
        self.under_way = Some(UnderWay {
            sender,
            sums: AbortOnDropHandle::new(sums),
        });
    }

    /// Returns buffers in which a lane can be computed.
    pub(super) fn memory(&mut self) -> Gradients {
        self.computed.pop().unwrap_or_default()
    }

    /// Adds the gradient of one variable, from the `place`-th lane of this member.
    pub(super) fn take(&mut self, place: usize, variable: usize, gradient: &[f32]) {
        let whole = self
            .variables
            .get(variable)
            .is_some_and(|spec| spec.access == Access::Whole);
        if whole && !gradient.is_empty() && !std::mem::replace(&mut self.taken[variable], true) {
            self.control[variable] += 1.0;
            self.put(place, variable, Some(gradient));
        }
    }

    /// Adds the other gradients of a lane. Returns the gradients of rows and ids, unless they are gathered here.
    pub(super) fn add(&mut self, place: usize, part: SparsePart) -> Gradients {
        for (variable, gradient) in part.gradients.iter().enumerate() {
            self.take(place, variable, gradient);
        }
        for variable in 0..self.variables.len() {
            if !std::mem::take(&mut self.taken[variable]) {
                self.put(place, variable, None);
            }
        }
        let count = self.variables.len();
        self.control[count] += 1.0;
        if !self.gathers {
            return part.gradients;
        }
        let named = |read: Read| {
            if read == Read::Whole {
                Read::Nothing
            } else {
                read
            }
        };
        let reads = part.reads.into_iter().map(named).collect();
        self.sparse.push(SparsePart { reads, ..part });
        Gradients::new()
    }

    /// Writes a lane's gradient of a variable, or zeros, into its buckets. Sends full buckets.
    fn put(&mut self, place: usize, variable: usize, gradient: Option<&[f32]>) {
        let last = place + 1 == self.lanes;
        for piece in self.plan.pieces(variable) {
            let bucket = &mut self.buckets[piece.bucket];
            let out = &mut bucket.buffers[place][piece.place.clone()];
            match gradient {
                Some(gradient) => out.copy_from_slice(&gradient[piece.values.clone()]),
                None => out.fill(0.0),
            }
            if last {
                bucket.missing -= piece.place.len();
            }
        }
        self.send_full();
    }

    fn send_full(&mut self) {
        let Some(under_way) = &self.under_way else {
            return;
        };
        while let Some(bucket) = self
            .buckets
            .get_mut(self.sent)
            .filter(|bucket| bucket.missing == 0)
        {
            // If the sums have failed, `finish` returns their error.
            drop(
                under_way
                    .sender
                    .send((self.sent, std::mem::take(&mut bucket.buffers))),
            );
            self.sent += 1;
        }
    }

    /// Waits for the sums over all members.
    pub(super) async fn finish(&mut self, after: AfterStep) -> Result<ReducedGradients, Error> {
        let count = self.variables.len();
        self.control[count + 1] = match after {
            AfterStep::Continue => 0.0,
            AfterStep::Regroup => 1.0,
        };
        self.send_full();
        let Some(UnderWay { sender, sums }) = self.under_way.take() else {
            return Ok(ReducedGradients {
                count: 0,
                regroup: false,
                gifts: Vec::new(),
            });
        };
        drop(sender.send((self.buckets.len(), vec![std::mem::take(&mut self.control)])));
        drop(sender);
        let sums = async {
            match sums.await {
                Ok(sums) => sums,
                Err(_) => {
                    self.collective.abort("a sum has failed");
                    Err(self.collective.ended().await)
                }
            }
        };
        let (sums, gifts) = if self.gathers {
            let gifts = self
                .collective
                .all_gather(self.step, 0, encode(&self.sparse));
            tokio::try_join!(sums, gifts)?
        } else {
            (sums.await?, Vec::new())
        };
        for (bucket, mut buffers) in sums {
            match self.buckets.get_mut(bucket) {
                Some(bucket) => bucket.buffers = buffers,
                None => self.control = buffers.pop().unwrap_or_default(),
            }
        }
        let told = |place: usize| self.control.get(count + place).copied().unwrap_or(0.0);
        Ok(ReducedGradients {
            count: told(0) as u64,
            regroup: told(1) > 0.0,
            gifts,
        })
    }

    /// Returns the mean over the micro-batches of the step: what it updates, and the gradients.
    pub(super) fn mean(&mut self, summed: ReducedGradients) -> Result<MeanGradients, String> {
        let rank = self.collective.group().rank;
        let others = summed
            .gifts
            .iter()
            .enumerate()
            .filter(|(member, _)| *member != rank);
        let others = others
            .map(|(_, gift)| decode(gift, self.variables))
            .collect::<Result<Vec<_>, _>>()?;
        let mut parts: Vec<&SparsePart> =
            self.sparse.iter().chain(others.iter().flatten()).collect();
        let distinct: BTreeSet<u32> = parts.iter().map(|part| part.lane).collect();
        if distinct.len() != parts.len() {
            return Err(format!(
                "two members computed the same lane: {} micro-batches of {} lanes",
                parts.len(),
                distinct.len()
            ));
        }
        let share = 1.0 / summed.count.max(1) as f32;
        let MeanGradients {
            mut reads,
            counted,
            mut gradients,
        } = merge(&mut parts, self.variables, share);
        for (variable, spec) in self.variables.iter().enumerate() {
            // A variable of which no micro-batch has a gradient does not change.
            if spec.access != Access::Whole || self.control[variable] == 0.0 {
                continue;
            }
            let mut values = self
                .spare
                .get_mut(variable)
                .map(std::mem::take)
                .unwrap_or_default();
            values.clear();
            for piece in self.plan.pieces(variable) {
                let sums = &self.buckets[piece.bucket].buffers[0][piece.place.clone()];
                values.extend(sums.iter().map(|sum| sum * share));
            }
            (reads[variable], gradients[variable]) = (Read::Whole, values);
        }
        Ok(MeanGradients {
            reads,
            counted,
            gradients,
        })
    }

    /// Keeps buffers for the next step.
    pub(super) fn keep(&mut self, gradients: Gradients) {
        self.spare = gradients;
    }
}

/// Sums buckets as they arrive, a few at a time.
async fn sum_all(
    collective: Arc<Collective>,
    step: u64,
    mut buckets: mpsc::UnboundedReceiver<(usize, Buffers)>,
) -> Result<Vec<(usize, Buffers)>, Error> {
    let collective = &*collective;
    stream::poll_fn(|context| buckets.poll_recv(context))
        .map(|(bucket, mut buffers)| async move {
            if let Some((values, more)) = buffers.split_first_mut() {
                collective
                    .all_reduce(step, bucket as u32, values, more)
                    .await?;
            }
            Ok((bucket, buffers))
        })
        .buffer_unordered(BUCKETS_AT_ONCE)
        .try_collect()
        .await
}
