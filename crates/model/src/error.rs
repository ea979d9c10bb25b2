//! Errors of models.

use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_run_config::ParamError;

/// Reasons for which a batch cannot be used, or a model cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The job describes a model that cannot be built.
    #[error("the model cannot be built: {0}")]
    Invalid(String),
    /// A key of `[model.params]` is missing, or of another type than the model reads.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// A value of a batch cannot be used.
    #[error("column `{column}`: {message}")]
    Value {
        /// The input column.
        column: String,
        /// Rule, then value.
        message: String,
    },
    /// The code of a custom model has failed.
    #[error("the code of the model has failed at {place}: {message}")]
    Failed {
        /// What it was doing, for example the batch.
        place: String,
        /// The failure, as the code tells it.
        message: String,
        /// Calls that led to it, one per line; may be empty.
        trace: String,
    },
    /// Training or evaluation needs labels, and the batch has none.
    #[error("the batch has no label column, as training and evaluation need")]
    NoLabel,
    /// ONNX lacks an operation that features of the job need.
    #[error("ONNX has no operation for {} of the model's features: {}", features.len(), quoted(features))]
    NotInOnnx {
        /// Names of these features, and the missing operation of each.
        features: Vec<(String, &'static str)>,
        /// Exporter of the job that requests the graph; absent = the command line.
        exporter: Option<String>,
    },
    /// An ONNX graph cannot hold dynamic tables.
    #[error("an ONNX graph cannot hold the dynamic tables of {}", listed(features))]
    DynamicInOnnx {
        /// Names of the features with dynamic tables.
        features: Vec<String>,
        /// Exporter of the job that requests the graph; absent = the command line.
        exporter: Option<String>,
    },
    /// A SavedModel cannot express how the features read a column.
    #[error("the column `{column}` cannot be in a SavedModel: {message}")]
    NotInSavedModel {
        /// The input column.
        column: String,
        /// The reason.
        message: String,
    },
    /// A custom model has no form as a SavedModel.
    #[error("a custom model cannot be exported as a SavedModel: only premade models can")]
    NoSavedModel,
    /// The model does not describe itself as a graph.
    #[error("this model cannot be exported as ONNX: it does not describe itself as a graph")]
    NoGraph,
    /// The number of values differs from the shape of a variable.
    #[error("variable `{variable}` must hold {wanted} values, given {given}")]
    Values {
        /// Name of the variable.
        variable: String,
        /// Number of values of the variable's shape.
        wanted: usize,
        /// Number of values that were given.
        given: usize,
    },
    /// The graph cannot be encoded.
    #[error(transparent)]
    Onnx(#[from] trainyard_onnx::Error),
}

fn quoted(features: &[(String, &'static str)]) -> String {
    let names: Vec<String> = features.iter().map(|(name, _)| name.clone()).collect();
    listed(&names)
}

fn listed(names: &[String]) -> String {
    names
        .iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

impl From<trainyard_feature_column::Error> for Error {
    fn from(error: trainyard_feature_column::Error) -> Self {
        Self::Value {
            column: error.column,
            message: error.message,
        }
    }
}

impl From<Error> for Diagnostic {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::Invalid(_) => Self::error(Code::E1006, text).help("correct the job file"),
            Error::Param(error) => error.into(),
            Error::Value { .. } => {
                Self::error(Code::E4004, text).help("correct the data, or the feature or label of the job")
            }
            Error::Failed { trace, .. } => {
                let problem = Self::error(Code::E5003, text);
                let problem = match trace.as_str() {
                    "" => problem,
                    trace => problem.note(trace.trim_end()),
                };
                problem.help("correct the code of the model")
            }
            Error::NoLabel => Self::error(Code::E9001, text),
            Error::NotInOnnx { features, exporter } => {
                let ids = features.first().map_or("<feature>", |(name, _)| name.as_str());
                let set = match &exporter {
                    Some(_) => "set exporter.hashed_as_ids = true".to_owned(),
                    None => "export with --hashed-as-ids".to_owned(),
                };
                let help = format!(
                    "{set}: the graph then takes an input such as `{ids}/ids`, whose values `trainyard transform` \
                     writes; or serve the model with all of its features by `trainyard serve`, or export a SavedModel \
                     (saved_model)"
                );
                let mut out = Self::error(Code::E6001, text);
                if let Some(exporter) = exporter {
                    out = out.note(format!("exporter `{exporter}` of the job asks for onnx"));
                }
                for (feature, why) in &features {
                    out = out.note(format!("feature `{feature}`: {why}"));
                }
                out.help(help)
            }
            Error::DynamicInOnnx { exporter, .. } => {
                let help = "serve the model by `trainyard serve`, export a SavedModel (saved_model), or export safetensors: ids stand \
                            beside the values of their rows";
                match exporter {
                    None => Self::error(Code::E6001, text).help(help),
                    Some(exporter) => Self::error(Code::E6001, text)
                        .note(format!("exporter `{exporter}` of the job asks for onnx"))
                        .help(help),
                }
            }
            Error::NotInSavedModel { .. } => Self::error(Code::E6001, text)
                .help("give the features columns of their own, or serve the model by trainyard serve"),
            Error::NoSavedModel => Self::error(Code::E6001, text)
                .help("serve the model by trainyard serve, or export safetensors"),
            Error::NoGraph => Self::error(Code::E6001, text)
                .help("export safetensors, or implement ExportOnnx for the model and start it with main_with_onnx"),
            Error::Values { .. } => Self::error(Code::E9001, text)
                .help("read whole variables of a checkpoint that fits the model"),
            Error::Onnx(_) => Self::error(Code::E6001, text).help(
                "export safetensors, or shorten the vocabularies: their texts cannot lie in a second file",
            ),
        }
    }
}
