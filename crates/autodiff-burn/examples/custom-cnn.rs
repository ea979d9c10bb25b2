//! A model by autodiff: a convolutional network of burn that reads 28 x 28 grey digits.
//!
//! `custom-cnn train crates/autodiff-burn/examples/custom-cnn.toml`

use std::process::ExitCode;

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::{Dropout, DropoutConfig, Linear, LinearConfig, PaddingConfig2d};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};
use trainyard::{Error, FeatureConfig, Job};
use trainyard_autodiff_burn::{BurnModel, BurnNet};

/// Width and height of a picture, in pixels.
const SIDE: usize = 28;
/// Pixels of a picture.
const PIXELS: usize = SIDE * SIDE;

fn main() -> ExitCode {
    trainyard::main_with(BurnModel::<Cnn>::from_job)
}

/// Two convolutions, each halved by pooling, then two dense layers.
#[derive(Module, Debug)]
struct Cnn {
    conv1: Conv2d,
    conv2: Conv2d,
    pool: MaxPool2d,
    dense: Linear,
    dropout: Dropout,
    logits: Linear,
}

impl BurnNet for Cnn {
    fn build(job: &Job, device: &Device) -> Result<Self, Error> {
        let [hidden] = job.model.hidden_units[..] else {
            return Err(Error::Invalid(
                "this network has one dense layer: hidden_units = [64]".to_owned(),
            ));
        };
        let convolution =
            |channels| Conv2dConfig::new(channels, [5, 5]).with_padding(PaddingConfig2d::Same);
        Ok(Self {
            conv1: convolution([1, 8]).init(device),
            conv2: convolution([8, 16]).init(device),
            pool: MaxPool2dConfig::new([2, 2]).init(),
            dense: LinearConfig::new(16 * (SIDE / 4) * (SIDE / 4), hidden).init(device),
            dropout: DropoutConfig::new(0.25).init(),
            logits: LinearConfig::new(hidden, job.model.n_classes).init(device),
        })
    }

    fn features(_job: &Job) -> Vec<FeatureConfig> {
        (0..PIXELS)
            .map(|pixel| FeatureConfig::numeric(format!("px{pixel}")))
            .collect()
    }

    fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        let [rows, _] = input.dims();
        let x = input.reshape([rows, 1, SIDE, SIDE]) / 255.0;
        let x = self.pool.forward(relu(self.conv1.forward(x)));
        let x = self.pool.forward(relu(self.conv2.forward(x)));
        let x = relu(self.dense.forward(x.flatten(1, 3)));
        self.logits.forward(self.dropout.forward(x))
    }
}
