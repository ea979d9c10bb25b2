//! The path of a request, whose segments are decoded (RFC 3986, section 2.1).

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::Error;
use crate::text::shown;

/// A path in its segments. An encoded `/` or `:` is a letter of its segment, and divides nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UriPath<'a> {
    pub(crate) segments: Vec<Cow<'a, str>>,
    /// What follows the last `:`, in TensorFlow Serving's paths.
    pub(crate) method: Option<Cow<'a, str>>,
}

impl<'a> UriPath<'a> {
    /// Divides a path at its `/`. `custom_method` says whether a `:` divides the method of a model from its path.
    ///
    /// # Errors
    /// A segment is not encoded as RFC 3986 says, or no UTF-8.
    pub(crate) fn parse(path: &'a str, custom_method: bool) -> Result<Self, Error> {
        let (path, method) = match path.rsplit_once(':') {
            Some((path, method)) if custom_method => (path, Some(method)),
            _ => (path, None),
        };
        let segments = path.split('/').map(decode);
        Ok(Self {
            segments: segments.collect::<Result<_, Error>>()?,
            method: method.map(decode).transpose()?,
        })
    }

    /// Returns the segments.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().map(|segment| &**segment)
    }
}

fn decode(segment: &str) -> Result<Cow<'_, str>, Error> {
    let refuse = |what: &str| {
        let segment = shown(segment);
        Error::Request(format!("`{segment}` in the path {what}"))
    };
    let mut encoded = segment.split('%').skip(1);
    let is_byte = |text: &str| {
        text.as_bytes()
            .get(..2)
            .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !encoded.all(is_byte) {
        return Err(refuse("has a `%` without two hexadecimal digits"));
    }
    let decoded = percent_decode_str(segment).decode_utf8();
    decoded.map_err(|_| refuse("is no UTF-8 once it is decoded"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_decoded_after_the_path_is_divided() {
        for (path, expected, method) in [
            (
                "m/labels/stable:predict",
                &["m", "labels", "stable"][..],
                Some("predict"),
            ),
            (
                "m/labels/caf%C3%A9%20au%20lait:predict",
                &["m", "labels", "café au lait"],
                Some("predict"),
            ),
            ("m/labels/a%2Fb%3Ac", &["m", "labels", "a/b:c"], None),
            ("%6d", &["m"], None),
            ("100%25", &["100%"], None),
            ("a+b", &["a+b"], None),
        ] {
            let parsed = UriPath::parse(path, true).expect(path);
            assert_eq!(parsed.segments, expected, "{path}");
            assert_eq!(parsed.method.as_deref(), method, "{path}");
        }
        assert_eq!(
            UriPath::parse("a:b", false).expect("a path").segments,
            ["a:b"]
        );
        for path in ["%", "%4", "%zz", "a%2", "%ff", "%+1", "m:%g1"] {
            let refused = UriPath::parse(path, true);
            assert!(
                matches!(refused, Err(Error::Request(_))),
                "{path}: {refused:?}"
            );
        }
    }
}
