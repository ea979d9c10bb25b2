//! Page of a role at the admin port.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::sync::watch;

/// Content security policy: a page may load its own files and call its own daemon, and nothing else. Inline scripts and
/// styles are ignored, so a name that looks like markup has no effect.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file of a page, or a response of its API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Media type, for example `text/html; charset=utf-8`.
    pub media_type: &'static str,
    /// Content of the file.
    pub body: Cow<'static, [u8]>,
}

/// Handler that returns the content of a path such as `/api/v1/run`, or nothing. It may block on a disk.
type Answer = Arc<dyn Fn(&str) -> Option<Content> + Send + Sync>;

/// A cell in which a role puts its page. The admin port reads it.
#[derive(Clone)]
pub struct Page {
    cell: watch::Sender<Option<Answer>>,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            cell: watch::Sender::new(None),
        }
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Page")
            .field("shown", &self.cell.borrow().is_some())
            .finish()
    }
}

impl Page {
    /// Sets the handler of the page.
    pub fn show(&self, answer: impl Fn(&str) -> Option<Content> + Send + Sync + 'static) {
        self.cell.send_replace(Some(Arc::new(answer)));
    }

    /// Returns the response to a request.
    pub(crate) async fn respond(&self, path: String) -> Response {
        let Some(answer) = self.cell.borrow().clone() else {
            let text = "this task has no page: the leading chief has the page at its admin port. \
                This task has /metrics, /healthz and /readyz\n";
            return (StatusCode::NOT_FOUND, text).into_response();
        };
        match tokio::task::spawn_blocking(move || answer(&path)).await {
            Ok(Some(content)) => file(content),
            Ok(None) => (StatusCode::NOT_FOUND, "no such page\n").into_response(),
            Err(error) => {
                tracing::warn!(%error, "a page of the admin port has failed");
                (
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "the page has failed: see the log\n",
                )
                    .into_response()
            }
        }
    }
}

fn file(content: Content) -> Response {
    let headers = [
        (header::CONTENT_TYPE, content.media_type),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        // The content is live, and another release may serve other files at the same address.
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    let headers = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
    (headers, content.body.into_owned()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_page_obeys_nothing_but_its_own_files_and_is_never_kept() {
        let page = Page::default();
        assert_eq!(
            page.respond("/".to_owned()).await.status(),
            StatusCode::NOT_FOUND
        );
        page.show(|path| {
            let content = Content {
                media_type: "text/html; charset=utf-8",
                body: Cow::Borrowed(b"here"),
            };
            (path == "/").then_some(content)
        });
        let shown = page.respond("/".to_owned()).await;
        assert_eq!(shown.status(), StatusCode::OK);
        let said = |name| {
            shown
                .headers()
                .get(name)
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
        };
        let policy = said(header::CONTENT_SECURITY_POLICY);
        assert!(
            policy.starts_with("default-src 'none'") && !policy.contains("unsafe"),
            "{policy}"
        );
        assert_eq!(
            (
                said(header::CACHE_CONTROL),
                said(header::X_CONTENT_TYPE_OPTIONS)
            ),
            ("no-store", "nosniff")
        );
        assert_eq!(
            page.respond("/else".to_owned()).await.status(),
            StatusCode::NOT_FOUND
        );
    }
}
