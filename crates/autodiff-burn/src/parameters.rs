//! A module's parameters as variables: their names and first values, values in, gradients out.

use std::collections::HashMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::{Gradients as Graph, Tensor, TensorData};
use trainyard_model::Error;
use trainyard_variable::Initializer;

/// The variables of a module's parameters.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parameters {
    pub(crate) specs: Vec<Spec>,
    places: HashMap<ParamId, usize>,
}

/// A parameter as a variable.
#[derive(Debug, Clone)]
pub(crate) struct Spec {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) initializer: Initializer,
}

/// One parameter as a walk finds it.
struct Found {
    name: String,
    owner: String,
    id: ParamId,
    shape: Vec<usize>,
    trained: bool,
    values: Vec<f32>,
}

impl Parameters {
    /// Names the parameters of `module`. `twin` is the same module built once more: what differs is random.
    ///
    /// # Errors
    /// A parameter that would not be the same in every process.
    pub(crate) fn new<M: Module>(
        module: &M,
        twin: &M,
        initializer: fn(&str, &[usize]) -> Option<Initializer>,
    ) -> Result<Self, Error> {
        let found = walk(module);
        let again = walk(twin);
        if found.len() != again.len() {
            return Err(Error::Invalid(
                "the network is built otherwise each time".to_owned(),
            ));
        }
        let mut out = Self::default();
        for (found, again) in found.into_iter().zip(again) {
            let Found {
                name,
                owner,
                id,
                shape,
                trained,
                values,
            } = found;
            if owner.starts_with("Struct:BatchNorm") {
                return Err(Error::Invalid(format!(
                    "`{name}` belongs to a BatchNorm, whose running statistics stay in the process that gathers them; \
                     use LayerNorm or GroupNorm"
                )));
            }
            let random = values != again.values;
            let chosen = initializer(&name, &shape);
            if !trained {
                if random || chosen.is_some() {
                    let message = format!(
                        "`{name}` needs no gradient, so that its first values must be fixed"
                    );
                    return Err(Error::Invalid(message));
                }
                continue;
            }
            // A parameter that two layers share is met twice, and is one variable.
            if out.places.contains_key(&id) {
                continue;
            }
            let constant = values
                .first()
                .copied()
                .filter(|first| values.iter().all(|value| value == first));
            let initializer = match (chosen, constant) {
                (Some(chosen), _) => chosen,
                (None, _) if random => glorot(&shape),
                (None, Some(value)) => Initializer::Constant { value },
                (None, None) => {
                    let message =
                        format!("the first values of `{name}` are neither random nor all the same");
                    return Err(Error::Invalid(format!(
                        "{message}: name them in BurnNet::initializer"
                    )));
                }
            };
            out.places.insert(id, out.specs.len());
            out.specs.push(Spec {
                name,
                shape,
                initializer,
            });
        }
        if out.specs.is_empty() {
            return Err(Error::Invalid(
                "the network has no parameter to train".to_owned(),
            ));
        }
        Ok(out)
    }

    /// Returns the module with these values for parameters.
    pub(crate) fn load<M: Module>(&self, module: M, values: &[Vec<f32>]) -> M {
        module.map(&mut Loader {
            places: &self.places,
            values,
        })
    }

    /// Adds the gradients of a module's parameters to `out`; nothing where the loss does not depend on one.
    pub(crate) fn gradients<M: Module>(&self, module: &M, graph: &mut Graph, out: &mut [Vec<f32>]) {
        module.visit(&mut Collector {
            places: &self.places,
            graph,
            out,
        });
    }
}

/// Glorot uniform by burn's layouts: a kernel of a dense layer is `[inputs, outputs]`, one of a convolution
/// `[outputs, inputs, ..]`, where TensorFlow's is `[.., inputs, outputs]`. The sum of the fans is the same.
fn glorot(shape: &[usize]) -> Initializer {
    match shape {
        [] | [_] => Initializer::Zeros,
        [_, _] => Initializer::GlorotUniform,
        [outputs, inputs, field @ ..] => {
            let fans = (outputs + inputs) * field.iter().product::<usize>();
            let limit = (6.0 / fans.max(1) as f32).sqrt();
            Initializer::Uniform {
                low: -limit,
                high: limit,
            }
        }
    }
}

/// Returns the float parameters in the order in which the module names them.
fn walk<M: Module>(module: &M) -> Vec<Found> {
    let mut walker = Walker::default();
    module.visit(&mut walker);
    walker.found
}

/// The values of a tensor, row-major.
pub(crate) fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor
        .into_data()
        .convert::<f32>()
        .try_into_vec()
        .expect("the values have just been made f32")
}

#[derive(Default)]
struct Walker {
    path: Vec<(String, String)>,
    found: Vec<Found>,
}

impl ModuleVisitor for Walker {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.push((name.to_owned(), container.to_owned()));
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let names: Vec<&str> = self.path.iter().map(|(name, _)| name.as_str()).collect();
        let value = param.val();
        self.found.push(Found {
            name: names.join("/"),
            owner: self
                .path
                .last()
                .map(|(_, owner)| owner.clone())
                .unwrap_or_default(),
            id: param.id,
            shape: value.dims().to_vec(),
            trained: value.is_require_grad(),
            values: floats(value),
        });
    }
}

struct Loader<'a> {
    places: &'a HashMap<ParamId, usize>,
    values: &'a [Vec<f32>],
}

impl ModuleMapper for Loader<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(&place) = self.places.get(&param.id) else {
            return param;
        };
        let values = self.values[place].clone();
        param.map(|old| {
            let device = old.device();
            let kind = old.dtype();
            let tracked = old.is_require_grad();
            let data = TensorData::new(values, old.shape()).convert_dtype(kind);
            Tensor::from_data(data, &device).set_require_grad(tracked)
        })
    }
}

struct Collector<'a> {
    places: &'a HashMap<ParamId, usize>,
    graph: &'a mut Graph,
    out: &'a mut [Vec<f32>],
}

impl ModuleVisitor for Collector<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Some(&place) = self.places.get(&param.id) else {
            return;
        };
        let Some(gradient) = param.val().grad_remove(self.graph) else {
            return;
        };
        // Added, not written: a shared parameter is met once for each layer that uses it.
        self.out[place]
            .iter_mut()
            .zip(floats(gradient))
            .for_each(|(out, value)| *out += value);
    }
}
