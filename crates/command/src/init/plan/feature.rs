//! Choice of a feature for a column.

use std::collections::HashSet;

use trainyard_input::{ColumnKind, ColumnProfile, Numbers, Profile};

use super::{Coverage, Shape, bare};
use crate::data_warnings::KEPT_SHARE_MIN;

/// Most values of a vocabulary. A column with more values is hashed.
const VOCABULARY_VALUES_MAX: u64 = 1000;

/// Most values of a vocabulary if the data is a sample, because more records may bring more values.
const VOCABULARY_VALUES_OF_SAMPLE_MAX: u64 = 100;

/// Most values that feed the dense layers as an indicator. With more values, each has an embedding.
const INDICATOR_VALUES_MAX: u64 = 8;

/// Most buckets of a hashed column.
const BUCKETS_MAX: u64 = 4_000_000;

/// Share of distinct values among the records above which a column identifies its record.
const NAMING_SHARE: f64 = 0.9;

/// Fewest records that show whether a column identifies its record.
const NAMING_RECORDS_MIN: u64 = 200;

/// Quantiles that become bucket boundaries of a number in the linear part.
const DECILES: [f64; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];

/// Parts into which the records are divided by a number, and its distinct values by themselves, for embeddings of buckets. A
/// number that is 0 in most records has few quantiles of records, and its other values are told apart by theirs.
const PARTS: usize = 21;

/// Steps between quantiles of the records.
const PERCENTILES: usize = 100;

/// Most distinct whole numbers that have a bucket each.
const EXACT_VALUES_MAX: usize = 256;

/// Least mean number of records of a whole number that may be a name.
const RECORDS_OF_ID_MIN: u64 = 2;

/// Least share of the whole numbers from the least to the greatest that occur, and least mean number of records of each, where
/// numbers were given out one after the other: they are names, and their order says nothing.
const FILLED_SHARE_MIN: f64 = 0.8;
const RECORDS_OF_FILLED_MIN: u64 = 10;

/// Most buckets of a hashed column that has room for sixteen times its values, so that hardly two share a bucket.
const ROOMY_BUCKETS_MAX: u64 = 1 << 20;

/// Least value of a column of times: a second of the year 1973, counted since 1970.
const EPOCH_SECONDS_MIN: f64 = 1e8;

/// Separators of several texts in one field that are tried.
const SEPARATORS: [char; 2] = ['|', ';'];

/// Characters around the values of a list that a program has printed.
const PRINTED: [char; 8] = ['[', ']', '(', ')', '{', '}', '\'', '"'];

/// Fewest distinct fields that show that a comma stands between ids, and fewest of them for each id.
const LISTS_MIN: u64 = 50;
const VALUES_OF_PART_MIN: u64 = 4;

/// Fewest numbers of a model, of 32 bits, between the least and the greatest number of a column.
const STEPS_MIN: f64 = 32.0;

/// What a column of whole numbers may be read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// A quantity.
    Number,
    /// A name, whose order says nothing.
    Name,
    /// A quantity and a name.
    Both,
}

impl Reading {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Number => "a number",
            Self::Name => "a name",
            Self::Both => "a number and a name",
        }
    }
}

/// A column as a feature.
#[derive(Debug, Clone)]
pub(crate) struct FeaturePlan {
    pub(crate) column: String,
    pub(crate) kind: Kind,
    /// What it may be instead, if that is in doubt.
    pub(crate) others: Vec<(Reading, Kind)>,
    /// Content of the column, for a comment in the job file.
    pub(crate) note: String,
}

/// Kind of a feature.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    /// A number, or `width` numbers, with the boundaries of its buckets.
    Numeric {
        width: u64,
        scale: Scale,
        default: Option<f64>,
        boundaries: Vec<f64>,
        /// Boundaries of the bins of a piecewise linear encoding: the least number, those of the buckets, and the greatest number.
        bins: Vec<f64>,
        /// Quantiles of the records, from the least number to the greatest; empty where there are no bins.
        quantiles: Vec<f64>,
        /// Buckets of its values as ids, if they may be names.
        ids: Option<u64>,
    },
    /// One of these values. Each value has an embedding of `dimension` numbers, or is an indicator without `dimension`.
    Vocabulary {
        values: Vec<String>,
        separator: Option<char>,
        dimension: Option<usize>,
    },
    /// A text with too many values for a vocabulary.
    Hashed {
        buckets: u64,
        separator: Option<char>,
        dimension: usize,
    },
    /// The pairs of libsvm: indices from `base`, each with a value.
    Pairs { buckets: u64, base: u64 },
    /// A history of ids, which has a separator, or its target. Both share the table.
    Attended {
        buckets: u64,
        separator: Option<char>,
        table: String,
    },
}

/// Scaling of a number.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Scale {
    None,
    Log1p,
    Standardize { mean: f64, stddev: f64 },
}

impl FeaturePlan {
    /// Chooses a feature, or returns the reason why the column is none.
    pub(super) fn make(
        column: &ColumnProfile,
        found: &Profile,
        coverage: Coverage,
        shape: Shape,
    ) -> Result<Self, String> {
        let feature = |kind, others, note| {
            Ok(Self {
                column: column.name.clone(),
                kind,
                others,
                note,
            })
        };
        if column.values == 0 {
            return Err("it holds no value".to_owned());
        }
        if column.distinct() == 1 && column.missing == 0 {
            return Err("it has the same value in all records".to_owned());
        }
        let is_name = shape == Shape::Factorized && fills_its_range(column);
        let is_merged = are_merged_names(column);
        if is_categorical(column) || is_name || is_merged {
            let separator = separator(column);
            let values = parts(column, separator);
            let ids = separator.map(|separator| Ids::of(column, separator));
            let names_records = match &ids {
                Some(_) if column.list => false,
                Some(ids) => ids.name_records(found.rows),
                None => names_records(column, found.rows),
            };
            if names_records {
                // Of many values, their number is an estimate.
                return Err(format!(
                    "{} different values in {} records: each names its record",
                    column.distinct().min(column.present),
                    column.present
                ));
            }
            let distinct = ids.map_or_else(|| column.distinct(), |ids| ids.distinct);
            let merged = if is_merged {
                ", whole numbers that are the same in the 32 bits of a numeric feature"
            } else {
                ""
            };
            let note = format!("{distinct} values{merged}{}", missing_note(column, found));
            let others = if is_categorical(column) || is_merged {
                Vec::new()
            } else {
                let number = number(column, coverage, shape);
                vec![
                    (Reading::Number, number.without_ids()),
                    (Reading::Both, number),
                ]
            };
            let kind = category(distinct, values, separator, column, (coverage, shape));
            return feature(kind, others, note);
        }
        if column.list {
            if is_ragged(column) {
                return Err(format!(
                    "lists of {} to {} numbers: as many must be in each record",
                    column.lengths.0, column.lengths.1
                ));
            }
            let kind = Kind::Numeric {
                width: column.lengths.0,
                scale: Scale::None,
                default: None,
                boundaries: Vec::new(),
                bins: Vec::new(),
                quantiles: Vec::new(),
                ids: None,
            };
            let note = format!("{} numbers in each record", column.lengths.0);
            return feature(kind, Vec::new(), note);
        }
        if names_records(column, found.rows) && is_id(&column.name) {
            return Err("it names each record".to_owned());
        }
        if counts_records(column, found.rows) {
            return Err("it counts the records".to_owned());
        }
        let numbers = &column.numbers;
        let largest = numbers.max.max(-numbers.min);
        if largest > f64::from(f32::MAX) {
            return Err(format!(
                "it holds {largest:e}, and numbers of a model go to {:e}: divide them",
                f32::MAX
            ));
        }
        let step = step_at(largest);
        let is_exact = numbers.fractions == 0 && step <= 1.0;
        if !is_exact && column.distinct() > 1 && numbers.max - numbers.min < STEPS_MIN * step {
            return Err(format!(
                "its numbers are from {} to {}, and a model tells numbers there apart that differ by {}: subtract a number from \
                 them",
                numbers.min,
                numbers.max,
                rounded(step)
            ));
        }
        let note = format!(
            "from {} to {}, mean {}{}",
            rounded(numbers.min),
            rounded(numbers.max),
            rounded(numbers.mean),
            missing_note(column, found)
        );
        let number = number(column, coverage, shape);
        let others = if let Kind::Numeric { ids: Some(_), .. } = &number {
            let values = parts(column, None);
            let name = category(column.distinct(), values, None, column, (coverage, shape));
            vec![
                (Reading::Number, number.without_ids()),
                (Reading::Name, name),
            ]
        } else {
            Vec::new()
        };
        feature(number, others, note)
    }
}

impl Kind {
    /// Returns a number that is no name.
    fn without_ids(&self) -> Self {
        let mut kind = self.clone();
        if let Self::Numeric { ids, .. } = &mut kind {
            *ids = None;
        }
        kind
    }
}

impl FeaturePlan {
    /// Returns the number of embeddings in a factorized model.
    pub(crate) fn embeddings(&self) -> usize {
        match &self.kind {
            Kind::Numeric {
                boundaries, ids, ..
            } => usize::from(!boundaries.is_empty()) + usize::from(ids.is_some()),
            Kind::Vocabulary { .. }
            | Kind::Hashed { .. }
            | Kind::Pairs { .. }
            | Kind::Attended { .. } => 1,
        }
    }

    /// Returns the feature of libsvm's pairs, if there are any.
    pub(super) fn of_pairs(found: &Profile) -> Option<Self> {
        let index = found.column("index").filter(|column| column.values > 0)?;
        let base = u64::from(index.numbers.min > 0.0);
        let buckets = index.numbers.max as u64 + 1 - base;
        let note = format!(
            "indices from {} to {}",
            index.numbers.min, index.numbers.max
        );
        Some(Self {
            column: index.name.clone(),
            kind: Kind::Pairs { buckets, base },
            others: Vec::new(),
            note,
        })
    }
}

/// Returns whether a column holds the time of its record: seconds or milliseconds since 1970, under a name for times.
pub(super) fn is_time(column: &ColumnProfile) -> bool {
    let name = bare(&column.name);
    let is_named = ["time", "timestamp", "ts", "datetime", "date", "unixtime"]
        .contains(&name.as_str())
        || ["_time", "_timestamp", "_ts", "_at"]
            .iter()
            .any(|end| name.ends_with(end));
    is_named
        && column.is_numeric()
        && !column.list
        && column.missing == 0
        && column.numbers.min >= EPOCH_SECONDS_MIN
}

/// Returns whether the name of a column says that its numbers are identifiers.
pub(crate) fn is_id(name: &str) -> bool {
    let lower = bare(name);
    let ends = ["_id", "_code", "_zip", "_hash", "_key", "_sku"];
    let is_camel = name
        .split(':')
        .next()
        .is_some_and(|name| name.ends_with("Id") || name.ends_with("ID"));
    is_camel
        || ["id", "uid", "zip", "zipcode", "code", "sku"].contains(&lower.as_str())
        || ends.iter().any(|end| lower.ends_with(end))
        || name.ends_with(":token")
}

fn is_categorical(column: &ColumnProfile) -> bool {
    match column.kind {
        Some(ColumnKind::Text) => true,
        Some(ColumnKind::Boolean | ColumnKind::Int) => is_id(&column.name) || is_ragged(column),
        Some(ColumnKind::Float) => column.is_whole() && is_id(&column.name),
        None => false,
    }
}

/// Returns whether the rows of a column hold different numbers of values.
fn is_ragged(column: &ColumnProfile) -> bool {
    column.list && (column.lengths.0 != column.lengths.1 || column.missing > 0)
}

/// Returns whether a column counts the records, as the index that pandas and R write.
fn counts_records(column: &ColumnProfile, rows: u64) -> bool {
    let numbers = &column.numbers;
    rows >= NAMING_RECORDS_MIN
        && column.kind == Some(ColumnKind::Int)
        && !column.list
        && column.missing == 0
        && (0.0..=1.0).contains(&numbers.min)
        && numbers.max - numbers.min + 1.0 == rows as f64
        && column.distinct() as f64 > NAMING_SHARE * rows as f64
}

/// Returns whether a column holds whole numbers that come again, of which the 32 bits of a numeric feature merge most: ids.
fn are_merged_names(column: &ColumnProfile) -> bool {
    let (different, of_features) = column.whole_numbers();
    !column.list
        && 2 * of_features <= different
        && column.distinct() <= column.present / RECORDS_OF_ID_MIN
        && different > 0
}

/// Returns how many numbers of a numeric feature differ, and how many differ in its 32 bits, where it loses some.
pub(crate) fn merged(column: &ColumnProfile) -> Option<(usize, usize)> {
    let (different, of_features) = column.different_numbers();
    let numbers = &column.numbers;
    let step = step_at(numbers.max.max(-numbers.min));
    let is_left_out = step > 1.0 && numbers.max - numbers.min < STEPS_MIN * step;
    let is_merged = (of_features as f64) < KEPT_SHARE_MIN * different as f64;
    let is_number = !is_categorical(column) && !are_merged_names(column) && !is_left_out;
    (is_merged && is_number).then_some((different, of_features))
}

fn names_records(column: &ColumnProfile, rows: u64) -> bool {
    rows >= NAMING_RECORDS_MIN
        && (column.kind == Some(ColumnKind::Text) || column.is_whole())
        && column.distinct() as f64 > NAMING_SHARE * column.present as f64
}

fn missing_note(column: &ColumnProfile, found: &Profile) -> String {
    if column.missing == 0 {
        String::new()
    } else {
        format!(
            ", missing in {:.1} % of the records",
            100.0 * column.missing as f64 / found.rows.max(1) as f64
        )
    }
}

/// Returns the separator of several texts in a field. A format with lists of its own accepts any separator.
fn separator(column: &ColumnProfile) -> Option<char> {
    if column.list {
        return Some('|');
    }
    if column.name.ends_with(":token_seq") {
        return Some(' ');
    }
    // Where each value is another one, not all of them are counted.
    let counts = column.counts();
    let all: u64 = counts.iter().map(|(_, count)| count).sum();
    let holds = |separator: char| {
        let with = counts
            .iter()
            .filter(|(value, _)| value.contains(&(separator as u8)));
        with.map(|(_, count)| count).sum::<u64>() as f64
    };
    let is_held = |separator: &char| holds(*separator) > 0.2 * all as f64;
    SEPARATORS
        .into_iter()
        .find(is_held)
        .or_else(|| Some(',').filter(is_held).filter(|_| are_lists(column)))
}

/// Returns whether fields with commas are lists of ids: lists of several lengths, of the same few ids, which are no texts with blanks and no
/// numbers with thousands.
fn are_lists(column: &ColumnProfile) -> bool {
    let ids = Ids::of(column, ',');
    // Brackets and quotes are those of lists that a program has printed.
    let is_word = |id: &String| !id.contains(char::is_whitespace) && !id.contains(PRINTED);
    let are_words = ids.counted.iter().all(is_word);
    let counts = column.counts();
    let mut lengths = counts.iter().map(|(value, _)| parts_of(value, ',').len());
    let first = lengths.next();
    let have_lengths = lengths.any(|length| Some(length) != first);
    let of_thousands = |value: &[u8]| {
        let mut parts = value.split(|byte| *byte == b',').skip(1);
        parts.all(|part| part.len() == 3 && part.iter().all(u8::is_ascii_digit))
    };
    let are_thousands = counts.iter().all(|(value, _)| of_thousands(value));
    let values = counts.len() as u64;
    are_words
        && have_lengths
        && !are_thousands
        && values >= LISTS_MIN
        && VALUES_OF_PART_MIN * ids.counted.len() as u64 <= values
}

/// The ids of a column with several in a field.
pub(super) struct Ids {
    /// Those of the values that were counted.
    pub(super) counted: HashSet<String>,
    /// Number of times that they occur.
    occurrences: u64,
    /// Most in a record.
    pub(super) length: u64,
    /// Number of distinct ids, about: where not all values were counted, there are more than in those that were.
    pub(super) distinct: u64,
}

impl Ids {
    pub(super) fn of(column: &ColumnProfile, separator: char) -> Self {
        let mut ids = Self {
            counted: HashSet::new(),
            occurrences: 0,
            length: column.lengths.1,
            distinct: column.distinct(),
        };
        for (value, count) in column.counts() {
            let parts = if column.list {
                vec![String::from_utf8_lossy(value).into_owned()]
            } else {
                parts_of(value, separator)
            };
            ids.length = ids.length.max(parts.len() as u64);
            ids.occurrences += count * parts.len() as u64;
            ids.counted.extend(parts);
        }
        if !column.list {
            let more = if column.are_all_counted() { 1 } else { 2 };
            ids.distinct = more * ids.counted.len() as u64;
        }
        ids
    }

    /// Returns whether hardly an id occurs twice: each field is a text of its record.
    fn name_records(&self, rows: u64) -> bool {
        let distinct = self.counted.len() as f64;
        rows >= NAMING_RECORDS_MIN && distinct > NAMING_SHARE * self.occurrences as f64
    }
}

/// Returns the texts of a field.
fn parts_of(field: &[u8], separator: char) -> Vec<String> {
    let text = String::from_utf8_lossy(field);
    let parts = text.split(separator).map(str::trim);
    parts
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Returns the sorted values, with fields split into their texts. Empty if not all values were counted.
fn parts(column: &ColumnProfile, separator: Option<char>) -> Vec<String> {
    if !column.are_all_counted() {
        return Vec::new();
    }
    let mut values: Vec<String> = Vec::new();
    for (value, _) in column.counts() {
        match separator {
            Some(separator) if !column.list => values.extend(parts_of(value, separator)),
            _ => values.push(String::from_utf8_lossy(value).into_owned()),
        }
    }
    values.sort_unstable();
    values.dedup();
    values
}

fn category(
    distinct: u64,
    values: Vec<String>,
    separator: Option<char>,
    column: &ColumnProfile,
    (coverage, shape): (Coverage, Shape),
) -> Kind {
    let dimension = match distinct {
        0..50 => 4,
        50..VOCABULARY_VALUES_MAX => 8,
        _ => 16,
    };
    let most = match (coverage, shape) {
        (Coverage::Sample, _) => VOCABULARY_VALUES_OF_SAMPLE_MAX,
        (Coverage::Whole, Shape::WideAndDeep) => VOCABULARY_VALUES_MAX,
        // Two values with one embedding cost more than the file.
        (Coverage::Whole, Shape::Factorized) => u64::MAX,
    };
    // A vocabulary is a text file with one value per line, of UTF-8.
    let fits = column.are_all_counted()
        && column.not_utf8 == 0
        && values.iter().all(|value| !value.contains(['\n', '\r']));
    if distinct <= most && fits {
        let dimension = (distinct > INDICATOR_VALUES_MAX).then_some(dimension);
        return Kind::Vocabulary {
            values,
            separator,
            dimension,
        };
    }
    Kind::Hashed {
        buckets: buckets(distinct, coverage, shape),
        separator,
        dimension,
    }
}

/// Returns the buckets of hashed values. More records bring more values. With half of the buckets empty, most values have a
/// bucket of their own.
pub(super) fn buckets(distinct: u64, coverage: Coverage, shape: Shape) -> u64 {
    let roomy = (16 * distinct).next_power_of_two();
    if shape == Shape::Factorized && roomy <= ROOMY_BUCKETS_MAX {
        return roomy;
    }
    let room = match coverage {
        Coverage::Sample => 4,
        Coverage::Whole => 2,
    };
    (room * distinct).next_power_of_two().min(BUCKETS_MAX)
}

/// Returns the distance from a number to the next one of 32 bits.
fn step_at(number: f64) -> f64 {
    let near = (number as f32).abs();
    f64::from(near.next_up()) - f64::from(near)
}

/// Returns the mean, rounded unless that would move it by more than a hundredth of the deviation.
pub(crate) fn mean(numbers: &Numbers) -> f64 {
    let short = rounded(numbers.mean);
    if (short - numbers.mean).abs() <= 0.01 * numbers.stddev() {
        short
    } else {
        f64::from(numbers.mean as f32)
    }
}

fn number(column: &ColumnProfile, coverage: Coverage, shape: Shape) -> Kind {
    let numbers = &column.numbers;
    let quantiles = column.quantiles(&[0.5, 0.99]);
    let [median, high] = quantiles[..] else {
        return Kind::Numeric {
            width: 1,
            scale: Scale::None,
            default: None,
            boundaries: Vec::new(),
            bins: Vec::new(),
            quantiles: Vec::new(),
            ids: None,
        };
    };
    let is_flag = numbers.min >= -1.0 && numbers.max <= 1.0;
    // A few large numbers would make all others look alike.
    let is_skewed = numbers.min >= 0.0
        && (high > 10.0 * median.max(1.0) || numbers.mean > 2.0 * median && numbers.max > 100.0);
    let scale = if is_flag || numbers.min >= numbers.max {
        Scale::None
    } else if is_skewed {
        Scale::Log1p
    } else {
        Scale::Standardize {
            mean: mean(numbers),
            stddev: rounded(numbers.stddev()),
        }
    };
    let default = (column.missing > 0).then(|| if is_skewed { 0.0 } else { mean(numbers) });
    let (mut boundaries, ids) = match shape {
        Shape::WideAndDeep => (column.quantiles(&DECILES), None),
        Shape::Factorized => (boundaries(column), ids(column, coverage)),
    };
    // A model has them in 32 bits.
    boundaries.dedup_by_key(|boundary| *boundary as f32);
    // No number lies below the minimum.
    boundaries.retain(|boundary| *boundary as f32 > numbers.min as f32);
    if is_flag && column.distinct() <= 2 {
        boundaries.clear();
    }
    let (bins, quantiles) = match shape {
        Shape::WideAndDeep => (Vec::new(), Vec::new()),
        Shape::Factorized => (bins(&boundaries, numbers), percentiles(column)),
    };
    Kind::Numeric {
        width: 1,
        scale,
        default,
        boundaries,
        bins,
        quantiles,
        ids,
    }
}

/// Returns the boundaries of bins, which differ in 32 bits; none where there are no buckets.
fn bins(boundaries: &[f64], numbers: &Numbers) -> Vec<f64> {
    if boundaries.is_empty() {
        return Vec::new();
    }
    let ends = [numbers.min, numbers.max];
    let mut bins: Vec<f64> = boundaries.iter().copied().chain(ends).collect();
    bins.sort_unstable_by(f64::total_cmp);
    bins.dedup_by_key(|bin| *bin as f32);
    bins
}

/// Returns the quantiles of hundredths of the records, in ascending order, with the least and the greatest number.
fn percentiles(column: &ColumnProfile) -> Vec<f64> {
    let shares: Vec<f64> = (0..=PERCENTILES)
        .map(|part| part as f64 / PERCENTILES as f64)
        .collect();
    let mut quantiles = column.quantiles(&shares);
    if let [first, .., last] = quantiles.as_mut_slice() {
        *first = column.numbers.min;
        *last = column.numbers.max;
    }
    quantiles.sort_unstable_by(f64::total_cmp);
    quantiles
}

/// Returns the bounds of buckets with embeddings: of the quantiles of the records and of the distinct values together, or
/// between all values if they are few whole numbers.
fn boundaries(column: &ColumnProfile) -> Vec<f64> {
    let mut values: Vec<f64> = if column.are_all_counted() {
        let texts = column.counts().into_iter();
        let values = texts.filter_map(|(text, _)| column.number(text));
        values.filter(|value: &f64| value.is_finite()).collect()
    } else {
        Vec::new()
    };
    values.sort_unstable_by(f64::total_cmp);
    values.dedup();
    if column.is_whole() && (1..=EXACT_VALUES_MAX).contains(&values.len()) {
        return values;
    }
    let shares: Vec<f64> = (1..PARTS).map(|part| part as f64 / PARTS as f64).collect();
    let mut boundaries = column.quantiles(&shares);
    if !values.is_empty() {
        boundaries.extend((1..PARTS).map(|part| values[part * values.len() / PARTS]));
    }
    boundaries.sort_unstable_by(f64::total_cmp);
    boundaries
}

/// Returns whether the values are whole numbers that were given out one after the other, as ids are, and come again and again.
fn fills_its_range(column: &ColumnProfile) -> bool {
    let numbers = &column.numbers;
    let distinct = column.distinct();
    column.is_whole()
        && !column.list
        && distinct > EXACT_VALUES_MAX as u64
        && distinct <= column.present / RECORDS_OF_FILLED_MIN
        && distinct as f64 >= FILLED_SHARE_MIN * (numbers.max - numbers.min + 1.0)
}

/// Returns the buckets of the values of a number as ids, if it may be a name: a whole number that comes again and again, and
/// has more values than buckets with bounds tell apart.
fn ids(column: &ColumnProfile, coverage: Coverage) -> Option<u64> {
    let distinct = column.distinct();
    let may_be = column.is_whole()
        && distinct > EXACT_VALUES_MAX as u64
        && distinct <= column.present / RECORDS_OF_ID_MIN;
    may_be.then(|| buckets(distinct, coverage, Shape::Factorized))
}

/// Returns a number rounded to six significant digits, as the job file writes it.
pub(crate) fn rounded(number: f64) -> f64 {
    if number == 0.0 || !number.is_finite() {
        return 0.0;
    }
    let scale = 10_f64.powi(5 - number.abs().log10().floor() as i32);
    let rounded = (number * scale).round() / scale;
    if rounded.is_finite() { rounded } else { number }
}
