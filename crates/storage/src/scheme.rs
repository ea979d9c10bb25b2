//! Kinds of stores.

/// Kind of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Amazon S3, and stores with the same protocol.
    S3,
    /// Google Cloud Storage.
    Gs,
    /// A web server.
    Http,
    /// The Hadoop file system.
    Hdfs,
}

impl Scheme {
    /// The names before `://`.
    pub const NAMES: [&'static str; 6] = ["s3", "s3a", "gs", "http", "https", "hdfs"];

    pub(crate) fn of(name: &str) -> Option<Self> {
        match name {
            "s3" | "s3a" => Some(Self::S3),
            "gs" => Some(Self::Gs),
            "http" | "https" => Some(Self::Http),
            "hdfs" => Some(Self::Hdfs),
            _ => None,
        }
    }

    /// Returns advice on how to provide credentials.
    pub(crate) fn credentials(self) -> &'static str {
        match self {
            Self::S3 => {
                "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true for a public bucket"
            }
            Self::Gs => {
                "set GOOGLE_SERVICE_ACCOUNT to the path of a key file, or GOOGLE_SKIP_SIGNATURE=true for a public bucket"
            }
            Self::Http => "http files are read without credentials",
            Self::Hdfs => "set HADOOP_CONF_DIR, and HADOOP_USER_NAME or a Kerberos ticket",
        }
    }
}
