//! The feature columns of a job, which transform batches.

use trainyard_input::{Batch, FieldKind, Fraction, Schema};
use trainyard_run_config::{CrossKey, Deep, FeatureConfig, FeatureKind};

use crate::bucketized::Bucketized;
use crate::categorical::{Source, ValueType};
use crate::crossed::{CROSS_HASH_KEY, Crossed, Key};
use crate::identity::Identity;
use crate::ids::Raw;
use crate::pool::{Pool, Work};
use crate::vocabulary::Vocabulary;
use crate::{Categorical, Error, Ids, Numeric, numeric};

/// A transformed batch: numbers by row, ids by feature.
#[derive(Debug, Clone, PartialEq)]
pub struct Features {
    /// Number of records.
    pub rows: usize,
    /// `rows x` [`FeatureColumns::numbers_width`], row-major.
    pub numbers: Vec<f32>,
    /// One entry per categorical feature, then one per member of each shared table.
    pub ids: Vec<Ids>,
}

/// A table that several features look up.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedTable {
    /// Name of the table.
    pub name: String,
    /// Indices of the categorical features that use the table.
    pub members: Vec<usize>,
    /// Index in [`Features::ids`] of the first member's ids; the ids of the others follow.
    pub begin: usize,
}

/// The features of a job, each kind in ascending order of names, as TensorFlow concatenates them.
#[derive(Debug, Clone)]
pub struct FeatureColumns {
    /// Numeric features.
    pub numeric: Vec<Numeric>,
    /// Categorical features.
    pub categorical: Vec<Categorical>,
    /// Tables that several features share.
    pub shared: Vec<SharedTable>,
    /// Number of values of [`Features::numbers`] in a row.
    pub numbers_width: usize,
    /// Categorical features, ordered so that a cross follows the features that it uses.
    order: Vec<usize>,
    pool: Pool,
}

impl FeatureColumns {
    /// Builds the columns, and adds their fields to `schema`.
    pub fn new(features: &[FeatureConfig], schema: &mut Schema) -> Self {
        let mut sorted: Vec<&FeatureConfig> = features.iter().collect();
        sorted.sort_by(|a, b| a.name.cmp(&b.name));
        let (numbers, ids): (Vec<_>, Vec<_>) = sorted
            .into_iter()
            .partition(|feature| matches!(feature.kind, FeatureKind::Numeric(_)));
        let mut numeric = Vec::new();
        let mut width = 0;
        for feature in numbers {
            let FeatureKind::Numeric(numbers) = &feature.kind else {
                continue;
            };
            let source = numeric::Source::new(numbers, feature.separator, schema);
            let name = feature.name.clone();
            let wide = feature.wide;
            let deep = feature.deep.is_some();
            let begin = width;
            let numbers = numbers.clone();
            let outputs = numbers.width * numbers.parts();
            width += outputs;
            numeric.push(Numeric {
                name,
                wide,
                deep,
                begin,
                width: outputs,
                numbers,
                source,
            });
        }
        let categorical: Vec<Categorical> = ids
            .iter()
            .map(|feature| categorical(feature, &ids, features, schema))
            .collect();
        for column in &categorical {
            column.require(&categorical, schema);
        }
        let shared = shared_tables(&categorical);
        let crossed = |place: &usize| matches!(categorical[*place].source, Source::Crossed(_));
        let all = 0..categorical.len();
        let order = all
            .clone()
            .filter(|place| !crossed(place))
            .chain(all.filter(crossed))
            .collect();
        Self {
            numeric,
            categorical,
            shared,
            numbers_width: width,
            order,
            pool: Pool::default(),
        }
    }

    /// Returns the index in [`Features::ids`] of the ids that a feature's embedding looks up.
    pub fn embedding_ids(&self, feature: usize) -> usize {
        let place = |table: &SharedTable| {
            Some(table.begin + table.members.iter().position(|member| *member == feature)?)
        };
        self.shared.iter().find_map(place).unwrap_or(feature)
    }

    /// Transforms a batch.
    ///
    /// # Errors
    /// A value cannot be used by its column.
    pub fn transform(&self, batch: &Batch) -> Result<Features, Error> {
        let mut numbers = vec![0.0; batch.rows * self.numbers_width];
        for column in &self.numeric {
            column.fill(batch, self.numbers_width, &mut numbers)?;
        }
        let mut work = self.pool.take();
        let ids = self.ids(batch, &mut work)?;
        self.pool.give_back(work);
        Ok(Features {
            rows: batch.rows,
            numbers,
            ids,
        })
    }

    fn ids(&self, batch: &Batch, work: &mut Work) -> Result<Vec<Ids>, Error> {
        let Work { raw, unique } = work;
        raw.resize_with(self.categorical.len(), Raw::default);
        for &place in &self.order {
            let mut out = std::mem::take(&mut raw[place]);
            self.categorical[place].ids(batch, raw, &mut out)?;
            raw[place] = out;
        }
        for (raw, column) in raw.iter_mut().zip(&self.categorical) {
            if column.crossed {
                raw.drop_unknown();
            }
        }
        let members: usize = self.shared.iter().map(|table| table.members.len()).sum();
        let mut ids = Vec::with_capacity(raw.len() + members);
        for (place, raw) in raw.iter().enumerate() {
            let column = &self.categorical[place];
            let alone = column.deep.is_some()
                && !self
                    .shared
                    .iter()
                    .any(|table| table.members.contains(&place));
            ids.extend(if !column.wide && !alone {
                vec![Ids::none()]
            } else if column.dynamic().is_some() {
                Ids::of_fingerprints(&[raw])
            } else {
                Ids::of(&[raw], unique)
            });
        }
        for table in &self.shared {
            let members: Vec<&Raw> = table.members.iter().map(|member| &raw[*member]).collect();
            // The features of a table are all dynamic, or none is.
            let dynamic = table
                .members
                .iter()
                .any(|member| self.categorical[*member].dynamic().is_some());
            ids.extend(if dynamic {
                Ids::of_fingerprints(&members)
            } else {
                Ids::of(&members, unique)
            });
        }
        Ok(ids)
    }
}

fn shared_tables(categorical: &[Categorical]) -> Vec<SharedTable> {
    let mut tables: Vec<SharedTable> = Vec::new();
    for (place, column) in categorical.iter().enumerate() {
        let Some(Deep::Embedding(embedding)) = &column.deep else {
            continue;
        };
        let Some(name) = &embedding.table else {
            continue;
        };
        match tables.iter_mut().find(|table| table.name == *name) {
            Some(table) => table.members.push(place),
            None => tables.push(SharedTable {
                name: name.clone(),
                members: vec![place],
                begin: 0,
            }),
        }
    }
    let mut begin = categorical.len();
    for table in &mut tables {
        table.begin = begin;
        begin += table.members.len();
    }
    tables
}

/// Builds a categorical column. `ids` are the categorical features in order of names, `features` all features of the
/// job.
fn categorical(
    feature: &FeatureConfig,
    ids: &[&FeatureConfig],
    features: &[FeatureConfig],
    schema: &mut Schema,
) -> Categorical {
    let separator = feature.separator;
    let of_flag = |integers: bool| {
        if integers {
            ValueType::Integer
        } else {
            ValueType::Text
        }
    };
    let category = |column: &str, values: ValueType, schema: &mut Schema| {
        let kind = match values {
            ValueType::Integer => FieldKind::Int {
                separator,
                fraction: Fraction::Refused,
            },
            ValueType::Text => FieldKind::Bytes { separator },
        };
        schema.want(column, kind)
    };
    let (buckets, source) = match &feature.kind {
        FeatureKind::Numeric(_) => unreachable!("numbers have no ids"),
        FeatureKind::Bucketized {
            numbers,
            boundaries,
        } => {
            let source = numeric::Source::new(numbers, separator, schema);
            let bucketized = Bucketized {
                source,
                boundaries: boundaries.clone(),
            };
            (
                bucketized.buckets(),
                Source::Bucketized(Box::new(bucketized)),
            )
        }
        FeatureKind::Hashed {
            column,
            buckets,
            integers,
        } => {
            let values = of_flag(*integers);
            let field = category(column, values, schema);
            (*buckets, Source::Hashed { field, values })
        }
        FeatureKind::Vocabulary {
            column,
            values,
            oov_buckets,
            default,
            integers,
        } => {
            let value_type = of_flag(*integers);
            let field = category(column, value_type, schema);
            let vocabulary = Vocabulary::new(values.clone(), *oov_buckets, *default);
            (
                values.len() as u32 + oov_buckets,
                Source::Vocabulary {
                    field,
                    values: value_type,
                    vocabulary,
                },
            )
        }
        FeatureKind::Identity {
            column,
            buckets,
            default,
        } => {
            let lenient = !feature.wide && matches!(feature.deep, Some(Deep::Indicator));
            let identity = Identity {
                buckets: *buckets,
                default: *default,
                lenient,
            };
            (
                *buckets,
                Source::Identity {
                    field: category(column, ValueType::Integer, schema),
                    identity,
                },
            )
        }
        FeatureKind::Dynamic {
            column,
            integers,
            table,
        } => {
            let values = of_flag(*integers);
            let field = category(column, values, schema);
            (table.rows_max, Source::Dynamic { field, values })
        }
        FeatureKind::Crossed {
            keys,
            buckets,
            hash_key,
        } => {
            let keys = keys
                .iter()
                .map(|key| cross_key(key, ids, features, schema))
                .collect();
            // TensorFlow also uses its default for a key of 0.
            let hash_key = hash_key.filter(|key| *key != 0).unwrap_or(CROSS_HASH_KEY);
            (
                *buckets,
                Source::Crossed(Crossed {
                    keys,
                    hash_key,
                    buckets: *buckets,
                }),
            )
        }
    };
    let weights = feature.weights.as_ref().map(|column| match separator {
        Some(separator) => schema.want(column, FieldKind::Floats { separator }),
        None => schema.want(column, FieldKind::FLOAT),
    });
    let bucketized = matches!(source, Source::Bucketized(_));
    let name = feature.name.clone();
    let wide = feature.wide;
    let deep = feature.deep.clone();
    let named = CrossKey::Ids(name.clone());
    let crossed = features.iter().any(|other| match &other.kind {
        FeatureKind::Crossed { keys, .. } => keys.contains(&named),
        _ => false,
    });
    let config = feature.clone();
    Categorical {
        name,
        buckets,
        wide,
        deep,
        bucketized,
        config,
        crossed,
        source,
        weights,
    }
}

fn cross_key(
    key: &CrossKey,
    ids: &[&FeatureConfig],
    features: &[FeatureConfig],
    schema: &mut Schema,
) -> Key {
    // If another feature splits the column into several values, the cross does too.
    let separator = |column: &str| {
        let reads = |feature: &&FeatureConfig| match &feature.kind {
            FeatureKind::Numeric(numbers) | FeatureKind::Bucketized { numbers, .. } => {
                numbers.column == column
            }
            FeatureKind::Hashed { column: read, .. }
            | FeatureKind::Vocabulary { column: read, .. }
            | FeatureKind::Identity { column: read, .. }
            | FeatureKind::Dynamic { column: read, .. } => read == column,
            FeatureKind::Crossed { .. } => false,
        };
        features
            .iter()
            .find(reads)
            .and_then(|feature| feature.separator)
    };
    match key {
        CrossKey::Text(column) => Key::Field(schema.want(
            column,
            FieldKind::Bytes {
                separator: separator(column),
            },
        )),
        CrossKey::Int(column) => {
            let kind = FieldKind::Int {
                separator: separator(column),
                fraction: Fraction::Dropped,
            };
            Key::Field(schema.want(column, kind))
        }
        CrossKey::Ids(name) => match ids.iter().position(|feature| feature.name == *name) {
            Some(place) => Key::Ids(place),
            None => unreachable!("the job was checked: `{name}` is a categorical feature"),
        },
    }
}
