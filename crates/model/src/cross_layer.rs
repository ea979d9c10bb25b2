//! Cross layers: `xₗ₊₁ = x₀ ⊙ (xₗ W + b) + xₗ`, where `W` may be a product `U V` of low rank (DCN-v2; Wang et al. 2021,
//! equations 1 and 2; `tfrs.layers.dcn.Cross`, whose `projection_dim` is the rank).

use trainyard_tensor::{
    add_bias, add_column_sums, join, multiply_first_transposed, multiply_second_transposed,
    multiply_second_transposed_columns,
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

/// `xₗ`, `xₗ U` and `xₗ W + b` of each layer.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    inputs: Vec<Vec<f32>>,
    projected: Vec<Vec<f32>>,
    products: Vec<Vec<f32>>,
    inner: Vec<f32>,
    of_projected: Vec<f32>,
    through: Vec<f32>,
    of_first: Vec<f32>,
    transposed: Vec<f32>,
}

impl Workspace {
    /// Returns the output of the last layer.
    pub(crate) fn output(&self) -> &[f32] {
        self.inputs.last().map_or(&[], Vec::as_slice)
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
        work.inputs.resize_with(self.layers.len() + 1, Vec::new);
        work.products.resize_with(self.layers.len(), Vec::new);
        work.projected.resize_with(self.layers.len(), Vec::new);
        work.inputs[0].clear();
        work.inputs[0].extend_from_slice(first);
        for (index, layer) in self.layers.iter().enumerate() {
            let (below, above) = work.inputs.split_at_mut(index + 1);
            let input = &below[index];
            let output = &mut above[0];
            let projected = match layer.projection {
                Some(projection) => {
                    let projected = &mut work.projected[index];
                    projected.resize(rows * self.rank, 0.0);
                    let sizes = [rows, self.width, self.rank];
                    multiply(input, &values[projection], projected, sizes);
                    &*projected
                }
                None => input,
            };
            let product = &mut work.products[index];
            product.resize(input.len(), 0.0);
            let sizes = [rows, self.rank, self.width];
            multiply(projected, &values[layer.kernel], product, sizes);
            add_bias(product, &values[layer.bias]);
            output.clear();
            output.extend(
                first
                    .iter()
                    .zip(product.iter())
                    .zip(input)
                    .map(|((x0, u), x)| x0 * u + x),
            );
        }
    }

    /// Replaces the gradient of the output, in `delta`, by the gradient of the input, and writes the gradients of the
    /// variables.
    pub(crate) fn backward(
        &self,
        values: &Values,
        delta: &mut [f32],
        gradients: &mut Gradients,
        work: &mut Workspace,
    ) {
        let Workspace {
            inputs,
            projected,
            products,
            inner,
            of_projected,
            through,
            of_first,
            transposed,
        } = work;
        let first = &inputs[0];
        let rows = self.rows(delta);
        let (width, rank) = (self.width, self.rank);
        of_first.clear();
        of_first.resize(delta.len(), 0.0);
        for (index, layer) in self.layers.iter().enumerate().rev() {
            inner.clear();
            inner.extend(delta.iter().zip(first).map(|(delta, x0)| delta * x0));
            for ((of_first, delta), u) in
                of_first.iter_mut().zip(delta.iter()).zip(&products[index])
            {
                *of_first += delta * u;
            }
            through.resize(delta.len(), 0.0);
            let mut of_kernel = std::mem::take(&mut gradients[layer.kernel]);
            let of_bias = &mut gradients[layer.bias];
            // What the kernel multiplies, and where the gradient through it goes.
            let (multiplied, behind) = match layer.projection {
                Some(_) => {
                    of_projected.resize(rows * rank, 0.0);
                    (&projected[index], &mut *of_projected)
                }
                None => (&inputs[index], &mut *through),
            };
            join(
                || {
                    let sizes = [rank, rows, width];
                    multiply_first_transposed(multiplied, inner, &mut of_kernel, sizes);
                    add_column_sums(inner, of_bias);
                },
                || {
                    let sizes = [rows, width, rank];
                    multiply_second_transposed_columns(
                        inner,
                        &values[layer.kernel],
                        behind,
                        sizes,
                        0..rank,
                        transposed,
                    );
                },
            );
            gradients[layer.kernel] = of_kernel;
            if let Some(projection) = layer.projection {
                let sizes = [width, rows, rank];
                let of_projection = &mut gradients[projection];
                multiply_first_transposed(&inputs[index], of_projected, of_projection, sizes);
                let sizes = [rows, rank, width];
                multiply_second_transposed(of_projected, &values[projection], through, sizes);
            }
            delta
                .iter_mut()
                .zip(through.iter())
                .for_each(|(delta, through)| *delta += through);
        }
        delta
            .iter_mut()
            .zip(of_first.iter())
            .for_each(|(delta, first)| *delta += first);
    }
}
