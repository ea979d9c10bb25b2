//! A dense layer for networks (`tf.keras.layers.Dense` without activation).

use trainyard_tensor::{
    add_bias, add_column_sums, add_first_transposed, multiply, multiply_rows,
    multiply_second_transposed,
};
use trainyard_variable::{Gradients, Initializer};

use crate::{Mode, NetworkBuilder, Pass};

/// A dense layer: `y = x K + b`.
#[derive(Debug, Clone, Copy)]
pub struct Dense {
    kernel: usize,
    bias: usize,
    inputs: usize,
    units: usize,
}

impl Dense {
    /// Adds the variables `<name>/kernel`, Glorot uniform, and `<name>/bias`, 0.
    pub fn new(builder: &mut NetworkBuilder, name: &str, [inputs, units]: [usize; 2]) -> Self {
        let kernel = format!("{name}/kernel");
        let bias = format!("{name}/bias");
        Self {
            kernel: builder.add(&kernel, &[inputs, units], Initializer::GlorotUniform),
            bias: builder.add(&bias, &[units], Initializer::Zeros),
            inputs,
            units,
        }
    }

    /// Returns the output, `rows x units`, of `x`, `rows x inputs`.
    pub fn forward(&self, pass: &Pass<'_>, x: &[f32]) -> Vec<f32> {
        // A prediction has the same bits in any batch. Training has the fastest product.
        let product = match pass.mode {
            Mode::Train => multiply,
            Mode::Infer => multiply_rows,
        };
        let mut y = vec![0.0; pass.rows * self.units];
        let sizes = [pass.rows, self.inputs, self.units];
        product(x, &pass.values[self.kernel], &mut y, sizes);
        add_bias(&mut y, &pass.values[self.bias]);
        y
    }

    /// Adds the gradients of kernel and bias, and returns the gradient of `x`, given the gradient of the output. A network
    /// may use a layer more than once: it calls this for each use.
    pub fn backward(
        &self,
        pass: &Pass<'_>,
        x: &[f32],
        of_output: &[f32],
        gradients: &mut Gradients,
    ) -> Vec<f32> {
        let kernel = &mut gradients[self.kernel];
        add_first_transposed(x, of_output, kernel, [self.inputs, pass.rows, self.units]);
        add_column_sums(of_output, &mut gradients[self.bias]);
        let mut of_input = vec![0.0; pass.rows * self.inputs];
        let sizes = [pass.rows, self.units, self.inputs];
        multiply_second_transposed(of_output, &pass.values[self.kernel], &mut of_input, sizes);
        of_input
    }
}
