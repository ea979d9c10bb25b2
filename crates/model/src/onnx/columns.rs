//! Feature columns in the graph: normalised numbers, buckets, vocabularies, identities.

use std::collections::BTreeSet;

use trainyard_input::{FieldKind, Missing};
use trainyard_onnx::{
    Attribute, AttributeProto, Dimension, ML_DOMAIN, Name, Operator, Tensor, attribute,
};
use trainyard_run_config::{Bin, FeatureKind, LOG_MIN, Normalizer, Numbers, Operand, Time};
use trainyard_vocabulary::Words;

use super::Builder;
use super::lookup::{Bag, IdsPerRow};

/// Placeholder for a value without id.
const NONE: i64 = -1;

impl Builder<'_> {
    /// Returns the numbers of a numeric feature, `batch x width`.
    pub(super) fn numbers(&mut self, feature: usize) -> Name {
        if let Some(have) = self.numbers.get(&feature) {
            return have.clone();
        }
        let column = &self.canned.records.columns.numeric[feature];
        let scope = format!("columns/{}", column.name);
        let out = self.normalized(
            &scope,
            column.field(),
            column.operand_field(),
            &column.numbers,
        );
        let out = self.encoded(&scope, &out, &column.numbers);
        self.numbers.insert(feature, out.clone());
        out
    }

    /// Returns numbers in their piecewise linear encoding, if they have one.
    fn encoded(&mut self, scope: &str, numbers: &Name, config: &Numbers) -> Name {
        if config.piecewise_linear.is_none() {
            return numbers.clone();
        }
        let bins: Vec<Bin> = config.bins().collect();
        let graph = &mut self.graph;
        let mut of_bins = |name: &str, of: fn(&Bin) -> f32| {
            let values: Vec<f32> = bins.iter().map(of).collect();
            graph.floats(&format!("{scope}/{name}"), &[1, 1, bins.len()], &values)
        };
        let begin = of_bins("bin_begin", |bin| bin.begin);
        let length = of_bins("bin_length", |bin| bin.length);
        let least = of_bins("bin_least", |bin| bin.least);
        let most = of_bins("bin_most", |bin| bin.most);
        let last = graph.list(&[2]);
        let mut node = |operator: &str, name: &str, inputs: &[&Name]| {
            graph.node(operator, &format!("{scope}/{name}"), inputs, [])
        };
        let value = node("Unsqueeze", "apart", &[numbers, &last]);
        let value = node("Sub", "from_begin", &[&value, &begin]);
        let value = node("Div", "share", &[&value, &length]);
        let above = node("Greater", "above_least", &[&value, &least]);
        let value = node("Where", "from_least", &[&above, &value, &least]);
        let below = node("Less", "below_most", &[&value, &most]);
        let value = node("Where", "filled_share", &[&below, &value, &most]);
        let shape = self.graph.list(&[-1, (config.width * bins.len()) as i64]);
        self.graph.node(
            "Reshape",
            &format!("{scope}/piecewise_linear"),
            &[&value, &shape],
            [],
        )
    }

    /// Combines the numbers of a column with those of another column, clips them to their bounds, and normalises them.
    fn normalized(
        &mut self,
        scope: &str,
        field: usize,
        operand_field: Option<usize>,
        numbers: &Numbers,
    ) -> Name {
        let mut value = match numbers.time {
            Some(time) => self.part_of_time(scope, field, time, numbers),
            None => self.filled(scope, field, numbers),
        };
        if let (Some(operand), Some(field)) = (&numbers.operand, operand_field) {
            let other = self.filled(&format!("{scope}/other"), field, numbers);
            value = self.combined(scope, operand, &value, &other);
        }
        let graph = &mut self.graph;
        if let Some([least, most]) = numbers.clip {
            let least = graph.floats(&format!("{scope}/least"), &[], &[least]);
            let most = graph.floats(&format!("{scope}/most"), &[], &[most]);
            value = graph.node(
                "Clip",
                &format!("{scope}/clipped"),
                &[&value, &least, &most],
                [],
            );
        }
        if let Some(map) = numbers.normalizer.quantile_map() {
            return self.quantile(scope, &value, &map);
        }
        match numbers.normalizer {
            Normalizer::None | Normalizer::Quantile { .. } => value,
            Normalizer::Standardize { mean, stddev } => {
                let mean = graph.floats(&format!("{scope}/mean"), &[1], &[mean]);
                let stddev = graph.floats(&format!("{scope}/stddev"), &[1], &[stddev]);
                let centered =
                    graph.node("Sub", &format!("{scope}/centered"), &[&value, &mean], []);
                graph.node(
                    "Div",
                    &format!("{scope}/standardized"),
                    &[&centered, &stddev],
                    [],
                )
            }
            Normalizer::MinMax { min, max } => {
                let range = graph.floats(&format!("{scope}/range"), &[1], &[max - min]);
                let min = graph.floats(&format!("{scope}/min"), &[1], &[min]);
                let above = graph.node("Sub", &format!("{scope}/above_min"), &[&value, &min], []);
                graph.node("Div", &format!("{scope}/min_max"), &[&above, &range], [])
            }
            Normalizer::Log => {
                let least = graph.floats(&format!("{scope}/log_min"), &[1], &[LOG_MIN]);
                let above = graph.node(
                    "Greater",
                    &format!("{scope}/above_log_min"),
                    &[&value, &least],
                    [],
                );
                let value = graph.node(
                    "Where",
                    &format!("{scope}/positive"),
                    &[&above, &value, &least],
                    [],
                );
                graph.node("Log", &format!("{scope}/log"), &[&value], [])
            }
            Normalizer::Log1p => self.log1p(scope, &value),
            Normalizer::SignedLog1p => {
                // One of both terms is 0.
                let negative = graph.node("Neg", &format!("{scope}/negative"), &[&value], []);
                let above = self.log1p(&format!("{scope}/above"), &value);
                let below = self.log1p(&format!("{scope}/below"), &negative);
                self.graph.node(
                    "Sub",
                    &format!("{scope}/signed_log1p"),
                    &[&above, &below],
                    [],
                )
            }
        }
    }

    /// Returns `ln(1 + max(x, 0))`.
    fn log1p(&mut self, scope: &str, value: &Name) -> Name {
        let graph = &mut self.graph;
        // Max would propagate NaN, but NaN counts as 0.
        let zero = graph.floats(&format!("{scope}/zero"), &[1], &[0.0]);
        let above = graph.node(
            "Greater",
            &format!("{scope}/above_zero"),
            &[value, &zero],
            [],
        );
        let value = graph.node(
            "Where",
            &format!("{scope}/not_below"),
            &[&above, value, &zero],
            [],
        );
        // Single precision would lose small numbers beside the 1.
        let double = attribute("to", Attribute::Int(Tensor::Double.number().into()));
        let value = graph.node("Cast", &format!("{scope}/wide"), &[&value], [double]);
        let one = graph.doubles(&format!("{scope}/one"), &[1], &[1.0]);
        let value = graph.node("Add", &format!("{scope}/plus_one"), &[&value, &one], []);
        let value = graph.node("Log", &format!("{scope}/log"), &[&value], []);
        let single = attribute("to", Attribute::Int(Tensor::Float.number().into()));
        graph.node("Cast", &format!("{scope}/log1p"), &[&value], [single])
    }

    /// Returns the numbers of a field. The default, if any, replaces missing numbers (NaN).
    fn filled(&mut self, scope: &str, field: usize, numbers: &Numbers) -> Name {
        let value = self.given[self.inputs.fields[&field]].clone();
        let graph = &mut self.graph;
        let Some(default) = &numbers.default else {
            return value;
        };
        let default = graph.floats(&format!("{scope}/default"), &[numbers.width], default);
        let missing = graph.node("IsNaN", &format!("{scope}/missing"), &[&value], []);
        graph.node(
            "Where",
            &format!("{scope}/filled"),
            &[&missing, &default, &value],
            [],
        )
    }

    /// Subtracts or divides. Division by 0 gives 0.
    fn combined(&mut self, scope: &str, operand: &Operand, value: &Name, other: &Name) -> Name {
        let graph = &mut self.graph;
        match operand {
            Operand::Minus(_) => {
                graph.node("Sub", &format!("{scope}/difference"), &[value, other], [])
            }
            Operand::DividedBy(_) => {
                let zero = graph.floats(&format!("{scope}/nothing"), &[1], &[0.0]);
                let by_zero = graph.node("Equal", &format!("{scope}/by_zero"), &[other, &zero], []);
                let ratio = graph.node("Div", &format!("{scope}/quotient"), &[value, other], []);
                graph.node(
                    "Where",
                    &format!("{scope}/ratio"),
                    &[&by_zero, &zero, &ratio],
                    [],
                )
            }
        }
    }

    /// Returns the hour, or the day of the week, of integer times.
    fn part_of_time(&mut self, scope: &str, field: usize, time: Time, numbers: &Numbers) -> Name {
        let given = self.given[self.inputs.fields[&field]].clone();
        let graph = &mut self.graph;
        let (length, count, first) = time.cycle();
        // The result of Mod has the sign of the divisor, so the difference is a multiple and Div is exact.
        let length = graph.list(&[length]);
        let rest = graph.node("Mod", &format!("{scope}/rest"), &[&given, &length], []);
        let whole = graph.node("Sub", &format!("{scope}/whole"), &[&given, &rest], []);
        let passed = graph.node("Div", &format!("{scope}/passed"), &[&whole, &length], []);
        let first = graph.list(&[first]);
        let shifted = graph.node(
            "Add",
            &format!("{scope}/from_first"),
            &[&passed, &first],
            [],
        );
        let count = graph.list(&[count]);
        let part = graph.node("Mod", &format!("{scope}/part"), &[&shifted, &count], []);
        let single = attribute("to", Attribute::Int(Tensor::Float.number().into()));
        let part = graph.node("Cast", &format!("{scope}/part_number"), &[&part], [single]);
        let Some(default) = &numbers.default else {
            return part;
        };
        let default = graph.floats(&format!("{scope}/default"), &[numbers.width], default);
        let none = graph.list(&[FieldKind::MISSING_TIME]);
        let missing = graph.node("Equal", &format!("{scope}/missing"), &[&given, &none], []);
        graph.node(
            "Where",
            &format!("{scope}/filled"),
            &[&missing, &default, &part],
            [],
        )
    }

    /// Returns the ids of a categorical feature.
    pub(super) fn bag(&mut self, feature: usize) -> Bag {
        if let Some(have) = self.bags.get(&feature) {
            return have.clone();
        }
        let canned = self.canned;
        let column = &canned.records.columns.categorical[feature];
        let scope = format!("columns/{}", column.name);
        let field = column
            .field()
            .and_then(|field| self.inputs.fields.get(&field));
        let input = self.inputs.ids.get(&feature).or(field).copied();
        let given = input
            .map(|input| self.given[input].clone())
            .expect("a feature that is read has an input");
        let width = input.map(|input| &self.inputs.list[input].port.shape[1]);
        let per_row = if width == Some(&Dimension::Fixed(1)) {
            IdsPerRow::One
        } else {
            IdsPerRow::Any
        };
        let ids = match &column.config.kind {
            _ if self.inputs.ids.contains_key(&feature) => given,
            FeatureKind::Bucketized {
                numbers,
                boundaries,
            } => {
                let field = column.field().expect("buckets come from a field");
                let numbers_given = self.normalized(&scope, field, column.operand_field(), numbers);
                self.buckets(&scope, &numbers_given, numbers.width, boundaries)
            }
            FeatureKind::Vocabulary {
                values,
                default,
                integers,
                ..
            } => {
                let entries = if *integers {
                    listed_integers(values)
                } else {
                    let schema = &canned.records.serving_schema;
                    let field = column.field().expect("words come from a field");
                    listed_texts(values, canned.missing.of(&schema.fields[field].name))
                };
                self.listed(&scope, &given, entries, *default)
            }
            FeatureKind::Identity {
                buckets, default, ..
            } => self.identity(&scope, &given, *buckets, *default),
            FeatureKind::Numeric(_)
            | FeatureKind::Hashed { .. }
            | FeatureKind::Crossed { .. }
            | FeatureKind::Dynamic { .. } => given,
        };
        let weights = column
            .weights_field()
            .map(|field| self.given[self.inputs.fields[&field]].clone());
        let bag = self.masked(&scope, &ids, weights, per_row);
        self.bags.insert(feature, bag.clone());
        bag
    }

    /// Counts the boundaries that do not exceed a number. The buckets of the second number follow those of the first.
    fn buckets(&mut self, scope: &str, numbers: &Name, width: usize, boundaries: &[f32]) -> Name {
        let graph = &mut self.graph;
        let last = graph.list(&[2]);
        let boundaries_given = graph.floats(
            &format!("{scope}/boundaries"),
            &[1, 1, boundaries.len()],
            boundaries,
        );
        let numbers = graph.node(
            "Unsqueeze",
            &format!("{scope}/apart"),
            &[numbers, &last],
            [],
        );
        let inputs = [&numbers, &boundaries_given];
        let reached = graph.node("GreaterOrEqual", &format!("{scope}/reached"), &inputs, []);
        let whole = attribute("to", Attribute::Int(Tensor::Int64.number().into()));
        let reached = graph.node(
            "Cast",
            &format!("{scope}/reached_count"),
            &[&reached],
            [whole],
        );
        let keep = attribute("keepdims", Attribute::Int(0));
        let buckets = graph.node(
            "ReduceSum",
            &format!("{scope}/buckets"),
            &[&reached, &last],
            [keep],
        );
        if width == 1 {
            return buckets;
        }
        let step = boundaries.len() as i64 + 1;
        let places: Vec<i64> = (0..width as i64).map(|place| place * step).collect();
        let places = graph.ints(&format!("{scope}/places"), &[1, width], &places);
        graph.node("Add", &format!("{scope}/ids"), &[&buckets, &places], [])
    }

    /// Looks up values in a list. An empty text, or -1, is a missing value, whatever the list holds.
    fn listed(
        &mut self,
        scope: &str,
        given: &Name,
        [keys, ids]: [AttributeProto; 2],
        default: Option<u32>,
    ) -> Name {
        let default = Attribute::Int(default.map_or(NONE, i64::from));
        self.graph.node_of(
            Operator {
                domain: ML_DOMAIN,
                name: "LabelEncoder",
            },
            &format!("{scope}/ids"),
            &[given],
            [keys, ids, attribute("default_int64", default)],
        )
    }

    /// Uses numbers as ids. A number out of range has the default id, or none; -1 is a missing value.
    fn identity(&mut self, scope: &str, given: &Name, buckets: u32, default: Option<u32>) -> Name {
        let graph = &mut self.graph;
        let zero = graph.list(&[0]);
        let end = graph.list(&[i64::from(buckets)]);
        let none = graph.list(&[NONE]);
        let positive = graph.node(
            "GreaterOrEqual",
            &format!("{scope}/from_zero"),
            &[given, &zero],
            [],
        );
        let below = graph.node("Less", &format!("{scope}/below_end"), &[given, &end], []);
        let valid = graph.node("And", &format!("{scope}/valid"), &[&positive, &below], []);
        let Some(default) = default else {
            return graph.node(
                "Where",
                &format!("{scope}/ids"),
                &[&valid, given, &none],
                [],
            );
        };
        let default = graph.list(&[i64::from(default)]);
        let ids = graph.node(
            "Where",
            &format!("{scope}/or_default"),
            &[&valid, given, &default],
            [],
        );
        let missing = graph.node("Equal", &format!("{scope}/missing"), &[given, &none], []);
        graph.node(
            "Where",
            &format!("{scope}/ids"),
            &[&missing, &none, &ids],
            [],
        )
    }
}

/// Returns the whole numbers of a vocabulary and their ids.
fn listed_integers(values: &Words) -> [AttributeProto; 2] {
    let known = values
        .integers()
        .into_iter()
        .map(|(value, id)| (value, i64::from(id)))
        .filter(|(value, _)| *value != NONE)
        .chain([(NONE, NONE)]);
    let (keys, ids): (Vec<i64>, Vec<i64>) = known.unzip();
    [
        attribute("keys_int64s", Attribute::Ints(keys)),
        attribute("values_int64s", Attribute::Ints(ids)),
    ]
}

/// Returns the texts of a vocabulary and their ids. Texts that are missing have none.
fn listed_texts(values: &Words, missing: &Missing) -> [AttributeProto; 2] {
    let missing: BTreeSet<&str> = missing.texts().chain([""]).collect();
    let known = values
        .iter()
        .zip(0..)
        .filter(|(value, _)| !missing.contains(value));
    let none = missing.iter().map(|value| (*value, NONE));
    let (keys, ids): (Vec<String>, Vec<i64>) = known
        .chain(none)
        .map(|(value, id)| (value.to_owned(), id))
        .unzip();
    [
        attribute("keys_strings", Attribute::Strings(keys)),
        attribute("values_int64s", Attribute::Ints(ids)),
    ]
}
