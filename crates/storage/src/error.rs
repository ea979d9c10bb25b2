//! Errors of access to remote files, and their diagnostics.

use std::time::Duration;

use trainyard_diagnostic::{Code, Diagnostic, not_built_help, suggest};

use crate::scheme::Scheme;

/// A failed access to a remote file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The scheme is not supported.
    #[error("{url}: `{scheme}` is no scheme of input files")]
    Scheme {
        /// The name given.
        url: String,
        /// The part before `://`.
        scheme: String,
    },
    /// The scheme is known, but this program was built without the feature that reads it.
    #[error("{url}: this program was built without `{feature}`")]
    NotBuilt {
        /// The name given.
        url: String,
        /// The feature.
        feature: &'static str,
    },
    /// The name is not a URL of a file.
    #[error("{url} is no file that can be read: {reason}")]
    Url {
        /// The name given.
        url: String,
        /// The reason.
        reason: String,
    },
    /// The store is read-only.
    #[error("{url}: nothing can be written to `{scheme}`")]
    ReadOnly {
        /// The name given.
        url: String,
        /// The part before `://`.
        scheme: String,
    },
    /// The store replaces an object in spite of the condition that there is none.
    #[error("{url}: the store does not keep to `If-None-Match`")]
    Unconditional {
        /// The name given.
        url: String,
    },
    /// The settings of the store, which come from the environment, are invalid.
    #[error("{url}: the settings of the store are wrong: {reason}")]
    Settings {
        /// The name given.
        url: String,
        /// The message of the client.
        reason: String,
    },
    /// There is no such bucket.
    #[error("{url}: bucket `{bucket}` does not exist")]
    Bucket {
        /// The name given.
        url: String,
        /// The bucket.
        bucket: String,
    },
    /// There is no such object.
    #[error("{url} does not exist")]
    Missing {
        /// The name given.
        url: String,
    },
    /// A pattern matches no object.
    #[error("{url} matches no file; {seen} begin with `{prefix}`")]
    NoMatch {
        /// The pattern.
        url: String,
        /// The part before the first wildcard.
        prefix: String,
        /// Number of objects with that prefix.
        seen: usize,
    },
    /// A folder has more objects than a listing may return.
    #[error("{url}: more than {most} files begin with `{prefix}`")]
    TooMany {
        /// The name given.
        url: String,
        /// The part before the first wildcard.
        prefix: String,
        /// Largest number of objects.
        most: usize,
    },
    /// Patterns need a store that lists its files.
    #[error("{url}: files behind http cannot be listed, so that patterns have no meaning there")]
    NoListing {
        /// The pattern.
        url: String,
    },
    /// No credentials were found.
    #[error("{url}: there are no credentials for it")]
    NoCredentials {
        /// The name given.
        url: String,
        /// Kind of the store.
        scheme: Scheme,
    },
    /// The credentials are not accepted.
    #[error("{url}: access is denied: {reason}")]
    Denied {
        /// The name given.
        url: String,
        /// The message of the store.
        reason: String,
        /// Kind of the store.
        scheme: Scheme,
    },
    /// The file has changed since it was opened.
    #[error("{url} has changed while it was read")]
    Changed {
        /// The name given.
        url: String,
    },
    /// The store did not serve a request within the deadline.
    #[error("{url} could not be reached for {} s ({attempts} attempts, last: {reason})", waited.as_secs())]
    Unreachable {
        /// The name given.
        url: String,
        /// Time of all attempts.
        waited: Duration,
        /// Number of attempts.
        attempts: u32,
        /// The last failure.
        reason: String,
    },
}

impl Error {
    /// Returns the storage error inside an I/O error, if there is one.
    pub fn of(error: &std::io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    fn code(&self) -> Code {
        match self {
            Self::Scheme { .. }
            | Self::NotBuilt { .. }
            | Self::Url { .. }
            | Self::NoListing { .. } => Code::E1002,
            Self::Settings { .. } | Self::ReadOnly { .. } | Self::Unconditional { .. } => {
                Code::E1002
            }
            Self::Bucket { .. }
            | Self::Missing { .. }
            | Self::NoMatch { .. }
            | Self::TooMany { .. }
            | Self::Changed { .. } => Code::E4002,
            Self::NoCredentials { .. } | Self::Denied { .. } => Code::E1202,
            Self::Unreachable { .. } => Code::E2003,
        }
    }

    fn help(&self) -> String {
        match self {
            Self::Scheme { scheme, .. } => match suggest(scheme, Scheme::NAMES) {
                Some(near) => format!("did you mean `{near}://`?"),
                None => format!("known: {}; a path has no `://`", Scheme::NAMES.join(", ")),
            },
            Self::NotBuilt { feature, .. } => not_built_help(feature),
            Self::Url { .. } => {
                "write it as scheme://bucket/path, for example s3://bucket/train/part-*.csv".to_owned()
            }
            Self::ReadOnly { .. } => "name a folder of this machine, s3://bucket/path, gs://bucket/path or hdfs://host:port/path".to_owned(),
            Self::Unconditional { .. } => {
                "choose a store that has conditional writes, such as S3 or GCS, or a folder: two chiefs could not be told \
                 apart here"
                    .to_owned()
            }
            Self::Settings { url, .. } if url.starts_with("hdfs:") => {
                "name host and port of the NameNode (hdfs://host:8020/path), or set HADOOP_CONF_DIR to the folder of the \
                 core-site.xml and hdfs-site.xml that explain the name"
                    .to_owned()
            }
            Self::Settings { .. } => "correct the environment variable that is named".to_owned(),
            Self::Bucket { .. } => {
                "correct the bucket's name, or the store's address (AWS_ENDPOINT_URL) and region (AWS_REGION)"
                    .to_owned()
            }
            Self::Missing { .. } => "correct its name; upper and lower case differ".to_owned(),
            Self::NoMatch { .. } => "correct the pattern; `*` does not match `/`".to_owned(),
            Self::TooMany { .. } => "give a longer prefix, or put the files into several folders".to_owned(),
            Self::NoListing { .. } => "name each file".to_owned(),
            Self::NoCredentials { scheme, .. } => scheme.credentials().to_owned(),
            Self::Denied { scheme: Scheme::Http, .. } => {
                "http files are read without credentials: allow everybody to read it".to_owned()
            }
            Self::Denied { scheme, .. } => {
                format!(
                    "check that the credentials are right and may list and read it, and write to it if it is a model_dir or an \
                     output: {}",
                    scheme.credentials()
                )
            }
            Self::Changed { .. } => "start the job again, and leave its files alone while it runs".to_owned(),
            Self::Unreachable { .. } => {
                "check the store's address and the network, then start again: nothing is lost".to_owned()
            }
        }
    }
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        Self::other(error)
    }
}

impl From<Error> for Diagnostic {
    fn from(error: Error) -> Self {
        Self::error(error.code(), error.to_string()).help(error.help())
    }
}
