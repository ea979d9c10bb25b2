//! The columns of a module's input: numbers, ids, and a lookup for each of the module's embeddings.

use std::collections::BTreeMap;
use std::sync::Arc;

use pyo3::types::{PyAny, PyList};
use pyo3::{Bound, FromPyObject, PyResult, Python};
use trainyard_feature_column::{Categorical, FeatureColumns, Features};
use trainyard_input::{Batch, Schema};
use trainyard_model::Error;
use trainyard_run_config::{
    Combiner, Deep, DynamicConfig, Embedding, FeatureConfig, FeatureKind, Job, Regularizer,
};
use trainyard_variable::{Access, DynamicTable, Read, Reads};

use crate::matrices::{Matrix, MatrixLookups, TableLookup};
use crate::row_ids::RowIds;

/// Most rows of a dynamic table that neither the job nor the module bounds.
const ROWS_MAX: u32 = 1_000_000;

/// An embedding of the module: a feature, and the table in which its ids are looked up.
#[derive(Debug, Clone, FromPyObject)]
pub(crate) struct Lookup {
    /// Name of the feature.
    pub(crate) feature: String,
    /// Name of the table, which several embeddings may share.
    pub(crate) table: String,
    /// Values of a vector.
    pub(crate) dimension: usize,
    /// Most rows of a dynamic table; absent = those of the feature, or [`ROWS_MAX`] if the job does not describe it.
    pub(crate) rows_max: Option<u32>,
    /// Text between several values of a field, one byte; absent = that of the feature.
    pub(crate) separator: Option<String>,
    /// Initializer of the vectors, as JSON.
    pub(crate) initializer: String,
    /// Optimizer of the table, as JSON; absent = the job's.
    pub(crate) optimizer: Option<String>,
    /// The vectors of a row are combined to one.
    pub(crate) combined: bool,
    /// Penalty of the vectors that a batch reads, as JSON; absent = none.
    pub(crate) regularizer: Option<String>,
}

/// A table of embeddings.
#[derive(Debug)]
pub(crate) struct Table {
    /// The first lookup of the table, which describes it.
    pub(crate) lookup: Lookup,
    /// Rows of the table; for a dynamic table, the most rows.
    pub(crate) rows: usize,
    pub(crate) access: Access,
    /// Penalty of the vectors that a batch reads.
    pub(crate) regularizer: Option<Regularizer>,
}

/// The columns of a module's input.
#[derive(Debug)]
pub(crate) struct Columns {
    features: Vec<FeatureConfig>,
    columns: FeatureColumns,
    /// The tables, in the order of their variables.
    pub(crate) tables: Vec<Table>,
    /// The lookup of each embedding.
    lookups: Vec<TableLookup>,
    /// The tables by their dimensions.
    pub(crate) matrices: Vec<Matrix>,
    /// Names and indices of the features whose ids the module reads itself.
    ids: Vec<(String, usize)>,
}

/// The ids of a batch.
#[derive(Debug)]
pub(crate) struct Lookups {
    /// The lookups in each matrix.
    matrices: Vec<MatrixLookups>,
    /// Of each feature without embedding: its ids.
    ids: Vec<RowIds>,
    /// The rows that the batch reads of each table.
    reads: Vec<Read>,
}

impl Columns {
    /// Makes the columns of a job for a module with these embeddings, and adds their fields to `schema`.
    ///
    /// # Errors
    /// An embedding of numbers, two embeddings of one feature, a table of two dimensions.
    pub(crate) fn new(job: &Job, lookups: Vec<Lookup>, schema: &mut Schema) -> Result<Self, Error> {
        let mut features = job.features.clone();
        for feature in &mut features {
            if !matches!(feature.kind, FeatureKind::Numeric(_)) {
                if let Some(own) = feature
                    .deep
                    .as_ref()
                    .and_then(|deep| own_reading(&feature.name, deep))
                {
                    return Err(Error::Invalid(format!(
                        "the key `deep` of the [[feature]] `{}` has no effect in a module of Python, which says by itself how it reads the \
                         feature: {own}. Remove the key",
                        feature.name
                    )));
                }
                // The ids are kept for the module.
                feature.wide = true;
            }
        }
        for place in 0..lookups.len() {
            embed(place, &lookups, &mut features)?;
        }
        if let Some(feature) = features.iter().find(|feature| {
            matches!(feature.kind, FeatureKind::Dynamic { .. }) && feature.deep.is_none()
        }) {
            return Err(Error::Invalid(format!(
                "the dynamic feature `{}` is in no embedding of the module: add Embedding(\"{0}\", ...), or remove \
                 the [[feature]]",
                feature.name
            )));
        }
        let columns = FeatureColumns::new(&features, schema);
        let mut out = Self {
            features,
            columns,
            tables: Vec::new(),
            lookups: Vec::new(),
            matrices: Vec::new(),
            ids: Vec::new(),
        };
        for lookup in lookups {
            out.add(lookup)?;
        }
        let dimensions = out.tables.iter().map(|table| table.lookup.dimension);
        out.matrices = Matrix::of_tables(dimensions);
        let bare = out.columns.categorical.iter().enumerate();
        out.ids = bare
            .filter(|(_, column)| column.deep.is_none())
            .map(|(place, column)| (column.name.clone(), place))
            .collect();
        Ok(out)
    }

    /// Adds a lookup, and its table unless another lookup has it.
    fn add(&mut self, lookup: Lookup) -> Result<(), Error> {
        let is_own = |column: &Categorical| column.name == lookup.feature;
        let Some(place) = self.columns.categorical.iter().position(is_own) else {
            return Err(Error::Invalid(format!(
                "the feature `{}` of an embedding has no ids",
                lookup.feature
            )));
        };
        let column = &self.columns.categorical[place];
        let access = column.dynamic().map_or(Access::Rows, |rules| {
            Access::Dynamic(DynamicTable {
                admit_after: rules.admit_after,
                expire_after_steps: rules.expire_after_steps,
                expire_after_secs: rules.expire_after_secs,
                shared_row: rules.shared_row,
            })
        });
        let rows = column.buckets as usize;
        let ids = self.columns.embedding_ids(place);
        let known = |table: &Table| table.lookup.table == lookup.table;
        let table = self.tables.iter().position(known);
        if let Some(other) = table.map(|table| &self.tables[table]) {
            let name = &lookup.table;
            if other.lookup.dimension != lookup.dimension {
                return Err(Error::Invalid(format!(
                    "the embeddings of table `{name}` must have one dimension, given {} and {}",
                    other.lookup.dimension, lookup.dimension
                )));
            }
            if (other.rows, other.access) != (rows, access) {
                return Err(Error::Invalid(format!(
                    "the features of table `{name}` must have ids of one kind and number: `{}` and `{}` differ",
                    other.lookup.feature, lookup.feature
                )));
            }
        }
        let combined = lookup.combined;
        let regularizer = regularizer(&lookup)?;
        let table = table.unwrap_or_else(|| {
            self.tables.push(Table {
                lookup,
                rows,
                access,
                regularizer,
            });
            self.tables.len() - 1
        });
        self.lookups.push(TableLookup {
            ids,
            table,
            combined,
        });
        Ok(())
    }

    /// Returns the features, those of the module among them.
    pub(crate) fn features(&self) -> &[FeatureConfig] {
        &self.features
    }

    /// Returns the first column and the width of each numeric feature, and the names of the features whose ids the
    /// module reads itself.
    pub(crate) fn shown(&self) -> (BTreeMap<String, (usize, usize)>, Vec<String>) {
        let numbers = self.columns.numeric.iter();
        let numbers = numbers.map(|column| (column.name.clone(), (column.begin, column.width)));
        let ids = self.ids.iter().map(|(name, _)| name.clone());
        (numbers.collect(), ids.collect())
    }

    /// Transforms a batch.
    ///
    /// # Errors
    /// A value cannot be used by its column.
    pub(crate) fn transform(&self, batch: &Batch) -> Result<Features, Error> {
        Ok(self.columns.transform(batch)?)
    }

    /// Returns the ids of a batch.
    pub(crate) fn lookups(&self, features: &Features) -> Lookups {
        let mut reads = vec![Read::Nothing; self.tables.len()];
        let mut rows_read = vec![0; self.tables.len()];
        for lookup in &self.lookups {
            let ids = &features.ids[lookup.ids];
            (rows_read[lookup.table], reads[lookup.table]) = match &ids.fingerprints {
                Some(ids) => (ids.len(), Read::Ids(Arc::clone(ids))),
                None => (ids.unique.len(), Read::Rows(Arc::clone(&ids.unique))),
            };
        }
        let matrices = self.matrices.iter();
        let matrices = matrices.map(|matrix| matrix.lookups(&self.lookups, features, &rows_read));
        let ids = self.ids.iter().map(|(_, place)| {
            let ids = &features.ids[*place];
            RowIds::of(ids, features.rows, |place| {
                i64::from(ids.unique[place as usize])
            })
        });
        Lookups {
            matrices: matrices.collect(),
            ids: ids.collect(),
            reads,
        }
    }
}

/// Returns the penalty of a lookup's vectors.
fn regularizer(lookup: &Lookup) -> Result<Option<Regularizer>, Error> {
    let Some(text) = &lookup.regularizer else {
        return Ok(None);
    };
    let factors: BTreeMap<String, f32> = serde_json::from_str(text).map_err(|error| {
        let feature = &lookup.feature;
        Error::Invalid(format!(
            "the regularizer of the embedding of `{feature}`, {text}: {error}"
        ))
    })?;
    let factor = |name: &str| factors.get(name).copied().unwrap_or(0.0);
    Ok(Some(Regularizer {
        l1: factor("l1"),
        l2: factor("l2"),
    }))
}

/// Says what a module has in the place of the key `deep` of a feature. Numbers are what they are.
fn own_reading(feature: &str, deep: &Deep) -> Option<String> {
    match deep {
        Deep::Dense => None,
        Deep::Embedding(embedding) => Some(format!(
            "Embedding(\"{feature}\", {}, ...) has arguments for combiner, table, initializer and regularizer",
            embedding.dimension
        )),
        Deep::Indicator => Some(format!(
            "batch[\"{feature}\"] are the ids, of which torch.nn.functional.one_hot makes columns"
        )),
    }
}

/// Makes the feature of an embedding one that is looked up.
fn embed(place: usize, all: &[Lookup], features: &mut Vec<FeatureConfig>) -> Result<(), Error> {
    let lookup = &all[place];
    let invalid = |message: &str| {
        let name = &lookup.feature;
        Err(Error::Invalid(format!(
            "the embedding of `{name}` {message}"
        )))
    };
    let is_shared = |table: &str| all.iter().filter(|other| other.table == table).count() > 1;
    let shared = is_shared(&lookup.table);
    let of_feature = all[..place]
        .iter()
        .filter(|other| other.feature == lookup.feature);
    for other in of_feature {
        if other.table == lookup.table {
            return invalid(
                "is the second of this feature in this table: look the feature up once, and use the vectors twice",
            );
        }
        if shared || is_shared(&other.table) {
            return invalid(
                "is the second of this feature, and one of the two shares its table: add the [[feature]] once more, \
                 under another name",
            );
        }
    }
    let deep = Some(Deep::Embedding(Embedding {
        dimension: lookup.dimension,
        combiner: Combiner::Mean,
        max_norm: None,
        table: shared.then(|| lookup.table.clone()),
        trainable: true,
        initializer: None,
        regularizer: None,
    }));
    let separator = match lookup.separator.as_deref().map(str::as_bytes) {
        None => None,
        Some([separator]) => Some(*separator),
        Some(_) => return invalid("must have a separator of one byte"),
    };
    let known = features
        .iter_mut()
        .find(|feature| feature.name == lookup.feature);
    let Some(feature) = known else {
        if let Some(reason) = renamed(&lookup.feature, features) {
            return invalid(&reason);
        }
        features.push(FeatureConfig {
            name: lookup.feature.clone(),
            kind: FeatureKind::Dynamic {
                column: lookup.feature.clone(),
                integers: false,
                table: DynamicConfig {
                    rows_max: lookup.rows_max.unwrap_or(ROWS_MAX),
                    admit_after: 1,
                    expire_after_steps: None,
                    expire_after_secs: None,
                    shared_row: false,
                },
            },
            separator,
            weights: None,
            wide: false,
            deep,
        });
        return Ok(());
    };
    if matches!(feature.kind, FeatureKind::Numeric(_)) {
        return invalid("has numbers, which are no ids: bucketize the feature in the job");
    }
    if let Some(reason) = contradiction(lookup, separator, feature) {
        return invalid(&reason);
    }
    feature.wide = false;
    feature.deep = deep;
    Ok(())
}

/// Returns why the values of a column must not be looked up as they are: features of the job that have other names read the
/// column, and the embedding probably means one of them. A cross reads several columns and has the name of none.
fn renamed(column: &str, features: &[FeatureConfig]) -> Option<String> {
    let of_column = features.iter().filter(|feature| match &feature.kind {
        FeatureKind::Numeric(numbers) | FeatureKind::Bucketized { numbers, .. } => {
            numbers.column == column
        }
        FeatureKind::Hashed { column: own, .. }
        | FeatureKind::Vocabulary { column: own, .. }
        | FeatureKind::Identity { column: own, .. }
        | FeatureKind::Dynamic { column: own, .. } => own == column,
        FeatureKind::Crossed { .. } => false,
    });
    let names: Vec<_> = of_column.map(|feature| feature.name.as_str()).collect();
    let first = names.first()?;
    Some(format!(
        "names no feature of the job, and a [[feature]] of another name reads the column `{column}`: `{}`. Write \
         Embedding(\"{first}\", ...), or give that [[feature]] the key name = \"{column}\". For the values of the column as \
         they are, add a [[feature]] of column = \"{column}\" and kind = \"dynamic\"",
        names.join("`, `")
    ))
}

/// Returns why a lookup and its feature contradict each other: the feature says how its column is split, and how many
/// rows a table has.
fn contradiction(
    lookup: &Lookup,
    separator: Option<u8>,
    feature: &FeatureConfig,
) -> Option<String> {
    if separator.is_some() && separator != feature.separator {
        let quoted = |separator: Option<u8>| {
            separator.map_or("none".to_owned(), |byte| {
                format!("\"{}\"", char::from(byte).escape_default())
            })
        };
        return Some(format!(
            "has the separator {}, and the feature has {}: give the [[feature]], or each embedding of the column, the same one",
            quoted(separator),
            quoted(feature.separator)
        ));
    }
    let given = lookup.rows_max?;
    match &feature.kind {
        FeatureKind::Dynamic { table, .. } if table.rows_max == given => None,
        FeatureKind::Dynamic { table, .. } => Some(format!(
            "has rows_max = {given}, and the feature has {}: give the [[feature]], or each embedding of the column, the same one",
            table.rows_max
        )),
        _ => Some(format!(
            "has rows_max = {given}, and the [[feature]] has a row for each of its ids: remove the argument, or make the feature \
             one of the kind `dynamic`"
        )),
    }
}

impl Lookups {
    /// Writes the rows that the batch reads into the first of `reads`, which belong to the tables.
    pub(crate) fn read(&self, reads: &mut Reads) {
        for (read, own) in reads.iter_mut().zip(&self.reads) {
            *read = own.clone();
        }
    }

    /// Returns the lookups in each matrix, and a tuple of values, offsets and weights for each feature without
    /// embedding.
    pub(crate) fn arrays<'p>(&self, python: Python<'p>) -> PyResult<[Bound<'p, PyList>; 2]> {
        let list = |arrays: PyResult<Vec<Bound<'p, PyAny>>>| PyList::new(python, arrays?);
        let matrices = self.matrices.iter().map(|lookups| lookups.arrays(python));
        let ids = self.ids.iter().map(|ids| ids.arrays(python));
        Ok([list(matrices.collect())?, list(ids.collect())?])
    }
}
