//! Reader of JSON (RFC 8259) that keeps the text of numbers, so that they are rounded once, as in training. `NaN`, which Python's
//! `json` writes and TensorFlow Serving reads, is a number.

use std::borrow::Cow;

/// Most levels of arrays and objects. A request has at most 5.
const DEPTH_MAX: usize = 32;

/// Place and reason of a text that is not JSON, or not the JSON that was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} (byte {at} of the JSON)")]
pub(crate) struct Fault {
    /// Byte of the body, from 0.
    pub(crate) at: usize,
    pub(crate) message: String,
}

/// Type of the next value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Object,
    Array,
    Text,
    Number,
    Bool,
    Null,
}

impl Kind {
    /// Returns the name of the type, for messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Object => "an object",
            Self::Array => "an array",
            Self::Text => "a text",
            Self::Number => "a number",
            Self::Bool => "true or false",
            Self::Null => "null",
        }
    }
}

/// A number: whole, or its text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number<'a> {
    /// A whole number of 64 bits.
    Int(i64),
    /// Any other number.
    Decimal(&'a str),
}

/// A position in a text.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            depth: 0,
        }
    }

    /// Returns the byte of the text that comes next.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Returns an error at this position.
    pub(crate) fn fault(&self, message: impl Into<String>) -> Fault {
        Fault {
            at: self.at,
            message: message.into(),
        }
    }

    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    /// Returns the next byte after white space.
    fn next(&mut self) -> Option<u8> {
        while let Some(byte) = self.bytes().get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    /// Returns the type of the next value.
    pub(crate) fn kind(&mut self) -> Result<Kind, Fault> {
        match self.next() {
            Some(b'{') => Ok(Kind::Object),
            Some(b'[') => Ok(Kind::Array),
            Some(b'"') => Ok(Kind::Text),
            // Numbers that JSON does not have are numbers, too: their reader tells them.
            Some(b'-' | b'0'..=b'9' | b'N' | b'I') => Ok(Kind::Number),
            Some(b't' | b'f') => Ok(Kind::Bool),
            Some(b'n') => Ok(Kind::Null),
            Some(_) => Err(self.fault("expected a JSON value")),
            None => Err(self.fault("expected a JSON value, but the text ends")),
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), Fault> {
        if self.next() == Some(byte) {
            self.at += 1;
            return Ok(());
        }
        Err(self.fault(format!("expected `{}`", char::from(byte))))
    }

    fn enter(&mut self, open: u8) -> Result<(), Fault> {
        self.expect(open)?;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.fault(format!("more than {DEPTH_MAX} levels")));
        }
        Ok(())
    }

    /// Reads an object. `each` reads the value of a key.
    pub(crate) fn object(
        &mut self,
        mut each: impl FnMut(&mut Self, Cow<'a, str>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.enter(b'{')?;
        if self.next() == Some(b'}') {
            self.at += 1;
            self.depth -= 1;
            return Ok(());
        }
        loop {
            self.next();
            let key = self.string()?;
            self.expect(b':')?;
            each(self, key)?;
            if self.next() == Some(b',') {
                self.at += 1;
                continue;
            }
            self.expect(b'}')?;
            self.depth -= 1;
            return Ok(());
        }
    }

    /// Reads an array. `each` reads an element.
    pub(crate) fn array(
        &mut self,
        mut each: impl FnMut(&mut Self) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.enter(b'[')?;
        if self.next() == Some(b']') {
            self.at += 1;
            self.depth -= 1;
            return Ok(());
        }
        loop {
            each(self)?;
            if self.next() == Some(b',') {
                self.at += 1;
                continue;
            }
            self.expect(b']')?;
            self.depth -= 1;
            return Ok(());
        }
    }

    /// Reads a text.
    pub(crate) fn string(&mut self) -> Result<Cow<'a, str>, Fault> {
        self.expect(b'"')?;
        let begin = self.at;
        let mut owned: Option<String> = None;
        let mut from = begin;
        loop {
            let rest = &self.bytes()[self.at..];
            let Some(length) = rest
                .iter()
                .position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f))
            else {
                return Err(self.fault("a text without its closing quote"));
            };
            self.at += length;
            match self.bytes()[self.at] {
                b'"' => {
                    let last = &self.text[from..self.at];
                    self.at += 1;
                    return Ok(match owned {
                        None => Cow::Borrowed(last),
                        Some(mut text) => {
                            text.push_str(last);
                            Cow::Owned(text)
                        }
                    });
                }
                b'\\' => {
                    let text = owned.get_or_insert_default();
                    text.push_str(&self.text[from..self.at]);
                    self.at += 1;
                    let letter = self.escape()?;
                    text.push(letter);
                    from = self.at;
                }
                _ => return Err(self.fault("a control character in a text")),
            }
        }
    }

    /// Reads the rest of an escape, after its backslash.
    fn escape(&mut self) -> Result<char, Fault> {
        let byte = self.bytes().get(self.at).copied();
        self.at += 1;
        Ok(match byte {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let first = self.hexadecimal()?;
                let code = match first {
                    0xd800..=0xdbff if self.bytes()[self.at..].starts_with(b"\\u") => {
                        self.at += 2;
                        let second = self.hexadecimal()?;
                        let low = second.checked_sub(0xdc00).filter(|low| *low < 0x400);
                        low.map(|low| 0x1_0000 + ((first - 0xd800) << 10) + low)
                    }
                    code => Some(code),
                };
                code.and_then(char::from_u32)
                    .ok_or_else(|| self.fault("half of a surrogate pair"))?
            }
            _ => {
                self.at -= 1;
                return Err(self.fault("an unknown escape in a text"));
            }
        })
    }

    fn hexadecimal(&mut self) -> Result<u32, Fault> {
        let digits = self.bytes().get(self.at..self.at + 4);
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let code = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let code = code.ok_or_else(|| self.fault("expected four hexadecimal digits"))?;
        self.at += 4;
        Ok(code)
    }

    /// Reads a number.
    pub(crate) fn number(&mut self) -> Result<Number<'a>, Fault> {
        self.next();
        let begin = self.at;
        let rest = &self.bytes()[begin..];
        if rest.starts_with(b"NaN") {
            self.at += 3;
            return Ok(Number::Decimal(&self.text[begin..self.at]));
        }
        let sign = usize::from(rest.first() == Some(&b'-'));
        if rest[sign..].starts_with(b"Infinity") {
            return Err(self.fault(
                "an infinite number, which JSON does not have, and no column takes: send null for a missing value",
            ));
        }
        let digits = |from: usize| {
            let more = rest[from..].iter().take_while(|byte| byte.is_ascii_digit());
            from + more.count()
        };
        let mut end = digits(sign);
        let leading_zero = rest.get(sign) == Some(&b'0') && end > sign + 1;
        let mut is_good = end > sign && !leading_zero;
        let mut is_whole = true;
        if rest.get(end) == Some(&b'.') {
            is_whole = false;
            let after = digits(end + 1);
            is_good &= after > end + 1;
            end = after;
        }
        if matches!(rest.get(end), Some(b'e' | b'E')) {
            is_whole = false;
            let sign = usize::from(matches!(rest.get(end + 1), Some(b'+' | b'-')));
            let after = digits(end + 1 + sign);
            is_good &= after > end + 1 + sign;
            end = after;
        }
        if !is_good {
            return Err(self.fault("a number that JSON does not have"));
        }
        self.at += end;
        let text = &self.text[begin..self.at];
        let whole = is_whole.then(|| text.parse().ok()).flatten();
        Ok(whole.map_or(Number::Decimal(text), Number::Int))
    }

    fn word(&mut self, word: &str) -> Result<(), Fault> {
        self.next();
        if self.bytes()[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            return Ok(());
        }
        Err(self.fault("expected a JSON value"))
    }

    /// Reads `null`.
    pub(crate) fn null(&mut self) -> Result<(), Fault> {
        self.word("null")
    }

    /// Reads `true` or `false`.
    pub(crate) fn bool(&mut self) -> Result<bool, Fault> {
        match self.next() {
            Some(b't') => self.word("true").map(|()| true),
            _ => self.word("false").map(|()| false),
        }
    }

    /// Passes over a value.
    pub(crate) fn skip(&mut self) -> Result<(), Fault> {
        match self.kind()? {
            Kind::Object => self.object(|reader, _| reader.skip()),
            Kind::Array => self.array(Self::skip),
            Kind::Text => self.string().map(drop),
            Kind::Number => self.number().map(drop),
            Kind::Bool => self.bool().map(drop),
            Kind::Null => self.null(),
        }
    }

    /// Checks that nothing follows.
    pub(crate) fn end(&mut self) -> Result<(), Fault> {
        match self.next() {
            None => Ok(()),
            Some(_) => Err(self.fault("expected the end of the text")),
        }
    }
}

/// Appends a text in quotes.
pub(crate) fn write_text(out: &mut String, text: &str) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if (control as u32) < 0x20 => {
                out.push_str(&format!("\\u{:04x}", control as u32));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skip(text: &str) -> Result<(), String> {
        let mut reader = Reader::new(text);
        let read = reader.skip().and_then(|()| reader.end());
        read.map_err(|fault| fault.to_string())
    }

    #[test]
    fn what_serde_reads_is_read_and_what_it_refuses_is_refused() {
        for text in [
            "1",
            "-0",
            "0.5e-3",
            "1E+9",
            "[]",
            "{}",
            " [1, {\"a\" : null}] ",
            "\"\"",
            "\"\\u00e9\"",
            "\"\\ud83d\\ude00\"",
            "true",
            "false",
            "null",
            "[[[]]]",
            "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
            "01",
            "1.",
            ".5",
            "+1",
            "1e",
            "-",
            "[1,]",
            "{\"a\":1,}",
            "{a:1}",
            "[1",
            "{\"a\"",
            "\"",
            "\"\\x\"",
            "\"\\ud83d\"",
            "\"\\ud83dx\"",
            "\"\\u12\"",
            "nul",
            "tru",
            "[1 2]",
            "1 2",
            "",
            "\"\u{1}\"",
            "{\"a\" 1}",
            "[,1]",
            "Infinity",
            "-NaN",
            "Na",
            "\"\\ude00\"",
        ] {
            let theirs = serde_json::from_str::<serde_json::Value>(text);
            assert_eq!(skip(text).is_ok(), theirs.is_ok(), "{text}");
            if let Ok(serde_json::Value::String(expected)) = theirs {
                let read = Reader::new(text).string().expect("a text");
                assert_eq!(read, expected);
                let mut written = String::new();
                write_text(&mut written, &expected);
                let again: String = serde_json::from_str(&written).expect("a text");
                assert_eq!(again, expected);
            }
        }
    }

    #[test]
    fn the_missing_number_of_python_is_read_and_infinity_is_not() {
        assert!(skip("[NaN, 1]").is_ok());
        for text in ["NaNs", "NaN1", "nan", "Infinity", "-Infinity"] {
            assert!(skip(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_keep_their_text() {
        let number = |text| Reader::new(text).number().expect("a number");
        assert_eq!(number("-12"), Number::Int(-12));
        assert_eq!(number("0.10"), Number::Decimal("0.10"));
        assert_eq!(
            number("9223372036854775808"),
            Number::Decimal("9223372036854775808")
        );
    }

    #[test]
    fn deep_texts_are_refused() {
        let text = "[".repeat(100_000);
        assert!(skip(&text).expect_err("too deep").contains("32 levels"));
    }
}
