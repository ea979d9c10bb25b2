//! Texts of clients for messages: cut, on one line, with control characters escaped.

use trainyard_diagnostic::one_line;

/// Longest part of a text of a client in a message, in bytes.
const TEXT_BYTES_MAX: usize = 256;
/// Longest message, in bytes. A header of gRPC holds 8 KiB or more.
const MESSAGE_BYTES_MAX: usize = 2 << 10;
/// Most sizes of a shape in a message.
const SIZES_MAX: usize = 8;

/// Returns a text of a client for a message.
pub(crate) fn shown(text: &str) -> String {
    cut(text, TEXT_BYTES_MAX)
}

/// Returns a message, which may have several texts of a client.
pub(crate) fn message(text: &str) -> String {
    cut(text, MESSAGE_BYTES_MAX)
}

/// Returns the first sizes of a shape.
pub(crate) fn sizes<T: std::fmt::Debug>(shape: &[T]) -> String {
    match shape.get(..SIZES_MAX) {
        Some(first) if first.len() < shape.len() => {
            format!("{first:?} and {} more", shape.len() - first.len())
        }
        _ => format!("{shape:?}"),
    }
}

fn cut(text: &str, bytes_max: usize) -> String {
    let begin = &text[..text.floor_char_boundary(bytes_max.min(text.len()))];
    let more = if begin.len() < text.len() { "..." } else { "" };
    one_line(begin) + more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_shapes_are_cut() {
        let long = shown(&"\u{e4}".repeat(1 << 20));
        assert_eq!((long.len(), long.ends_with("\u{e4}...")), (259, true));
        assert_eq!(shown("a\nb"), "a\\nb");
        assert_eq!(sizes(&[1, 2]), "[1, 2]");
        assert_eq!(sizes(&[0; 20]), "[0, 0, 0, 0, 0, 0, 0, 0] and 12 more");
    }
}
