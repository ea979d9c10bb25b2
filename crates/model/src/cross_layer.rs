//! Cross layers: `xₗ₊₁ = x₀ ⊙ (xₗ W + b) + xₗ` (DCN-v2; Wang et al. 2021).

use trainyard_tensor::{
    add_bias, add_column_sums, join, multiply_first_transposed, multiply_second_transposed_columns,
};
use trainyard_variable::{Access, Gradients, Initializer, Values, VariableSpec};

/// A product `out[m,n] = a[m,k] b[k,n]`.
pub(crate) type Multiply = fn(a: &[f32], b: &[f32], out: &mut [f32], [usize; 3]);

/// Kernel and bias of each layer.
#[derive(Debug, Clone)]
pub(crate) struct CrossLayers {
    pub(crate) layers: Vec<(usize, usize)>,
    width: usize,
}

/// `xₗ` and `xₗ W + b` of each layer.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    inputs: Vec<Vec<f32>>,
    products: Vec<Vec<f32>>,
    inner: Vec<f32>,
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
    pub(crate) fn new(
        count: usize,
        width: usize,
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
        let layers = (0..count)
            .map(|layer| {
                let kernel = add(
                    format!("dcn/cross_{layer}/kernel"),
                    vec![width, width],
                    Initializer::GlorotUniform,
                );
                (
                    kernel,
                    add(
                        format!("dcn/cross_{layer}/bias"),
                        vec![width],
                        Initializer::Zeros,
                    ),
                )
            })
            .collect();
        Self { layers, width }
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
        work.inputs[0].clear();
        work.inputs[0].extend_from_slice(first);
        for (index, (kernel, bias)) in self.layers.iter().enumerate() {
            let (below, above) = work.inputs.split_at_mut(index + 1);
            let input = &below[index];
            let output = &mut above[0];
            let product = &mut work.products[index];
            product.resize(input.len(), 0.0);
            multiply(
                input,
                &values[*kernel],
                product,
                [rows, self.width, self.width],
            );
            add_bias(product, &values[*bias]);
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
            products,
            inner,
            through,
            of_first,
            transposed,
        } = work;
        let first = &inputs[0];
        let rows = self.rows(delta);
        of_first.clear();
        of_first.resize(delta.len(), 0.0);
        for (index, (kernel, bias)) in self.layers.iter().enumerate().rev() {
            inner.clear();
            inner.extend(delta.iter().zip(first).map(|(delta, x0)| delta * x0));
            for ((of_first, delta), u) in
                of_first.iter_mut().zip(delta.iter()).zip(&products[index])
            {
                *of_first += delta * u;
            }
            through.resize(delta.len(), 0.0);
            let width = self.width;
            let mut of_kernel = std::mem::take(&mut gradients[*kernel]);
            let of_bias = &mut gradients[*bias];
            join(
                || {
                    multiply_first_transposed(
                        &inputs[index],
                        inner,
                        &mut of_kernel,
                        [width, rows, width],
                    );
                    add_column_sums(inner, of_bias);
                },
                || {
                    let sizes = [rows, width, width];
                    multiply_second_transposed_columns(
                        inner,
                        &values[*kernel],
                        through,
                        sizes,
                        0..width,
                        transposed,
                    );
                },
            );
            gradients[*kernel] = of_kernel;
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
