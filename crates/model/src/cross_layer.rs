//! Cross layers: `xₗ₊₁ = x₀ ⊙ (xₗ W + b) + xₗ`, where `W` may be a product `U V` of low rank (DCN-v2; Wang et al. 2021,
//! equations 1 and 2; `tfrs.layers.dcn.Cross`, whose `projection_dim` is the rank).

use trainyard_tensor::{
    add_column_sums, add_second_transposed, for_rows_of, join, multiply_first_transposed,
    multiply_second_transposed_columns, vectorize,
};
use trainyard_variable::{Access, Gradients, Initializer, Values, VariableSpec};

/// A product `out[m,n] = a[m,k] b[k,n]`.
pub(crate) type Multiply = fn(a: &[f32], b: &[f32], out: &mut [f32], [usize; 3]);

/// Variables of a layer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CrossLayer {
    /// `U`, of `width x rank`, if the kernel is of low rank.
    pub(crate) projection: Option<usize>,
    /// `W`, of `width x width`, or `V`, of `rank x width`.
    pub(crate) kernel: usize,
    pub(crate) bias: usize,
}

/// Layers over an input of `width` numbers.
#[derive(Debug, Clone)]
pub(crate) struct CrossLayers {
    pub(crate) layers: Vec<CrossLayer>,
    width: usize,
    /// Columns of `U`.
    rank: usize,
}

/// Fewest rows for which another thread is used.
const PART_ROWS_MIN: usize = 64;

/// `xₗ₊₁`, `xₗ U` and `xₗ W + b` of each layer.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    outputs: Vec<Vec<f32>>,
    projected: Vec<Vec<f32>>,
    products: Vec<Vec<f32>>,
    inner: Vec<f32>,
    of_projected: Vec<f32>,
    of_first: Vec<f32>,
    transposed: Vec<f32>,
}

impl Workspace {
    /// Returns the output of the last layer.
    pub(crate) fn output(&self) -> &[f32] {
        self.outputs.last().map_or(&[], Vec::as_slice)
    }
}

impl CrossLayers {
    /// Returns `count` layers; `projection_dim` is the rank of their kernels, absent = full.
    pub(crate) fn new(
        count: usize,
        width: usize,
        projection_dim: Option<usize>,
        group: &str,
        variables: &mut Vec<VariableSpec>,
    ) -> Self {
        let mut add = |name: String, shape: Vec<usize>, initializer: Initializer| {
            let access = Access::Whole;
            let optimizer_group = group.to_owned();
            variables.push(VariableSpec {
                name,
                shape,
                access,
                initializer,
                optimizer_group,
            });
            variables.len() - 1
        };
        let layers = (0..count).map(|layer| {
            let mut of = |part: &str, shape: Vec<usize>, initializer: Initializer| {
                add(format!("dcn/cross_{layer}/{part}"), shape, initializer)
            };
            CrossLayer {
                projection: projection_dim
                    .map(|rank| of("projection", vec![width, rank], Initializer::GlorotUniform)),
                kernel: of(
                    "kernel",
                    vec![projection_dim.unwrap_or(width), width],
                    Initializer::GlorotUniform,
                ),
                bias: of("bias", vec![width], Initializer::Zeros),
            }
        });
        Self {
            layers: layers.collect(),
            width,
            rank: projection_dim.unwrap_or(width),
        }
    }

    fn rows(&self, matrix: &[f32]) -> usize {
        matrix.len().checked_div(self.width).unwrap_or(0)
    }

    /// Computes the layers by a product of matrices. [`Workspace::output`] then holds the output of the last layer.
    pub(crate) fn forward(
        &self,
        multiply: Multiply,
        first: &[f32],
        values: &Values,
        work: &mut Workspace,
    ) {
        let rows = self.rows(first);
        let width = self.width;
        work.outputs.resize_with(self.layers.len(), Vec::new);
        work.products.resize_with(self.layers.len(), Vec::new);
        work.projected.resize_with(self.layers.len(), Vec::new);
        for (index, layer) in self.layers.iter().enumerate() {
            let (below, above) = work.outputs.split_at_mut(index);
            let input = below.last().map_or(first, Vec::as_slice);
            let output = &mut above[0];
            let projected = match layer.projection {
                Some(projection) => {
                    let projected = &mut work.projected[index];
                    projected.resize(rows * self.rank, 0.0);
                    let sizes = [rows, width, self.rank];
                    multiply(input, &values[projection], projected, sizes);
                    &*projected
                }
                None => input,
            };
            let product = &mut work.products[index];
            product.resize(input.len(), 0.0);
            let sizes = [rows, self.rank, width];
            multiply(projected, &values[layer.kernel], product, sizes);
            output.resize(input.len(), 0.0);
            let bias = &values[layer.bias];
            let finish = |row: usize, [product, output]: [&mut [f32]; 2]| {
                let first = &first[row * width..][..product.len()];
                let input = &input[row * width..][..product.len()];
                vectorize(
                    #[inline(always)]
                    || finish(bias, [first, input], product, output),
                );
            };
            for_rows_of([product, output], width, PART_ROWS_MIN, &finish);
        }
    }

    /// Replaces the gradient of the output, in `delta`, by the gradient of the input, and writes the gradients of the
    /// variables.
    pub(crate) fn backward(
        &self,
        first: &[f32],
        values: &Values,
        delta: &mut [f32],
        gradients: &mut Gradients,
        work: &mut Workspace,
    ) {
        let Workspace {
            outputs,
            projected,
            products,
            inner,
            of_projected,
            of_first,
            transposed,
        } = work;
        let rows = self.rows(delta);
        let (width, rank) = (self.width, self.rank);
        inner.resize(delta.len(), 0.0);
        of_first.clear();
        of_first.resize(delta.len(), 0.0);
        for (index, layer) in self.layers.iter().enumerate().rev() {
            let product = &products[index];
            let begin = |row: usize, [delta, inner, of_first]: [&mut [f32]; 3]| {
                let first = &first[row * width..][..delta.len()];
                let product = &product[row * width..][..delta.len()];
                vectorize(
                    #[inline(always)]
                    || begin(index == 0, [first, product], delta, [inner, of_first]),
                );
            };
            let matrices = [&mut *delta, inner.as_mut_slice(), of_first.as_mut_slice()];
            for_rows_of(matrices, width, PART_ROWS_MIN, &begin);
            let input = match index {
                0 => first,
                _ => &outputs[index - 1],
            };
            let mut of_kernel = std::mem::take(&mut gradients[layer.kernel]);
            let of_bias = &mut gradients[layer.bias];
            let multiplied = match layer.projection {
                Some(_) => &projected[index],
                None => input,
            };
            join(
                || {
                    let sizes = [rank, rows, width];
                    multiply_first_transposed(multiplied, inner, &mut of_kernel, sizes);
                    add_column_sums(inner, of_bias);
                },
                || {
                    let kernel = &values[layer.kernel];
                    let sizes = [rows, width, rank];
                    if layer.projection.is_some() {
                        of_projected.resize(rows * rank, 0.0);
                        multiply_second_transposed_columns(
                            inner,
                            kernel,
                            of_projected,
                            sizes,
                            0..rank,
                            transposed,
                        );
                    } else {
                        add_second_transposed(inner, kernel, delta, sizes, transposed);
                    }
                },
            );
            gradients[layer.kernel] = of_kernel;
            if let Some(projection) = layer.projection {
                let sizes = [width, rows, rank];
                let of_projection = &mut gradients[projection];
                multiply_first_transposed(input, of_projected, of_projection, sizes);
                let sizes = [rows, rank, width];
                let kernel = &values[projection];
                add_second_transposed(of_projected, kernel, delta, sizes, transposed);
            }
        }
    }
}

/// Adds the bias to the product of some rows, and computes their output.
#[inline(always)]
fn finish(bias: &[f32], [first, input]: [&[f32]; 2], product: &mut [f32], output: &mut [f32]) {
    let width = bias.len();
    let read = first.chunks_exact(width).zip(input.chunks_exact(width));
    let written = product
        .chunks_exact_mut(width)
        .zip(output.chunks_exact_mut(width));
    for ((first, input), (product, output)) in read.zip(written) {
        let read = first.iter().zip(input).zip(bias);
        let written = product.iter_mut().zip(output);
        for (((first, input), bias), (product, output)) in read.zip(written) {
            *product += bias;
            *output = first * *product + input;
        }
    }
}

/// Computes what of the gradient of some rows goes through the kernel, in `inner`, and adds up what goes to `x₀`: in
/// `of_first`, and in the end in `delta`, as `x₀` is the input of the `last` layer that is passed.
#[inline(always)]
fn begin(
    last: bool,
    [first, product]: [&[f32]; 2],
    delta: &mut [f32],
    [inner, of_first]: [&mut [f32]; 2],
) {
    let read = first.iter().zip(product);
    let written = delta.iter_mut().zip(inner).zip(of_first);
    for ((first, product), ((delta, inner), of_first)) in read.zip(written) {
        *inner = *delta * first;
        let sum = *of_first + *delta * product;
        if last {
            *delta += sum;
        } else {
            *of_first = sum;
        }
    }
}
