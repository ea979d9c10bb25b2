//! Retries, and the meaning of a store's errors.

use std::future::Future;
use std::hash::{BuildHasher as _, RandomState};
use std::ops::RangeInclusive;
use std::time::Duration;

use tokio::time::Instant;
use trainyard_runtime::Backoff;

use crate::{Error, Location, Scheme};

/// Timeout of one attempt: a request of at most some megabytes.
pub(crate) const ATTEMPT_MAX: Duration = Duration::from_secs(60);
/// Bound of the first pause between attempts, and of every pause.
const PAUSES: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(5);
/// Address at which hosts in AWS and Google Cloud get credentials.
const INSTANCE_METADATA: &str = "169.254.169.254";
/// Attempts after which a host counts as without credentials. Before that, the metadata server may be busy.
const CREDENTIAL_ATTEMPTS: u32 = 3;
/// Longest part of a store's message that is shown, in characters.
const SHOWN_BYTES_MAX: usize = 300;

/// Returns the pauses of a series of attempts. The system draws the seed, so that tasks which a store refused at the
/// same moment do not retry at the same moment.
pub(crate) fn backoff() -> Backoff {
    Backoff::new(PAUSES, RandomState::new().hash_one(0))
}

/// Repeats an attempt until it succeeds, fails permanently, or `deadline` has passed.
pub(crate) async fn retry<T, F: Future<Output = object_store::Result<T>>>(
    location: &Location,
    deadline: Duration,
    mut attempt: impl FnMut() -> F,
) -> Result<T, Error> {
    let begin = Instant::now();
    let mut backoff = backoff();
    let mut attempts = 0;
    let mut last = None;
    loop {
        attempts += 1;
        let left = deadline.saturating_sub(begin.elapsed());
        let reason = match tokio::time::timeout(left.min(ATTEMPT_MAX), attempt()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => match fatal(location, &error, attempts) {
                Some(error) => return Err(error),
                None => shown(&error),
            },
            // An attempt that the deadline has cut short says less than the attempt before it.
            Err(_) => last
                .take_if(|_| left < ATTEMPT_MAX)
                .unwrap_or_else(|| "no answer in time".to_owned()),
        };
        let waited = begin.elapsed();
        let pause = backoff.next_pause();
        if waited + pause >= deadline {
            return Err(Error::Unreachable {
                url: location.url.clone(),
                waited,
                attempts,
                reason,
            });
        }
        tracing::warn!(
            url = location.url,
            attempts,
            reason,
            "a remote file is tried again"
        );
        last = Some(reason);
        tokio::time::sleep(pause).await;
    }
}

/// Returns the permanent error of an attempt; nothing if a retry may succeed.
pub(crate) fn fatal(
    location: &Location,
    error: &object_store::Error,
    attempts: u32,
) -> Option<Error> {
    use object_store::Error as Store;
    let url = location.url.clone();
    let words = words(error);
    let says = |any: &[&str]| any.iter().any(|word| words.contains(word));
    if says(&["NoSuchBucket", "The specified bucket does not exist"]) {
        return Some(Error::Bucket {
            url,
            bucket: location.bucket.clone(),
        });
    }
    let unsigned = location.scheme == Scheme::S3
        && says(&[INSTANCE_METADATA, "MissingAccessKeyId"])
        || location.scheme == Scheme::Gs && says(&["metadata.google.internal", INSTANCE_METADATA]);
    if unsigned {
        let scheme = location.scheme;
        return (attempts >= CREDENTIAL_ATTEMPTS).then_some(Error::NoCredentials { url, scheme });
    }
    if says(&[
        "incorrectly configured region",
        "PermanentRedirect",
        "AuthorizationHeaderMalformed",
    ]) {
        let reason = format!("AWS_REGION is not the bucket's region: {}", shown(error));
        return Some(Error::Settings { url, reason });
    }
    if says(&["Unable to extract metadata", "non-partial response"]) {
        let reason = format!(
            "the server tells no size, or gives no ranges: {}",
            shown(error)
        );
        return Some(Error::Url { url, reason });
    }
    let refused = ["AccessControlException", "AuthorizationException", "SASL"];
    let scheme = location.scheme;
    let denied = |error| {
        Some(Error::Denied {
            url: location.url.clone(),
            reason: shown(error),
            scheme,
        })
    };
    match error {
        _ if scheme == Scheme::Hdfs && says(&refused) => denied(error),
        Store::NotFound { .. } => Some(Error::Missing { url }),
        Store::PermissionDenied { .. } | Store::Unauthenticated { .. } => denied(error),
        Store::Precondition { .. } => Some(Error::Changed { url }),
        Store::InvalidPath { .. } | Store::NotSupported { .. } | Store::NotImplemented { .. } => {
            Some(Error::Url {
                url,
                reason: shown(error),
            })
        }
        Store::UnknownConfigurationKey { .. } => Some(Error::Settings {
            url,
            reason: shown(error),
        }),
        _ if says(&[
            "InvalidAccessKeyId",
            "SignatureDoesNotMatch",
            "ExpiredToken",
            "AccessDenied",
        ]) =>
        {
            denied(error)
        }
        _ if says(&["416 Range Not Satisfiable", "InvalidRange"]) => Some(Error::Changed { url }),
        _ => None,
    }
}

/// Returns the messages of an error and its sources.
fn words(error: &object_store::Error) -> String {
    let mut words = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        let more = error.to_string();
        if !words.contains(&more) {
            words = format!("{words}: {more}");
        }
        source = error.source();
    }
    words
}

/// Returns the messages on one line, truncated.
pub(crate) fn shown(error: &object_store::Error) -> String {
    let words = words(error)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    match words.char_indices().nth(SHOWN_BYTES_MAX) {
        Some((end, _)) => format!("{} …", &words[..end]),
        None => words,
    }
}
