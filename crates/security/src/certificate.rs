//! What a certificate says.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use crate::Identity;

/// What we read of a certificate. Whether it is to be believed is for TLS to find out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// Whose it is; absent = it names no task.
    pub identity: Option<Identity>,
    /// Until when it holds.
    pub not_after: SystemTime,
    /// The same, for messages.
    pub not_after_text: String,
}

impl Certificate {
    /// Reads a certificate (X.509, DER).
    ///
    /// # Errors
    /// It is none: why.
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
            // One that names two tasks is neither: it would be as both.
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
