//! `[[feature]]`: the feature columns.

mod cross;
mod dynamic;
mod files;
mod numbers;
mod part;
mod vocabulary;

use std::collections::HashMap;
use std::path::Path;

use trainyard_diagnostic::{Code, Kinds, Section, Takes, Value, kinds, section};

use self::dynamic::DynamicKeys;
use self::files::FeatureFiles;
use self::numbers::{BoundaryKeys, EncodingKeys, NumberKeys};
use self::part::PartKeys;
pub(crate) use self::part::settle_initial_values;
use self::vocabulary::VocabularyKeys;
use super::input::separator_at;
use crate::analysis::{Analysis, FilesNeeded};
use crate::without_effect::warn_of_key;
use crate::{
    Combiner, CrossKey, Deep, Family, FeatureConfig, FeatureKind, InputConfig, ModelKind, Numbers,
};

/// Most buckets of a column: row indices have 32 bits.
const BUCKETS_MAX: u64 = u32::MAX as u64;

kinds! {
    /// Keys of `[[feature]]` by its kind.
    #[derive(Debug)]
    pub(crate) enum FeatureKeys = "feature kind" {
        /// numbers (`numeric_column`)
        "numeric" => Numeric(NumberKeys, EncodingKeys, BoundaryKeys),
        /// numbers, divided into ranges (`bucketized_column`)
        "bucketized" => Bucketized(NumberKeys, BoundaryKeys),
        /// values, by their hashes (`categorical_column_with_hash_bucket`)
        "hashed" => Hashed(BucketKeys, IntegerKeys, WeightKeys),
        /// values of a list or a file (`categorical_column_with_vocabulary_list`, `_file`)
        "vocabulary" => Vocabulary(VocabularyKeys, WeightKeys),
        /// values that are ids from 0 (`categorical_column_with_identity`)
        "identity" => Identity(BucketKeys, IdentityKeys, WeightKeys),
        /// values, each with a row of its own, without buckets
        "dynamic" => Dynamic(DynamicKeys, IntegerKeys, WeightKeys),
        /// combinations of the values of other features (`crossed_column`)
        "crossed" => Crossed(CrossKeys, WeightKeys),
    }
}

section! {
    /// Columns and name of a feature, whatever its kind.
    #[derive(Debug)]
    pub(crate) struct ColumnKeys {
        /// input column
        column: Option<String> = text().optional("required, or `columns`");
        /// several columns that get the same feature each; for a cross, its keys
        columns: Option<Vec<String>> = texts().optional("required, or `column`");
        /// unique among the features of a part; with `columns`, a list with one name for each
        name: Option<Vec<String>> = custom(read_names, || Takes::Texts, "").optional_or_invalid(
            "the column; `<column>_bucketized`; keys joined by `_X_`; `.._weighted_by_<weights>`"
        );
        /// character between the values of a field; for a cross, between its `weights`
        separator: Option<u8> = custom(separator_at, || Takes::Text, "")
            .optional_or_invalid("none: one value; `\\|` with a `shape`");
    }
}

section! {
    /// Ids of features that have a number of them.
    #[derive(Debug)]
    pub(crate) struct BucketKeys {
        /// number of ids; with `columns`, one number for all or one for each
        buckets: Option<Buckets> = custom(read_buckets, takes_buckets, "").required_or_invalid("1000");
    }
}

section! {
    /// Form of values that may be whole numbers.
    #[derive(Debug)]
    pub(crate) struct IntegerKeys {
        /// fields are whole numbers, and -1 means no value
        integers: bool = flag().or(false);
    }
}

section! {
    /// Keys of `identity` features alone.
    #[derive(Debug)]
    pub(crate) struct IdentityKeys {
        /// replaces an id out of range
        default: Option<u32> = integer(0..=BUCKETS_MAX).optional("none: such a row is bad, and a negative id is no value, as in TensorFlow");
    }
}

section! {
    /// Keys of crosses alone.
    #[derive(Debug)]
    pub(crate) struct CrossKeys {
        /// number of ids; with `columns`, one number for all or one for each
        buckets: Option<Buckets> = custom(read_buckets_of_cross, takes_buckets_of_cross, "").required_or_invalid("1000");
        /// initial value of the hash
        hash_key: Option<u64> = integer(0..=u64::MAX).optional("TensorFlow's");
    }
}

section! {
    /// Weights of features with ids.
    #[derive(Debug)]
    pub(crate) struct WeightKeys {
        /// column with the weights of the feature's ids, as many as it has values
        weights: Option<String> = text().optional("all 1");
    }
}

/// Numbers of ids of the columns of a feature.
#[derive(Debug, Clone)]
pub(crate) enum Buckets {
    /// The same number for each column.
    Alike(u32),
    /// A number for each column.
    Each(Vec<u32>),
}

/// Returns the kinds of features with all of their keys.
pub(crate) fn kinds() -> Kinds {
    let mut shared = ColumnKeys::keys();
    shared.extend(PartKeys::keys());
    FeatureKeys::kinds().with(shared)
}

pub(crate) fn read_all(
    path: &Path,
    root: &Section<'_>,
    model: Option<ModelKind>,
    input: Option<&InputConfig>,
    needs: FilesNeeded,
) -> Option<(Vec<FeatureConfig>, Vec<Analysis>)> {
    let mut features: Vec<FeatureConfig> = Vec::new();
    let mut analyses = Vec::new();
    let free = |model: ModelKind| model.is_custom() || model.family == Family::Baseline;
    let needed = model.is_none_or(|model| !free(model));
    if root.node("feature").is_none() {
        if !needed {
            return Some((features, analyses));
        }
        root.missing_section(
            "feature",
            "[[feature]]",
            "column = \"age\" and kind = \"numeric\"",
        );
        return None;
    }
    let problems_before = root.problems().len();
    let sections = root.sections("feature");
    if needed && sections.is_empty() && root.problems().len() == problems_before {
        root.fail(
            Code::E1002,
            "feature",
            "a model must have at least one feature, given none",
        );
    }
    let mut complete = true;
    // For each feature, the index of its section: a section with several columns stands for several features.
    let mut tables = Vec::new();
    let mut of_name = HashMap::<String, Vec<usize>>::new();
    let mut files = FeatureFiles::new(path, input, needs);
    for (place, section) in sections.iter().enumerate() {
        match read(&mut files, section, model) {
            Some(read) => {
                for feature in read {
                    let same = of_name.entry(feature.name.clone()).or_default();
                    if same.iter().any(|&have| clash(&features[have], &feature)) {
                        let message = format!("feature name `{}` is given twice", feature.name);
                        let problem = section.reject(Code::E1002, "name", message);
                        section.problems().push(
                            problem.help("give one of them another name, with the key `name`"),
                        );
                    }
                    same.push(features.len());
                    analyses.extend(files.made.iter().map(|(file, rule)| Analysis {
                        feature: features.len(),
                        file: file.clone(),
                        rule: *rule,
                    }));
                    features.push(feature);
                    tables.push(place);
                }
            }
            None => complete = false,
        }
        files.made.clear();
    }
    if complete {
        let table_of = |feature: usize| &sections[tables[feature]];
        if needed {
            part::check_use(root, table_of, &features, model);
        }
        if needed || model.is_some_and(ModelKind::is_custom) {
            part::warn_of_unused(root, table_of, &features, model);
        }
        cross::settle(root, &mut features);
        part::check_tables(root, &features);
    }
    sections.into_iter().for_each(Section::finish);
    complete.then_some((features, analyses))
}

/// Returns whether two features of one name clash. They may share it if they feed different parts, as `c` wide and `c`
/// embedded in TensorFlow.
fn clash(one: &FeatureConfig, other: &FeatureConfig) -> bool {
    let unused = |feature: &FeatureConfig| !feature.wide && feature.deep.is_none();
    let deep = match (&one.deep, &other.deep) {
        (Some(Deep::Embedding(_)), Some(Deep::Embedding(_))) => true,
        (Some(Deep::Embedding(_)), Some(_)) | (Some(_), Some(Deep::Embedding(_))) => false,
        (Some(one), Some(other)) => one == other,
        _ => false,
    };
    one.wide && other.wide || deep || unused(one) || unused(other)
}

fn read(
    files: &mut FeatureFiles,
    section: &Section<'_>,
    model: Option<ModelKind>,
) -> Option<Vec<FeatureConfig>> {
    let (_, keys) = FeatureKeys::read_kind(section, &kinds())?;
    // All keys are read before an early return, so that every mistake is reported.
    let own = ColumnKeys::read_keys(section)?;
    let columns = columns(section, &own, &keys);
    let kinds = of_columns(files, section, &keys, columns.as_deref());
    if let (Some(names), Some(kinds)) = (&own.name, &kinds)
        && names.len() != kinds.len()
    {
        let message = format!(
            "name must be a name for each of the {} columns, given {}",
            kinds.len(),
            names.len()
        );
        section.fail(Code::E1006, "name", message);
    }
    let weights = keys.weights();
    let apart = own.separator;
    if matches!(keys, FeatureKeys::Crossed(..)) && apart.is_some() && weights.is_none() {
        let message = "separator of a crossed feature stands between its weights, and it has none: \
                       the features of its columns say how those are divided";
        section.fail(Code::E1006, "separator", message);
    }
    check_separator(files, section, &keys, apart)?;
    let parts = part::read(section, &keys, model);
    if apart.is_none() && section.node("separator").is_some() {
        return None;
    }
    let kinds = kinds?;
    let (wide, deep) = parts?;
    columns?;
    if let FeatureKeys::Numeric(_, encoding, _) = &keys
        && encoding.is_periodic()
        && model.is_some()
        && deep.is_none()
    {
        let why = "where the feature feeds no deep part: the linear part has the number itself";
        warn_of_key(section, "encoding", why);
    }
    let features = kinds.into_iter().enumerate().map(|(place, kind)| {
        let name = own.name.as_ref().and_then(|names| names.get(place)).cloned();
        // Several numbers in a field need a separator.
        let several = matches!(&kind, FeatureKind::Numeric(numbers) | FeatureKind::Bucketized { numbers, .. } if numbers.width > 1);
        FeatureConfig {
            name: name.unwrap_or_else(|| default_name(&kind, weights)),
            separator: apart.or(several.then_some(b'|')),
            kind,
            weights: weights.map(str::to_owned),
            wide,
            deep: deep.clone(),
        }
    });
    let mut features: Vec<FeatureConfig> = features.collect();
    if let FeatureKeys::Numeric(.., keys) | FeatureKeys::Bucketized(_, keys) = &keys {
        keys.settle(files, section, &mut features)?;
    }
    warn_of_combiner(section, &features);
    Some(features)
}

/// Refuses a separator that numbers hold, and warns of one that divides nothing.
fn check_separator(
    files: &FeatureFiles,
    section: &Section<'_>,
    keys: &FeatureKeys,
    separator: Option<u8>,
) -> Option<()> {
    let Some(separator) = separator.filter(|_| files.are_divided) else {
        return Some(());
    };
    let width = match keys {
        FeatureKeys::Numeric(numbers, ..) | FeatureKeys::Bucketized(numbers, _) => numbers.shape,
        _ => None,
    };
    if (width.is_some() || keys.weights().is_some()) && files.of_numbers.contains(&separator) {
        let message = format!(
            "separator must be no character of a number, and `{}` is input.decimal or input.thousands: `1{0}5` would be two numbers",
            char::from(separator)
        );
        section.fail(Code::E1006, "separator", message);
        return None;
    }
    if width == Some(1) {
        let why = "without a `shape`: a field holds one number, and more make the row bad";
        warn_of_key(section, "separator", why);
    }
    Some(())
}

/// Warns of a combiner of an embedding whose records have one id each, without a weight: it is the id's vector in any case.
fn warn_of_combiner(section: &Section<'_>, features: &[FeatureConfig]) {
    let has_one_id = |feature: &FeatureConfig| {
        let is_crossed = matches!(feature.kind, FeatureKind::Crossed { .. });
        !is_crossed && feature.separator.is_none() && feature.weights.is_none()
    };
    let combines = |feature: &FeatureConfig| matches!(&feature.deep, Some(Deep::Embedding(deep)) if deep.combiner != Combiner::Mean);
    if features
        .iter()
        .all(|feature| has_one_id(feature) && combines(feature))
        && let Some(deep) = section.section("deep")
    {
        let why = "without a `separator` or `weights` of the feature: a record has one id";
        warn_of_key(&deep, "combiner", why);
    }
}

impl FeatureKeys {
    /// Returns the column with the weights of the ids.
    fn weights(&self) -> Option<&str> {
        match self {
            Self::Numeric(..) | Self::Bucketized(..) => None,
            Self::Hashed(.., keys)
            | Self::Vocabulary(.., keys)
            | Self::Identity(.., keys)
            | Self::Dynamic(.., keys)
            | Self::Crossed(.., keys) => keys.weights.as_deref(),
        }
    }
}

/// Reads the names in the job: one name, or a list with one per column.
fn read_names(section: &Section<'_>, key: &'static str) -> Option<Vec<String>> {
    let names = match &section.node(key)?.value {
        Value::List(_) => section.texts(key)?,
        _ => vec![section.text(key)?],
    };
    if names.iter().any(String::is_empty) {
        section.fail(Code::E1002, key, "name must not be empty");
    }
    Some(names)
}

fn default_name(kind: &FeatureKind, weights: Option<&str>) -> String {
    let name = match kind {
        FeatureKind::Bucketized { numbers, .. } => format!("{}_bucketized", numbers.column),
        FeatureKind::Crossed { keys, .. } => cross::name(keys),
        FeatureKind::Numeric(numbers) => numbers.column.clone(),
        FeatureKind::Hashed { column, .. }
        | FeatureKind::Vocabulary { column, .. }
        | FeatureKind::Identity { column, .. }
        | FeatureKind::Dynamic { column, .. } => column.clone(),
    };
    match weights {
        Some(weights) => format!("{name}_weighted_by_{weights}"),
        None => name,
    }
}

/// Returns the columns: one column, several similar columns, or the keys of a cross.
fn columns(section: &Section<'_>, own: &ColumnKeys, keys: &FeatureKeys) -> Option<Vec<String>> {
    let column = own.column.clone();
    let columns = own.columns.clone();
    for (key, names) in [
        ("column", column.as_slice()),
        ("columns", columns.as_deref().unwrap_or_default()),
    ] {
        if names.iter().any(String::is_empty) {
            section.fail(
                Code::E1002,
                key,
                format!("{key} must name columns of the input, given \"\""),
            );
            return None;
        }
    }
    if matches!(keys, FeatureKeys::Crossed(..)) {
        let Some(keys) = columns else {
            if section.node("columns").is_none() {
                section.missing("columns", "[\"education\", \"occupation\"]");
            }
            return None;
        };
        if column.is_some() {
            section.fail(
                Code::E1006,
                "column",
                "a crossed feature takes `columns`, not `column`",
            );
        }
        if keys.len() < 2 {
            let message = format!(
                "columns of a cross must be at least 2, given {}",
                keys.len()
            );
            section.fail(Code::E1002, "columns", message);
            return None;
        }
        return Some(keys);
    }
    match (column, columns) {
        (Some(_), Some(_)) => {
            section.fail(
                Code::E1006,
                "columns",
                "column and columns cannot be both set",
            );
            None
        }
        (Some(column), None) => Some(vec![column]),
        (None, Some(columns)) if !columns.is_empty() => Some(columns),
        (None, Some(_)) => {
            section.fail(
                Code::E1002,
                "columns",
                "columns must name at least one column, given none",
            );
            None
        }
        // A key that exists but could not be read has been reported already.
        (None, None) => {
            if section
                .node("column")
                .or_else(|| section.node("columns"))
                .is_none()
            {
                section.missing("column", "\"age\"");
            }
            None
        }
    }
}

/// Returns the kind of each column. Without columns, it checks the other keys only.
fn of_columns(
    files: &mut FeatureFiles,
    section: &Section<'_>,
    keys: &FeatureKeys,
    columns: Option<&[String]>,
) -> Option<Vec<FeatureKind>> {
    let count = columns.map(<[String]>::len);
    let columns = columns.unwrap_or_default().iter().cloned();
    match keys {
        FeatureKeys::Numeric(keys, encoding, bounds) => {
            let numbers = keys.numbers(section);
            // Mistakes about boundaries are reported with those about numbers.
            let read = numbers.clone().unwrap_or_else(|| keys.stand_in());
            let bounded = bounds.numeric(section, encoding, read);
            numbers?;
            let numbers = bounded?;
            let numeric = |column| FeatureKind::Numeric(with_column(&numbers, column));
            Some(columns.map(numeric).collect())
        }
        FeatureKeys::Bucketized(keys, bounds) => {
            let numbers = keys.numbers(section);
            let read = numbers.clone().unwrap_or_else(|| keys.stand_in());
            let boundaries = bounds.bucketized(section, &read)?;
            let numbers = numbers?;
            let bucketized = |column| FeatureKind::Bucketized {
                numbers: with_column(&numbers, column),
                boundaries: boundaries.clone(),
            };
            Some(columns.map(bucketized).collect())
        }
        FeatureKeys::Hashed(BucketKeys { buckets }, IntegerKeys { integers }, _) => {
            let buckets = buckets.as_ref()?.of_each(section, count)?;
            let hashed = |(column, buckets)| FeatureKind::Hashed {
                column,
                buckets,
                integers: *integers,
            };
            Some(columns.zip(buckets).map(hashed).collect())
        }
        FeatureKeys::Vocabulary(keys, _) => {
            let listed = keys.listed(files, section)?;
            Some(columns.map(|column| listed.of(column)).collect())
        }
        FeatureKeys::Identity(BucketKeys { buckets }, IdentityKeys { default }, _) => {
            let buckets = buckets.as_ref()?.of_each(section, count)?;
            if let (Some(id), Some(least)) = (default, buckets.iter().min())
                && id >= least
            {
                let message = format!("default must be below buckets ({least}), given {id}");
                section.fail(Code::E1002, "default", message);
            }
            let identity = |(column, buckets)| FeatureKind::Identity {
                column,
                buckets,
                default: *default,
            };
            Some(columns.zip(buckets).map(identity).collect())
        }
        FeatureKeys::Dynamic(keys, IntegerKeys { integers }, _) => {
            let dynamic = |column| FeatureKind::Dynamic {
                column,
                integers: *integers,
                table: keys.table(),
            };
            Some(columns.map(dynamic).collect())
        }
        FeatureKeys::Crossed(CrossKeys { buckets, hash_key }, _) => {
            let buckets = buckets.as_ref()?.of_each(section, Some(1))?;
            let keys: Vec<CrossKey> = columns.map(|text| cross::key(&text)).collect();
            let crossed = |buckets| FeatureKind::Crossed {
                keys: keys.clone(),
                buckets,
                hash_key: *hash_key,
            };
            Some(buckets.into_iter().map(crossed).collect())
        }
    }
}

/// Returns numbers of a column.
fn with_column(numbers: &Numbers, column: String) -> Numbers {
    Numbers {
        column,
        ..numbers.clone()
    }
}

/// Least number of ids of a feature, and of a cross.
const BUCKETS_MIN: u64 = 1;
const BUCKETS_OF_CROSS_MIN: u64 = 2;

fn takes_buckets() -> Takes {
    takes_buckets_from(BUCKETS_MIN)
}

fn takes_buckets_of_cross() -> Takes {
    takes_buckets_from(BUCKETS_OF_CROSS_MIN)
}

fn takes_buckets_from(least: u64) -> Takes {
    let most = BUCKETS_MAX;
    Takes::AnyOf(vec![
        Takes::Integer { least, most },
        Takes::Integers { least, most },
    ])
}

fn read_buckets(section: &Section<'_>, key: &'static str) -> Option<Buckets> {
    read_buckets_from(section, key, BUCKETS_MIN)
}

fn read_buckets_of_cross(section: &Section<'_>, key: &'static str) -> Option<Buckets> {
    read_buckets_from(section, key, BUCKETS_OF_CROSS_MIN)
}

/// Reads the buckets of each column: one number for all columns, or one per column.
fn read_buckets_from(section: &Section<'_>, key: &'static str, least: u64) -> Option<Buckets> {
    match section.node(key)?.value {
        Value::List(_) => {
            let buckets = section.integers(key, least..=BUCKETS_MAX)?;
            let buckets = buckets.into_iter().map(|count| count as u32);
            Some(Buckets::Each(buckets.collect()))
        }
        _ => section
            .integer(key, least..=BUCKETS_MAX)
            .map(|count| Buckets::Alike(count as u32)),
    }
}

impl Buckets {
    /// Returns the buckets of each column. Without columns, their number is not checked.
    fn of_each(&self, section: &Section<'_>, columns: Option<usize>) -> Option<Vec<u32>> {
        let each = match self {
            Self::Alike(count) => return Some(vec![*count; columns.unwrap_or(0)]),
            Self::Each(each) => each,
        };
        if let Some(columns) = columns.filter(|columns| *columns != each.len()) {
            let message = format!(
                "buckets must be one number for each of {columns} columns, given {}",
                each.len()
            );
            section.fail(Code::E1002, "buckets", message);
            return None;
        }
        Some(each.clone())
    }
}
