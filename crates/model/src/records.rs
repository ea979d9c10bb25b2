//! Records as features: the columns that a model with a head reads, and a batch of them prepared for it.

use trainyard_feature_column::{FeatureColumns, Features, fingerprint64};
use trainyard_input::{Batch, Cells, FieldKind, Position, Schema};
use trainyard_run_config::{FeatureConfig, Job};

use crate::{Error, Heads, LabelFields, want_example_weight};

/// A batch of features, prepared for a premade estimator or a network.
#[derive(Debug, Clone)]
pub struct Example {
    /// Numbers and ids.
    pub columns: Features,
    /// Labels, if the batch has them. Of several tasks, one of each for a record, NaN where it is missing.
    pub labels: Option<Vec<f32>>,
    /// Weights, if the job names a weight column. Of several tasks, one for each task of a record.
    pub weights: Option<Vec<f32>>,
    /// Group of each example, for the group AUC.
    pub groups: Option<Vec<u64>>,
    /// Position of the batch, which seeds dropout.
    pub position: Position,
}

/// The columns that a model reads.
#[derive(Debug, Clone)]
pub(crate) struct Records {
    pub(crate) columns: FeatureColumns,
    pub(crate) schema: Schema,
    pub(crate) serving_schema: Schema,
    heads: Heads,
    label_fields: LabelFields,
    weight_field: Option<usize>,
    group_field: Option<usize>,
}

impl Records {
    /// Returns the columns of these features, and of the job's label, weight and group.
    pub(crate) fn new(job: &Job, features: &[FeatureConfig], heads: Heads) -> Self {
        let mut serving_schema = Schema::default();
        let columns = FeatureColumns::new(features, &mut serving_schema);
        let mut schema = serving_schema.clone();
        let label_fields = heads.want(&mut schema);
        let weight = job.input.weight_column.as_ref();
        let weight_field = weight.map(|column| want_example_weight(&mut schema, column));
        let group = job.eval.group_auc_column.as_ref();
        let group_field = group.map(|column| schema.want(column, FieldKind::BYTES));
        Self {
            columns,
            schema,
            serving_schema,
            heads,
            label_fields,
            weight_field,
            group_field,
        }
    }

    /// Prepares a batch of one of the two schemas.
    pub(crate) fn read(&self, batch: &Batch) -> Result<Example, Error> {
        let labelled = batch.columns.len() == self.schema.fields.len()
            && batch.columns.len() > self.label_fields.labels[0];
        let labels = labelled
            .then(|| self.heads.labels(batch, &self.label_fields))
            .transpose()?;
        let weights = match self
            .weight_field
            .filter(|_| labelled)
            .map(|field| &batch.columns[field].cells)
        {
            Some(Cells::Float(weights)) => Some(weights.clone()),
            _ => None,
        };
        let weights = if labelled {
            self.heads.weights(batch, &self.label_fields, weights)
        } else {
            None
        };
        let groups = match self
            .group_field
            .filter(|_| labelled)
            .map(|field| &batch.columns[field].cells)
        {
            Some(Cells::Bytes(texts)) => Some(
                (0..texts.len())
                    .map(|row| fingerprint64(texts.get(row)))
                    .collect(),
            ),
            _ => None,
        };
        Ok(Example {
            columns: self.columns.transform(batch)?,
            labels,
            weights,
            groups,
            position: batch.position,
        })
    }
}
