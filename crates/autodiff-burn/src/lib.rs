//! Custom models by autodiff: any module of [burn](https://burn.dev) as a Trainyard model.
//!
//! [`BurnNet`] is what the user writes: the module and its forward pass. [`BurnModel`] makes a
//! [`Model`](trainyard_model::Model) of it: variables from the module's parameters, and gradients from burn's autodiff.
//! All else is that of a network by hand ([`NetworkModel`](trainyard_model::NetworkModel)).

mod net;
mod network;
mod parameters;

pub use net::BurnNet;
pub use network::{BurnModel, BurnNetwork};
pub use trainyard_model::Error;
pub use trainyard_run_config::{FeatureConfig, Job};
pub use trainyard_variable::Initializer;
