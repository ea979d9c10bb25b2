//! Texts of other encodings as UTF-8.

use std::borrow::Cow;

use trainyard_input_options::TextEncoding;

/// Returns a record as UTF-8. Bytes of a UTF-8 file stay as they are.
///
/// # Errors
/// The record has bytes that the encoding does not know.
pub(crate) fn utf8(encoding: TextEncoding, record: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    let known = match encoding {
        TextEncoding::Utf8 => return Ok(Cow::Borrowed(record)),
        TextEncoding::Latin1 => encoding_rs::WINDOWS_1252,
        TextEncoding::Windows1250 => encoding_rs::WINDOWS_1250,
        TextEncoding::Windows1251 => encoding_rs::WINDOWS_1251,
        TextEncoding::Gb18030 => encoding_rs::GB18030,
        TextEncoding::Big5 => encoding_rs::BIG5,
        TextEncoding::ShiftJis => encoding_rs::SHIFT_JIS,
        TextEncoding::EucKr => encoding_rs::EUC_KR,
    };
    match known.decode_without_bom_handling_and_without_replacement(record) {
        Some(Cow::Borrowed(text)) => Ok(Cow::Borrowed(text.as_bytes())),
        Some(Cow::Owned(text)) => Ok(Cow::Owned(text.into_bytes())),
        None => Err(format!(
            "its bytes are not texts of [input] encoding = {:?}",
            encoding.name()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_each_encoding_become_utf8_and_others_are_refused() {
        for (encoding, bytes, text) in [
            (TextEncoding::Utf8, &b"caf\xc3\xa9"[..], "café"),
            (TextEncoding::Latin1, b"caf\xe9 \x80", "café €"),
            (TextEncoding::Windows1250, b"\xe8aj", "čaj"),
            (TextEncoding::Windows1251, b"\xe4\xe0", "да"),
            (TextEncoding::Gb18030, b"\xba\xec\xc9\xab,1", "红色,1"),
            (TextEncoding::Big5, b"\xac\xf5", "紅"),
            (TextEncoding::ShiftJis, b"\x90\xd4", "赤"),
            (TextEncoding::EucKr, b"\xbb\xa1", "빨"),
        ] {
            let found = utf8(encoding, bytes).expect("a text");
            assert_eq!(found, text.as_bytes(), "{encoding:?}");
        }
        let refused = utf8(TextEncoding::EucKr, b"\xff").expect_err("no text");
        assert!(refused.contains("euc-kr"), "{refused}");
    }
}
