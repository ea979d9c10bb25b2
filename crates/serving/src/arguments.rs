//! Arguments of the server, for the daemon and for the command.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use tracing::warn;
use trainyard_daemon::{TLS_DIR, TOKEN_FILE, path_by};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_security::{CredentialSources, Protection, Security};

use crate::config::{Config, ModelConfig};

/// Arguments of the server of predictions.
#[derive(Debug, Clone, Args)]
pub struct ServingArguments {
    /// The model: a job file, whose model_dir is followed, the model_dir of a run, an export, or a folder of exports.
    /// Without it, --config.
    #[arg(
        value_name = "JOB.toml|MODEL_DIR|EXPORT",
        required_unless_present = "config"
    )]
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
    /// Folder of the server's certificate: tls.crt, tls.key and ca.crt. The server then uses TLS. Without tokens, its
    /// clients need a certificate that an authority of ca.crt has signed. By default the configuration file's.
    #[arg(long, value_name = "DIR", env = TLS_DIR, value_parser = path_by(TLS_DIR))]
    pub tls_dir: Option<PathBuf>,
    /// File of the tokens of clients. Each request then needs one of them. By default the configuration file's.
    #[arg(long, value_name = "FILE", env = TOKEN_FILE, value_parser = path_by(TOKEN_FILE))]
    pub token_file: Option<PathBuf>,
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
                let message = "no model: give a job file, a model_dir, an export or --config";
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

    /// Reads the credentials of the server.
    ///
    /// # Errors
    /// A file cannot be used.
    pub fn security(&self, config: &Config) -> Result<Arc<Security>, Diagnostic> {
        let tls_dir = self.tls_dir.as_ref().or(config.tls_dir.as_ref());
        let token_file = self.token_file.as_ref().or(config.token_file.as_ref());
        let security = Security::of_service(CredentialSources {
            tls_dir: tls_dir.map(PathBuf::as_path),
            token_file: token_file.map(PathBuf::as_path),
            is_waived: self.insecure_no_auth,
        })?;
        if security.protection() == Protection::Waived {
            warn!("insecure: connections are not encrypted, and other hosts may reach the server");
        }
        Ok(Arc::new(security))
    }
}
