//! Arguments of the server, for the daemon and for the command.

use std::path::PathBuf;

use clap::Args;
use trainyard_diagnostic::{Code, Diagnostic};

use crate::config::{Config, ModelConfig};
use crate::run::Exposure;

/// Arguments of the server of predictions.
#[derive(Debug, Clone, Args)]
pub struct ServingArguments {
    /// The model: a job file, whose model_dir is followed, or the model_dir of a run. Without it, --config.
    #[arg(value_name = "JOB.toml|MODEL_DIR", required_unless_present = "config")]
    pub model: Option<PathBuf>,
    /// Name of the model in requests. By default the name of the file or folder.
    #[arg(long, value_name = "NAME", requires = "model")]
    pub name: Option<String>,
    /// Sets one key of the job file, for example model_dir="runs/two". May be given more than once.
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE", requires = "model")]
    pub set: Vec<String>,
    /// Configuration file of several models, which is read again when it changes.
    #[arg(long, value_name = "FILE.toml", conflicts_with = "model")]
    pub config: Option<PathBuf>,
    /// Address of the server. By default the configuration file's, else 127.0.0.1:8501.
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// Address of the server of gRPC. By default the configuration file's, else none.
    #[arg(long, value_name = "HOST:PORT")]
    pub listen_grpc: Option<String>,
    /// Listens at addresses that other hosts can reach, without any protection.
    #[arg(long, env = "TRAINYARD_INSECURE_NO_AUTH")]
    pub insecure_no_auth: bool,
}

impl ServingArguments {
    /// Returns the configuration that the arguments describe.
    ///
    /// # Errors
    /// The configuration file has mistakes, or no model is given.
    pub fn config(&self) -> Result<Config, Diagnostic> {
        let mut config = match (&self.config, &self.model) {
            (Some(file), _) => Config::load(file)?,
            (None, Some(path)) => {
                let name = self.name.clone();
                let name = name.unwrap_or_else(|| ModelConfig::name_of(path));
                let mut model = ModelConfig::new(name, path.clone());
                model.set.clone_from(&self.set);
                Config::of_model(model)
            }
            (None, None) => {
                let message = "no model: give a job file, a model_dir or --config";
                return Err(Diagnostic::error(Code::E1000, message));
            }
        };
        if let Some(listen) = &self.listen {
            config.listen.clone_from(listen);
        }
        if self.listen_grpc.is_some() {
            config.listen_grpc.clone_from(&self.listen_grpc);
        }
        Ok(config)
    }

    /// Returns whether the operator has waived protection.
    pub fn exposure(&self) -> Exposure {
        if self.insecure_no_auth {
            Exposure::Waived
        } else {
            Exposure::ThisHost
        }
    }
}
