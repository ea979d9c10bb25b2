//! Clients of the stores.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::ClientConfigKey;
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::multipart::MultipartStore;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};

use crate::retry::shown;
use crate::{Error, Location, Scheme};

/// Longest wait for a connection.
const CONNECT_TIMEOUT: &str = "5s";
/// Longest request.
const REQUEST_TIMEOUT: &str = "60s";

/// The client of a store.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) objects: Arc<dyn ObjectStore>,
    /// For objects that are sent in parts; none where the store is only read.
    pub(crate) parts: Option<Arc<dyn MultipartStore>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.objects.fmt(out)
    }
}

impl Client {
    fn writes(store: impl ObjectStore + MultipartStore) -> Self {
        let store = Arc::new(store);
        Self { objects: Arc::clone(&store) as Arc<dyn ObjectStore>, parts: Some(store) }
    }

    fn reads(store: impl ObjectStore) -> Self {
        Self { objects: Arc::new(store), parts: None }
    }
}

/// Makes the client of a location's store. Nothing is asked of it yet.
pub(crate) fn open(location: &Location) -> Result<Client, Error> {
    // Only the first of a process counts, and all are the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let settings = |error| Error::Settings { url: location.url.clone(), reason: shown(&error) };
    Ok(match location.scheme {
        Scheme::S3 => Client::writes(
            AmazonS3Builder::from_env()
                .with_bucket_name(&location.bucket)
                // Whoever gives an address without TLS means it.
                .with_allow_http(true)
                .with_config(AmazonS3ConfigKey::Client(ClientConfigKey::ConnectTimeout), CONNECT_TIMEOUT)
                .with_config(AmazonS3ConfigKey::Client(ClientConfigKey::Timeout), REQUEST_TIMEOUT)
                .with_retry(once())
                .build()
                .map_err(settings)?,
        ),
        Scheme::Gs => Client::writes(
            GoogleCloudStorageBuilder::from_env()
                .with_bucket_name(&location.bucket)
                .with_config(GoogleConfigKey::Client(ClientConfigKey::ConnectTimeout), CONNECT_TIMEOUT)
                .with_config(GoogleConfigKey::Client(ClientConfigKey::Timeout), REQUEST_TIMEOUT)
                .with_retry(once())
                .build()
                .map_err(settings)?,
        ),
        Scheme::Http => {
            let options = ClientOptions::new()
                .with_allow_http(true)
                .with_config(ClientConfigKey::ConnectTimeout, CONNECT_TIMEOUT)
                .with_config(ClientConfigKey::Timeout, REQUEST_TIMEOUT);
            let builder = HttpBuilder::new().with_url(&location.store).with_client_options(options);
            Client::reads(builder.with_retry(once()).build().map_err(settings)?)
        }
        #[cfg(feature = "hdfs")]
        Scheme::Hdfs => {
            let builder = hdfs_native_object_store::HdfsObjectStoreBuilder::new().with_url(&location.store);
            Client::reads(builder.build().map_err(settings)?)
        }
        #[cfg(not(feature = "hdfs"))]
        Scheme::Hdfs => return Err(Error::NotBuilt { url: location.url.clone(), scheme: "hdfs" }),
    })
}

/// The client tries nothing again by itself: [`crate::retry`] does, where failures are told apart and logged. It
/// finishes what is a client's own matter, for example a token that has expired.
fn once() -> RetryConfig {
    RetryConfig { backoff: BackoffConfig::default(), max_retries: 0, retry_timeout: Duration::from_secs(60) }
}
