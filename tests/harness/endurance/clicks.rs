//! A stream of click records that never repeats, and the model that is trained on it: a premade one, and counters.
//!
//! The data of the job holds nothing but row ids. The record that a row stands for is made of the number of its batch, which
//! grows for as long as the job runs, so that the stream has no end and takes no disk.

use std::collections::BTreeMap;

use trainyard::{
    Batch, Canned, Column, Error, FieldKind, Gradients, Job, Model, OptimizerConfig, Outcome,
    Prediction, Reads, Schema, Scores, Values, VariableSpec,
};
use trainyard_input::{Bytes, Cells, Position};
use trainyard_run_config::FeatureKind;

use crate::ledger::{Counting, Ids};
use crate::{Draw, Ledger};

/// Column of the row ids.
pub(super) const ROW: &str = "row";
/// Column of the label.
pub(super) const LABEL: &str = "label";
/// Numbers of a record, `i1` and so on.
pub(super) const NUMBERS: usize = 13;
/// Categories of a record, `c1` and so on: how many values each has.
pub(super) const CATEGORIES: [u64; 26] = [
    1_000_000, 1_000_000, 1_000_000, 1460, 583, 305, 24, 12_517, 633, 3, 93_145, 5_683, 3_194, 27,
    14_992, 10, 5_652, 2_173, 4, 18, 15, 286_181, 105, 142_572, 100, 50,
];
/// The first categories are ids that come and go, such as those of advertisements: no value is drawn for ever.
pub(super) const DRIFTING: usize = 3;
/// Records between two new ids of such a category.
const RECORDS_OF_ID: u64 = 8;
/// Ids of such a category that are drawn at a time.
const LIVE_IDS: u64 = 100_000;
/// Categories that tell something of the label.
const TELLING: std::ops::Range<usize> = 3..12;
/// Records of evaluations are far from those of training.
const EVALUATION: u64 = 1 << 60;

/// Draws the record of a number into the columns of a batch, which are those of a schema.
struct Record {
    label: f32,
    numbers: [f32; NUMBERS],
    categories: [u64; CATEGORIES.len()],
}

impl Record {
    fn of(number: u64) -> Self {
        let mut draw = Draw::new(number);
        let numbers = std::array::from_fn(|_| (draw.fraction() * 8.0).exp().floor() as f32);
        let mut logit = -1.0;
        let categories = std::array::from_fn(|place| {
            if place < DRIFTING {
                return number / RECORDS_OF_ID + draw.below(LIVE_IDS);
            }
            // Few values come often, and most of them seldom.
            let id = (CATEGORIES[place] as f64).powf(draw.fraction()) as u64 - 1;
            if TELLING.contains(&place) {
                logit += 2.0 * (Draw::new(id << 8 | place as u64).fraction() - 0.5);
            }
            id
        });
        let label = f32::from(draw.fraction() < 1.0 / (1.0 + f64::exp(-logit)));
        Self {
            label,
            numbers,
            categories,
        }
    }
}

/// The model: a premade one over the records, and a counter of each row id.
#[derive(Debug)]
pub struct Clicks {
    model: Canned,
    counting: Counting,
    variables: Vec<VariableSpec>,
    rows: u32,
    batch_size: u64,
}

/// The features of a batch, and its row ids.
#[derive(Debug)]
pub struct Clicked {
    features: <Canned as Model>::Features,
    /// None in evaluations.
    ids: Ids,
}

/// Returns the place in its kind that a column's name gives: 1 in `prefix1`.
fn place(name: &str, prefix: char) -> Option<usize> {
    name.strip_prefix(prefix)?
        .parse::<usize>()
        .ok()?
        .checked_sub(1)
}

impl Clicks {
    /// Builds the model of a job that [`super::Endurance`] wrote.
    ///
    /// # Errors
    /// The job is another.
    pub fn from_job(job: &Job) -> Result<Self, Error> {
        let mut of_records = job.clone();
        let first = of_records.features.drain(..1).next();
        let Some(FeatureKind::Identity {
            column, buckets, ..
        }) = first.map(|feature| feature.kind)
        else {
            return Err(Error::Invalid(
                "the first feature has to be the row ids".to_owned(),
            ));
        };
        let model = Canned::from_job(&of_records)?;
        let counting = Counting::new(&column, buckets, 1, OptimizerConfig::sgd(1.0));
        let variables = model
            .variables()
            .iter()
            .chain(counting.variables())
            .cloned()
            .collect();
        let batch_size = job.input.train.batch_size as u64;
        Ok(Self {
            model,
            counting,
            variables,
            rows: buckets,
            batch_size,
        })
    }

    /// Makes the records of a batch.
    fn records(
        &self,
        numbers: impl Iterator<Item = u64>,
        position: Position,
    ) -> Result<Batch, Error> {
        let records: Vec<Record> = numbers.map(Record::of).collect();
        let mut text = String::new();
        let column = |name: &str, kind: &FieldKind| match kind {
            FieldKind::Float { .. } if name == LABEL => Some(Column::floats(
                records.iter().map(|record| record.label).collect(),
            )),
            FieldKind::Float { .. } => {
                let place = place(name, 'i').filter(|place| *place < NUMBERS)?;
                Some(Column::floats(
                    records.iter().map(|record| record.numbers[place]).collect(),
                ))
            }
            FieldKind::Bytes { .. } => {
                let place = place(name, 'c').filter(|place| *place < CATEGORIES.len())?;
                let mut texts = Bytes::default();
                for record in &records {
                    text.clear();
                    let _ = std::fmt::Write::write_fmt(
                        &mut text,
                        format_args!("{:x}", record.categories[place]),
                    );
                    texts.push(text.as_bytes());
                }
                Some(Column::bytes(texts))
            }
            _ => None,
        };
        let fields = &self.model.schema().fields;
        let mut column = column;
        let columns: Option<Vec<Column>> = fields
            .iter()
            .map(|field| column(&field.name, &field.kind))
            .collect();
        let rule = || {
            Error::Invalid(format!(
                "a record has {LABEL}, i1 to i{NUMBERS} and c1 to c{}",
                CATEGORIES.len()
            ))
        };
        Ok(Batch {
            rows: records.len(),
            columns: columns.ok_or_else(rule)?,
            position,
        })
    }
}

impl Model for Clicks {
    type Features = Clicked;
    type Scratch = <Canned as Model>::Scratch;
    type Metrics = <Canned as Model>::Metrics;

    fn variables(&self) -> &[VariableSpec] {
        &self.variables
    }

    fn optimizers(&self) -> BTreeMap<String, OptimizerConfig> {
        let mut optimizers = self.model.optimizers();
        optimizers.extend(self.counting.optimizers());
        optimizers
    }

    fn schema(&self) -> &Schema {
        self.counting.schema()
    }

    fn serving_schema(&self) -> &Schema {
        self.counting.serving_schema()
    }

    fn features(&self, batch: &Batch) -> Result<Clicked, Error> {
        let Cells::Int(rows) = &batch.columns[0].cells else {
            return Err(Error::NoLabel);
        };
        // Rows beyond those of training are evaluated, and nothing counts them.
        let is_trained = rows.iter().all(|row| *row < i64::from(self.rows));
        let first = batch.position.batch * self.batch_size;
        let number = |(place, row): (u64, &i64)| {
            if is_trained {
                first + place
            } else {
                EVALUATION + row.unsigned_abs()
            }
        };
        let records = self.records((0..).zip(rows).map(number), batch.position)?;
        let ids = if is_trained {
            self.counting.features(batch)?
        } else {
            Ids::default()
        };
        Ok(Clicked {
            features: self.model.features(&records)?,
            ids,
        })
    }

    fn reads(&self, clicked: &Clicked) -> Reads {
        let mut reads = self.model.reads(&clicked.features);
        reads.extend(self.counting.reads(&clicked.ids));
        reads
    }

    fn train(
        &self,
        clicked: &Clicked,
        values: &Values,
        gradients: &mut Gradients,
        scratch: &mut Self::Scratch,
    ) -> Result<Outcome, Error> {
        let outcome = self
            .model
            .train(&clicked.features, values, gradients, scratch)?;
        gradients.resize_with(values.len(), Vec::new);
        self.counting
            .count(&clicked.ids, &mut gradients[self.model.variables().len()..]);
        Ok(outcome)
    }

    fn metrics(&self) -> Self::Metrics {
        self.model.metrics()
    }

    fn evaluate(
        &self,
        clicked: &Clicked,
        values: &Values,
        metrics: &mut Self::Metrics,
        scratch: &mut Self::Scratch,
    ) -> Result<(), Error> {
        self.model
            .evaluate(&clicked.features, values, metrics, scratch)
    }

    fn scores(&self, metrics: &Self::Metrics) -> Scores {
        self.model.scores(metrics)
    }

    fn predict(
        &self,
        clicked: &Clicked,
        values: &Values,
        scratch: &mut Self::Scratch,
    ) -> Result<Vec<BTreeMap<String, Prediction>>, Error> {
        self.model.predict(&clicked.features, values, scratch)
    }

    fn describe(&self) -> serde_json::Value {
        serde_json::json!({"clicks": self.model.describe(), "counters": self.counting.describe()})
    }
}

/// Returns the job: its features are those of the records, its first one the row ids.
pub(super) fn job(ledger: &Ledger, model_dir: &str, servers: usize, log_bytes_max: u64) -> String {
    let names = |prefix: char, places: std::ops::Range<usize>| {
        let names: Vec<String> = places
            .map(|place| format!("\"{prefix}{}\"", place + 1))
            .collect();
        names.join(", ")
    };
    let buckets: Vec<String> = CATEGORIES[DRIFTING..]
        .iter()
        .map(|values| values.min(&100_000).to_string())
        .collect();
    format!(
        r#"model_dir = "{model_dir}"
[run]
seed = 5
save_checkpoints_secs = 30
[input]
label = {{ column = "{LABEL}" }}
train = {{ files = ["rows.csv"], batch_size = {batch_size}, epochs = {epochs}, shuffle_rows = 1000 }}
eval = {{ files = ["eval.csv"], batch_size = 1024 }}
[[feature]]
columns = ["{ROW}"]                  # counted, and no feature of the model
kind = "identity"
buckets = {rows}
wide = true
[[feature]]
columns = [{numbers}]
kind = "numeric"
normalizer = "log1p"
wide = true
deep = true
[[feature]]
columns = [{drifting}]
kind = "dynamic"
rows_max = 200_000
wide = false
deep = {{ embedding = 8 }}
[[feature]]
columns = [{hashed}]
kind = "hashed"
buckets = [{buckets}]
wide = true
deep = {{ embedding = 8 }}
[model]
kind = "dnn_linear_combined_classifier"
hidden_units = [64, 32]
linear_optimizer = {{ kind = "ftrl", learning_rate = 0.05 }}
dnn_optimizer = {{ kind = "adagrad", learning_rate = 0.05 }}
[strategy]
pipeline_depth = 1
partitioner = {{ kind = "fixed", num_shards = {servers} }}
[parameter_servers]
log_bytes_max = {log_bytes_max}
[eval]
start_delay_secs = 0
throttle_secs = 60
"#,
        batch_size = ledger.batch_size,
        epochs = ledger.epochs,
        rows = ledger.rows,
        numbers = names('i', 0..NUMBERS),
        drifting = names('c', 0..DRIFTING),
        hashed = names('c', DRIFTING..CATEGORIES.len()),
        buckets = buckets.join(", "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stands_for_one_record_and_another_number_for_another() {
        let one = Record::of(7);
        let again = Record::of(7);
        let other = Record::of(8);
        assert_eq!(
            (one.numbers, one.categories),
            (again.numbers, again.categories)
        );
        assert_ne!(
            (one.numbers, one.categories),
            (other.numbers, other.categories)
        );
    }

    #[test]
    fn ids_that_come_and_go_are_never_drawn_again() {
        let drawn = |number| Record::of(number).categories[0];
        let late = RECORDS_OF_ID * LIVE_IDS;
        let oldest = (0..1000).map(|step| drawn(late + step)).min();
        assert!(
            oldest >= Some(LIVE_IDS),
            "{oldest:?} was drawn {late} records after its time"
        );
        assert!((0..1000).map(drawn).max() < Some(LIVE_IDS + 1000));
    }

    #[test]
    fn other_categories_stay_below_their_count_and_a_good_part_of_the_labels_is_positive() {
        let records: Vec<Record> = (0..10_000).map(Record::of).collect();
        for record in &records {
            let bounded = record.categories.iter().zip(CATEGORIES).skip(DRIFTING);
            for (place, (drawn, count)) in bounded.enumerate() {
                assert!(*drawn < count, "category {}", DRIFTING + place + 1);
            }
        }
        let positive = records
            .iter()
            .map(|record| f64::from(record.label))
            .sum::<f64>()
            / 10_000.0;
        assert!(
            (0.2..0.5).contains(&positive),
            "{positive} of the labels are positive"
        );
    }
}
