//! The choice of a rule and its hyper-parameters.

use serde::{Deserialize, Serialize};

use crate::rule::{RowGradient, Rule, State};
use crate::{
    Adadelta, Adagrad, AdagradDa, Adam, Error, Ftrl, KerasRmsProp, LearningRate, Momentum,
    ProximalAdagrad, ProximalSgd, RmsProp, Sgd, Slot, adam, momentum, rmsprop,
};

/// An update rule with its hyper-parameters, under TensorFlow's names and defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum OptimizerConfig {
    /// Gradient descent.
    #[serde(rename = "sgd")]
    Sgd(Sgd),
    /// Momentum and Nesterov.
    #[serde(rename = "momentum")]
    Momentum(Momentum),
    /// Momentum as Keras writes it.
    #[serde(rename = "keras_momentum")]
    KerasMomentum(Momentum),
    /// Adagrad.
    #[serde(rename = "adagrad")]
    Adagrad(Adagrad),
    /// Adagrad by dual averaging.
    #[serde(rename = "adagrad_da")]
    AdagradDa(AdagradDa),
    /// Adadelta.
    #[serde(rename = "adadelta")]
    Adadelta(Adadelta),
    /// Adam and AMSGrad.
    #[serde(rename = "adam")]
    Adam(Adam),
    /// RMSProp.
    #[serde(rename = "rmsprop")]
    RmsProp(RmsProp),
    /// RMSprop as Keras writes it.
    #[serde(rename = "keras_rmsprop")]
    KerasRmsProp(KerasRmsProp),
    /// FTRL-Proximal.
    #[serde(rename = "ftrl")]
    Ftrl(Ftrl),
    /// Proximal gradient descent.
    #[serde(rename = "proximal_sgd")]
    ProximalSgd(ProximalSgd),
    /// Proximal Adagrad.
    #[serde(rename = "proximal_adagrad")]
    ProximalAdagrad(ProximalAdagrad),
}

/// Evaluates an expression with `$rule` bound to the rule, in the form that has only the slots it needs.
macro_rules! with_rule {
    ($config:expr, $rule:ident => $body:expr) => {
        match $config {
            OptimizerConfig::Sgd($rule) => $body,
            OptimizerConfig::Momentum($rule) => $body,
            OptimizerConfig::KerasMomentum($rule) => {
                let $rule = &momentum::Keras($rule);
                $body
            }
            OptimizerConfig::Adagrad($rule) => $body,
            OptimizerConfig::AdagradDa($rule) => $body,
            OptimizerConfig::Adadelta($rule) => $body,
            OptimizerConfig::Adam($rule) if $rule.amsgrad => $body,
            OptimizerConfig::Adam($rule) => {
                let $rule = &adam::Plain($rule);
                $body
            }
            OptimizerConfig::RmsProp($rule) if $rule.centered => $body,
            OptimizerConfig::RmsProp($rule) => {
                let $rule = &rmsprop::Plain($rule);
                $body
            }
            OptimizerConfig::KerasRmsProp($rule) => $body,
            OptimizerConfig::Ftrl($rule) => $body,
            OptimizerConfig::ProximalSgd($rule) => $body,
            OptimizerConfig::ProximalAdagrad($rule) => $body,
        }
    };
}

/// Evaluates an expression with `$parameters` bound to the hyper-parameters.
macro_rules! with_parameters {
    ($config:expr, $parameters:ident => $body:expr) => {
        match $config {
            OptimizerConfig::Sgd($parameters) => $body,
            OptimizerConfig::Momentum($parameters) => $body,
            OptimizerConfig::KerasMomentum($parameters) => $body,
            OptimizerConfig::Adagrad($parameters) => $body,
            OptimizerConfig::AdagradDa($parameters) => $body,
            OptimizerConfig::Adadelta($parameters) => $body,
            OptimizerConfig::Adam($parameters) => $body,
            OptimizerConfig::RmsProp($parameters) => $body,
            OptimizerConfig::KerasRmsProp($parameters) => $body,
            OptimizerConfig::Ftrl($parameters) => $body,
            OptimizerConfig::ProximalSgd($parameters) => $body,
            OptimizerConfig::ProximalAdagrad($parameters) => $body,
        }
    };
}

impl OptimizerConfig {
    /// Returns gradient descent at a rate.
    pub fn sgd(learning_rate: impl Into<LearningRate>) -> Self {
        Self::Sgd(Sgd {
            learning_rate: learning_rate.into(),
        })
    }

    /// Returns Adagrad at a rate, with TensorFlow 1's defaults.
    pub fn adagrad(learning_rate: impl Into<LearningRate>) -> Self {
        let learning_rate = learning_rate.into();
        Self::Adagrad(Adagrad {
            learning_rate,
            initial_accumulator_value: 0.1,
            epsilon: 0.0,
        })
    }

    /// Checks the hyper-parameters.
    ///
    /// # Errors
    /// The first hyper-parameter that is out of range.
    pub fn validate(&self) -> Result<(), Error> {
        with_rule!(self, rule => rule.validate())
    }

    /// Returns the slots, in the order in which [`OptimizerConfig::apply_dense`] takes them.
    pub fn slots(&self) -> Vec<Slot> {
        with_rule!(self, rule => rule.slots().to_vec())
    }

    /// Returns the learning rate.
    pub fn learning_rate(&self) -> &LearningRate {
        with_parameters!(self, parameters => &parameters.learning_rate)
    }

    /// Returns the same rule with a learning rate `factor` times as high at every step (P. Goyal et al., "Accurate,
    /// Large Minibatch SGD", 2017: the linear scaling rule).
    pub fn with_learning_rate_times(mut self, factor: f32) -> Self {
        let rate = with_parameters!(&mut self, parameters => &mut parameters.learning_rate);
        *rate = rate.times(factor);
        self
    }

    /// Returns whether a step changes rows of a table that its batch does not name. Such a table must be updated by
    /// [`OptimizerConfig::apply_rows`] at every step, even if no row of it is named.
    pub fn moves_all_rows(&self) -> bool {
        match self {
            Self::Adam(adam) => !adam.lazy,
            Self::KerasRmsProp(rule) => rule.momentum == 0.0,
            _ => false,
        }
    }

    /// Updates values and slots by a gradient, all of the same length. `step` counts updates from 1.
    ///
    /// # Panics
    /// There are fewer slots than [`OptimizerConfig::slots`] names.
    pub fn apply_dense(
        &self,
        step: u64,
        values: &mut [f32],
        slots: &mut [&mut [f32]],
        gradient: &[f32],
    ) {
        with_rule!(self, rule => State::new(values, slots).whole(rule, step, gradient));
    }

    /// Updates some rows of a table.
    ///
    /// # Panics
    /// A row lies outside `values`, or there are fewer slots than [`OptimizerConfig::slots`] names.
    pub fn apply_rows(
        &self,
        step: u64,
        values: &mut [f32],
        slots: &mut [&mut [f32]],
        gradient: RowGradient<'_>,
    ) {
        if gradient.width == 0 {
            return;
        }
        if self.moves_all_rows() {
            with_rule!(self, rule => State::new(values, slots).rows_and_rest(rule, step, gradient));
        } else {
            with_rule!(self, rule => State::new(values, slots).rows(rule, step, gradient));
        }
    }
}
