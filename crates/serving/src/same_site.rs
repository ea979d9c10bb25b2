//! Which requests a web page of another site has made. A browser on this host reaches a port of 127.0.0.1.

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, Uri};
use trainyard_daemon::Hosts;

use crate::Error;
use crate::text::shown;

/// Header by which browsers tell where a request comes from (Fetch Metadata).
const FETCH_SITE: &str = "sec-fetch-site";

/// Checks that a request names this server, and comes from no web page of another site.
///
/// # Errors
/// It does not.
pub(crate) fn check(headers: &HeaderMap, hosts: &Hosts) -> Result<(), Error> {
    let host = headers.get(HOST).map_or(&b""[..], |host| host.as_bytes());
    let text = String::from_utf8_lossy(host);
    if !hosts.are(host) {
        return Err(Error::Misdirected(format!(
            "`{}` is not this server, which listens without credentials at an address of its host alone: ask for \
             localhost, or start it with --token-file, --tls-dir or --insecure-no-auth",
            shown(&text)
        )));
    }
    let refuse = |from: &str| {
        Err(Error::CrossSite(format!(
            "a web page of `{}` may not ask this server, which listens without credentials: start it with --token-file, \
             --tls-dir or --insecure-no-auth",
            shown(from)
        )))
    };
    if let Some(origin) = headers.get(ORIGIN) {
        let origin = String::from_utf8_lossy(origin.as_bytes());
        let site = origin.parse::<Uri>().ok();
        let site = site.as_ref().and_then(Uri::authority);
        if site.is_none_or(|site| !site.as_str().eq_ignore_ascii_case(&text)) {
            return refuse(&origin);
        }
    }
    match headers.get(FETCH_SITE) {
        Some(site) if site == "cross-site" => refuse("another site"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn a_page_of_another_site_is_refused_and_a_client_is_not() {
        let loopback = "127.0.0.1".parse().expect("an address");
        let hosts = Hosts::of_service("127.0.0.1:8501", loopback);
        let status = |headers: &[(&'static str, &'static str)]| {
            let headers = headers.iter().map(|(name, value)| {
                let name = HeaderName::from_static(name);
                (name, HeaderValue::from_static(value))
            });
            let checked = check(&headers.collect(), &hosts);
            checked.map_or_else(|error| error.status().as_u16(), |()| 200)
        };
        let own = ("host", "localhost:8501");
        assert_eq!(status(&[own]), 200);
        assert_eq!(status(&[("host", "127.0.0.1:8501")]), 200);
        assert_eq!(status(&[("host", "evil.example")]), 421);
        assert_eq!(status(&[]), 421);
        assert_eq!(status(&[own, ("origin", "http://localhost:8501")]), 200);
        for origin in ["http://evil.example", "null", "http://localhost:1"] {
            assert_eq!(status(&[own, ("origin", origin)]), 403, "{origin}");
        }
        assert_eq!(status(&[own, ("sec-fetch-site", "cross-site")]), 403);
        assert_eq!(status(&[own, ("sec-fetch-site", "same-origin")]), 200);
    }
}
