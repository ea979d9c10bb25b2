//! The adapter: a module as a network.

use burn::tensor::{Device, Tensor, TensorData};
use trainyard_model::{Error, Mode, Network, NetworkBuilder, NetworkModel, Pass};
use trainyard_run_config::{FeatureConfig, Job};
use trainyard_variable::Gradients;

use crate::BurnNet;
use crate::parameters::{Parameters, floats};

/// A module as a [`Model`](trainyard_model::Model): hand `BurnModel::<MyNet>::from_job` to `trainyard::main_with`.
pub type BurnModel<N> = NetworkModel<BurnNetwork<N>>;

/// A module as a [`Network`].
#[derive(Debug)]
pub struct BurnNetwork<N> {
    /// The module on the device that records gradients.
    net: N,
    /// The same parameters on the bare device, without what training alone does (dropout).
    frozen: N,
    parameters: Parameters,
    /// Index of the first parameter among the variables, behind the tables of the input.
    first: usize,
    width: usize,
    units: usize,
    has_embeddings: bool,
}

/// A forward pass of training.
#[derive(Debug)]
pub struct Recorded<N> {
    net: N,
    input: Tensor<2>,
    logits: Tensor<2>,
}

/// Returns the device that networks compute on.
fn device() -> Device {
    #[cfg(feature = "cuda")]
    let device = Device::cuda(0);
    #[cfg(not(feature = "cuda"))]
    let device = Device::flex();
    device
}

impl<N: BurnNet> BurnNetwork<N> {
    fn input(&self, pass: &Pass<'_>, device: &Device) -> Tensor<2> {
        let data = TensorData::new(pass.input.to_vec(), [pass.rows, self.width]);
        Tensor::from_data(data, device)
    }
}

impl<N: BurnNet> Network for BurnNetwork<N> {
    type Activations = Option<Recorded<N>>;

    fn build(job: &Job, builder: &mut NetworkBuilder) -> Result<Self, Error> {
        let device = device().autodiff();
        let net = N::build(job, &device)?.train();
        let parameters = Parameters::new(&net, &N::build(job, &device)?.train(), N::initializer)?;
        let mut first = None;
        for spec in &parameters.specs {
            let place = builder.add(&spec.name, &spec.shape, spec.initializer.clone());
            first.get_or_insert(place);
        }
        Ok(Self {
            frozen: net.valid(),
            net,
            parameters,
            first: first.unwrap_or_default(),
            width: builder.width(),
            units: builder.units(),
            has_embeddings: builder.has_embeddings(),
        })
    }

    fn features(job: &Job) -> Vec<FeatureConfig> {
        N::features(job)
    }

    fn forward(&self, pass: &Pass<'_>, recorded: &mut Option<Recorded<N>>) -> Vec<f32> {
        let values = &pass.values[self.first..];
        if pass.mode == Mode::Infer {
            let net = self.parameters.load(self.frozen.clone(), values);
            return floats(net.forward(self.input(pass, &device())));
        }
        let net = self.parameters.load(self.net.clone(), values);
        let input = self.input(pass, &device().autodiff());
        // The gradient of the input is that of the rows of the tables. Without tables nobody reads it.
        let input = input.set_require_grad(self.has_embeddings);
        let logits = net.forward(input.clone());
        let known = floats(logits.clone().inner());
        *recorded = Some(Recorded { net, input, logits });
        known
    }

    fn backward(
        &self,
        pass: &Pass<'_>,
        recorded: &mut Option<Recorded<N>>,
        of_logits: &[f32],
        gradients: &mut Gradients,
    ) -> Vec<f32> {
        let Some(Recorded { net, input, logits }) = recorded.take() else {
            return Vec::new();
        };
        // The sum of logit times its gradient has the same gradient as the loss, so burn goes back from there.
        let shape = [pass.rows, self.units];
        let data = TensorData::new(of_logits.to_vec(), shape);
        let sum = (logits * Tensor::from_data(data, &device().autodiff())).sum();
        let mut graph = sum.backward();
        let of_input = self
            .has_embeddings
            .then(|| input.grad_remove(&mut graph))
            .flatten();
        let out = &mut gradients[self.first..];
        self.parameters.gradients(&net, &mut graph, out);
        match of_input {
            Some(of_input) => floats(of_input),
            // The loss does not depend on the input.
            None => vec![0.0; pass.input.len()],
        }
    }
}
