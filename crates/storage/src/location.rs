//! Locations: names of remote files, `scheme://store/key`.

use std::path::Path;

use crate::error::Error;
use crate::scheme::Scheme;

/// Returns whether a name is a URL and not a path.
///
/// ```
/// use trainyard_storage::is_remote;
///
/// assert!(is_remote("s3://bucket/train.csv".as_ref()));
/// assert!(!is_remote("data/train.csv".as_ref()));
/// ```
pub fn is_remote(name: &Path) -> bool {
    name.to_str().is_some_and(|name| name.contains("://"))
}

/// A remote file, or a pattern of remote files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The name as it was given.
    pub url: String,
    /// Kind of the store.
    pub scheme: Scheme,
    /// The part before the key: `s3://bucket`.
    pub store: String,
    /// Bucket or host.
    pub bucket: String,
    /// The key: the part after the store, without the slash.
    pub key: String,
}

impl Location {
    /// Parses a URL.
    ///
    /// # Errors
    /// The scheme is unknown, or a part is missing.
    pub fn parse(url: &str) -> Result<Self, Error> {
        let wrong = |reason: &str| Error::Url {
            url: url.to_owned(),
            reason: reason.to_owned(),
        };
        let (name, rest) = url
            .split_once("://")
            .ok_or_else(|| wrong("it has no scheme"))?;
        let scheme = Scheme::of(name).ok_or_else(|| Error::Scheme {
            url: url.to_owned(),
            scheme: name.to_owned(),
        })?;
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() && scheme != Scheme::Hdfs {
            return Err(wrong("there is no bucket or host in it"));
        }
        if bucket.contains('@') {
            return Err(Error::Url {
                url: format!("{name}://…@{}", rest.rsplit('@').next().unwrap_or_default()),
                reason: "credentials have no place in it".to_owned(),
            });
        }
        if key.is_empty() || key.ends_with('/') {
            return Err(wrong(
                "there is no file in it; for all files of a folder, end it with `*`",
            ));
        }
        if let (Scheme::Http, Some(end)) = (scheme, key.find(['?', '#'])) {
            // The query may be a signature, so the message does not show it.
            let url = format!("{name}://{bucket}/{}…", &key[..=end]);
            return Err(Error::Url {
                url,
                reason: "queries and fragments are not read".to_owned(),
            });
        }
        let store = format!("{}://{bucket}", if name == "s3a" { "s3" } else { name });
        let url = url.to_owned();
        let bucket = bucket.to_owned();
        let key = key.to_owned();
        Ok(Self {
            url,
            scheme,
            store,
            bucket,
            key,
        })
    }

    /// Returns the error that this program was built without the feature for the location.
    #[cfg(not(feature = "hdfs"))]
    pub(crate) fn not_built(&self) -> Error {
        let feature = if self.scheme == Scheme::Hdfs {
            "hdfs"
        } else {
            "object-stores"
        };
        Error::NotBuilt {
            url: self.url.clone(),
            feature,
        }
    }

    /// Returns whether the location may match several files.
    pub(crate) fn is_pattern(&self) -> bool {
        self.scheme != Scheme::Http && self.key.contains(['*', '?', '['])
    }

    /// Returns the folder before the first wildcard. This folder is listed.
    pub(crate) fn folder(&self) -> &str {
        let wildcard = self.key.find(['*', '?', '[']).unwrap_or(self.key.len());
        self.key[..wildcard]
            .rfind('/')
            .map_or("", |end| &self.key[..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_store_and_key() {
        let location = Location::parse("s3a://bucket/a/b-*.csv").expect("a URL");
        assert_eq!(
            (location.store.as_str(), location.key.as_str()),
            ("s3://bucket", "a/b-*.csv")
        );
        assert_eq!((location.folder(), location.is_pattern()), ("a", true));
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said() {
        let said = |url: &str| {
            Location::parse(url)
                .expect_err("no URL of a file")
                .to_string()
        };
        assert!(said("s3://bucket").contains("there is no file"));
        assert!(said("s3:///key").contains("no bucket"));
        assert!(said("s4://bucket/key").contains("`s4`"));
        let signed = said("https://h/f.csv?sig=abc");
        assert!(
            signed.contains("queries") && !signed.contains("abc"),
            "{signed}"
        );
        let secret = said("https://user:secret@h/f.csv");
        assert!(!secret.contains("secret"), "{secret}");
    }
}
