//! A model by hand: a multilayer perceptron with one hidden layer, and its backward pass.
//!
//! `custom-mlp train crates/trainyard/examples/custom-mlp.toml`

use std::process::ExitCode;

use trainyard::tensor::relu_backward;
use trainyard::{Dense, Error, Gradients, Job, Network, NetworkBuilder, NetworkModel, Pass};

fn main() -> ExitCode {
    trainyard::main_with(NetworkModel::<Mlp>::from_job)
}

/// One hidden layer with ReLU: `logits = relu(x K + b) L + c`.
struct Mlp {
    hidden: Dense,
    logits: Dense,
}

impl Network for Mlp {
    /// Output of the hidden layer.
    type Activations = Vec<f32>;

    fn build(job: &Job, builder: &mut NetworkBuilder) -> Result<Self, Error> {
        let units = job.model.params.get("units")?;
        let ends = [builder.width(), builder.units()];
        Ok(Self {
            hidden: Dense::new(builder, "hidden", [ends[0], units]),
            logits: Dense::new(builder, "logits", [units, ends[1]]),
        })
    }

    fn forward(&self, pass: &Pass<'_>, hidden: &mut Vec<f32>) -> Vec<f32> {
        *hidden = self.hidden.forward(pass, pass.input);
        hidden.iter_mut().for_each(|value| *value = value.max(0.0));
        self.logits.forward(pass, hidden)
    }

    fn backward(
        &self,
        pass: &Pass<'_>,
        hidden: &mut Vec<f32>,
        of_logits: &[f32],
        gradients: &mut Gradients,
    ) -> Vec<f32> {
        let mut of_hidden = self.logits.backward(pass, hidden, of_logits, gradients);
        relu_backward(hidden, &mut of_hidden);
        self.hidden
            .backward(pass, pass.input, &of_hidden, gradients)
    }
}
