//! The variables of a module: its tables, then its parameters.

use std::collections::BTreeMap;

use numpy::{IntoPyArray as _, PyArray1, PyArrayMethods as _};
use pyo3::exceptions::PyValueError;
use pyo3::{Bound, FromPyObject, Py, PyResult, Python};
use trainyard_model::{Error, custom_optimizer};
use trainyard_optimizer::OptimizerConfig;
use trainyard_run_config::Job;
use trainyard_variable::{Access, Initializer, MOVING_AVERAGE, VariableSpec};

use crate::columns::Columns;

/// Optimizer group of the variables that have no optimizer of their own.
const GROUP: &str = "module";

/// The parameters of a module, in its order.
pub(crate) type Described = Vec<Parameter>;

/// A parameter of a module.
#[derive(Debug, FromPyObject)]
pub(crate) struct Parameter {
    /// Name of the variable.
    name: String,
    shape: Vec<usize>,
    /// Initializer, as JSON.
    initializer: String,
    /// Optimizer of the parameter, as JSON; absent = the job's.
    optimizer: Option<String>,
    /// It is a moving average: its "gradient" is how far it moves down.
    moving: bool,
    /// The array in which the module keeps its values; absent = each step brings an array of its own.
    values: Option<Py<PyArray1<f32>>>,
}

/// The variables of a module, and the update rules of their groups.
#[derive(Debug)]
pub(crate) struct Variables {
    pub(crate) specs: Vec<VariableSpec>,
    pub(crate) optimizers: BTreeMap<String, OptimizerConfig>,
    /// The arrays in which the module keeps its parameters.
    memory: Vec<Option<Py<PyArray1<f32>>>>,
}

impl Variables {
    /// Describes the tables of the columns, and parameters.
    ///
    /// # Errors
    /// A description cannot be read; an optimizer is out of range, or moves rows that are not in use.
    pub(crate) fn new(job: &Job, columns: &Columns, parameters: Described) -> Result<Self, Error> {
        let mut optimizers = BTreeMap::from([(GROUP.to_owned(), custom_optimizer(job)?)]);
        let mut specs = Vec::new();
        let mut memory = Vec::with_capacity(parameters.len());
        for table in &columns.tables {
            let lookup = &table.lookup;
            let name = format!("{}/embedding_weights", variable_name(&lookup.table));
            let group = group(&name, lookup.optimizer.as_deref(), &mut optimizers)?;
            let rule = optimizers.get(&group);
            let moves_all = rule.is_some_and(OptimizerConfig::moves_all_rows);
            if moves_all && matches!(table.access, Access::Dynamic(_)) {
                return Err(Error::Invalid(format!(
                    "the optimizer of the dynamic table `{}` moves all rows at each step: use Adagrad, or Adam with \
                     lazy=True",
                    lookup.table
                )));
            }
            specs.push(VariableSpec {
                shape: vec![table.rows, lookup.dimension],
                access: table.access,
                initializer: initializer(&name, &lookup.initializer)?,
                optimizer_group: group,
                name,
            });
        }
        for parameter in parameters {
            let name = variable_name(&parameter.name);
            let own = parameter.optimizer.as_deref();
            let group = if parameter.moving {
                optimizers.insert(MOVING_AVERAGE.to_owned(), OptimizerConfig::sgd(1.0));
                MOVING_AVERAGE.to_owned()
            } else {
                group(&name, own, &mut optimizers)?
            };
            memory.push(parameter.values);
            specs.push(VariableSpec {
                shape: parameter.shape,
                access: Access::Whole,
                initializer: initializer(&name, &parameter.initializer)?,
                optimizer_group: group,
                name,
            });
        }
        Ok(Self {
            specs,
            optimizers,
            memory,
        })
    }

    /// Writes the values of the parameters into the module's own arrays, and returns those; a new array for each parameter that
    /// has none, so that the user's code may keep it.
    ///
    /// # Errors
    /// An array has another length than the values, or is in use.
    pub(crate) fn arrays<'p>(
        &self,
        python: Python<'p>,
        values: &[Vec<f32>],
    ) -> PyResult<Vec<Bound<'p, PyArray1<f32>>>> {
        let array = |(values, memory): (&Vec<f32>, &Option<Py<PyArray1<f32>>>)| {
            let Some(memory) = memory else {
                return Ok(values.clone().into_pyarray(python));
            };
            let memory = memory.bind(python);
            let mut writable = memory.try_readwrite()?;
            let own = writable.as_slice_mut()?;
            if own.len() != values.len() {
                return Err(PyValueError::new_err(format!(
                    "the array of a parameter must have {} values, has {}",
                    values.len(),
                    own.len()
                )));
            }
            own.copy_from_slice(values);
            Ok(memory.clone())
        };
        values.iter().zip(&self.memory).map(array).collect()
    }
}

/// Returns the name of a variable: every byte outside of `[A-Za-z0-9._/-]` becomes `%` and two hexadecimal digits, so that
/// different names stay different.
pub(crate) fn variable_name(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"._/-".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn initializer(name: &str, text: &str) -> Result<Initializer, Error> {
    serde_json::from_str(text)
        .map_err(|error| Error::Invalid(format!("the initializer of `{name}`, {text}: {error}")))
}

/// Returns the optimizer group of a variable: that of the module, or one of the variable's own.
fn group(
    name: &str,
    own: Option<&str>,
    optimizers: &mut BTreeMap<String, OptimizerConfig>,
) -> Result<String, Error> {
    let Some(text) = own else {
        return Ok(GROUP.to_owned());
    };
    let invalid = |error: &dyn std::fmt::Display| {
        Error::Invalid(format!("the optimizer of `{name}`, {text}: {error}"))
    };
    let config: OptimizerConfig = serde_json::from_str(text).map_err(|error| invalid(&error))?;
    config.validate().map_err(|error| invalid(&error))?;
    // A prefix, because a variable may be called as a group of several variables is.
    let group = format!("own/{name}");
    optimizers.insert(group.clone(), config);
    Ok(group)
}
