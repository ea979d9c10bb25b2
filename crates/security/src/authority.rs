//! An authority that signs the certificates of tasks, for trials and tests. Production clusters use their own
//! authority.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};

use crate::Issued;

/// Time by which a certificate is valid before it is made, because the clocks of hosts differ.
const CLOCK_SKEW_MAX: Duration = Duration::from_secs(3600);
/// Validity of the authority's own certificate.
const AUTHORITY_VALIDITY: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
const NAME: &str = "Trainyard trial authority";

/// An authority with its certificate and key.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    /// Makes an authority with a new key.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn new() -> Result<Self, String> {
        let key = KeyPair::generate().map_err(|error| error.to_string())?;
        let certificate = params()
            .self_signed(&key)
            .map_err(|error| error.to_string())?
            .pem();
        Ok(Self {
            issuer: Issuer::new(params(), key),
            certificate,
        })
    }

    /// Returns the authority of a certificate and a key (PEM) that [`Authority::new`] made.
    ///
    /// # Errors
    /// The key is invalid.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, String> {
        let key = KeyPair::from_pem(key).map_err(|error| error.to_string())?;
        Ok(Self {
            issuer: Issuer::new(params(), key),
            certificate: certificate.to_owned(),
        })
    }

    /// Returns the certificate of the authority, as PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Returns the key of the authority, as PEM. It is a secret.
    pub fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// Makes a certificate that is valid until `until`, for a name (a URI) and the names and addresses of hosts.
    ///
    /// # Errors
    /// A name is not ASCII.
    pub fn issue(&self, name: &str, hosts: &[String], until: SystemTime) -> Result<Issued, String> {
        let text = |error: rcgen::Error| error.to_string();
        let key = KeyPair::generate().map_err(text)?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params
            .subject_alt_names
            .push(SanType::URI(name.try_into().map_err(text)?));
        for host in hosts {
            params.subject_alt_names.push(match host.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(host.as_str().try_into().map_err(text)?),
            });
        }
        params.not_before = (SystemTime::now().min(until) - CLOCK_SKEW_MAX).into();
        params.not_after = until.into();
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let certificate = params.signed_by(&key, &self.issuer).map_err(text)?;
        Ok(Issued {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

fn params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.not_before = (SystemTime::now() - CLOCK_SKEW_MAX).into();
    params.not_after = (SystemTime::now() + AUTHORITY_VALIDITY).into();
    params
}
