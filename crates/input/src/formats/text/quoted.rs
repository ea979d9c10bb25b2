//! Parser of quoted fields (RFC 4180).

/// Reads a quoted field into `out`. Returns the bytes after its delimiter, `Some(None)` at the end of the record, and
/// nothing if the quoting is broken.
#[allow(clippy::option_option)]
pub(super) fn unquote<'a>(
    rest: &'a [u8],
    delimiter: u8,
    out: &mut Vec<u8>,
) -> Option<Option<&'a [u8]>> {
    out.clear();
    let mut rest = &without_blanks(rest, delimiter)[1..];
    loop {
        let end = memchr::memchr(b'"', rest)?;
        out.extend_from_slice(&rest[..end]);
        rest = &rest[end + 1..];
        if rest.first() != Some(&b'"') {
            break;
        }
        out.push(b'"');
        rest = &rest[1..];
    }
    let rest = without_blanks(rest, delimiter);
    match rest.first() {
        None => Some(None),
        Some(byte) if *byte == delimiter => Some(Some(&rest[1..])),
        Some(_) => None,
    }
}

/// Returns the bytes after the blanks at their begin. A delimiter is no blank.
pub(super) fn without_blanks(bytes: &[u8], delimiter: u8) -> &[u8] {
    let is_blank = |byte: &u8| byte.is_ascii_whitespace() && *byte != delimiter;
    let blanks = bytes.iter().take_while(|byte| is_blank(byte)).count();
    &bytes[blanks..]
}
