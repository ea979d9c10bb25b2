//! The deep part: numbers, indicators and embeddings through dense layers with ReLU (`tf.estimator.DNN*`).

use trainyard_feature_column::{FeatureColumns, Features};
use trainyard_run_config::Deep;
use trainyard_tensor::{
    add_bias, add_bias_relu, add_column_sums, multiply, multiply_first_transposed,
    multiply_second_transposed, relu_backward,
};
use trainyard_variable::{Access, Gradients, Initializer, Read, Reads, Values, VariableSpec};

/// Optimizer group of the deep part.
pub(crate) const GROUP: &str = "dnn";

/// One piece of the input layer.
#[derive(Debug, Clone)]
enum Piece {
    /// Numeric feature.
    Value(usize),
    /// Categorical feature, one position per id, the count of it.
    Indicator(usize),
    /// Categorical feature, variable, dimension; the mean over a row's ids.
    Embedding(usize, usize, usize),
}

/// A dense layer: variables and sizes.
#[derive(Debug, Clone)]
struct Layer {
    kernel: usize,
    bias: usize,
    inputs: usize,
    outputs: usize,
}

/// Which variables the deep part has, and how its input is laid out.
#[derive(Debug, Clone)]
pub(crate) struct Dnn {
    /// (place in the input layer, piece).
    pieces: Vec<(usize, Piece)>,
    layers: Vec<Layer>,
}

/// Activations of each layer, the input's first, and two buffers for gradients.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    activations: Vec<Vec<f32>>,
    delta: Vec<f32>,
    below: Vec<f32>,
}

impl Dnn {
    /// Adds the variables of the part. Pieces of the input are in ascending order of TensorFlow's column name.
    pub(crate) fn new(
        columns: &FeatureColumns,
        hidden_units: &[usize],
        units: usize,
        variables: &mut Vec<VariableSpec>,
    ) -> Self {
        let mut named: Vec<(String, Piece, usize)> = Vec::new();
        for (place, column) in columns.numeric.iter().enumerate().filter(|(_, column)| column.deep) {
            named.push((column.name.clone(), Piece::Value(place), 1));
        }
        for (place, column) in columns.categorical.iter().enumerate() {
            match column.deep {
                Some(Deep::Embedding(dimension)) => {
                    let name = format!("{}_embedding", column.name);
                    variables.push(embedding(&name, column.buckets, dimension));
                    named.push((name, Piece::Embedding(place, variables.len() - 1, dimension), dimension));
                }
                Some(Deep::Indicator | Deep::Value) => {
                    named.push((
                        format!("{}_indicator", column.name),
                        Piece::Indicator(place),
                        column.buckets as usize,
                    ));
                }
                None => {}
            }
        }
        named.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        let (mut pieces, mut width) = (Vec::new(), 0);
        for (_, piece, size) in named {
            pieces.push((width, piece));
            width += size;
        }
        let mut layers = Vec::new();
        let sizes = hidden_units.iter().copied().chain([units]);
        for (index, outputs) in sizes.enumerate() {
            let name =
                if index < hidden_units.len() { format!("hiddenlayer_{index}") } else { "logits".to_owned() };
            let inputs = layers.last().map_or(width, |layer: &Layer| layer.outputs);
            variables.push(dense(
                format!("dnn/{name}/kernel"),
                vec![inputs, outputs],
                Initializer::GlorotUniform,
            ));
            variables.push(dense(format!("dnn/{name}/bias"), vec![outputs], Initializer::Zeros));
            layers.push(Layer { kernel: variables.len() - 2, bias: variables.len() - 1, inputs, outputs });
        }
        Self { pieces, layers }
    }

    pub(crate) fn reads(&self, features: &Features, reads: &mut Reads) {
        for (_, piece) in &self.pieces {
            if let Piece::Embedding(feature, variable, _) = piece {
                reads[*variable] = Read::Rows(features.ids[*feature].unique.clone());
            }
        }
    }

    /// Adds the part's logits, and leaves the activations in `work` for the way back.
    pub(crate) fn forward(
        &self,
        features: &Features,
        values: &Values,
        logits: &mut [f32],
        work: &mut Workspace,
    ) {
        work.activations.resize_with(self.layers.len() + 1, Vec::new);
        self.fill_input(features, values, &mut work.activations[0]);
        for (index, layer) in self.layers.iter().enumerate() {
            let (below, above) = work.activations.split_at_mut(index + 1);
            let (input, output) = (&below[index], &mut above[0]);
            output.resize(features.rows * layer.outputs, 0.0);
            multiply(input, &values[layer.kernel], output, [features.rows, layer.inputs, layer.outputs]);
            if index + 1 < self.layers.len() {
                add_bias_relu(output, &values[layer.bias]);
            } else {
                add_bias(output, &values[layer.bias]);
                logits.iter_mut().zip(output.iter()).for_each(|(logit, value)| *logit += value);
            }
        }
    }

    fn fill_input(&self, features: &Features, values: &Values, input: &mut Vec<f32>) {
        let (rows, width) = (features.rows, self.layers[0].inputs);
        let numbers = features.numbers.len().checked_div(rows).unwrap_or(0);
        input.clear();
        input.resize(rows * width, 0.0);
        for &(begin, ref piece) in &self.pieces {
            for (row, input) in input.chunks_exact_mut(width.max(1)).enumerate() {
                match *piece {
                    Piece::Value(feature) => input[begin] = features.numbers[row * numbers + feature],
                    Piece::Indicator(feature) => {
                        let ids = &features.ids[feature];
                        for &place in ids.of_row(row) {
                            input[begin + ids.unique[place as usize] as usize] += 1.0;
                        }
                    }
                    Piece::Embedding(feature, variable, dimension) => {
                        let places = features.ids[feature].of_row(row);
                        let share = 1.0 / places.len().max(1) as f32;
                        for &place in places {
                            let vector = &values[variable][place as usize * dimension..][..dimension];
                            let out = &mut input[begin..begin + dimension];
                            out.iter_mut().zip(vector).for_each(|(out, value)| *out += share * value);
                        }
                    }
                }
            }
        }
    }

    /// Writes the part's gradients, given that of the logits and the activations of the way there.
    pub(crate) fn backward(
        &self,
        features: &Features,
        values: &Values,
        delta: &[f32],
        gradients: &mut Gradients,
        work: &mut Workspace,
    ) {
        let rows = features.rows;
        work.delta.clear();
        work.delta.extend_from_slice(delta);
        let embeds = self.pieces.iter().any(|(_, piece)| matches!(piece, Piece::Embedding(..)));
        for (index, layer) in self.layers.iter().enumerate().rev() {
            let input = &work.activations[index];
            let sizes = [layer.inputs, rows, layer.outputs];
            multiply_first_transposed(input, &work.delta, &mut gradients[layer.kernel], sizes);
            add_column_sums(&work.delta, &mut gradients[layer.bias]);
            if index > 0 || embeds {
                work.below.resize(rows * layer.inputs, 0.0);
                let sizes = [rows, layer.outputs, layer.inputs];
                multiply_second_transposed(&work.delta, &values[layer.kernel], &mut work.below, sizes);
                if index > 0 {
                    relu_backward(input, &mut work.below);
                }
                std::mem::swap(&mut work.delta, &mut work.below);
            }
        }
        let width = self.layers[0].inputs;
        for &(begin, ref piece) in &self.pieces {
            let Piece::Embedding(feature, variable, dimension) = *piece else { continue };
            let (ids, gradient) = (&features.ids[feature], &mut gradients[variable]);
            for (row, delta) in work.delta.chunks_exact(width).enumerate() {
                let places = ids.of_row(row);
                let share = 1.0 / places.len().max(1) as f32;
                for &place in places {
                    let out = &mut gradient[place as usize * dimension..][..dimension];
                    out.iter_mut().zip(&delta[begin..]).for_each(|(out, delta)| *out += share * delta);
                }
            }
        }
    }
}

fn embedding(name: &str, buckets: u32, dimension: usize) -> VariableSpec {
    VariableSpec {
        name: format!("dnn/input_from_feature_columns/input_layer/{name}/embedding_weights"),
        shape: vec![buckets as usize, dimension],
        access: Access::Rows,
        initializer: Initializer::TruncatedNormal { stddev: 1.0 / (dimension as f32).sqrt() },
        optimizer_group: GROUP.to_owned(),
    }
}

fn dense(name: String, shape: Vec<usize>, initializer: Initializer) -> VariableSpec {
    VariableSpec { name, shape, access: Access::Whole, initializer, optimizer_group: GROUP.to_owned() }
}
