//! A variable of an export.

use safetensors::SafeTensorError;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::json;
use std::path::Path;
use trainyard_checkpoint::Checkpoint;
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_predictor::ALL_IDS;
use trainyard_storage::unwritten_of_size;
use trainyard_variable::VariableSpec;

/// Returns the error of a file that cannot be written.
pub(crate) fn failed<E: std::error::Error + 'static>(path: &Path, error: E) -> Diagnostic {
    failed_at_size(path, None, error)
}

/// Returns the error of a file of so many bytes, if it is known, that cannot be written.
pub(crate) fn failed_at_size<E: std::error::Error + 'static>(
    path: &Path,
    size: Option<u64>,
    error: E,
) -> Diagnostic {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(here) = cause {
        let of_tensors = match here.downcast_ref() {
            Some(SafeTensorError::IoError(error)) => Some(error),
            _ => None,
        };
        if let Some(error) = of_tensors.or(here.downcast_ref()) {
            return unwritten_of_size(path, error, size);
        }
        cause = here.source();
    }
    let message = format!("the export {} cannot be written: {error}", path.display());
    Diagnostic::error(Code::E9002, message).help("check the disk and the folder")
}

/// Returns the bytes of a variable in an export: all its rows, and for a dynamic table those in use with their ids.
pub(crate) fn value_bytes(checkpoint: &Checkpoint, spec: &VariableSpec) -> u64 {
    if spec.dynamic().is_none() {
        return spec.len() as u64 * 4;
    }
    checkpoint.rows_used(&spec.name) as u64 * (spec.width() as u64 * 4 + 8)
}

/// A variable in an export. A dynamic table is exported as its rows in use and their ids.
pub(crate) struct Exported<'a> {
    spec: &'a VariableSpec,
    pub(crate) values: Vec<f32>,
    ids: Option<Vec<u64>>,
}

impl<'a> Exported<'a> {
    /// Reads a variable of a checkpoint.
    pub(crate) fn read(
        checkpoint: &Checkpoint,
        spec: &'a VariableSpec,
    ) -> Result<Self, trainyard_checkpoint::Error> {
        if spec.dynamic().is_none() {
            return Ok(Self {
                spec,
                values: checkpoint.read(&spec.name)?,
                ids: None,
            });
        }
        let rows = checkpoint.read_dynamic(&spec.name, &[], ALL_IDS)?;
        Ok(Self {
            spec,
            values: rows.values,
            ids: Some(rows.ids),
        })
    }

    /// Returns the description of a variable whose values are not read.
    pub(crate) fn unread(checkpoint: &Checkpoint, spec: &VariableSpec) -> serde_json::Value {
        let name = &spec.name;
        if spec.dynamic().is_none() {
            return json!({"name": name, "shape": spec.shape});
        }
        let mut shape = spec.shape.clone();
        if let Some(rows) = shape.first_mut() {
            *rows = checkpoint.rows_used(name);
        }
        json!({"name": name, "shape": shape, "ids": format!("{name}/ids")})
    }

    fn ids_name(&self) -> String {
        format!("{}/ids", self.spec.name)
    }

    fn shape(&self) -> Vec<usize> {
        let mut shape = self.spec.shape.clone();
        if let (Some(ids), Some(rows)) = (&self.ids, shape.first_mut()) {
            *rows = ids.len();
        }
        shape
    }

    /// Returns the tensors of the variable by name.
    pub(crate) fn views(
        &self,
    ) -> Result<Vec<(String, TensorView<'_>)>, safetensors::SafeTensorError> {
        let values = TensorView::new(Dtype::F32, self.shape(), bytemuck::cast_slice(&self.values))?;
        let mut views = vec![(self.spec.name.clone(), values)];
        if let Some(ids) = &self.ids {
            let ids = TensorView::new(Dtype::U64, vec![ids.len()], bytemuck::cast_slice(ids))?;
            views.push((self.ids_name(), ids));
        }
        Ok(views)
    }

    /// Returns the description of the variable, for readers of the export.
    pub(crate) fn describe(&self, checkpoint: &Checkpoint) -> serde_json::Value {
        let name = &self.spec.name;
        let shape = self.shape();
        let crc32c = crc32c::crc32c(bytemuck::cast_slice(&self.values));
        match &self.ids {
            None => json!({"name": name, "shape": shape, "crc32c": crc32c}),
            // `others` describes the initial values of ids without a row, which read them unless there is a `shared_row`.
            Some(ids) => {
                let mut described = json!({
                    "name": name, "shape": shape, "crc32c": crc32c,
                    "ids": self.ids_name(), "ids_crc32c": crc32c::crc32c(bytemuck::cast_slice(ids)),
                    "others": checkpoint.first_rows(name).map(|first| {
                        json!({"initializer": first.initializer, "seed": first.seed, "shape": first.shape})
                    }),
                });
                if let Some(shared) = self.spec.shared_row() {
                    described["shared_row"] = json!(shared.name);
                }
                described
            }
        }
    }
}
