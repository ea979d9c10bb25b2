//! The gradients of each layer, compared with finite differences.

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use trainyard_run_config::Activation;
use trainyard_testing::Seed;
use trainyard_variable::{Gradients, Values};

use super::*;

const ROWS: usize = 3;
/// Step of the finite differences.
const STEP: f32 = 1e-2;
/// Relative and absolute tolerance.
const TOLERANCE: f64 = 5e-3;

/// A layer under test: widths of its inputs and of its output, and sizes of its variables.
struct Case {
    name: &'static str,
    layer: Layer,
    inputs: Vec<usize>,
    width: usize,
    variables: Vec<usize>,
}

impl Case {
    fn new<const N: usize, const V: usize>(
        name: &'static str,
        layer: Layer,
        inputs: [usize; N],
        width: usize,
        variables: [usize; V],
    ) -> Self {
        Self {
            name,
            layer,
            inputs: inputs.to_vec(),
            width,
            variables: variables.to_vec(),
        }
    }

    /// Returns the layer over columns of an input, which other layers read, too.
    fn composition(&self) -> Composition {
        let from = self.inputs.iter().sum();
        let mut begin = 0;
        let mut nodes: Vec<Node> = Vec::new();
        for width in &self.inputs {
            let range = begin..begin + width;
            begin += width;
            nodes.push(Node {
                name: "columns".to_owned(),
                layer: Layer::Columns(Columns {
                    from,
                    ranges: vec![range],
                }),
                reads: vec![0],
                width: *width,
            });
        }
        nodes.push(Node {
            name: self.name.to_owned(),
            layer: self.layer.clone(),
            reads: (1..=self.inputs.len()).collect(),
            width: self.width,
        });
        Composition {
            logits: vec![nodes.len()],
            needed: vec![true; nodes.len() + 1],
            learned: 0..from,
            nodes,
        }
    }
}

fn cases() -> Vec<Case> {
    let dense = Dense {
        kernel: 0,
        bias: None,
        blocks: 3,
        inputs: 2,
        outputs: 4,
        regularizer: None,
    };
    let biased = Dense {
        bias: Some(1),
        blocks: 1,
        inputs: 6,
        ..dense
    };
    let biased_blocks = Dense {
        bias: Some(1),
        ..dense
    };
    let pairs = Pairs {
        count: 3,
        dimension: 2,
    };
    let scale = Scale {
        kernel: 0,
        numbers: 3,
        dimension: 2,
        regularizer: None,
    };
    let dots = Dots {
        vectors: 4,
        dimension: 9,
    };
    let attention = Attention {
        vectors: 3,
        heads: 2,
        dimension: 9,
    };
    let norm = LayerNorm {
        gamma: 0,
        beta: 1,
        blocks: 2,
        width: 5,
    };
    let transposition = Transposition {
        rows: 2,
        columns: 3,
    };
    let outer = Outer {
        blocks: 2,
        left: 3,
        right: 9,
    };
    let sum = BlockSum {
        blocks: 3,
        width: 2,
    };
    let contraction = Contraction {
        blocks: 2,
        width: 9,
    };
    let concatenation = Concatenation { widths: vec![2, 3] };
    vec![
        Case::new("dense", Layer::Dense(dense), [6], 12, [8]),
        Case::new("dense with bias", Layer::Dense(biased), [6], 4, [24, 4]),
        Case::new(
            "dense with bias of blocks",
            Layer::Dense(biased_blocks),
            [6],
            12,
            [8, 4],
        ),
        Case::new("pairs", Layer::Pairs(pairs), [2, 6], 24, []),
        Case::new("scale", Layer::Scale(scale), [3], 6, [6]),
        Case::new(
            "activation",
            Layer::Activation(Activation::Swish),
            [5],
            5,
            [],
        ),
        Case::new("sum", Layer::Sum, [4, 4, 4], 4, []),
        Case::new("product", Layer::Product, [4, 4], 4, []),
        Case::new("difference", Layer::Difference, [4, 4], 4, []),
        Case::new("softmax", Layer::Softmax, [9], 9, []),
        Case::new("dots", Layer::Dots(dots), [36], 6, []),
        Case::new(
            "attention",
            Layer::Attention(attention),
            [54, 54, 54],
            54,
            [],
        ),
        Case::new(
            "layer normalisation",
            Layer::LayerNorm(norm),
            [10],
            10,
            [10, 10],
        ),
        Case::new(
            "transposition",
            Layer::Transposition(transposition),
            [6],
            6,
            [],
        ),
        Case::new("outer", Layer::Outer(outer), [6, 18], 54, []),
        Case::new("block sum", Layer::BlockSum(sum), [6], 2, []),
        Case::new(
            "contraction",
            Layer::Contraction(contraction),
            [18, 9],
            2,
            [],
        ),
        Case::new(
            "concatenation",
            Layer::Concatenation(concatenation),
            [2, 3],
            5,
            [],
        ),
    ]
}

/// Inputs and variables of a case, and the factors of its outputs in the loss.
struct Point {
    /// The input of the rows, then the variables.
    values: Values,
    factors: Vec<f32>,
}

impl Point {
    fn loss(&self, composition: &Composition, mode: tower::Mode<'_>, work: &mut Workspace) -> f64 {
        let (input, variables) = self.values.split_first().expect("an input");
        let input = tower::Input {
            rows: ROWS,
            values: input,
        };
        let mut logits = vec![0.0; self.factors.len()];
        composition.forward(input, &variables.to_vec(), mode, work, &mut logits);
        let terms = logits.iter().zip(&self.factors);
        terms
            .map(|(logit, factor)| f64::from(*logit) * f64::from(*factor))
            .sum()
    }
}

#[test]
fn the_gradients_of_each_layer_agree_with_finite_differences() {
    let seed = Seed::of_environment(11);
    let mut random = ChaCha8Rng::seed_from_u64(seed.get());
    for case in cases() {
        let name = case.name;
        let composition = case.composition();
        let mut draw = |count: usize| -> Vec<f32> {
            (0..count).map(|_| random.random_range(-0.7..0.7)).collect()
        };
        let inputs = ROWS * case.inputs.iter().sum::<usize>();
        let sizes = [inputs].into_iter().chain(case.variables.iter().copied());
        let mut point = Point {
            values: sizes.map(&mut draw).collect(),
            factors: draw(ROWS * case.width),
        };
        let mut work = Workspace::default();
        let mut gradients: Gradients = case.variables.iter().map(|size| vec![0.0; *size]).collect();
        let mode = tower::Mode::Training {
            seed: 0,
            gradients: &mut gradients,
        };
        point.loss(&composition, mode, &mut work);
        let mut hooked = HookedGradients {
            gradients: &mut gradients,
            hook: &mut |_, _| {},
        };
        let mut of_input = Vec::new();
        let ends = Ends {
            input: &point.values[0],
            of_logits: &point.factors,
            of_input: &mut of_input,
        };
        composition.backward(ends, &point.values[1..].to_vec(), &mut hooked, &mut work);
        let found: Vec<Vec<f32>> = [of_input].into_iter().chain(gradients).collect();
        for (variable, found) in found.iter().enumerate() {
            assert_eq!(found.len(), point.values[variable].len(), "{name}, {seed}");
            for (place, given) in found.iter().enumerate() {
                let before = point.values[variable][place];
                let mut loss_at = |steps: f32| {
                    point.values[variable][place] = before + steps * STEP;
                    point.loss(&composition, tower::Mode::Inference, &mut work)
                };
                // The difference quotient with an error of fourth order in the step (Fornberg 1988, table 1).
                let near = loss_at(1.0) - loss_at(-1.0);
                let far = loss_at(2.0) - loss_at(-2.0);
                let numeric = (8.0 * near - far) / (12.0 * f64::from(STEP));
                point.values[variable][place] = before;
                let given = f64::from(*given);
                assert!(
                    (given - numeric).abs() <= TOLERANCE * (0.1 + numeric.abs()),
                    "{name}, {seed}: gradient {variable}[{place}] is {given}, its difference quotient {numeric}"
                );
            }
        }
    }
}
