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
    let mut rest = &rest.trim_ascii_start()[1..];
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
    let rest = rest.trim_ascii_start();
    match rest.first() {
        None => Some(None),
        Some(byte) if *byte == delimiter => Some(Some(&rest[1..])),
        Some(_) => None,
    }
}
