//! Origin of trained values: a checkpoint of this program or of TensorFlow, an export, or files of other programs.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_storage::is_remote;
use trainyard_tensorflow_formats::tensor_bundle::Bundle;
use trainyard_variable::{DynamicRows, FirstRows};

use crate::{Checkpoint, Error, TensorFiles, is_committed, latest_good};

/// Local paths that [`Origin::open`] accepts, for messages.
const FORMS: &str = "give a model_dir, a folder model.ckpt-<step> in it, an export, a .safetensors or .npy file, or the prefix of a \
                     TensorFlow checkpoint";

/// Iterator over the rows of a dynamic table, some at a time.
pub type OriginLots<'a> = Box<dyn Iterator<Item = Result<DynamicRows, Error>> + 'a>;

/// Source of trained values.
#[derive(Debug)]
pub enum Origin {
    /// A checkpoint of this program.
    Own(Arc<Checkpoint>),
    /// A checkpoint of TensorFlow.
    TensorFlow(Bundle),
    /// An export, or files of other programs.
    Tensors(TensorFiles),
}

impl Origin {
    /// Opens an origin: a folder `model.ckpt-<step>`; a model directory, of which the latest good checkpoint is used, and
    /// damaged ones are reported to `warn`; the prefix, index file or folder of a TensorFlow checkpoint; or a path that
    /// [`TensorFiles::open`] accepts.
    ///
    /// # Errors
    /// The path holds none of these, or a file is damaged.
    pub fn open(path: &Path, warn: &mut dyn FnMut(Diagnostic)) -> Result<Self, Diagnostic> {
        if is_committed(path)? {
            return Ok(Self::Own(Arc::new(Checkpoint::open(path)?)));
        }
        if path.extension().is_some()
            && let Some(files) = TensorFiles::open(path)?
        {
            return Ok(Self::Tensors(files));
        }
        if is_remote(path) {
            if let Some(checkpoint) = latest_good(path, warn)? {
                return Ok(Self::Own(Arc::new(checkpoint)));
            }
            return TensorFiles::open(path)?.map(Self::Tensors).ok_or_else(|| {
                let message = format!("no checkpoint and no export at {}", path.display());
                Diagnostic::error(Code::E3004, message)
                    .help("give a model_dir, a checkpoint in it, or an export; copy a TensorFlow checkpoint to this machine first")
            });
        }
        let index = path.with_file_name(format!(
            "{}.index",
            path.file_name()
                .map(|name| name.to_string_lossy())
                .unwrap_or_default()
        ));
        if !path.exists() && !index.exists() {
            let message = format!("no checkpoint at {}", path.display());
            return Err(Diagnostic::error(Code::E3004, message).help(FORMS));
        }
        if path.is_dir() {
            if let Some(checkpoint) = latest_good(path, warn)? {
                return Ok(Self::Own(Arc::new(checkpoint)));
            }
            if let Some(files) = TensorFiles::open(path)? {
                return Ok(Self::Tensors(files));
            }
        }
        let of_tensorflow = if path.is_dir() {
            path.join("checkpoint").exists()
        } else {
            index.exists() || path.extension().is_some_and(|ending| ending == "index")
        };
        if !of_tensorflow {
            let message = format!(
                "{} is no checkpoint and no export, and holds none",
                path.display()
            );
            return Err(Diagnostic::error(Code::E3004, message).help(FORMS));
        }
        Ok(Self::TensorFlow(Bundle::open(path)?))
    }

    /// Returns the global step of the values, if it is known.
    pub fn global_step(&self) -> Option<u64> {
        match self {
            Self::Own(checkpoint) => Some(checkpoint.manifest().global_step),
            Self::TensorFlow(_) => None,
            Self::Tensors(files) => files.global_step(),
        }
    }

    /// Returns the job of the run that trained the values, one line per key; nothing if that is not recorded.
    pub fn job(&self) -> &[String] {
        match self {
            Self::Own(checkpoint) => &checkpoint.manifest().job,
            Self::TensorFlow(_) => &[],
            Self::Tensors(files) => files.job(),
        }
    }

    /// Returns the names and shapes of the variables. Of a TensorFlow checkpoint, these are the floating-point tensors.
    pub fn variables(&self) -> Vec<(String, Vec<usize>)> {
        match self {
            Self::Own(checkpoint) => {
                let specs = checkpoint.manifest().variables.iter();
                specs
                    .map(|spec| (spec.name.clone(), spec.shape.clone()))
                    .collect()
            }
            Self::TensorFlow(bundle) => bundle
                .tensors()
                .filter(|tensor| tensor.dtype.is_float())
                .map(|tensor| (tensor.name.clone(), tensor.shape.clone()))
                .collect(),
            Self::Tensors(files) => files
                .variables()
                .map(|(name, shape)| (name.to_owned(), shape.to_vec()))
                .collect(),
        }
    }

    /// Returns whether a variable is a dynamic table. TensorFlow has no dynamic tables.
    pub fn is_dynamic(&self, variable: &str) -> bool {
        match self {
            Self::Own(checkpoint) => {
                let found = checkpoint
                    .manifest()
                    .variables
                    .iter()
                    .find(|spec| spec.name == variable);
                found.is_some_and(|spec| spec.dynamic().is_some())
            }
            Self::TensorFlow(_) => false,
            Self::Tensors(files) => files.is_dynamic(variable),
        }
    }

    /// Reads the rows of a dynamic table whose ids are in `ids`, without slots, some at a time.
    ///
    /// # Errors
    /// The origin holds no such table, or the table is damaged.
    pub fn lots<'a>(
        &'a self,
        variable: &'a str,
        ids: Range<u128>,
    ) -> Result<OriginLots<'a>, Diagnostic> {
        match self {
            Self::Own(checkpoint) => Ok(Box::new(checkpoint.lots(variable, &[], ids)?)),
            Self::Tensors(files) => Ok(Box::new(files.lots(variable, ids)?)),
            Self::TensorFlow(_) => {
                let message =
                    format!("a TensorFlow checkpoint holds no dynamic table `{variable}`");
                Err(Diagnostic::error(Code::E3002, message)
                    .help("leave it out with train.warm_start.variables"))
            }
        }
    }

    /// Returns the held rows among `rows` of a variable, ascending. The other rows have their initial values. Only
    /// checkpoints of this program may lack rows.
    ///
    /// # Errors
    /// The variable is absent or damaged.
    pub fn held(
        &self,
        variable: &str,
        rows: Range<usize>,
    ) -> Result<Vec<Range<usize>>, Diagnostic> {
        match self {
            Self::Own(checkpoint) => Ok(checkpoint.held(variable, rows)?),
            Self::TensorFlow(_) | Self::Tensors(_) => Ok(vec![rows]),
        }
    }

    /// Reads the held rows among `rows` into `out`, without gaps.
    ///
    /// # Errors
    /// The variable is absent, has another shape, or is damaged.
    pub fn read_held(
        &self,
        variable: &str,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), Diagnostic> {
        match self {
            Self::Own(checkpoint) => Ok(checkpoint.read_held(variable, None, rows, out)?),
            Self::TensorFlow(bundle) => Ok(bundle.read_f32_rows(variable, rows, out)?),
            Self::Tensors(files) => Ok(files.read_rows(variable, rows, out)?),
        }
    }

    /// Returns the rule of the initial values of rows or ids that are not held, if the origin stores it.
    pub fn first_rows(&self, variable: &str) -> Option<FirstRows> {
        match self {
            Self::Own(checkpoint) => checkpoint.first_rows(variable),
            Self::TensorFlow(_) => None,
            Self::Tensors(files) => files.first_rows(variable),
        }
    }

    /// Reads `rows` of a variable into `out`. Rows that are not held get their initial values.
    ///
    /// # Errors
    /// The variable is absent, has another shape, or is damaged.
    pub fn read_rows(
        &self,
        variable: &str,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), Diagnostic> {
        match self {
            Self::Own(checkpoint) => Ok(checkpoint.read_rows(variable, None, rows, out)?),
            Self::TensorFlow(bundle) => Ok(bundle.read_f32_rows(variable, rows, out)?),
            Self::Tensors(files) => Ok(files.read_rows(variable, rows, out)?),
        }
    }
}
