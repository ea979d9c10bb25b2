//! Clients of the stores, and their settings.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::ClientConfigKey;
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::multipart::MultipartStore;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};

use crate::executor::Executor;
#[cfg(feature = "hdfs")]
use crate::hdfs::Tree;
use crate::retry::shown;
use crate::{Error, Location, Scheme};

/// Timeout of a connection attempt.
const CONNECT_TIMEOUT: &str = "5s";
/// Timeout of a request.
const REQUEST_TIMEOUT: &str = "60s";

/// The client of a store.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) objects: Arc<dyn ObjectStore>,
    /// Absent if the store is read-only.
    writing: Option<Writing>,
}

/// Method of writing to a store.
#[derive(Clone)]
pub(crate) enum Writing {
    /// Large objects are uploaded in parts, several at once. Folders are only prefixes of names.
    Parts(Arc<dyn MultipartStore>),
    /// The store has files and folders. Files are written sequentially and then renamed; folders are removed as a
    /// whole.
    #[cfg(feature = "hdfs")]
    Tree(Tree),
}

impl std::fmt::Debug for Client {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.objects.fmt(out)
    }
}

impl Client {
    pub(crate) fn writes(store: impl ObjectStore + MultipartStore) -> Self {
        let store = Arc::new(store);
        Self {
            objects: Arc::clone(&store) as Arc<dyn ObjectStore>,
            writing: Some(Writing::Parts(store)),
        }
    }

    fn reads(store: impl ObjectStore) -> Self {
        Self {
            objects: Arc::new(store),
            writing: None,
        }
    }

    /// Returns the method of writing.
    ///
    /// # Errors
    /// The store is read-only.
    pub(crate) fn writing(&self, location: &Location) -> Result<Writing, Error> {
        self.writing.clone().ok_or_else(|| {
            let scheme = location
                .url
                .split("://")
                .next()
                .unwrap_or_default()
                .to_owned();
            Error::ReadOnly {
                url: location.url.clone(),
                scheme,
            }
        })
    }
}

/// Returns the client of a location's store. It sends no request yet. Its background work runs on the threads of
/// `executor`.
#[cfg_attr(
    not(feature = "hdfs"),
    expect(unused_variables, reason = "the other clients do nothing beside them")
)]
pub(crate) fn open(location: &Location, executor: &Executor) -> Result<Client, Error> {
    // Only the first call in a process has an effect, and all calls are equal.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let settings = |error| Error::Settings {
        url: location.url.clone(),
        reason: shown(&error),
    };
    Ok(match location.scheme {
        Scheme::S3 => Client::writes(
            AmazonS3Builder::from_env()
                .with_bucket_name(&location.bucket)
                // A user who gives an address without TLS intends it.
                .with_allow_http(true)
                .with_config(
                    AmazonS3ConfigKey::Client(ClientConfigKey::ConnectTimeout),
                    CONNECT_TIMEOUT,
                )
                .with_config(
                    AmazonS3ConfigKey::Client(ClientConfigKey::Timeout),
                    REQUEST_TIMEOUT,
                )
                .with_retry(once())
                .build()
                .map_err(settings)?,
        ),
        Scheme::Gs => Client::writes(
            GoogleCloudStorageBuilder::from_env()
                .with_bucket_name(&location.bucket)
                .with_config(
                    GoogleConfigKey::Client(ClientConfigKey::ConnectTimeout),
                    CONNECT_TIMEOUT,
                )
                .with_config(
                    GoogleConfigKey::Client(ClientConfigKey::Timeout),
                    REQUEST_TIMEOUT,
                )
                .with_retry(once())
                .build()
                .map_err(settings)?,
        ),
        Scheme::Http => {
            let options = ClientOptions::new()
                .with_allow_http(true)
                .with_config(ClientConfigKey::ConnectTimeout, CONNECT_TIMEOUT)
                .with_config(ClientConfigKey::Timeout, REQUEST_TIMEOUT);
            let builder = HttpBuilder::new()
                .with_url(&location.store)
                .with_client_options(options);
            Client::reads(builder.with_retry(once()).build().map_err(settings)?)
        }
        #[cfg(feature = "hdfs")]
        Scheme::Hdfs => {
            let tree = Tree::open(&location.store, executor).map_err(settings)?;
            Client {
                objects: tree.objects(),
                writing: Some(Writing::Tree(tree)),
            }
        }
        #[cfg(not(feature = "hdfs"))]
        Scheme::Hdfs => return Err(location.not_built()),
    })
}

/// Returns the retry settings of a client: it does not retry. [`crate::retry`] classifies, logs and retries failures.
/// The client handles only its internal matters, for example an expired token.
fn once() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig::default(),
        max_retries: 0,
        retry_timeout: Duration::from_secs(60),
    }
}
