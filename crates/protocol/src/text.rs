//! Texts of peers for messages and logs: truncated, with control characters escaped.

use trainyard_diagnostic::one_line;

use crate::limits::PEER_TEXT_BYTES_MAX;

/// Returns the beginning of a text, of at most `bytes_max` bytes.
pub fn cut(text: &str, bytes_max: usize) -> &str {
    let end = (0..=text.len().min(bytes_max))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// Returns a text of a peer for a message or a log: its first `PEER_TEXT_BYTES_MAX` bytes, on one line, with control
/// characters escaped. The function is idempotent for texts that are passed on.
pub fn shown(text: &str) -> String {
    let begin = cut(text, PEER_TEXT_BYTES_MAX);
    let more = if begin.len() < text.len() { "..." } else { "" };
    one_line(begin) + more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_a_peer_is_short_and_one_line() {
        let once = shown("a\n\u{1b}[2J\u{202e}ä \"b\"");
        assert_eq!(once, "a\\n\\u{1b}[2J\\u{202e}ä \"b\"");
        assert_eq!(shown(&once), once);
        let long = shown(&"ä".repeat(1 << 20));
        assert_eq!(
            (long.len(), long.ends_with("ä...")),
            (PEER_TEXT_BYTES_MAX + 3, true)
        );
        assert_eq!(cut("aä", 2), "a");
    }
}
