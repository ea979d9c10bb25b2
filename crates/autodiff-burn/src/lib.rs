//! Custom models by autodiff: any module of [burn](https://burn.dev) as a Trainyard model.
//!
//! [`BurnNet`] is what the user writes: the module and its forward pass. [`BurnModel`] makes a
//! [`Model`](trainyard_model::Model) of it: variables from the module's parameters, gradients from burn's autodiff, and
//! loss, metrics and predictions from the [`Head`](trainyard_model::Head) that the premade models have too.

mod model;
mod net;
mod parameters;

pub use model::{BurnFeatures, BurnModel};
pub use net::BurnNet;
pub use trainyard_model::Error;
pub use trainyard_run_config::{FeatureConfig, Job};
pub use trainyard_variable::Initializer;
