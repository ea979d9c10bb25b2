//! Numeric columns in a SavedModel: parts of times, other columns, bounds, normalizers.

use trainyard_input::FieldKind;
use trainyard_run_config::{Bin, LOG_MIN, Normalizer, Numbers, Operand, Time};
use trainyard_tensorflow_formats::generated::DataType;
use trainyard_tensorflow_formats::saved_model::{Binary, Comparison, Edge, Unary};

use super::Builder;
use super::inputs::Field;

impl Builder<'_> {
    /// Returns the values of a field with a fixed number of values.
    pub(super) fn dense(&self, field: usize) -> Edge {
        match &self.fields.by_field[&field] {
            Field::Dense(values) => values.clone(),
            Field::Ragged(sparse, _) => sparse.values.clone(),
        }
    }

    /// Returns the numbers of a numeric feature, `[batch, width]`.
    pub(super) fn numbers(&mut self, feature: usize) -> Edge {
        if let Some(have) = self.numbers.get(&feature) {
            return have.clone();
        }
        let canned = self.canned;
        let column = &canned.records.columns.numeric[feature];
        let fields = [Some(column.field()), column.operand_field()];
        let out = self.normalized(&column.name, fields, &column.numbers);
        let out = self.encoded(&column.name, &out, &column.numbers);
        self.numbers.insert(feature, out.clone());
        out
    }

    /// Returns numbers in their piecewise linear encoding, if they have one.
    fn encoded(&mut self, name: &str, numbers: &Edge, config: &Numbers) -> Edge {
        if config.piecewise_linear.is_none() {
            return numbers.clone();
        }
        let scope = self.name(&format!("columns/{name}_piecewise_linear"));
        let name = |part: &str| format!("{scope}/{part}");
        let bins: Vec<Bin> = config.bins().collect();
        let graph = &mut *self.graph;
        let mut of_bins = |part: &str, of: fn(&Bin) -> f32| {
            let values: Vec<f32> = bins.iter().map(of).collect();
            graph.floats(&name(part), &[1, 1, bins.len()], &values)
        };
        let begin = of_bins("begin", |bin| bin.begin);
        let length = of_bins("length", |bin| bin.length);
        let least = of_bins("least", |bin| bin.least);
        let most = of_bins("most", |bin| bin.most);
        let value = graph.reshape(&name("apart"), numbers, &[-1, config.width as i64, 1]);
        let value = graph.binary(Binary::Subtract, &name("from_begin"), &value, &begin);
        let value = graph.binary(Binary::Divide, &name("share"), &value, &length);
        let value = graph.binary(Binary::Maximum, &name("from_least"), &value, &least);
        let value = graph.binary(Binary::Minimum, &name("filled_share"), &value, &most);
        let width = (config.width * bins.len()) as i64;
        graph.reshape(&name("encoded"), &value, &[-1, width])
    }

    /// Combines the numbers of a column with those of another column, clips and normalises them.
    pub(super) fn normalized(
        &mut self,
        name: &str,
        [field, operand_field]: [Option<usize>; 2],
        numbers: &Numbers,
    ) -> Edge {
        let scope = self.name(&format!("columns/{name}"));
        let name = |part: &str| format!("{scope}/{part}");
        let field = field.expect("numbers come from a field");
        let mut value = match numbers.time {
            Some(time) => self.part_of_time(&scope, field, time, numbers),
            None => self.dense(field),
        };
        if let (Some(operand), Some(field)) = (&numbers.operand, operand_field) {
            let other = self.dense(field);
            value = match operand {
                Operand::Minus(_) => {
                    self.graph
                        .binary(Binary::Subtract, &name("difference"), &value, &other)
                }
                Operand::DividedBy(_) => {
                    self.graph
                        .binary(Binary::DivideOrZero, &name("ratio"), &value, &other)
                }
            };
        }
        let map = numbers.normalizer.quantile_map();
        let graph = &mut *self.graph;
        if let Some([least, most]) = numbers.clip {
            let least = graph.float(least);
            let most = graph.float(most);
            value = graph.binary(Binary::Maximum, &name("from_least"), &value, &least);
            value = graph.binary(Binary::Minimum, &name("clipped"), &value, &most);
        }
        if let Some(map) = map {
            return self.quantile(&scope, &value, numbers.width, &map);
        }
        match numbers.normalizer {
            Normalizer::None | Normalizer::Quantile { .. } => value,
            Normalizer::Standardize { mean, stddev } => {
                let mean = graph.float(mean);
                let stddev = graph.float(stddev);
                let value = graph.binary(Binary::Subtract, &name("centered"), &value, &mean);
                graph.binary(Binary::Divide, &name("standardized"), &value, &stddev)
            }
            Normalizer::MinMax { min, max } => {
                let range = graph.float(max - min);
                let min = graph.float(min);
                let value = graph.binary(Binary::Subtract, &name("above_min"), &value, &min);
                graph.binary(Binary::Divide, &name("min_max"), &value, &range)
            }
            Normalizer::SignedLog1p => {
                // One of both terms is 0.
                let zero = graph.float(0.0);
                let above = graph.binary(Binary::Maximum, &name("not_below"), &value, &zero);
                let above = graph.unary(Unary::Log1p, &name("log1p_above"), &above);
                let negative = graph.binary(Binary::Subtract, &name("negative"), &zero, &value);
                let below = graph.binary(Binary::Maximum, &name("not_above"), &negative, &zero);
                let below = graph.unary(Unary::Log1p, &name("log1p_below"), &below);
                graph.binary(Binary::Subtract, &name("signed_log1p"), &above, &below)
            }
            Normalizer::Log => {
                let least = graph.float(LOG_MIN);
                let value = graph.binary(Binary::Maximum, &name("positive"), &value, &least);
                graph.unary(Unary::Log, &name("log"), &value)
            }
            Normalizer::Log1p => {
                let zero = graph.float(0.0);
                let value = graph.binary(Binary::Maximum, &name("not_below"), &value, &zero);
                graph.unary(Unary::Log1p, &name("log1p"), &value)
            }
        }
    }

    fn part_of_time(&mut self, scope: &str, field: usize, time: Time, numbers: &Numbers) -> Edge {
        let name = |part: &str| format!("{scope}/{part}");
        let given = self.dense(field);
        let graph = &mut *self.graph;
        let (length, count, first) = time.cycle();
        let length = graph.integer(length);
        let passed = graph.binary(Binary::FloorDivide, &name("passed"), &given, &length);
        let first = graph.integer(first);
        let shifted = graph.binary(Binary::Add, &name("from_first"), &passed, &first);
        let count = graph.integer(count);
        let part = graph.binary(Binary::FloorModulo, &name("part"), &shifted, &count);
        let part = graph.cast(&name("part_number"), &part, DataType::DtFloat);
        let Some(default) = &numbers.default else {
            return part;
        };
        let default = graph.floats(&name("default"), &[numbers.width], default);
        let none = graph.integer(FieldKind::MISSING_TIME);
        let missing = graph.compare(Comparison::Equal, &name("missing"), &given, &none);
        graph.select(&name("filled"), &missing, [&default, &part])
    }
}
