//! Configuration of the server: a TOML file, or one model of the command line.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use trainyard_diagnostic::{Code, Diagnostic, Place};
use trainyard_model_dir::JOB_AS_RUN;
use trainyard_run_config::Job;

use crate::batching::BatchLimits;
use crate::exports::Export;
use crate::intake::HttpLimits;

/// Address of TensorFlow Serving's REST interface.
pub(crate) const DEFAULT_LISTEN: &str = "127.0.0.1:8501";

/// Configuration of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Address of the server, `host:port`.
    pub listen: String,
    /// Address of the server of gRPC, `host:port`; absent = none.
    pub listen_grpc: Option<String>,
    /// Folder of the server's certificate; absent = no TLS.
    pub tls_dir: Option<PathBuf>,
    /// File of the tokens of clients; absent = none are asked for.
    pub token_file: Option<PathBuf>,
    /// Bounds of the server.
    pub http: HttpLimits,
    /// Bounds of batching.
    pub batching: BatchLimits,
    /// The models.
    pub models: Vec<ModelConfig>,
    /// File that is read again when it changes; absent = the models stay.
    pub file: Option<PathBuf>,
}

/// A model to serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelConfig {
    /// Name in requests.
    pub name: String,
    /// A job file, whose `model_dir` is followed; a model directory with the job file of its run; an export; or a folder of
    /// exports.
    pub path: PathBuf,
    /// Changes of keys of the job, `section.key=value`.
    pub set: Vec<String>,
    /// Versions that stay in memory, at least 1: the newest.
    pub versions_keep: usize,
    /// Names of versions, for requests.
    pub labels: BTreeMap<String, u64>,
}

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    listen: Option<String>,
    listen_grpc: Option<String>,
    tls_dir: Option<PathBuf>,
    token_file: Option<PathBuf>,
    connections_max: Option<usize>,
    head_timeout_secs: Option<u64>,
    body_timeout_secs: Option<u64>,
    body_bytes_max: Option<usize>,
    rows_max: Option<usize>,
    batch_size_max: Option<usize>,
    batch_delay_max_us: Option<u64>,
    queue_requests_max: Option<usize>,
    #[serde(default)]
    model: Vec<FileModel>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileModel {
    name: String,
    path: PathBuf,
    #[serde(default)]
    set: Vec<String>,
    versions_keep: Option<usize>,
    #[serde(default)]
    labels: BTreeMap<String, u64>,
}

impl ModelConfig {
    /// Returns the configuration of a model with defaults.
    pub fn new(name: String, path: PathBuf) -> Self {
        Self {
            name,
            path,
            set: Vec::new(),
            versions_keep: 1,
            labels: BTreeMap::new(),
        }
    }

    /// Returns the name of a model by its path: of a job file, the name of the file; of a model directory, that of the
    /// folder.
    pub fn name_of(path: &Path) -> String {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
        let name: String = name
            .chars()
            .map(|letter| if allowed(letter) { letter } else { '_' })
            .collect();
        if name.is_empty() {
            "model".to_owned()
        } else {
            name
        }
    }

    fn is_job_file(&self) -> bool {
        let extension = self.path.extension();
        extension.is_some_and(|extension| extension == "toml")
    }

    /// Returns the newest export, if the path is an export or a folder of exports.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(crate) fn export(&self) -> Result<Option<Export>, Diagnostic> {
        if self.is_job_file() {
            return Ok(None);
        }
        Export::newest(&self.path)
    }

    /// Reads the job of the model. Returns nothing if the path is a folder without a job file yet.
    ///
    /// # Errors
    /// All problems of the job file, or that it cannot be read.
    pub(crate) fn job(&self) -> Result<Option<Job>, Vec<Diagnostic>> {
        if self.is_job_file() {
            return Job::load(&self.path, &self.set).map(Some);
        }
        if self.path.is_file() {
            let message = format!("{} is a file, and no job", self.path.display());
            let help =
                "name a job file (.toml), the model_dir of a run, an export or a folder of exports";
            return Err(vec![Diagnostic::error(Code::E1000, message).help(help)]);
        }
        if let Some(export) = self.export().map_err(|error| vec![error])? {
            return export.job(&self.set).map(Some);
        }
        let path = self.path.join(JOB_AS_RUN);
        let read = trainyard_model_dir::read(&path).map_err(|error| vec![error.into()])?;
        let Some(bytes) = read else {
            return Ok(None);
        };
        let text = String::from_utf8_lossy(&bytes);
        let mut job = Job::parse(&path, &text, &self.set)?;
        // The folder may have been moved or copied.
        job.model_dir.clone_from(&self.path);
        Ok(Some(job))
    }
}

impl Config {
    /// Returns the configuration of a server of one model.
    pub fn of_model(model: ModelConfig) -> Self {
        Self {
            listen: DEFAULT_LISTEN.to_owned(),
            listen_grpc: None,
            tls_dir: None,
            token_file: None,
            http: HttpLimits::default(),
            batching: BatchLimits::default(),
            models: vec![model],
            file: None,
        }
    }

    /// Reads a configuration file.
    ///
    /// # Errors
    /// The file cannot be read, is not valid TOML, or has an unknown key or a value out of range.
    pub fn load(path: &Path) -> Result<Self, Diagnostic> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            let message = format!(
                "configuration file {} cannot be read: {error}",
                path.display()
            );
            Diagnostic::error(Code::E1201, message)
        })?;
        Self::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, Diagnostic> {
        let at = || Place::Named(path.display().to_string());
        let file: File = toml::from_str(text).map_err(|error| {
            Diagnostic::error(Code::E1003, error.to_string().trim().replace('\n', " "))
                .at(at())
                .help("docs/serving.md has every key")
        })?;
        let refuse = |message: String| Err(Diagnostic::error(Code::E1002, message).at(at()));
        if file.model.is_empty() {
            return refuse("at least one [[model]] is needed, given none".to_owned());
        }
        let mut names = BTreeSet::new();
        for model in &file.model {
            let name = &model.name;
            let allowed = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
            if name.is_empty() || !name.chars().all(allowed) {
                return refuse(format!(
                    "model.name must be letters, digits, `_`, `-` and `.`, given `{}`",
                    trainyard_diagnostic::escape(name)
                ));
            }
            if !names.insert(name) {
                return refuse(format!("model.name must be unique, given `{name}` twice"));
            }
        }
        for (key, value) in [
            ("connections_max", file.connections_max),
            ("body_bytes_max", file.body_bytes_max),
            ("rows_max", file.rows_max),
            ("batch_size_max", file.batch_size_max),
            ("queue_requests_max", file.queue_requests_max),
        ] {
            if value.is_some_and(|value| !(1..=1 << 30).contains(&value)) {
                let given = value.unwrap_or_default();
                return refuse(format!("{key} must be 1 to 1073741824, given {given}"));
            }
        }
        for (key, value, most) in [
            ("head_timeout_secs", file.head_timeout_secs, 3600),
            ("body_timeout_secs", file.body_timeout_secs, 3600),
        ] {
            if value.is_some_and(|value| !(1..=most).contains(&value)) {
                let given = value.unwrap_or_default();
                return refuse(format!("{key} must be 1 to {most}, given {given}"));
            }
        }
        if file
            .batch_delay_max_us
            .is_some_and(|delay| delay > 1_000_000)
        {
            let given = file.batch_delay_max_us.unwrap_or_default();
            return refuse(format!(
                "batch_delay_max_us must be 0 to 1000000, given {given}"
            ));
        }
        let http = HttpLimits::default();
        let batching = BatchLimits::default();
        let beside = path.parent().unwrap_or(Path::new(""));
        let secs =
            |given: Option<u64>, default: Duration| given.map_or(default, Duration::from_secs);
        Ok(Self {
            listen: file.listen.unwrap_or_else(|| DEFAULT_LISTEN.to_owned()),
            listen_grpc: file.listen_grpc,
            tls_dir: file.tls_dir.map(|folder| beside.join(folder)),
            token_file: file.token_file.map(|path| beside.join(path)),
            http: HttpLimits {
                connections_max: file.connections_max.unwrap_or(http.connections_max),
                head_timeout: secs(file.head_timeout_secs, http.head_timeout),
                body_timeout: secs(file.body_timeout_secs, http.body_timeout),
                body_bytes_max: file.body_bytes_max.unwrap_or(http.body_bytes_max),
                rows_max: file.rows_max.unwrap_or(http.rows_max),
            },
            batching: BatchLimits {
                batch_size_max: file.batch_size_max.unwrap_or(batching.batch_size_max),
                batch_delay_max: file
                    .batch_delay_max_us
                    .map_or(batching.batch_delay_max, Duration::from_micros),
                queue_requests_max: file
                    .queue_requests_max
                    .unwrap_or(batching.queue_requests_max),
            },
            models: file
                .model
                .into_iter()
                .map(|model| model.at(beside))
                .collect(),
            file: Some(path.to_owned()),
        })
    }
}

impl FileModel {
    /// Returns the model. A relative path is relative to the configuration file.
    fn at(self, beside: &Path) -> ModelConfig {
        let is_bucket = trainyard_model_dir::ModelDir::is_bucket(&self.path);
        let path = if is_bucket {
            self.path
        } else {
            beside.join(self.path)
        };
        ModelConfig {
            name: self.name,
            path,
            set: self.set,
            versions_keep: self.versions_keep.unwrap_or(1).max(1),
            labels: self.labels,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(Path::new("/etc/serving.toml"), text).map_err(|problem| problem.render())
    }

    #[test]
    fn keys_that_are_left_out_have_their_defaults() {
        let config = parse("[[model]]\nname = \"ctr\"\npath = \"ctr.toml\"\n").expect("a file");
        let mut expected = Config::of_model(ModelConfig::new("ctr".into(), "/etc/ctr.toml".into()));
        expected.file = Some("/etc/serving.toml".into());
        assert_eq!(config, expected);
    }

    #[test]
    fn mistakes_are_told_with_key_value_and_range() {
        let model = "[[model]]\nname = \"a\"\npath = \"a.toml\"\n";
        for (text, told) in [
            (String::new(), "at least one [[model]]"),
            (format!("rows_max = 0\n{model}"), "rows_max must be 1 to"),
            (format!("rows_mx = 1\n{model}"), "unknown field `rows_mx`"),
            (format!("{model}{model}"), "given `a` twice"),
            (
                "[[model]]\nname = \"a/b\"\npath = \"x\"\n".to_owned(),
                "letters, digits",
            ),
            (
                format!("batch_delay_max_us = 1000001\n{model}"),
                "0 to 1000000, given 1000001",
            ),
        ] {
            let message = parse(&text).expect_err(told);
            assert!(message.contains(told), "{message}");
        }
    }

    #[test]
    fn a_model_has_the_name_of_its_file_or_folder() {
        for (path, name) in [
            ("configs/ctr.toml", "ctr"),
            ("runs/my model", "my_model"),
            ("s3://bucket/runs/ctr", "ctr"),
            ("/", "model"),
        ] {
            assert_eq!(ModelConfig::name_of(Path::new(path)), name, "{path}");
        }
    }
}
