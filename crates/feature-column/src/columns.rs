//! The feature columns of a job, and what they make of a batch.

use trainyard_input::{Batch, Column, FieldKind, Schema};
use trainyard_run_config::{Deep, FeatureConfig, FeatureKind, Normalizer};

use crate::vocabulary::Vocabulary;
use crate::{Error, Ids, bucketized, crossed, hashed, identity, numeric};

/// A numeric feature.
#[derive(Debug, Clone)]
pub struct Numeric {
    /// Its name.
    pub name: String,
    /// Whether it feeds the linear part.
    pub wide: bool,
    /// Whether it feeds the deep part.
    pub deep: bool,
    normalizer: Normalizer,
    field: usize,
}

/// A categorical feature: bucketized, hashed, vocabulary, identity or crossed.
#[derive(Debug, Clone)]
pub struct Categorical {
    /// Its name.
    pub name: String,
    /// Number of ids.
    pub buckets: u32,
    /// Whether it feeds the linear part.
    pub wide: bool,
    /// How it feeds the deep part.
    pub deep: Option<Deep>,
    source: Source,
}

/// Where the ids of a categorical feature come from; numbers are fields of the batch.
#[derive(Debug, Clone)]
enum Source {
    Bucketized { field: usize, boundaries: Vec<f32> },
    Hashed { field: usize },
    Vocabulary { field: usize, vocabulary: Vocabulary },
    Identity { field: usize, default: Option<u32> },
    Crossed { buckets_of: Vec<(usize, Vec<f32>)>, texts: Vec<usize> },
}

/// A batch made ready: numbers row by row, ids feature by feature.
#[derive(Debug, Clone, PartialEq)]
pub struct Features {
    /// Records.
    pub rows: usize,
    /// `rows x numeric features`, row-major.
    pub numbers: Vec<f32>,
    /// One entry per categorical feature.
    pub ids: Vec<Ids>,
}

/// The features of a job, each kind in ascending order of name, as TensorFlow concatenates them.
#[derive(Debug, Clone)]
pub struct FeatureColumns {
    /// Numeric features.
    pub numeric: Vec<Numeric>,
    /// Categorical features.
    pub categorical: Vec<Categorical>,
}

impl FeatureColumns {
    /// Builds the columns and adds what they read to `schema`.
    pub fn new(features: &[FeatureConfig], schema: &mut Schema) -> Self {
        let (mut numeric, mut categorical) = (Vec::new(), Vec::new());
        for feature in features {
            let FeatureConfig { name, wide, deep, .. } = feature;
            let (name, wide, deep) = (name.clone(), *wide, *deep);
            match &feature.kind {
                FeatureKind::Numeric { column, normalizer, default } => {
                    let field = schema.want(column, FieldKind::Float { default: *default });
                    numeric.push(Numeric {
                        name,
                        wide,
                        deep: deep.is_some(),
                        normalizer: *normalizer,
                        field,
                    });
                }
                kind => {
                    let (buckets, source) = source(kind, features, schema);
                    categorical.push(Categorical { name, buckets, wide, deep, source });
                }
            }
        }
        numeric.sort_by(|a: &Numeric, b| a.name.cmp(&b.name));
        categorical.sort_by(|a: &Categorical, b| a.name.cmp(&b.name));
        Self { numeric, categorical }
    }

    /// Makes a batch ready.
    ///
    /// # Errors
    /// A value that its column does not take.
    pub fn transform(&self, batch: &Batch) -> Result<Features, Error> {
        let width = self.numeric.len();
        let mut numbers = vec![0.0; batch.rows * width];
        for (place, column) in self.numeric.iter().enumerate() {
            let values = floats(batch, column.field);
            for (row, value) in values.iter().enumerate() {
                numbers[row * width + place] = numeric::normalize(column.normalizer, *value);
            }
        }
        let mut scratch = Vec::with_capacity(batch.rows);
        let ids = self
            .categorical
            .iter()
            .map(|column| column.ids(batch, &mut scratch))
            .collect::<Result<_, _>>()?;
        Ok(Features { rows: batch.rows, numbers, ids })
    }
}

impl Categorical {
    fn ids(&self, batch: &Batch, scratch: &mut Vec<u64>) -> Result<Ids, Error> {
        let rows = 0..batch.rows;
        Ok(match &self.source {
            Source::Bucketized { field, boundaries } => {
                let values = floats(batch, *field);
                Ids::of_rows(rows.map(|row| Some(bucketized::bucket(boundaries, values[row]))), scratch)
            }
            Source::Hashed { field } => {
                let texts = texts(batch, *field);
                Ids::of_rows(rows.map(|row| hashed::bucket(texts.get(row), self.buckets)), scratch)
            }
            Source::Vocabulary { field, vocabulary } => {
                let texts = texts(batch, *field);
                Ids::of_rows(rows.map(|row| vocabulary.id(texts.get(row))), scratch)
            }
            Source::Identity { field, default } => {
                let values = match &batch.columns[*field] {
                    Column::Int(values) => values.as_slice(),
                    _ => &[],
                };
                let ids: Result<Vec<_>, _> =
                    values.iter().map(|value| identity::id(*value, self.buckets, *default)).collect();
                let ids = ids.map_err(|message| Error { column: self.name.clone(), message })?;
                Ids::of_rows(ids.into_iter(), scratch)
            }
            Source::Crossed { buckets_of, texts: fields } => {
                let numbers: Vec<_> = buckets_of
                    .iter()
                    .map(|(field, boundaries)| (floats(batch, *field), boundaries))
                    .collect();
                let columns: Vec<_> = fields.iter().map(|field| texts(batch, *field)).collect();
                let id = |row: usize| {
                    let buckets = numbers
                        .iter()
                        .map(|(values, bounds)| u64::from(bucketized::bucket(bounds, values[row])));
                    let hashes = columns.iter().map(|texts| farmhash::fingerprint64(texts.get(row)));
                    Some(crossed::bucket(buckets.chain(hashes), self.buckets))
                };
                Ids::of_rows(rows.map(id), scratch)
            }
        })
    }
}

fn source(kind: &FeatureKind, features: &[FeatureConfig], schema: &mut Schema) -> (u32, Source) {
    match kind {
        FeatureKind::Bucketized { column, boundaries, default } => {
            let field = schema.want(column, FieldKind::Float { default: *default });
            (boundaries.len() as u32 + 1, Source::Bucketized { field, boundaries: boundaries.clone() })
        }
        FeatureKind::Hashed { column, buckets } => {
            (*buckets, Source::Hashed { field: schema.want(column, FieldKind::Bytes) })
        }
        FeatureKind::Vocabulary { column, values, oov_buckets } => {
            let field = schema.want(column, FieldKind::Bytes);
            let vocabulary = Vocabulary::new(values, *oov_buckets);
            (values.len() as u32 + oov_buckets, Source::Vocabulary { field, vocabulary })
        }
        FeatureKind::Identity { column, buckets, default } => {
            let field = schema.want(column, FieldKind::Int { default: None });
            (*buckets, Source::Identity { field, default: *default })
        }
        FeatureKind::Crossed { keys, buckets } => {
            // TensorFlow hashes sparse inputs (buckets are) before dense ones (texts), each in the given order.
            let (mut buckets_of, mut texts) = (Vec::new(), Vec::new());
            for key in keys {
                let named = features.iter().find(|feature| feature.name == *key).map(|feature| &feature.kind);
                match named {
                    Some(FeatureKind::Bucketized { column, boundaries, default }) => {
                        let field = schema.want(column, FieldKind::Float { default: *default });
                        buckets_of.push((field, boundaries.clone()));
                    }
                    Some(
                        FeatureKind::Hashed { column, .. }
                        | FeatureKind::Vocabulary { column, .. }
                        | FeatureKind::Identity { column, .. },
                    ) => texts.push(schema.want(column, FieldKind::Bytes)),
                    _ => texts.push(schema.want(key, FieldKind::Bytes)),
                }
            }
            (*buckets, Source::Crossed { buckets_of, texts })
        }
        FeatureKind::Numeric { .. } => unreachable!("numbers have no ids"),
    }
}

fn floats(batch: &Batch, field: usize) -> &[f32] {
    match &batch.columns[field] {
        Column::Float(values) => values,
        other => unreachable!("the schema asks for floats in field {field}, the batch holds {other:?}"),
    }
}

fn texts(batch: &Batch, field: usize) -> &trainyard_input::Bytes {
    match &batch.columns[field] {
        Column::Bytes(values) => values,
        other => unreachable!("the schema asks for text in field {field}, the batch holds {other:?}"),
    }
}
