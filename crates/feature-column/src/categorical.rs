//! Categorical features: the source of their ids, and their weights.

use trainyard_input::{Batch, Cells, Schema};
use trainyard_run_config::{Deep, DynamicConfig, FeatureConfig, FeatureKind};

use crate::bucketized::Bucketized;
use crate::crossed::{CombinationsBounded, Crossed, Key};
use crate::fingerprint::fingerprint64;
use crate::identity::{Identity, IdsInRange};
use crate::ids::{Raw, UNKNOWN};
use crate::vocabulary::Vocabulary;
use crate::weights::{self, Count, WeightForEachId};
use crate::{Error, hashed};

/// A categorical feature: bucketized, hashed, vocabulary, identity, crossed or dynamic.
#[derive(Debug, Clone)]
pub struct Categorical {
    /// Name of the feature.
    pub name: String,
    /// Number of ids; for a dynamic feature, the most rows of its table.
    pub buckets: u32,
    /// The feature feeds the linear part.
    pub wide: bool,
    /// Form in which the feature feeds the deep part; absent = it does not.
    pub deep: Option<Deep>,
    /// The ids are buckets of a numeric column.
    pub bucketized: bool,
    /// Configuration of the feature in the job.
    pub config: FeatureConfig,
    /// A cross uses the ids. A cross must also see values without id.
    pub(crate) crossed: bool,
    pub(crate) source: Source,
    /// Field of the weights.
    pub(crate) weights: Option<usize>,
}

/// Type of the values of a categorical feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueType {
    Text,
    Integer,
}

/// Source of the ids of a categorical feature. Numbers are fields of the batch.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    Bucketized(Box<Bucketized>),
    Hashed {
        field: usize,
        values: ValueType,
    },
    Vocabulary {
        field: usize,
        values: ValueType,
        vocabulary: Vocabulary,
    },
    Identity {
        field: usize,
        identity: Identity,
    },
    Dynamic {
        field: usize,
        values: ValueType,
    },
    Crossed(Crossed),
}

impl Categorical {
    /// Returns the rules of a dynamic feature.
    pub fn dynamic(&self) -> Option<DynamicConfig> {
        match self.config.kind {
            FeatureKind::Dynamic { table, .. } => Some(table),
            _ => None,
        }
    }

    /// Returns the field of the feature's values; a cross has none of its own.
    pub fn field(&self) -> Option<usize> {
        match &self.source {
            Source::Bucketized(bucketized) => Some(bucketized.source.field),
            Source::Hashed { field, .. }
            | Source::Vocabulary { field, .. }
            | Source::Identity { field, .. }
            | Source::Dynamic { field, .. } => Some(*field),
            Source::Crossed(_) => None,
        }
    }

    /// Returns the field of the other column with which the numbers are combined, if there is one.
    pub fn operand_field(&self) -> Option<usize> {
        match &self.source {
            Source::Bucketized(bucketized) => bucketized.source.operand_field,
            _ => None,
        }
    }

    /// Returns the field of the ids' weights.
    pub fn weights_field(&self) -> Option<usize> {
        self.weights
    }

    /// Adds to a schema the rules of the records that the feature can use. `all` holds the features that a cross may use.
    pub(crate) fn require(&self, all: &[Self], schema: &mut Schema) {
        if let Source::Identity { field, identity } = &self.source
            && identity.refuses()
        {
            let identity = identity.clone();
            let field = *field;
            schema.require(field, IdsInRange { field, identity });
        }
        let counts = |all: &[Self]| -> Vec<Count> {
            match &self.source {
                Source::Crossed(crossed) => {
                    let keys = crossed.keys.iter();
                    keys.map(|key| match key {
                        Key::Field(field) => Count::Values(*field),
                        Key::Ids(feature) => all[*feature].ids_of_a_key(),
                    })
                    .collect()
                }
                _ => self.field().map(Count::Values).into_iter().collect(),
            }
        };
        if matches!(self.source, Source::Crossed(_)) {
            let counts = counts(all);
            let fields = counts.iter().filter_map(Count::field);
            let lists: Vec<usize> = fields
                .filter(|field| schema.fields[*field].kind.is_ragged())
                .collect();
            if let Some(field) = lists.first().copied() {
                schema.require(field, CombinationsBounded { counts });
            }
        }
        if let Some(weights) = self.weights {
            let counts = counts(all);
            let fields = counts.iter().filter_map(Count::field);
            fields.for_each(|field| schema.refuse_gaps(field));
            schema.require(weights, WeightForEachId { weights, counts });
        }
    }

    /// Returns the number of ids that a cross of the feature has in a row.
    fn ids_of_a_key(&self) -> Count {
        match &self.source {
            Source::Bucketized(bucketized) => Count::Fixed(bucketized.source.width),
            Source::Hashed { field, .. }
            | Source::Vocabulary { field, .. }
            | Source::Identity { field, .. }
            | Source::Dynamic { field, .. } => Count::Present(*field),
            Source::Crossed(_) => unreachable!("the job was checked: no key of a cross is a cross"),
        }
    }

    /// Writes the ids of a batch. `before` holds the ids of the features that a cross may use.
    pub(crate) fn ids(&self, batch: &Batch, before: &[Raw], out: &mut Raw) -> Result<(), Error> {
        out.clear();
        match &self.source {
            Source::Bucketized(bucketized) => bucketized.ids(batch, out)?,
            Source::Crossed(crossed) => crossed.ids(batch, before, out),
            Source::Hashed { field, values } => {
                self.ids_of(batch, *field, out, |value| match value {
                    Value::Text(text) if *values == ValueType::Text => {
                        Ok(Some(hashed::bucket(text, self.buckets)))
                    }
                    Value::Int(number) if *values == ValueType::Integer => {
                        Ok(Some(hashed::bucket_of_int(number, self.buckets)))
                    }
                    _ => Err(mismatch(*values)),
                })?
            }
            Source::Dynamic { field, values } => {
                self.values(batch, *field, out, |value, out| {
                    out.fingerprints.push(match value {
                        Value::Text(text) if *values == ValueType::Text => fingerprint64(text),
                        Value::Int(number) if *values == ValueType::Integer => {
                            hashed::fingerprint_of_int(number)
                        }
                        _ => return Err(mismatch(*values)),
                    });
                    Ok(true)
                })?
            }
            Source::Vocabulary {
                field,
                values,
                vocabulary,
            } => {
                self.ids_of(batch, *field, out, |value| match value {
                    Value::Text(text) if *values == ValueType::Text => Ok(vocabulary.id(text)),
                    Value::Int(number) if *values == ValueType::Integer => {
                        Ok(vocabulary.id_of_int(number))
                    }
                    _ => Err(mismatch(*values)),
                })?;
            }
            Source::Identity { field, identity } => {
                self.ids_of(batch, *field, out, |value| match value {
                    Value::Int(number) => identity.id(number),
                    Value::Text(text) => Err(format!(
                        "id must be a whole number, given {}",
                        text.escape_ascii()
                    )),
                })?
            }
        }
        match (&self.source, self.weights) {
            // The number of ids of a cross or of buckets is known only now, so their weights are added afterwards.
            (Source::Crossed(_) | Source::Bucketized(_), Some(field)) => {
                self.weigh(batch, field, out)
            }
            _ => Ok(()),
        }
    }

    /// Visits the values of a field with their weights, and appends the id of each value that has one.
    fn ids_of(
        &self,
        batch: &Batch,
        field: usize,
        out: &mut Raw,
        id: impl Fn(Value<'_>) -> Result<Option<u32>, String>,
    ) -> Result<(), Error> {
        self.values(batch, field, out, |value, out| {
            let id = id(value)?.or(self.crossed.then_some(UNKNOWN));
            id.inspect(|id| out.push(*id));
            Ok(id.is_some())
        })
    }

    /// Visits the values of a field with their weights. `take` returns whether it appended an id.
    fn values(
        &self,
        batch: &Batch,
        field: usize,
        out: &mut Raw,
        take: impl Fn(Value<'_>, &mut Raw) -> Result<bool, String>,
    ) -> Result<(), Error> {
        let column = &batch.columns[field];
        let dense = column.offsets.is_none();
        let weights = self.weights.map(|field| &batch.columns[field]);
        for (row, places) in column.rows(batch.rows).enumerate() {
            let weights = match weights {
                Some(weights) => Some(self.row_weights(weights, row, batch.rows, places.len())?),
                None => None,
            };
            for (nth, place) in places.enumerate() {
                let value = match &column.cells {
                    Cells::Bytes(texts) => Value::Text(texts.get(place)),
                    Cells::Int(numbers) => Value::Int(numbers[place]),
                    Cells::Float(_) => {
                        return Err(self.error("must hold text or whole numbers, given floats"));
                    }
                };
                // If every row holds the same number of values, some may be placeholders of missing values.
                if dense && matches!(value, Value::Text(b"") | Value::Int(-1)) {
                    continue;
                }
                let taken = take(value, out).map_err(|message| self.error(message))?;
                if let (true, Some(weights)) = (taken, weights) {
                    out.weights.push(weights[nth]);
                }
            }
            out.end_row();
        }
        Ok(())
    }

    fn weigh(&self, batch: &Batch, field: usize, out: &mut Raw) -> Result<(), Error> {
        for row in 0..batch.rows {
            let count = out.row(row).len();
            let weights = self.row_weights(&batch.columns[field], row, batch.rows, count)?;
            out.weights.extend_from_slice(weights);
        }
        Ok(())
    }

    fn row_weights<'a>(
        &self,
        column: &'a trainyard_input::Column,
        row: usize,
        rows: usize,
        count: usize,
    ) -> Result<&'a [f32], Error> {
        let places = column.row(row, rows);
        let given = places.len();
        match &column.cells {
            Cells::Float(weights) if given == count => Ok(&weights[places]),
            _ => {
                let reason = weights::mismatch(count, given);
                Err(self.error(format!("row {row} of the batch: {reason}")))
            }
        }
    }

    fn error(&self, message: impl Into<String>) -> Error {
        Error {
            column: self.name.clone(),
            message: message.into(),
        }
    }
}

fn mismatch(wanted: ValueType) -> String {
    match wanted {
        ValueType::Integer => "must hold whole numbers, given text".to_owned(),
        ValueType::Text => "must hold text, given whole numbers".to_owned(),
    }
}

/// A value of a field.
enum Value<'a> {
    Text(&'a [u8]),
    Int(i64),
}
