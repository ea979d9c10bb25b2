//! The identity and the expiry of a certificate.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use crate::Identity;

/// The parts of a certificate that Trainyard reads. TLS decides whether to trust the certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// Identity of the owner; absent = the certificate does not name exactly one task.
    pub identity: Option<Identity>,
    /// End of the validity.
    pub not_after: SystemTime,
    /// End of the validity, for messages.
    pub not_after_text: String,
}

impl Certificate {
    /// Reads a certificate (X.509, DER).
    ///
    /// # Errors
    /// The bytes are not a certificate. The message says why.
    pub fn read(der: &[u8]) -> Result<Self, String> {
        let (_, parsed) = X509Certificate::from_der(der).map_err(|error| error.to_string())?;
        let names = parsed
            .subject_alternative_name()
            .map_err(|error| error.to_string())?;
        let names = names.iter().flat_map(|names| &names.value.general_names);
        let identity = names.filter_map(|name| match name {
            GeneralName::URI(uri) => Identity::parse(uri),
            _ => None,
        });
        let not_after = parsed.validity().not_after;
        let seconds = u64::try_from(not_after.timestamp()).unwrap_or(0);
        Ok(Self {
            // A certificate with two task names identifies neither task: its owner could speak as both.
            identity: single(identity),
            not_after: UNIX_EPOCH + Duration::from_secs(seconds),
            not_after_text: not_after.to_string(),
        })
    }
}

fn single<T>(mut things: impl Iterator<Item = T>) -> Option<T> {
    let first = things.next()?;
    things.next().is_none().then_some(first)
}
