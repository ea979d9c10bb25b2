//! The model of a counting job: a gradient of -1 for each line, a learning rate of 1, so that values are counts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use trainyard::{
    Access, Batch, Error, FieldKind, Gradients, Initializer, Job, Model, OptimizerConfig, Outcome,
    Prediction, Read, Reads, Schema, Scores, Values, VariableSpec, custom_optimizer,
};
use trainyard_input::Cells;
use trainyard_run_config::{FeatureKind, StrategyKind};

use super::CELLS;

/// Optimizer group of the counters of ids.
const ROWS: &str = "rows";
/// Optimizer group of the dense counters.
const CELLS_GROUP: &str = "cells";

/// The model. For each server it has `count/<server>`, a table with a row for each id, and `cells/<server>`, read whole.
#[derive(Debug)]
pub struct Counting {
    schema: Schema,
    field: usize,
    rows: u32,
    optimizers: BTreeMap<String, OptimizerConfig>,
    variables: Vec<VariableSpec>,
    reads: Option<CheckedReads>,
}

/// What a process must read: what it has been told is applied.
#[derive(Debug)]
struct CheckedReads {
    /// Updates of each row id by this process.
    own: Mutex<Vec<u32>>,
}

impl CheckedReads {
    /// Compares what a step reads with what the steps before it have updated, and adds what the step itself updates: the next
    /// one begins when its updates are acknowledged.
    ///
    /// # Errors
    /// A counter of an id is below the own updates of it, or the dense counters hold a part of an update.
    fn look(&self, ids: &Ids, specs: &[VariableSpec], values: &Values) -> Result<(), Error> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        for (spec, values) in specs.iter().zip(values) {
            if spec.access == Access::Whole {
                let sum: f64 = values.iter().copied().map(f64::from).sum();
                if sum % ids.lines as f64 != 0.0 {
                    let name = &spec.name;
                    let lines = ids.lines;
                    let problem = format!(
                        "{name} holds {sum} lines, which is no number of whole batches of {lines}"
                    );
                    return Err(Error::Invalid(problem));
                }
                continue;
            }
            for (row, value) in ids.rows.iter().zip(values) {
                let least = own[*row as usize];
                if f64::from(*value) < f64::from(least) {
                    let name = &spec.name;
                    let problem = format!(
                        "row {row} of {name} is read as {value}, and this process alone has updated it {least} times"
                    );
                    return Err(Error::Invalid(problem));
                }
            }
        }
        for (row, times) in ids.rows.iter().zip(&ids.times) {
            own[*row as usize] += times;
        }
        Ok(())
    }
}

/// The ids of a batch, and how often each stands in it.
#[derive(Debug, Default)]
pub struct Ids {
    lines: usize,
    rows: Arc<[u32]>,
    times: Vec<u32>,
}

/// How far the counters of some rows lie apart.
#[derive(Debug, Default)]
pub struct Spread {
    lines: usize,
    lowest: Option<f32>,
    highest: Option<f32>,
}

/// Returns the name of a server's table of counters, one for each id.
pub(super) fn count_name(server: usize) -> String {
    format!("count/{server}")
}

/// Returns the name of a server's dense counter.
pub(super) fn cells_name(server: usize) -> String {
    format!("cells/{server}")
}

impl Counting {
    /// Builds the model of a job that [`super::Ledger::write`] wrote.
    ///
    /// # Errors
    /// The job is another.
    pub fn from_job(job: &Job) -> Result<Self, Error> {
        let (
            Some(FeatureKind::Identity {
                column, buckets, ..
            }),
            [servers, checked @ ..],
        ) = (
            job.features.first().map(|feature| &feature.kind),
            &job.model.hidden_units[..],
        )
        else {
            let rule = "a ledger has one feature of kind \"identity\" and as hidden_units the servers, and behind them 1 where reads are checked";
            return Err(Error::Invalid(rule.to_owned()));
        };
        let optimizer = custom_optimizer(job)?;
        let mut model = Self::new(column, *buckets, *servers, optimizer.clone());
        model.reads = (checked == [1]).then(|| CheckedReads {
            own: Mutex::new(vec![0; *buckets as usize]),
        });
        if let (StrategyKind::Hybrid, Some(lanes)) =
            (job.strategy.kind, job.strategy.update.replicas_to_aggregate)
        {
            // The mean of so many ones, times so many. The rows of each batch are an update of their own.
            let of_mean = optimizer.with_learning_rate_times(lanes as f32);
            model.optimizers.insert(CELLS_GROUP.to_owned(), of_mean);
        }
        Ok(model)
    }

    /// Builds the model that counts the ids of a column, which are below `rows`, so many times over.
    pub(crate) fn new(column: &str, rows: u32, copies: usize, optimizer: OptimizerConfig) -> Self {
        let mut schema = Schema::default();
        let field = schema.want(column, FieldKind::INT);
        let variable = |name: String, rows: u32, access: Access| VariableSpec {
            name,
            shape: vec![rows as usize, 1],
            access,
            initializer: Initializer::Zeros,
            optimizer_group: match access {
                Access::Whole => CELLS_GROUP,
                _ => ROWS,
            }
            .to_owned(),
        };
        // Placed by bytes, variables of one size go to one server each.
        let counts = (0..copies).map(|copy| variable(count_name(copy), rows, Access::Rows));
        let cells = (0..copies).map(|copy| variable(cells_name(copy), CELLS, Access::Whole));
        let variables = counts.chain(cells).collect();
        Self {
            schema,
            field,
            rows,
            optimizers: [ROWS, CELLS_GROUP]
                .map(|group| (group.to_owned(), optimizer.clone()))
                .into(),
            variables,
            reads: None,
        }
    }

    /// Writes the gradients of the counters, one for each of [`Model::variables`].
    pub(crate) fn count(&self, ids: &Ids, gradients: &mut [Vec<f32>]) {
        for (variable, gradient) in self.variables.iter().zip(gradients) {
            gradient.clear();
            match variable.access {
                Access::Whole => {
                    gradient.resize(CELLS as usize, 0.0);
                    for (row, times) in ids.rows.iter().zip(&ids.times) {
                        gradient[(row % CELLS) as usize] -= *times as f32;
                    }
                }
                _ => gradient.extend(ids.times.iter().map(|times| -(*times as f32))),
            }
        }
    }
}

impl Model for Counting {
    type Features = Ids;
    type Scratch = ();
    type Metrics = Spread;

    fn variables(&self) -> &[VariableSpec] {
        &self.variables
    }

    fn optimizers(&self) -> BTreeMap<String, OptimizerConfig> {
        self.optimizers.clone()
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn serving_schema(&self) -> &Schema {
        &self.schema
    }

    fn features(&self, batch: &Batch) -> Result<Ids, Error> {
        let Cells::Int(ids) = &batch.columns[self.field].cells else {
            return Err(Error::NoLabel);
        };
        let mut times = BTreeMap::new();
        for id in ids {
            let row = u32::try_from(*id)
                .ok()
                .filter(|row| *row < self.rows)
                .ok_or_else(|| {
                    let message = format!("must be 0 to {}, given {id}", self.rows - 1);
                    Error::Value {
                        column: "row".to_owned(),
                        message,
                    }
                })?;
            *times.entry(row).or_insert(0) += 1;
        }
        Ok(Ids {
            lines: batch.rows,
            rows: times.keys().copied().collect(),
            times: times.into_values().collect(),
        })
    }

    fn reads(&self, ids: &Ids) -> Reads {
        let read = |variable: &VariableSpec| match variable.access {
            Access::Whole => Read::Whole,
            _ => Read::Rows(Arc::clone(&ids.rows)),
        };
        self.variables.iter().map(read).collect()
    }

    fn train(
        &self,
        ids: &Ids,
        values: &Values,
        gradients: &mut Gradients,
        (): &mut (),
    ) -> Result<Outcome, Error> {
        if let Some(reads) = &self.reads {
            reads.look(ids, &self.variables, values)?;
        }
        gradients.resize(values.len(), Vec::new());
        self.count(ids, gradients);
        Ok(Outcome {
            loss: 0.0,
            examples: ids.lines,
        })
    }

    fn metrics(&self) -> Spread {
        Spread::default()
    }

    fn evaluate(
        &self,
        ids: &Ids,
        values: &Values,
        spread: &mut Spread,
        (): &mut (),
    ) -> Result<(), Error> {
        spread.lines += ids.lines;
        for (variable, values) in self.variables.iter().zip(values) {
            if variable.access == Access::Rows {
                for value in values {
                    spread.lowest = Some(spread.lowest.map_or(*value, |lowest| lowest.min(*value)));
                    spread.highest =
                        Some(spread.highest.map_or(*value, |highest| highest.max(*value)));
                }
            }
        }
        Ok(())
    }

    fn scores(&self, spread: &Spread) -> Scores {
        let lowest = spread.lowest.unwrap_or(0.0);
        let highest = spread.highest.unwrap_or(0.0);
        let score = |name: &str, value: f32| (name.to_owned(), f64::from(value));
        [
            score("loss", highest - lowest),
            score("lowest", lowest),
            score("highest", highest),
        ]
        .into()
    }

    fn predict(
        &self,
        ids: &Ids,
        values: &Values,
        (): &mut (),
    ) -> Result<Vec<BTreeMap<String, Prediction>>, Error> {
        let counts = values.first().into_iter().flatten().take(ids.rows.len());
        Ok(counts
            .map(|count| [("count".to_owned(), Prediction::Floats(vec![*count]))].into())
            .collect())
    }

    fn describe(&self) -> serde_json::Value {
        serde_json::json!({"ledger": {"rows": self.rows, "servers": self.variables.len() / 2}})
    }
}
