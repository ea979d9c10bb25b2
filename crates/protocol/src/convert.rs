//! Conversions between generated messages and the domain's types. They check everything that comes from a peer.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use serde::de::DeserializeOwned;
use trainyard_cluster_spec::{Role, Task};
use trainyard_optimizer::OptimizerConfig;
use trainyard_variable::{Access, DynamicTable, Slice, VariableSpec};

use crate::limits::{DYNAMIC_ROWS_MAX, NAME_BYTES_MAX, VARIABLES_MAX};
use crate::payload::Encoding;
use crate::v1::parameter::Value;
use crate::{shown, v1};

/// An invalid message.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("field `{field}` {rule}, given {given}")]
pub struct Invalid {
    /// The field.
    pub field: &'static str,
    /// The rule for its value.
    pub rule: &'static str,
    /// The given value.
    pub given: String,
}

fn invalid(field: &'static str, rule: &'static str, given: impl ToString) -> Invalid {
    Invalid {
        field,
        rule,
        given: given.to_string(),
    }
}

/// Returns the wire form of a task.
pub fn task_to_wire(task: Task) -> v1::Task {
    let role = match task.role {
        Role::Chief => v1::Role::Chief,
        Role::Worker => v1::Role::Worker,
        Role::Ps => v1::Role::Ps,
        Role::Evaluator => v1::Role::Evaluator,
    };
    v1::Task {
        role: role.into(),
        index: u32::try_from(task.index).unwrap_or(u32::MAX),
    }
}

/// Returns the task in a message.
///
/// # Errors
/// The message has no task, or its role is unknown.
pub fn task_from_wire(task: Option<v1::Task>) -> Result<Task, Invalid> {
    let task = task.ok_or_else(|| invalid("task", "must be set", "nothing"))?;
    let role = match task.role() {
        v1::Role::Chief => Role::Chief,
        v1::Role::Worker => Role::Worker,
        v1::Role::Ps => Role::Ps,
        v1::Role::Evaluator => Role::Evaluator,
        v1::Role::Unspecified => {
            return Err(invalid(
                "task.role",
                "must be chief, worker, ps or evaluator",
                task.role,
            ));
        }
    };
    Ok(Task {
        role,
        index: task.index as usize,
    })
}

/// Returns the wire form of an encoding.
pub fn encoding_to_wire(encoding: Encoding) -> v1::Encoding {
    match encoding {
        Encoding::Float32 => v1::Encoding::Float32,
        Encoding::Bfloat16 => v1::Encoding::Bfloat16,
        Encoding::Float16 => v1::Encoding::Float16,
    }
}

/// Returns the encoding that a message names.
///
/// # Errors
/// The encoding is unknown.
pub fn encoding_from_wire(encoding: i32) -> Result<Encoding, Invalid> {
    match v1::Encoding::try_from(encoding) {
        Ok(v1::Encoding::Unspecified | v1::Encoding::Float32) => Ok(Encoding::Float32),
        Ok(v1::Encoding::Bfloat16) => Ok(Encoding::Bfloat16),
        Ok(v1::Encoding::Float16) => Ok(Encoding::Float16),
        Err(_) => Err(invalid(
            "encoding",
            "must be float32, bfloat16 or float16",
            encoding,
        )),
    }
}

/// Returns the 128-bit cluster id in a message.
///
/// # Errors
/// The id is not 16 bytes long.
pub fn cluster_id_from_wire(bytes: &[u8]) -> Result<u128, Invalid> {
    let array = <[u8; 16]>::try_from(bytes).map_err(|_| {
        invalid(
            "cluster_id",
            "must be 16 bytes long",
            format!("{} bytes", bytes.len()),
        )
    })?;
    Ok(u128::from_be_bytes(array))
}

/// Returns the wire form of a cluster id.
pub fn cluster_id_to_wire(id: u128) -> bytes::Bytes {
    bytes::Bytes::copy_from_slice(&id.to_be_bytes())
}

/// Most dimensions of a variable.
const DIMENSIONS_MAX: usize = 32;
/// Most numbers of one parameter: the boundaries of a schedule.
const NUMBERS_MAX: usize = 4096;

/// Returns a tagged configuration (`kind` and its parameters) as a message.
fn configuration_to_wire(config: &impl Serialize) -> v1::Configuration {
    match serde_json::to_value(config) {
        Ok(serde_json::Value::Object(fields)) => fields_to_wire(fields),
        _ => v1::Configuration::default(),
    }
}

fn fields_to_wire(fields: serde_json::Map<String, serde_json::Value>) -> v1::Configuration {
    let mut message = v1::Configuration::default();
    for (key, field) in fields {
        let value = match field {
            serde_json::Value::String(kind) if key == "kind" => {
                message.kind = kind;
                continue;
            }
            serde_json::Value::Bool(flag) => Value::Flag(flag),
            serde_json::Value::Array(items) => Value::Numbers(v1::Numbers {
                values: items.iter().filter_map(|item| item.as_f64()).collect(),
            }),
            serde_json::Value::Object(fields) => Value::Configuration(fields_to_wire(fields)),
            other => match other.as_f64() {
                Some(number) => Value::Number(number),
                None => continue,
            },
        };
        message
            .parameters
            .insert(key, v1::Parameter { value: Some(value) });
    }
    message
}

fn configuration_from_wire<T: DeserializeOwned>(
    field: &'static str,
    message: Option<v1::Configuration>,
) -> Result<T, Invalid> {
    let message = message.ok_or_else(|| invalid(field, "must be set", "nothing"))?;
    let given = format!("kind `{}`", shown(&message.kind));
    let wrong = || invalid(field, "must be a known kind with its parameters", given);
    match fields_from_wire(message, NESTED_MAX) {
        Some(fields) => serde_json::from_value(fields.into()).map_err(|_| wrong()),
        None => Err(wrong()),
    }
}

/// Most configurations in each other below the outermost one: an optimizer has a warm-up, and that a schedule.
const NESTED_MAX: usize = 2;

/// Returns the fields of a configuration; nothing if more than `nested` configurations are in each other below it, or if there are too
/// many numbers.
fn fields_from_wire(
    message: v1::Configuration,
    nested: usize,
) -> Option<serde_json::Map<String, serde_json::Value>> {
    let mut fields = serde_json::Map::from_iter([("kind".to_owned(), message.kind.into())]);
    for (key, parameter) in message.parameters {
        let value: serde_json::Value = match parameter.value {
            Some(Value::Number(number)) => number.into(),
            Some(Value::Flag(flag)) => flag.into(),
            Some(Value::Numbers(numbers)) if numbers.values.len() <= NUMBERS_MAX => {
                numbers.values.into()
            }
            Some(Value::Configuration(inner)) if nested > 0 => {
                fields_from_wire(inner, nested - 1)?.into()
            }
            Some(_) => return None,
            None => continue,
        };
        fields.insert(key, value);
    }
    Some(fields)
}

/// Returns the wire form of the optimizers by group.
pub fn optimizers_to_wire(
    optimizers: &BTreeMap<String, OptimizerConfig>,
) -> HashMap<String, v1::Configuration> {
    optimizers
        .iter()
        .map(|(group, config)| (group.clone(), configuration_to_wire(config)))
        .collect()
}

/// Returns the optimizers in a message.
///
/// # Errors
/// An optimizer has an unknown kind or lacks a parameter.
pub fn optimizers_from_wire(
    optimizers: HashMap<String, v1::Configuration>,
) -> Result<BTreeMap<String, OptimizerConfig>, Invalid> {
    optimizers
        .into_iter()
        .map(|(group, config)| Ok((group, configuration_from_wire("optimizers", Some(config))?)))
        .collect()
}

/// Returns the wire form of a variable.
pub fn variable_to_wire(spec: &VariableSpec) -> v1::Variable {
    let access = match spec.access {
        Access::Whole => v1::Access::Whole,
        Access::Rows => v1::Access::Rows,
        Access::Dynamic(_) => v1::Access::Dynamic,
    };
    let never = |after: Option<u64>| after.unwrap_or(0);
    let dynamic = spec.dynamic().map(|table| v1::DynamicTable {
        admit_after: table.admit_after,
        expire_after_steps: never(table.expire_after_steps),
        expire_after_secs: never(table.expire_after_secs),
        shared_row: table.shared_row,
    });
    v1::Variable {
        name: spec.name.clone(),
        shape: spec
            .shape
            .iter()
            .map(|&dimension| dimension as u64)
            .collect(),
        access: access.into(),
        initializer: Some(configuration_to_wire(&spec.initializer)),
        optimizer_group: spec.optimizer_group.clone(),
        dynamic,
    }
}

/// Returns the variables in a message.
///
/// # Errors
/// There are too many variables, or a variable has no valid name, shape, access or initializer.
pub fn variables_from_wire(variables: Vec<v1::Variable>) -> Result<Vec<VariableSpec>, Invalid> {
    if variables.len() > VARIABLES_MAX {
        return Err(invalid(
            "variables",
            "must be at most 100000",
            variables.len(),
        ));
    }
    variables.into_iter().map(variable_from_wire).collect()
}

fn variable_from_wire(variable: v1::Variable) -> Result<VariableSpec, Invalid> {
    if variable.name.is_empty() || variable.name.len() > NAME_BYTES_MAX {
        return Err(invalid(
            "variable.name",
            "must be 1 to 255 bytes long",
            variable.name.len(),
        ));
    }
    let access = match variable.access() {
        v1::Access::Whole => Access::Whole,
        v1::Access::Rows => Access::Rows,
        v1::Access::Dynamic => Access::Dynamic(dynamic_from_wire(&variable)?),
        v1::Access::Unspecified => {
            return Err(invalid(
                "variable.access",
                "must be whole, rows or dynamic",
                variable.access,
            ));
        }
    };
    if variable.shape.len() > DIMENSIONS_MAX {
        return Err(invalid(
            "variable.shape",
            "must have at most 32 dimensions",
            variable.shape.len(),
        ));
    }
    let shape: Option<Vec<usize>> = variable
        .shape
        .iter()
        .map(|&dimension| usize::try_from(dimension).ok())
        .collect();
    let size = |shape: &Vec<usize>| {
        shape
            .iter()
            .try_fold(4_usize, |bytes, &dimension| bytes.checked_mul(dimension))
    };
    let shape = shape.filter(|shape| size(shape).is_some()).ok_or_else(|| {
        invalid(
            "variable.shape",
            "must fit the address space",
            format!("{:?}", variable.shape),
        )
    })?;
    Ok(VariableSpec {
        name: variable.name,
        shape,
        access,
        initializer: configuration_from_wire("variable.initializer", variable.initializer)?,
        optimizer_group: variable.optimizer_group,
    })
}

fn dynamic_from_wire(variable: &v1::Variable) -> Result<DynamicTable, Invalid> {
    let table = variable
        .dynamic
        .ok_or_else(|| invalid("variable.dynamic", "must be set", "nothing"))?;
    if table.admit_after == 0 {
        return Err(invalid(
            "variable.dynamic.admit_after",
            "must be at least 1",
            table.admit_after,
        ));
    }
    let rows_max = variable.shape.first().copied().unwrap_or(0);
    if rows_max == 0 || rows_max > DYNAMIC_ROWS_MAX as u64 {
        return Err(invalid(
            "variable.shape",
            "must begin with 1 to 4294967295 rows",
            rows_max,
        ));
    }
    let after = |count: u64| (count > 0).then_some(count);
    Ok(DynamicTable {
        admit_after: table.admit_after,
        expire_after_steps: after(table.expire_after_steps),
        expire_after_secs: after(table.expire_after_secs),
        shared_row: table.shared_row,
    })
}

/// Returns the wire form of slice `number`.
pub fn slice_to_wire(number: usize, slice: &Slice) -> v1::Slice {
    v1::Slice {
        number: number as u32,
        variable: slice.variable as u32,
        part: slice.part as u32,
        row_begin: slice.rows.start as u64,
        row_end: slice.rows.end as u64,
    }
}

/// Returns the number and the slice in a message, on parameter server `ps`.
///
/// # Errors
/// The slice names a variable or rows that do not exist.
pub fn slice_from_wire(
    slice: &v1::Slice,
    variables: &[VariableSpec],
    ps: usize,
) -> Result<(u32, Slice), Invalid> {
    let variable = slice.variable as usize;
    let spec = variables.get(variable).ok_or_else(|| {
        invalid(
            "slice.variable",
            "must be an index of `variables`",
            slice.variable,
        )
    })?;
    if slice.row_begin > slice.row_end || slice.row_end > spec.rows() as u64 {
        let given = format!("{}..{} of {}", slice.row_begin, slice.row_end, spec.rows());
        return Err(invalid("slice.rows", "must lie within the variable", given));
    }
    let rows = slice.row_begin as usize..slice.row_end as usize;
    Ok((
        slice.number,
        Slice {
            variable,
            part: slice.part as usize,
            rows,
            width: spec.width(),
            ps,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_variable::Initializer;

    #[test]
    fn variables_and_optimizers_survive_the_wire() {
        let spec = VariableSpec {
            name: "dnn/hiddenlayer_0/kernel".into(),
            shape: vec![3, 4],
            access: Access::Whole,
            initializer: Initializer::TruncatedNormal { stddev: 0.1 },
            optimizer_group: "dnn".into(),
        };
        let table = DynamicTable {
            admit_after: 3,
            expire_after_steps: Some(9),
            expire_after_secs: None,
            shared_row: true,
        };
        let dynamic = VariableSpec {
            access: Access::Dynamic(table),
            ..spec.clone()
        };
        let wire = vec![variable_to_wire(&spec), variable_to_wire(&dynamic)];
        assert_eq!(variables_from_wire(wire), Ok(vec![spec, dynamic]));
        let schedule = serde_json::json!({
            "kind": "adam", "lazy": true, "beta1": 0.5,
            "learning_rate": {"kind": "piecewise_constant", "boundaries": [10.0], "values": [0.5, 0.25]},
        });
        let adam: OptimizerConfig = serde_json::from_value(schedule).unwrap();
        let optimizers = BTreeMap::from([
            ("dnn".to_owned(), adam),
            ("linear".to_owned(), OptimizerConfig::sgd(0.5)),
        ]);
        assert_eq!(
            optimizers_from_wire(optimizers_to_wire(&optimizers)),
            Ok(optimizers)
        );
    }

    #[test]
    fn a_warm_up_before_each_schedule_survives_the_wire() {
        for schedule in [
            serde_json::json!({"kind": "exponential_decay", "learning_rate": 0.5, "decay_steps": 10.0, "decay_rate": 0.5, "staircase": true}),
            serde_json::json!({"kind": "polynomial_decay", "learning_rate": 0.5, "decay_steps": 10.0, "end_learning_rate": 0.125, "power": 1.0, "cycle": true}),
            serde_json::json!({"kind": "cosine_decay", "learning_rate": 0.5, "decay_steps": 10.0, "alpha": 0.25}),
            serde_json::json!({"kind": "piecewise_constant", "boundaries": [10.0], "values": [0.5, 0.25]}),
        ] {
            let warmup = serde_json::json!({"kind": "warmup", "warmup_steps": 4.0, "learning_rate": schedule});
            let adam = serde_json::json!({"kind": "adam", "learning_rate": warmup});
            let adam: OptimizerConfig = serde_json::from_value(adam).unwrap();
            let optimizers = BTreeMap::from([("dnn".to_owned(), adam)]);
            assert_eq!(
                optimizers_from_wire(optimizers_to_wire(&optimizers)),
                Ok(optimizers)
            );
        }
    }

    #[test]
    fn configurations_that_are_nested_too_often_are_refused() {
        let mut config = serde_json::json!(0.5);
        for _ in 0..3 {
            config =
                serde_json::json!({"kind": "warmup", "warmup_steps": 4.0, "learning_rate": config});
        }
        let serde_json::Value::Object(fields) = config else {
            panic!("{config}")
        };
        let mut message = fields_to_wire(fields);
        assert!(fields_from_wire(message.clone(), NESTED_MAX).is_some());
        let inner = v1::Parameter {
            value: Some(Value::Configuration(message.clone())),
        };
        message.parameters.insert("learning_rate".to_owned(), inner);
        assert!(fields_from_wire(message, NESTED_MAX).is_none());
    }

    #[test]
    fn shapes_and_tables_out_of_range_are_refused() {
        let wire = v1::Variable {
            name: "huge".into(),
            shape: vec![u64::MAX, 2],
            access: v1::Access::Rows.into(),
            initializer: Some(configuration_to_wire(&Initializer::Zeros)),
            optimizer_group: "dnn".into(),
            dynamic: None,
        };
        let table = v1::DynamicTable {
            admit_after: 1,
            ..v1::DynamicTable::default()
        };
        let dynamic = |shape: Vec<u64>, admit_after| v1::Variable {
            shape,
            access: v1::Access::Dynamic.into(),
            dynamic: Some(v1::DynamicTable {
                admit_after,
                ..table
            }),
            ..wire.clone()
        };
        let lacking = v1::Variable {
            access: v1::Access::Dynamic.into(),
            shape: vec![1],
            ..wire.clone()
        };
        for (variable, field) in [
            (dynamic(vec![1 << 32, 2], 1), "variable.shape"),
            (dynamic(vec![0, 2], 1), "variable.shape"),
            (dynamic(vec![4, 2], 0), "variable.dynamic.admit_after"),
            (lacking, "variable.dynamic"),
            (wire, "variable.shape"),
        ] {
            assert_eq!(
                variables_from_wire(vec![variable]).unwrap_err().field,
                field
            );
        }
    }

    #[test]
    fn an_unknown_optimizer_is_refused() {
        let config = v1::Configuration {
            kind: "adamm".into(),
            parameters: HashMap::new(),
        };
        let error = optimizers_from_wire(HashMap::from([("dnn".into(), config)])).unwrap_err();
        assert_eq!(
            (error.field, error.given.as_str()),
            ("optimizers", "kind `adamm`")
        );
    }
}
