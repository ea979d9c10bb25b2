//! A SavedModel in an export: its graph, and the values of a checkpoint as a stream.

use std::path::Path;

use tracing::warn;
use trainyard_checkpoint::Checkpoint;
use trainyard_diagnostic::Diagnostic;
use trainyard_model::{AnyModel, Error, StoredValues};
use trainyard_predictor::ALL_IDS;
use trainyard_tensorflow_formats::saved_model::{FILE, VARIABLES};
use trainyard_tensorflow_formats::tensor_bundle::BundleWriter;
use trainyard_variable::{Initializer, VariableSpec};

use crate::exported::failed;

/// Largest data file of the variables, in bytes.
const SHARD_BYTES: u64 = 1 << 30;
/// Values that are read at once, in bytes.
const READ_BYTES: usize = 8 << 20;
/// Rows of a dynamic table above which a warning is logged: TensorFlow holds their ids in memory three times, and fills
/// a hash table with them before it answers.
const DYNAMIC_ROWS_WARN: usize = 10_000_000;

/// Writes the SavedModel of a model into a folder, and returns its description.
pub(crate) fn write(
    model: &AnyModel,
    checkpoint: &Checkpoint,
    folder: &Path,
) -> Result<serde_json::Value, Diagnostic> {
    let premade = model.premade().ok_or(Error::NoSavedModel)?;
    let saved = premade.saved_model(&|name| checkpoint.rows_used(name))?;
    for spec in model
        .variables()
        .iter()
        .filter(|spec| spec.dynamic().is_some())
    {
        let rows = checkpoint.rows_used(&spec.name);
        if rows > DYNAMIC_ROWS_WARN {
            warn!(table = %spec.name, rows, most = DYNAMIC_ROWS_WARN, "a SavedModel of this dynamic table loads slowly and needs much memory: trainyard serve does not");
        }
    }
    let variables = folder.join(VARIABLES);
    std::fs::create_dir_all(&variables).map_err(|error| failed(&variables, error))?;
    let tensors = saved.graph.variables().iter();
    let tensors = tensors.map(|variable| variable.spec.clone()).collect();
    let mut out = Out {
        checkpoint,
        folder,
        bundle: BundleWriter::new(&variables.join(VARIABLES), tensors, SHARD_BYTES),
    };
    for values in &saved.values {
        match *values {
            StoredValues::GlobalStep => {
                out.append(&checkpoint.manifest().global_step.to_le_bytes())?;
            }
            StoredValues::Variable(place) => out.variable(&model.variables()[place])?,
            StoredValues::Ids(place) => {
                let name = &model.variables()[place].name;
                for lot in checkpoint.lots(name, &[], ALL_IDS)? {
                    out.append(bytemuck::cast_slice(&lot?.ids))?;
                }
            }
        }
    }
    out.bundle.finish().map_err(|error| failed(folder, error))?;
    let file = folder.join(FILE);
    std::fs::write(&file, saved.graph.encode()).map_err(|error| failed(&file, error))?;
    Ok(saved.describe().clone())
}

/// Variables that are being written.
struct Out<'a> {
    checkpoint: &'a Checkpoint,
    folder: &'a Path,
    bundle: BundleWriter,
}

impl Out<'_> {
    fn append(&mut self, bytes: &[u8]) -> Result<(), Diagnostic> {
        let written = self.bundle.append(bytes);
        written.map_err(|error| failed(self.folder, error))
    }

    fn variable(&mut self, spec: &VariableSpec) -> Result<(), Diagnostic> {
        if spec.dynamic().is_some() {
            for lot in self.checkpoint.lots(&spec.name, &[], ALL_IDS)? {
                self.append(bytemuck::cast_slice(&lot?.values))?;
            }
            if let Some(shared) = spec.shared_row() {
                let mut row = vec![0.0; spec.width()];
                self.checkpoint
                    .read_rows(&shared.name, None, 0..1, &mut row)?;
                return self.append(bytemuck::cast_slice(&row));
            }
            // Initial values that are drawn at random have the mean 0.
            let other = match spec.initializer {
                Initializer::Constant { value } => value,
                Initializer::Uniform { low, high } => f32::midpoint(low, high),
                Initializer::Zeros
                | Initializer::GlorotUniform
                | Initializer::HeNormal
                | Initializer::Normal { .. }
                | Initializer::TruncatedNormal { .. } => 0.0,
            };
            return self.append(bytemuck::cast_slice(&vec![other; spec.width()]));
        }
        let width = spec.width().max(1);
        let at_once = (READ_BYTES / (4 * width)).max(1);
        let mut values = Vec::new();
        for begin in (0..spec.rows()).step_by(at_once) {
            let rows = begin..(begin + at_once).min(spec.rows());
            values.resize(rows.len() * spec.width(), 0.0_f32);
            self.checkpoint
                .read_rows(&spec.name, None, rows, &mut values)?;
            self.append(bytemuck::cast_slice(&values))?;
        }
        Ok(())
    }
}
