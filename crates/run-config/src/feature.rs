//! Feature columns, after validation.

use serde::Serialize;
use trainyard_variable::Initializer;
use trainyard_vocabulary::Words;

use crate::{OutputDistribution, QuantileMap, TimeUnit};

/// One `[[feature]]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FeatureConfig {
    /// Name, unique in each part of the model. Default: the column's name, `<column>_bucketized` for buckets, the parts
    /// joined by `_X_` for a cross, each followed by `_weighted_by_<weights>` if there are weights.
    pub name: String,
    /// Kind of the feature, with its parameters.
    pub kind: FeatureKind,
    /// Byte between several values in a field; absent = one value per field.
    pub separator: Option<u8>,
    /// Column with the weights of the ids, as many as there are ids (`weighted_categorical_column`).
    pub weights: Option<String>,
    /// The feature feeds the linear part.
    pub wide: bool,
    /// Form in which the feature feeds the deep part; absent = it does not.
    pub deep: Option<Deep>,
}

impl FeatureConfig {
    /// Returns the columns whose texts are ids.
    pub fn text_columns(&self) -> Vec<&String> {
        match &self.kind {
            FeatureKind::Hashed {
                column, integers, ..
            }
            | FeatureKind::Vocabulary {
                column, integers, ..
            }
            | FeatureKind::Dynamic {
                column, integers, ..
            } if !integers => vec![column],
            FeatureKind::Crossed { keys, .. } => {
                let texts = keys.iter().filter_map(|key| match key {
                    CrossKey::Text(column) => Some(column),
                    CrossKey::Int(_) | CrossKey::Ids(_) => None,
                });
                texts.collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns a numeric feature with the name of its column, without transformations or default.
    pub fn numeric(column: impl Into<String>) -> Self {
        let column = column.into();
        let numbers = Numbers::of(column.clone());
        let separator = None;
        let weights = None;
        let kind = FeatureKind::Numeric(numbers);
        Self {
            name: column,
            kind,
            separator,
            weights,
            wide: false,
            deep: Some(Deep::Dense),
        }
    }
}

/// Input of the deep part that a feature becomes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Deep {
    /// The numbers themselves, or one position per bucket of a bucketized feature.
    Dense,
    /// One position per id, with its count or summed weight (`indicator_column`).
    Indicator,
    /// A learned vector per id (`embedding_column`).
    Embedding(Embedding),
}

impl Deep {
    /// Returns TensorFlow's name of the column that a feature becomes. Dense layers read their input in the order of
    /// these names.
    pub fn column_name(&self, feature: &str) -> String {
        match self {
            Self::Dense => feature.to_owned(),
            Self::Indicator => format!("{feature}_indicator"),
            Self::Embedding(embedding) if embedding.table.is_some() => {
                format!("{feature}_shared_embedding")
            }
            Self::Embedding(_) => format!("{feature}_embedding"),
        }
    }
}

/// A learned vector per id, combined over the ids of a row.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Embedding {
    /// Values in a vector, at least 1.
    pub dimension: usize,
    /// Combination of the vectors of a row; the mean by default.
    pub combiner: Combiner,
    /// Largest Euclidean norm of a vector. Longer vectors are scaled to it before they are combined; absent = no bound.
    pub max_norm: Option<f32>,
    /// Name of a table that several features share (`shared_embeddings`); absent = a table of its own.
    pub table: Option<String>,
    /// Training updates the vectors; true by default.
    #[serde(skip_serializing_if = "is_true")]
    pub trainable: bool,
    /// Initial values; absent = those of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initializer: Option<Initializer>,
    /// Penalty of the vectors that a batch reads; absent = that of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regularizer: Option<Regularizer>,
}

/// A penalty of parameters, `l1 Σ|w| + l2 Σw²` (`tf.keras.regularizers.L1L2`). Its gradient, `l1 sign(w) + 2 l2 w`, is added to that of
/// the loss; the loss that is told is without it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Regularizer {
    /// Factor of the sum of the absolute values, at least 0.
    pub l1: f32,
    /// Factor of the sum of the squares, at least 0.
    pub l2: f32,
}

fn is_true(flag: &bool) -> bool {
    *flag
}

/// Combination of the values of several ids into one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Combiner {
    /// `Σ w x / Σ w`.
    Mean,
    /// `Σ w x / √Σ w²`.
    Sqrtn,
    /// `Σ w x`.
    Sum,
}

impl Combiner {
    /// Every combiner with its name in a job file.
    pub const NAMES: [(&'static str, Self); 3] = [
        ("mean", Self::Mean),
        ("sqrtn", Self::Sqrtn),
        ("sum", Self::Sum),
    ];
}

/// Transformations of a numeric column.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Normalizer {
    /// The number itself.
    None,
    /// `ln(1 + max(x, 0))`.
    Log1p,
    /// `ln(1 + x)`, and `-ln(1 - x)` below 0.
    SignedLog1p,
    /// `ln(max(x, 1e-7))`.
    Log,
    /// `(x - min) / (max - min)`.
    MinMax {
        /// This number becomes 0.
        min: f32,
        /// This number becomes 1. It is above `min`.
        max: f32,
    },
    /// `(x - mean) / stddev`.
    Standardize {
        /// Subtrahend.
        mean: f32,
        /// Divisor; not 0.
        stddev: f32,
    },
    /// The place among quantiles of the training records: [`QuantileMap`].
    Quantile {
        /// Numbers below which equal shares of the training records are, from the least one to the greatest: ascending, at least 2, of
        /// which two differ.
        quantiles: Vec<f32>,
        /// Distribution of the results.
        output_distribution: OutputDistribution,
    },
}

impl Normalizer {
    /// Returns the function of the normalizer `quantile`.
    pub fn quantile_map(&self) -> Option<QuantileMap> {
        match self {
            Self::Quantile {
                quantiles,
                output_distribution,
            } => Some(QuantileMap::new(quantiles, *output_distribution)),
            _ => None,
        }
    }
}

/// Least argument of the logarithm in [`Normalizer::Log`]. It replaces all numbers below it.
pub const LOG_MIN: f32 = 1e-7;

/// The numbers of a column and their transformations, in this order: part of a time, other column, bounds, normalizer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Numbers {
    /// Input column.
    pub column: String,
    /// Numbers in a field: the product of the shape, at least 1.
    pub width: usize,
    /// Part of a time that the numbers are; absent = the column holds the numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    /// Other column with which the numbers are combined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operand: Option<Operand>,
    /// Least and greatest number, to which numbers beyond are moved; absent = no bounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip: Option<[f32; 2]>,
    /// Transformation of each number.
    pub normalizer: Normalizer,
    /// Edges of the bins of the piecewise linear encoding, strictly ascending, at least 2; absent = a number stays one number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub piecewise_linear: Option<Vec<f32>>,
    /// Periodic embedding of the numbers in the deep part; absent = none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub periodic: Option<PeriodicConfig>,
    /// Values that replace a missing field, of the other column too, `width` of them; absent = a missing value is a bad
    /// row.
    pub default: Option<Vec<f32>>,
}

impl Numbers {
    /// Returns one number per record of a column, without transformations or default.
    pub fn of(column: String) -> Self {
        Self {
            column,
            width: 1,
            time: None,
            operand: None,
            clip: None,
            normalizer: Normalizer::None,
            piecewise_linear: None,
            periodic: None,
            default: None,
        }
    }

    /// Returns how many numbers each number becomes.
    pub fn parts(&self) -> usize {
        let edges = self.piecewise_linear.as_ref();
        edges.map_or(1, |edges| edges.len().saturating_sub(1))
    }

    /// Returns the bins of the piecewise linear encoding (Gorishniy et al. 2022). A number `x` becomes
    /// `min(max((x - begin) / length, least), most)` of each.
    pub fn bins(&self) -> impl Iterator<Item = Bin> + '_ {
        let edges = self.piecewise_linear.as_deref().unwrap_or_default();
        let count = edges.len().saturating_sub(1);
        edges.windows(2).enumerate().map(move |(place, edges)| Bin {
            begin: edges[0],
            length: edges[1] - edges[0],
            least: if place == 0 { f32::NEG_INFINITY } else { 0.0 },
            most: if place + 1 == count {
                f32::INFINITY
            } else {
                1.0
            },
        })
    }
}

/// Periodic embedding of a number (Gorishniy et al. 2022).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PeriodicConfig {
    /// Sines, and as many cosines, at least 1.
    pub frequencies: usize,
    /// Standard deviation of the first coefficients, above 0.
    pub sigma: f32,
    /// Outputs of the dense layer under ReLU that follows; absent = there is none.
    pub units: Option<usize>,
}

/// A bin of the piecewise linear encoding. The first one has no least value, and the last one no greatest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bin {
    /// The number that becomes 0.
    pub begin: f32,
    /// Distance to the number that becomes 1.
    pub length: f32,
    /// Least value.
    pub least: f32,
    /// Greatest value.
    pub most: f32,
}

impl Bin {
    /// Returns the value of a number in this bin.
    #[inline]
    pub fn of(self, number: f32) -> f32 {
        ((number - self.begin) / self.length)
            .max(self.least)
            .min(self.most)
    }
}

/// A column of times, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Time {
    /// Part of each time.
    pub part: TimePart,
    /// Unit in which the column counts time since 1970. A column whose type has a unit of its own is converted.
    pub unit: TimeUnit,
}

/// Part of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TimePart {
    /// Hour of the day, 0 to 23.
    Hour,
    /// Day of the week, from Monday, 0, to Sunday, 6 (`datetime.weekday` of Python).
    Weekday,
}

impl Time {
    const SECONDS_OF_AN_HOUR: i64 = 3600;
    const SECONDS_OF_A_DAY: i64 = 86_400;

    /// Returns the cycle of the part: the units after which it increases by one, the number of its values, and its
    /// value at the start of 1970.
    pub fn cycle(self) -> (i64, i64, i64) {
        match self.part {
            TimePart::Hour => (Self::SECONDS_OF_AN_HOUR * self.unit.per_second(), 24, 0),
            // The first of January 1970 was a Thursday.
            TimePart::Weekday => (Self::SECONDS_OF_A_DAY * self.unit.per_second(), 7, 3),
        }
    }

    /// Returns the part of a time.
    pub fn of(self, time: i64) -> f32 {
        let (length, count, first) = self.cycle();
        (time.div_euclid(length) + first).rem_euclid(count) as f32
    }
}

/// Another column with which a number is combined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Operand {
    /// The other number is subtracted.
    Minus(String),
    /// The number is divided by the other number. Division by 0 gives 0.
    DividedBy(String),
}

impl Operand {
    /// Returns the input column.
    pub fn column(&self) -> &str {
        let (Self::Minus(column) | Self::DividedBy(column)) = self;
        column
    }

    /// Combines a number with a number of the other column.
    #[inline]
    pub fn combine(&self, number: f32, other: f32) -> f32 {
        match self {
            Self::Minus(_) => number - other,
            Self::DividedBy(_) if other == 0.0 => 0.0,
            Self::DividedBy(_) => number / other,
        }
    }
}

/// Rules by which the ids of a dynamic feature get rows of its tables, and lose them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DynamicConfig {
    /// Most rows of a table, over all parameter servers, at least 1; 1000000 by default. A full table gives a new id
    /// the row that has gone unused for longest.
    pub rows_max: u32,
    /// Occurrence of an id at which it gets a row, at least 1; 1 by default.
    pub admit_after: u32,
    /// Steps without an occurrence of an id after which its row is dropped; absent = never.
    pub expire_after_steps: Option<u64>,
    /// Seconds of training without an occurrence of an id after which its row is dropped; absent = never.
    pub expire_after_secs: Option<u64>,
    /// Ids without a row read and train one row that they share; false by default.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shared_row: bool,
}

/// One key of a cross.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CrossKey {
    /// The text of an input column.
    Text(String),
    /// The number of an input column, truncated to an integer.
    Int(String),
    /// The ids of the feature of this name.
    Ids(String),
}

impl CrossKey {
    /// Returns the name in the key.
    pub fn name(&self) -> &str {
        let (Self::Text(name) | Self::Int(name) | Self::Ids(name)) = self;
        name
    }
}

/// Feature column kinds (`tf.feature_column`).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum FeatureKind {
    /// `numeric_column`.
    Numeric(Numbers),
    /// `bucketized_column`.
    Bucketized {
        /// Numbers that are divided into buckets.
        numbers: Numbers,
        /// Boundaries of the buckets, strictly ascending.
        boundaries: Vec<f32>,
    },
    /// `categorical_column_with_hash_bucket`.
    Hashed {
        /// Input column.
        column: String,
        /// Number of buckets, at least 1.
        buckets: u32,
        /// Fields are integers: then 007 and 7 are one value, and -1 is missing.
        integers: bool,
    },
    /// `categorical_column_with_vocabulary_list` (or `_file`, which is read with the job).
    Vocabulary {
        /// Input column.
        column: String,
        /// Values in the order of their ids. Features of a job that name the same file share them.
        values: Words,
        /// Buckets for unlisted values; 0 = an unlisted value has the default id, or none.
        oov_buckets: u32,
        /// Id of unlisted values; excludes `oov_buckets`.
        default: Option<u32>,
        /// Fields and values are integers.
        integers: bool,
    },
    /// `categorical_column_with_identity`.
    Identity {
        /// Input column.
        column: String,
        /// Number of ids, at least 1.
        buckets: u32,
        /// Id that replaces an id out of range; absent = an id out of range is a bad row.
        default: Option<u32>,
    },
    /// A dynamic table, without buckets: each value has a row of its own, which is made when the value occurs.
    /// TensorFlow has no such column.
    Dynamic {
        /// Input column.
        column: String,
        /// Fields are integers: then 007 and 7 are one value, and -1 is missing.
        integers: bool,
        /// Rules by which values get and lose rows.
        table: DynamicConfig,
    },
    /// `crossed_column`.
    Crossed {
        /// Keys in hashing order, at least 2.
        keys: Vec<CrossKey>,
        /// Number of buckets, at least 1.
        buckets: u32,
        /// Hash key, the initial value of the hash; absent = TensorFlow's.
        hash_key: Option<u64>,
    },
}
