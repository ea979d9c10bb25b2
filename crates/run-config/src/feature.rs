//! Feature columns, fully checked.

use serde::Serialize;

/// One `[[feature]]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FeatureConfig {
    /// Name, unique in each part of the model. By default the column's name, `<column>_bucketized` for buckets, the
    /// parts joined by `_X_` for a cross, and `_weighted_by_<weights>` behind it where there are weights.
    pub name: String,
    /// What it is made of.
    pub kind: FeatureKind,
    /// Byte between several values of one field; absent = one value a field.
    pub separator: Option<u8>,
    /// Column of the weights of its ids, as many as there are ids (`weighted_categorical_column`).
    pub weights: Option<String>,
    /// Whether it feeds the linear part.
    pub wide: bool,
    /// How it feeds the deep part.
    pub deep: Option<Deep>,
}

impl FeatureConfig {
    /// Returns a numeric feature of the column's name, as it is read, without which a record is bad.
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

/// How a feature enters the deep part.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Deep {
    /// As it is: numbers, or one position per bucket of a bucketized feature.
    Dense,
    /// One position per id, the count (or summed weight) of it (`indicator_column`).
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
    /// How the vectors of a row become one; the mean by default.
    pub combiner: Combiner,
    /// Vectors longer than this (Euclidean) are scaled to it before they are combined; absent = none.
    pub max_norm: Option<f32>,
    /// Name of a table that several features share (`shared_embeddings`); absent = a table of its own.
    pub table: Option<String>,
    /// Whether training changes the vectors; true by default.
    #[serde(skip_serializing_if = "is_true")]
    pub trainable: bool,
}

fn is_true(flag: &bool) -> bool {
    *flag
}

/// How the values of several ids become one.
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
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Normalizer {
    /// As it is.
    None,
    /// `ln(1 + max(x, 0))`.
    Log1p,
    /// `ln(max(x, 1e-7))`.
    Log,
    /// `(x - min) / (max - min)`.
    MinMax {
        /// Becomes 0.
        min: f32,
        /// Becomes 1; above `min`.
        max: f32,
    },
    /// `(x - mean) / stddev`.
    Standardize {
        /// Subtracted.
        mean: f32,
        /// Divided by; not 0.
        stddev: f32,
    },
}

/// Least number that [`Normalizer::Log`] takes the logarithm of; it stands for all below.
pub const LOG_MIN: f32 = 1e-7;

/// The numbers of one column, and what is made of them, in this order: the part of a time, the other column, the bounds, the
/// normalizer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Numbers {
    /// Input column.
    pub column: String,
    /// Numbers in a field: the product of the shape, at least 1.
    pub width: usize,
    /// What part of a time they are, which the column holds; absent = the column holds the numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    /// Another column that they are combined with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operand: Option<Operand>,
    /// Least and greatest number: those beyond are moved to them; absent = any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip: Option<[f32; 2]>,
    /// Applied to each number.
    pub normalizer: Normalizer,
    /// Stand for a missing field, of the other column too, `width` of them; absent = a missing value is a bad row.
    pub default: Option<Vec<f32>>,
}

impl Numbers {
    /// Returns one number of a column, as it is read, without which a record is bad.
    pub fn of(column: String) -> Self {
        Self {
            column,
            width: 1,
            time: None,
            operand: None,
            clip: None,
            normalizer: Normalizer::None,
            default: None,
        }
    }
}

/// A column of times, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Time {
    /// What is taken of each time.
    pub part: TimePart,
    /// What the column counts since 1970.
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

/// What a column of times counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeUnit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
}

impl Time {
    const SECONDS_OF_AN_HOUR: i64 = 3600;
    const SECONDS_OF_A_DAY: i64 = 86_400;

    /// Returns what the column counts in a second.
    pub fn per_second(self) -> i64 {
        match self.unit {
            TimeUnit::Seconds => 1,
            TimeUnit::Milliseconds => 1000,
        }
    }

    /// Returns after how much of what the column counts the part goes on by one, after how many of these it begins anew, and what
    /// it is in 1970.
    pub fn cycle(self) -> (i64, i64, i64) {
        match self.part {
            TimePart::Hour => (Self::SECONDS_OF_AN_HOUR * self.per_second(), 24, 0),
            // The first of January 1970 was a Thursday.
            TimePart::Weekday => (Self::SECONDS_OF_A_DAY * self.per_second(), 7, 3),
        }
    }

    /// Returns the part of a time.
    pub fn of(self, time: i64) -> f32 {
        let (length, count, first) = self.cycle();
        (time.div_euclid(length) + first).rem_euclid(count) as f32
    }
}

/// Another column that a number is combined with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Operand {
    /// It is subtracted.
    Minus(String),
    /// The number is divided by it; by 0 gives 0.
    DividedBy(String),
}

impl Operand {
    /// Returns the input column.
    pub fn column(&self) -> &str {
        let (Self::Minus(column) | Self::DividedBy(column)) = self;
        column
    }

    /// Combines a number with that of the other column.
    #[inline]
    pub fn combine(&self, number: f32, other: f32) -> f32 {
        match self {
            Self::Minus(_) => number - other,
            Self::DividedBy(_) if other == 0.0 => 0.0,
            Self::DividedBy(_) => number / other,
        }
    }
}

/// When the ids of a dynamic feature get rows of its tables, and when they lose them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DynamicConfig {
    /// Most rows of a table, over all parameter servers, at least 1; 1000000 by default. A full table gives the row
    /// that is unused for longest to a new id.
    pub rows_max: u32,
    /// Which sighting of an id gives it a row, at least 1; 1 by default.
    pub admit_after: u32,
    /// Steps in which an id is not seen, after which its row is forgotten; absent = never.
    pub expire_after_steps: Option<u64>,
    /// Seconds of training in which an id is not seen, after which its row is forgotten; absent = never.
    pub expire_after_secs: Option<u64>,
}

/// One key of a cross.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CrossKey {
    /// The text of an input column.
    Text(String),
    /// The number of an input column, cut to a whole one.
    Int(String),
    /// The ids of the feature of this name.
    Ids(String),
}

impl CrossKey {
    /// Returns what it names.
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
        /// What is divided.
        numbers: Numbers,
        /// Strictly ascending.
        boundaries: Vec<f32>,
    },
    /// `categorical_column_with_hash_bucket`.
    Hashed {
        /// Input column.
        column: String,
        /// Number of buckets, at least 1.
        buckets: u32,
        /// Whether fields are whole numbers: 007 and 7 are then one value, and -1 is none.
        integers: bool,
    },
    /// `categorical_column_with_vocabulary_list` (or `_file`, read when the job was).
    Vocabulary {
        /// Input column.
        column: String,
        /// Values, in id order, without repetition.
        values: Vec<String>,
        /// Buckets for values that are not listed; 0 = such a value has the default id, or none.
        oov_buckets: u32,
        /// Id of values that are not listed; excludes buckets for them.
        default: Option<u32>,
        /// Whether fields and values are whole numbers.
        integers: bool,
    },
    /// `categorical_column_with_identity`.
    Identity {
        /// Input column.
        column: String,
        /// Number of ids, at least 1.
        buckets: u32,
        /// Stands for an id out of range; absent = such an id is a bad row.
        default: Option<u32>,
    },
    /// A table without buckets: each value has a row to itself, made when it is seen. TensorFlow has no such column.
    Dynamic {
        /// Input column.
        column: String,
        /// Whether fields are whole numbers: 007 and 7 are then one value, and -1 is none.
        integers: bool,
        /// When values get and lose rows.
        table: DynamicConfig,
    },
    /// `crossed_column`.
    Crossed {
        /// At least 2, in hashing order.
        keys: Vec<CrossKey>,
        /// Number of buckets, at least 1.
        buckets: u32,
        /// Start of the hash; absent = TensorFlow's.
        hash_key: Option<u64>,
    },
}
