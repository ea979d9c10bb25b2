//! Ids of categorical columns in a SavedModel, as sparse tensors.

use trainyard_feature_column::CROSS_HASH_KEY;
use trainyard_run_config::{CrossKey, Deep, FeatureKind};
use trainyard_tensorflow_formats::generated::DataType;
use trainyard_tensorflow_formats::saved_model::{Binary, Comparison, Cross, Edge, Sparse};
use trainyard_vocabulary::Words;

use super::Builder;
use super::inputs::{Field, unpadded};

/// Ids of a feature; for a dynamic feature, the fingerprints of its values.
#[derive(Debug, Clone)]
pub(super) struct Bag {
    pub(super) ids: Sparse,
    pub(super) weights: Option<Edge>,
    /// Some values may have no id, which is -1.
    pub(super) gaps: bool,
}

impl Builder<'_> {
    /// Returns the values of a field that are not missing.
    fn values(&mut self, field: usize, name: &str) -> Sparse {
        match self.fields.by_field[&field].clone() {
            Field::Ragged(sparse, _) => sparse,
            Field::Dense(values) => unpadded(self.graph, name, &values, -1),
        }
    }

    /// Returns the weights beside ids.
    fn weights(&mut self, field: usize, name: &str, ids: &Sparse) -> Edge {
        let name = format!("{name}/weights");
        match self.fields.by_field[&field].clone() {
            Field::Dense(weights) | Field::Ragged(_, Some(weights)) => {
                self.graph.gather_elements(&name, &weights, &ids.indices)
            }
            Field::Ragged(weights, None) => {
                let both = [&weights.indices, &ids.indices];
                let message = "each row must hold a weight for each id";
                self.graph
                    .checked_equal(&name, &weights.values, both, message)
            }
        }
    }

    /// Returns the ids of a categorical feature, with those of values without id.
    fn bag_with_gaps(&mut self, feature: usize) -> Bag {
        if let Some(have) = self.bags.get(&feature) {
            return have.clone();
        }
        let canned = self.canned;
        let column = &canned.records.columns.categorical[feature];
        let scope = self.name(&format!("columns/{}", column.name));
        let mut gaps = false;
        let field = column.field();
        let ids = match &column.config.kind {
            FeatureKind::Numeric(_) => unreachable!("numbers have no ids"),
            FeatureKind::Crossed {
                keys,
                buckets,
                hash_key,
            } => self.crossed(&scope, keys, i64::from(*buckets), *hash_key),
            FeatureKind::Bucketized {
                numbers,
                boundaries,
            } => {
                let fields = [field, column.operand_field()];
                let numbers_given = self.normalized(&column.name, fields, numbers);
                self.buckets(&scope, &numbers_given, numbers.width, boundaries)
            }
            kind => {
                let field = field.expect("categories come from a field");
                let given = self.values(field, &scope);
                let lenient = !column.wide && matches!(column.deep, Some(Deep::Indicator));
                let (values, open) = self.ids_of(feature, &scope, kind, (&given.values, lenient));
                gaps = open;
                Sparse { values, ..given }
            }
        };
        let weights = column.weights_field();
        let weights = weights.map(|field| self.weights(field, &scope, &ids));
        let bag = Bag { ids, weights, gaps };
        self.bags.insert(feature, bag.clone());
        bag
    }

    /// Returns the ids of a categorical feature.
    pub(super) fn bag(&mut self, feature: usize) -> Bag {
        let bag = self.bag_with_gaps(feature);
        if !bag.gaps {
            return bag;
        }
        let scope = self.name(&format!(
            "columns/{}/known",
            self.canned.records.columns.categorical[feature].name
        ));
        let graph = &mut *self.graph;
        let zero = graph.integer(0);
        let known = graph.compare(
            Comparison::GreaterEqual,
            &format!("{scope}/has_id"),
            &bag.ids.values,
            &zero,
        );
        let places = graph.places_of(&format!("{scope}/places"), &known);
        let places = graph.reshape(&format!("{scope}/list"), &places, &[-1]);
        let mut kept =
            |part: &str, from: &Edge| graph.gather(&format!("{scope}/{part}"), from, &places);
        Bag {
            ids: Sparse {
                indices: kept("indices", &bag.ids.indices),
                values: kept("ids", &bag.ids.values),
                shape: bag.ids.shape.clone(),
            },
            weights: bag.weights.as_ref().map(|weights| kept("weights", weights)),
            gaps: false,
        }
    }

    /// Returns the ids of values, and whether some may be -1.
    fn ids_of(
        &mut self,
        feature: usize,
        scope: &str,
        kind: &FeatureKind,
        (given, lenient): (&Edge, bool),
    ) -> (Edge, bool) {
        let name = |part: &str| format!("{scope}/{part}");
        let graph = &mut *self.graph;
        match kind {
            FeatureKind::Hashed { buckets, .. } => {
                let texts = self.as_texts(scope, given);
                (
                    self.graph
                        .hash_buckets(&name("ids"), &texts, i64::from(*buckets)),
                    false,
                )
            }
            FeatureKind::Dynamic { .. } => {
                let texts = self.as_texts(scope, given);
                (
                    self.graph.fingerprints(&name("fingerprints"), &texts),
                    false,
                )
            }
            FeatureKind::Vocabulary {
                values,
                oov_buckets,
                default,
                integers,
                ..
            } => {
                let table = self.vocabulary(feature, values, *integers);
                let other = default.map_or(-1, i64::from);
                let ids = self.graph.find(&name("listed"), &table, given, other);
                if *oov_buckets == 0 {
                    return (ids, default.is_none());
                }
                let texts = self.as_texts(scope, given);
                let graph = &mut *self.graph;
                let hashed = graph.hash_buckets(&name("hashed"), &texts, i64::from(*oov_buckets));
                let size = graph.integer(values.len() as i64);
                let hashed = graph.binary(Binary::Add, &name("after_list"), &hashed, &size);
                let zero = graph.integer(0);
                let listed =
                    graph.compare(Comparison::GreaterEqual, &name("is_listed"), &ids, &zero);
                (graph.select(&name("ids"), &listed, [&ids, &hashed]), false)
            }
            FeatureKind::Identity {
                buckets, default, ..
            } => {
                let zero = graph.integer(0);
                let from_zero =
                    graph.compare(Comparison::GreaterEqual, &name("from_zero"), given, &zero);
                // An id beyond the buckets is an error of the lookup, as in TensorFlow.
                let valid = if default.is_some() || lenient {
                    let end = graph.integer(i64::from(*buckets));
                    let below = graph.compare(Comparison::Less, &name("below_end"), given, &end);
                    graph.both(&name("valid"), &from_zero, &below)
                } else {
                    from_zero
                };
                let other = graph.integer(default.map_or(-1, i64::from));
                (
                    graph.select(&name("ids"), &valid, [given, &other]),
                    default.is_none(),
                )
            }
            FeatureKind::Numeric(_)
            | FeatureKind::Bucketized { .. }
            | FeatureKind::Crossed { .. } => (given.clone(), false),
        }
    }

    fn as_texts(&mut self, scope: &str, values: &Edge) -> Edge {
        if values.dtype() == DataType::DtString {
            return values.clone();
        }
        self.graph
            .decimal_texts(&format!("{scope}/decimal"), values)
    }

    fn vocabulary(
        &mut self,
        feature: usize,
        values: &Words,
        integers: bool,
    ) -> trainyard_tensorflow_formats::saved_model::LookupTable {
        if let Some(have) = self.shared.vocabularies.get(&feature) {
            return have.clone();
        }
        let name = format!(
            "vocabularies/{}",
            self.canned.records.columns.categorical[feature].name
        );
        let keys_name = format!("{name}/keys");
        let graph = &mut *self.graph;
        let (keys, ids): (Edge, Vec<i64>) = if integers {
            let known = values.integers().into_iter();
            let (keys, ids): (Vec<i64>, Vec<i64>) =
                known.map(|(value, id)| (value, i64::from(id))).unzip();
            (graph.integers(&keys_name, &[keys.len()], &keys), ids)
        } else {
            let ids = (0..).take(values.len()).collect();
            (graph.texts(&keys_name, &[values.len()], values.iter()), ids)
        };
        let ids = graph.integers(&format!("{name}/ids"), &[ids.len()], &ids);
        let table = graph.lookup_table(&name, &keys, &ids);
        self.shared.vocabularies.insert(feature, table.clone());
        table
    }

    /// Returns the buckets of numbers. Those of the second number of a field follow those of the first.
    fn buckets(&mut self, scope: &str, numbers: &Edge, width: usize, boundaries: &[f32]) -> Sparse {
        let graph = &mut *self.graph;
        let buckets = graph.bucketize(&format!("{scope}/buckets"), numbers, boundaries);
        let buckets = graph.cast(&format!("{scope}/bucket_ids"), &buckets, DataType::DtInt64);
        let step = boundaries.len() as i64 + 1;
        let places: Vec<i64> = (0..width as i64).map(|place| place * step).collect();
        let places = graph.list(&places);
        let ids = graph.binary(Binary::Add, &format!("{scope}/ids"), &buckets, &places);
        unpadded(graph, scope, &ids, -1)
    }

    fn crossed(
        &mut self,
        scope: &str,
        keys: &[CrossKey],
        buckets: i64,
        hash_key: Option<u64>,
    ) -> Sparse {
        let canned = self.canned;
        let mut sparse = Vec::new();
        let mut dense = Vec::new();
        for key in keys {
            match key {
                CrossKey::Ids(name) => {
                    let columns = &canned.records.columns.categorical;
                    let feature = columns.iter().position(|column| column.name == *name);
                    let feature = feature.expect("the job was checked: the key is a feature");
                    sparse.push(self.bag_with_gaps(feature).ids);
                }
                CrossKey::Text(column) | CrossKey::Int(column) => {
                    let text = matches!(key, CrossKey::Text(_));
                    let field = self.field_of_key(column, text);
                    match self.fields.by_field[&field].clone() {
                        Field::Dense(values) => dense.push(values),
                        Field::Ragged(values, _) => sparse.push(values),
                    }
                }
            }
        }
        let hash_key = hash_key.filter(|key| *key != 0).unwrap_or(CROSS_HASH_KEY);
        let cross = Cross {
            sparse: &sparse,
            dense: &dense,
            buckets,
            hash_key: hash_key.cast_signed(),
        };
        self.graph.crossed(&format!("{scope}/cross"), &cross)
    }

    /// Returns the field that a key of a cross reads.
    fn field_of_key(&self, column: &str, text: bool) -> usize {
        use trainyard_input::{FieldKind, Fraction};
        let reads = |kind: &FieldKind| match kind {
            FieldKind::Bytes { .. } => text,
            FieldKind::Int { fraction, .. } => !text && *fraction == Fraction::Dropped,
            _ => false,
        };
        let fields = &self.canned.records.serving_schema.fields;
        let found = fields
            .iter()
            .position(|field| field.name == column && reads(&field.kind));
        found.expect("the columns have a field for each key")
    }
}
