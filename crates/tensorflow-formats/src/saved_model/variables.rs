//! Variables of a graph, and the nodes that save and restore them.

use prost::Message as _;

use super::{Attribute, Edge, Graph, Node};
use crate::generated::saver_def::CheckpointFormatVersion;
use crate::generated::{DataType, SaverDef, VariableDef};
use crate::tensor_bundle::TensorSpec;

/// A variable of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Name, type and shape in the tensor bundle.
    pub spec: TensorSpec,
    handle: Edge,
    initial: String,
    assign: String,
    read: Edge,
}

impl Variable {
    /// Returns the node that reads the values, whole.
    pub(super) fn read(&self) -> &Edge {
        &self.read
    }

    /// Returns the handle, for operations that read some rows.
    pub(super) fn handle(&self) -> &Edge {
        &self.handle
    }

    /// Returns the encoded `VariableDef`.
    pub(super) fn encode(&self) -> Vec<u8> {
        VariableDef {
            variable_name: self.handle.tensor(),
            initializer_name: self.assign.clone(),
            snapshot_name: self.read.tensor(),
            is_resource: true,
            initial_value_name: self.initial.clone(),
            // Nobody trains an export.
            trainable: false,
        }
        .encode_to_vec()
    }
}

impl Graph {
    /// Adds a variable. Its initial values are zeros, until they are restored.
    pub fn variable(&mut self, name: &str, dtype: DataType, shape: &[usize]) -> Variable {
        let known: Vec<Option<usize>> = shape.iter().copied().map(Some).collect();
        let handle_attributes = vec![
            ("allowed_devices", Attribute::Types(Vec::new())),
            ("container", Attribute::Text(String::new())),
            ("dtype", Attribute::Type(dtype)),
            ("shape", Attribute::Shape(known)),
            ("shared_name", Attribute::Text(name.to_owned())),
        ];
        let handle = self.one(
            "VarHandleOp",
            name,
            &[],
            (handle_attributes, DataType::DtResource),
        );
        let node = handle.node().to_owned();
        self.one(
            "VarIsInitializedOp",
            &format!("{node}/IsInitialized/VarIsInitializedOp"),
            &[&handle],
            (Vec::new(), DataType::DtBool),
        );
        let sizes: Vec<i64> = shape.iter().map(|size| *size as i64).collect();
        let sizes = self.list(&sizes);
        let zero = self.zero(dtype);
        let initial = self.fill(&format!("{node}/Initializer/zeros"), &sizes, &zero);
        let assign = self.action(
            "AssignVariableOp",
            &format!("{node}/Assign"),
            &[&handle, &initial],
            assigning(dtype),
        );
        let read = self.one(
            "ReadVariableOp",
            &format!("{node}/Read/ReadVariableOp"),
            &[&handle],
            (vec![("dtype", Attribute::Type(dtype))], dtype),
        );
        let variable = Variable {
            spec: TensorSpec {
                name: name.to_owned(),
                dtype,
                shape: shape.to_vec(),
            },
            initial: initial.tensor(),
            handle,
            assign,
            read,
        };
        self.variables.push(variable.clone());
        variable
    }

    /// Returns all values of a variable.
    pub fn read_variable(&self, variable: &Variable) -> Edge {
        variable.read().clone()
    }

    /// Adds the nodes of a saver (`tf.compat.v1.train.Saver`), and returns their names.
    pub(super) fn saver(&mut self) -> SaverDef {
        let variables = self.variables.clone();
        let filename = self.texts("save/Const", &[], &["model".to_owned()]);
        let names: Vec<String> = variables
            .iter()
            .map(|known| known.spec.name.clone())
            .collect();
        let names = self.texts("save/tensor_names", &[names.len()], &names);
        let whole = vec![String::new(); variables.len()];
        let whole = self.texts("save/shape_and_slices", &[whole.len()], &whole);
        let dtypes: Vec<DataType> = variables.iter().map(|known| known.spec.dtype).collect();
        let typed = || vec![("dtypes", Attribute::Types(dtypes.clone()))];
        let mut inputs = vec![&filename, &names, &whole];
        inputs.extend(variables.iter().map(Variable::read));
        let save = self.action("SaveV2", "save/SaveV2", &inputs, typed());
        let saved = self.node(Node {
            operation: "Identity",
            name: "save/Identity",
            inputs: &[&filename],
            after: &[save],
            attributes: vec![("T", Attribute::Type(DataType::DtString))],
            outputs: &[DataType::DtString],
        });
        let restored = self.node(Node {
            operation: "RestoreV2",
            name: "save/RestoreV2",
            inputs: &[&filename, &names, &whole],
            after: &[],
            attributes: typed(),
            outputs: &dtypes,
        });
        let assigned: Vec<String> = variables
            .iter()
            .zip(&restored)
            .map(|(variable, values)| {
                self.action(
                    "AssignVariableOp",
                    "save/AssignVariableOp",
                    &[variable.handle(), values],
                    assigning(variable.spec.dtype),
                )
            })
            .collect();
        let restore = self.group("save/restore_all", &assigned);
        SaverDef {
            filename_tensor_name: filename.tensor(),
            save_tensor_name: saved[0].tensor(),
            restore_op_name: restore,
            max_to_keep: 5,
            sharded: false,
            keep_checkpoint_every_n_hours: 10_000.0,
            version: CheckpointFormatVersion::V2.into(),
        }
    }
}

fn assigning(dtype: DataType) -> Vec<(&'static str, Attribute)> {
    vec![
        ("dtype", Attribute::Type(dtype)),
        ("validate_shape", Attribute::Bool(false)),
    ]
}
