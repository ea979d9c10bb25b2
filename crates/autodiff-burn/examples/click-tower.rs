//! A model by autodiff behind embeddings: dense layers of burn over vectors that lie on the parameter servers.
//!
//! `click-tower train crates/autodiff-burn/examples/click-tower.toml`

use std::process::ExitCode;

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};
use trainyard::{Error, Job};
use trainyard_autodiff_burn::{BurnModel, BurnNet};

/// Runs the command line for the model.
pub(crate) fn main() -> ExitCode {
    trainyard::main_with(BurnModel::<ClickTower>::from_job)
}

/// Two dense layers. Their input is a row of the job's features: numbers, and a vector for each embedding.
#[derive(Module, Debug)]
pub(crate) struct ClickTower {
    dense: Linear,
    logits: Linear,
}

impl BurnNet for ClickTower {
    fn build(job: &Job, device: &Device) -> Result<Self, Error> {
        let width = job.model.params.get("width")?;
        let units = job.model.params.get("units")?;
        Ok(Self {
            dense: LinearConfig::new(width, units).init(device),
            logits: LinearConfig::new(units, 1).init(device),
        })
    }

    fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        self.logits.forward(relu(self.dense.forward(input)))
    }
}
