//! Content that is no table of text, known by the first bytes of a file.

/// Number of first bytes by which content is known.
pub(crate) const BYTES_MAX: usize = 10;

const UNPACK: &str =
    "unpack it, or write it again with gzip, which is read where the name ends with `.gz`";

/// Returns what the first bytes of a text file show the content to be, if it is no text, and the remedy. The bytes are those of RFC
/// 1952 (gzip), RFC 8878 (zstd), and of the formats' own descriptions.
pub(crate) fn other_content(begin: &[u8]) -> Option<(&'static str, &'static str)> {
    let is_bzip2 = begin.starts_with(b"BZh") && begin.get(4..10) == Some(b"1AY&SY");
    let text = begin.strip_prefix(b"\xef\xbb\xbf").unwrap_or(begin);
    let names_delimiter =
        text.starts_with(b"sep=") && text.get(5).is_some_and(|end| matches!(end, b'\r' | b'\n'));
    let known: [(bool, &'static str, &'static str); 11] = [
        (
            begin.starts_with(&[0x1f, 0x8b]),
            "its content is compressed by gzip",
            "let its name end with `.gz`, or set input.compression = \"gzip\"",
        ),
        (
            begin.starts_with(b"PK\x03\x04"),
            "its content is a zip archive, as those of Excel are",
            "unpack it, or save the sheet as csv",
        ),
        (is_bzip2, "its content is compressed by bzip2", UNPACK),
        (
            begin.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]),
            "its content is compressed by zstd",
            UNPACK,
        ),
        (
            begin.starts_with(&[0xfd, b'7', b'z', b'X', b'Z', 0]),
            "its content is compressed by xz",
            UNPACK,
        ),
        (
            begin.starts_with(&[0x04, 0x22, 0x4d, 0x18]),
            "its content is compressed by lz4",
            UNPACK,
        ),
        (
            begin.starts_with(&[0xff, 0x06, 0, 0, b's', b'N']),
            "its content is compressed by snappy",
            UNPACK,
        ),
        (
            begin.starts_with(b"PAR1"),
            "its content is Parquet, and no text",
            "let its name end with `.parquet`, or give the format parquet",
        ),
        (
            begin.starts_with(b"ARROW1\0\0"),
            "its content is Arrow, and no text",
            "write it as Parquet: in Python, `pyarrow.parquet.write_table`",
        ),
        (
            begin.starts_with(&[0xff, 0xfe]) || begin.starts_with(&[0xfe, 0xff]),
            "its content is a text of UTF-16",
            "write it as UTF-8: `iconv -f UTF-16 -t UTF-8 IN > OUT`",
        ),
        (
            names_delimiter,
            "its first line names the delimiter, as `sep=;` does for spreadsheets, and would name the columns",
            "remove the line: `sed 1d IN > OUT`",
        ),
    ];
    let found = known.into_iter().find(|(is_it, ..)| *is_it);
    found.map(|(_, what, help)| (what, help))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_that_is_no_table_of_text_is_called_by_its_name_and_text_is_none() {
        for (begin, name) in [
            (&b"\x1f\x8b\x08\0"[..], "gzip"),
            (b"PK\x03\x04", "zip"),
            (b"BZh91AY&SY", "bzip2"),
            (b"\x28\xb5\x2f\xfd", "zstd"),
            (b"\xfd7zXZ\0", "xz"),
            (b"\x04\x22\x4d\x18", "lz4"),
            (b"\xff\x06\0\0sNaPpY", "snappy"),
            (b"PAR1", "Parquet"),
            (b"ARROW1\0\0", "Arrow"),
            (b"\xff\xfea\0", "UTF-16"),
            (b"sep=;\na;b", "sep=;"),
            (b"\xef\xbb\xbfsep=,\r\n", "sep=;"),
        ] {
            let (what, _) = other_content(begin).expect("known");
            assert!(what.contains(name), "{what}");
        }
        for text in [
            &b""[..],
            b"x",
            b"x,y",
            b"PK,a",
            b"BZh9,label",
            b"\xef\xbb\xbfx",
            b"sep=;,a\n1",
            b"sep,a\n1,2",
        ] {
            assert_eq!(other_content(text), None, "{}", text.escape_ascii());
        }
    }
}
