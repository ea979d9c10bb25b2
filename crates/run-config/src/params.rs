//! `[model.params]`: keys of a custom model's own, which it reads by name and type.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use serde_json::Value;
use trainyard_diagnostic::{Code, Diagnostic, Place, Table};

/// The values of `[model.params]` (the argument `params` of `tf.estimator.Estimator`).
#[derive(Debug, Clone, Default)]
pub struct Params {
    values: BTreeMap<String, Value>,
    /// Places of the values in the job file, for messages.
    places: BTreeMap<String, Place>,
}

/// A value of `[model.params]` that the model cannot use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamError(Box<Diagnostic>);

impl Params {
    /// Returns the values of a table.
    pub(crate) fn of(table: &Table) -> Result<Self, serde_json::Error> {
        let mut params = Self::default();
        for (name, _, node) in &table.entries {
            let value = serde_json::to_value(&node.value)?;
            params.values.insert(name.clone(), value);
            params.places.insert(name.clone(), node.place.clone());
        }
        Ok(params)
    }

    /// Returns whether the job has no such key.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// The job has no such key, or its value is of another type.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Result<T, ParamError> {
        match self.values.get(key) {
            Some(value) => self.read(key, value),
            None => {
                let message = format!("missing key `{key}` in [model.params]");
                let problem = Diagnostic::error(Code::E1005, message)
                    .help("add it: the model reads this key");
                Err(ParamError(Box::new(problem)))
            }
        }
    }

    /// Returns the value of a key, or `default` without such a key.
    ///
    /// # Errors
    /// The value is of another type.
    pub fn get_or<T: DeserializeOwned>(&self, key: &str, default: T) -> Result<T, ParamError> {
        match self.values.get(key) {
            Some(value) => self.read(key, value),
            None => Ok(default),
        }
    }

    fn read<T: DeserializeOwned>(&self, key: &str, value: &Value) -> Result<T, ParamError> {
        serde_json::from_value(value.clone()).map_err(|error| {
            let message = format!("the model cannot read model.params.{key}: {error}");
            let problem = Diagnostic::error(Code::E1002, message)
                .help("give a value of the type that the model expects");
            ParamError(Box::new(match self.places.get(key) {
                Some(place) => problem.at(place.clone()),
                None => problem,
            }))
        })
    }
}

/// Values are compared, and their places are not.
impl PartialEq for Params {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values
    }
}

impl Serialize for Params {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.values.serialize(serializer)
    }
}

impl std::fmt::Display for ParamError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(formatter)
    }
}

impl std::error::Error for ParamError {}

impl From<ParamError> for Diagnostic {
    fn from(error: ParamError) -> Self {
        *error.0
    }
}
