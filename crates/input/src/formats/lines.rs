//! Reader of text records: the bytes between line ends. All text formats share it.

use std::path::Path;

use crate::Error;
use crate::block::Block;
use crate::other_content::{self, other_content};
use crate::record::{Content, Place, failed};
use crate::record_format::{FileRecords, InputFile, Want};

/// Longest record, in bytes.
const RECORD_BYTES_MAX: usize = 16 << 20;
/// Advice where a quoted field does not end.
const CLOSE_THE_QUOTE: &str = "close the quote where the field ends, and write a quote that belongs to a quoted text twice; of \
     format = \"tsv\", with tabs, quotes are characters like others";

/// Line ends that end a record, and lines that are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineSyntax {
    /// Every line end ends a record.
    Plain,
    /// A line end in quotes is part of a field between delimiters.
    Quoted(QuoteSyntax),
    /// Every line end ends a record. A line that holds only a comment, after `#`, is no record.
    Commented,
}

/// Place of a quote that opens a field: at its begin. Another quote is a character like others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QuoteSyntax {
    pub(super) delimiter: u8,
    /// Spaces before the quote are not part of the field.
    pub(super) trim: bool,
}

impl QuoteSyntax {
    /// Returns whether a quoted field is open after a line. `open` says so for the begin of the line; a line that begins
    /// outside of quotes begins a record.
    fn is_open_after(self, line: &[u8], mut open: bool) -> bool {
        let mut at = 0;
        while let Some(next) = memchr::memchr(b'"', &line[at..]) {
            let quote = at + next;
            at = quote + 1;
            if !open {
                open = self.opens(&line[..quote]);
            } else if line.get(at) == Some(&b'"') {
                // Two quotes in a quoted field are one of its characters.
                at += 1;
            } else {
                open = false;
            }
        }
        open
    }

    /// Returns whether a quote after these bytes of a record is at the begin of a field.
    fn opens(self, before: &[u8]) -> bool {
        let before = if self.trim {
            let spaces = |byte: &&u8| **byte != self.delimiter && byte.is_ascii_whitespace();
            let spaces = before.iter().rev().take_while(spaces).count();
            &before[..before.len() - spaces]
        } else {
            before
        };
        before.last().is_none_or(|byte| *byte == self.delimiter)
    }
}

/// Reader of the records of one file.
#[derive(Debug)]
pub(super) struct Lines {
    block: Block,
    syntax: LineSyntax,
    line: u64,
    /// Bytes from the begin of the record to the current position, and the length of the record.
    passed: usize,
    length: usize,
}

impl Lines {
    /// Opens a file. Byte order marks at its beginning are skipped: a program that joins files leaves two.
    pub(super) fn open(file: &InputFile<'_>, syntax: LineSyntax) -> Result<Self, Error> {
        let mut block = file.open_block()?;
        let fault = |error| failed(file.path, &error);
        block.fill(other_content::BYTES_MAX).map_err(fault)?;
        if let Some((message, help)) = other_content(block.bytes()) {
            return Err(Error::Content {
                file: file.path.to_owned(),
                message: message.to_owned(),
                help,
            });
        }
        while block.fill(3).map_err(fault)? && block.bytes().starts_with(b"\xef\xbb\xbf") {
            block.pass(3);
        }
        Ok(Self {
            block,
            syntax,
            line: 0,
            passed: 0,
            length: 0,
        })
    }

    /// Returns the record, without its line end.
    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.block.passed(self.passed)[..self.length]
    }

    /// Returns whether the current line is no record.
    fn is_empty(&self) -> bool {
        match self.syntax {
            LineSyntax::Plain | LineSyntax::Quoted(_) => self.length == 0,
            LineSyntax::Commented => {
                matches!(self.bytes().trim_ascii_start().first(), None | Some(b'#'))
            }
        }
    }

    /// Returns the length of the next record with its line end, 0 at the end of the file. Counts the record's lines.
    fn record_length(&mut self, file: &Path, place: &Place) -> Result<usize, Error> {
        // Bytes that were scanned, the start of the record's last line, and whether a quoted field is open there.
        let mut seen = 0;
        let mut line = 0;
        let mut open = false;
        loop {
            let bytes = self.block.bytes();
            match memchr::memchr(b'\n', &bytes[seen..]) {
                Some(end) => {
                    seen += end + 1;
                    self.line += 1;
                    if let LineSyntax::Quoted(quotes) = self.syntax {
                        open = quotes.is_open_after(&bytes[line..seen], open);
                        line = seen;
                    }
                    if !open && seen <= RECORD_BYTES_MAX {
                        return Ok(seen);
                    }
                }
                None => {
                    seen = bytes.len();
                    if seen <= RECORD_BYTES_MAX
                        && !self.block.more().map_err(|error| failed(file, &error))?
                    {
                        let bytes = self.block.bytes();
                        let first = place.line;
                        let lines = self.line + 1 - first + u64::from(seen > line);
                        if let LineSyntax::Quoted(quotes) = self.syntax
                            && lines > 1
                            && quotes.is_open_after(&bytes[line..seen], open)
                        {
                            let message = format!(
                                "a quoted field of the record at line {first} has no closing quote: it takes {lines} lines, all up to the \
                                 end of the file"
                            );
                            return Err(Error::Content {
                                file: file.to_owned(),
                                message,
                                help: CLOSE_THE_QUOTE,
                            });
                        }
                        self.line += u64::from(seen > line);
                        return Ok(seen);
                    }
                }
            }
            if seen > RECORD_BYTES_MAX {
                return Err(self.too_long(seen, line, open, file, place));
            }
        }
    }

    /// Returns the error of a record that does not end within [`RECORD_BYTES_MAX`]. `seen` bytes were scanned, `line` is the start
    /// of its last line, and `open` whether a quoted field is open there.
    fn too_long(&self, seen: usize, line: usize, open: bool, file: &Path, place: &Place) -> Error {
        let first = place.line;
        let rest = self.block.bytes().get(line..seen).unwrap_or_default();
        let is_open = match self.syntax {
            LineSyntax::Quoted(quotes) => quotes.is_open_after(rest, open),
            LineSyntax::Plain | LineSyntax::Commented => false,
        };
        let (message, help) = if is_open {
            (
                format!(
                    "a quoted field of the record at line {first} has no closing quote within {RECORD_BYTES_MAX} bytes"
                ),
                CLOSE_THE_QUOTE,
            )
        } else {
            (
                format!("the record at line {first} is longer than {RECORD_BYTES_MAX} bytes"),
                "look whether the file is text of this format with lines that end with line feeds, and divide longer records",
            )
        };
        Error::Content {
            file: file.to_owned(),
            message,
            help,
        }
    }
}

impl FileRecords for Lines {
    /// Moves to the next record that is not empty.
    fn next(&mut self, file: &Path, place: &mut Place, _want: Want) -> Result<bool, Error> {
        loop {
            place.line = self.line + 1;
            place.offset = self.block.offset();
            let record = self.record_length(file, place)?;
            if record == 0 {
                return Ok(false);
            }
            self.block.pass(record);
            self.passed = record;
            let bytes = self.block.passed(record);
            let ends = bytes
                .iter()
                .rev()
                .take_while(|byte| matches!(byte, b'\n' | b'\r'))
                .count();
            self.length = record - ends;
            if !self.is_empty() {
                return Ok(true);
            }
        }
    }

    fn seek(&mut self, offset: u64, line: u64, until: u64) -> std::io::Result<()> {
        self.line = line.saturating_sub(1);
        self.passed = 0;
        self.length = 0;
        self.block.seek(offset, until)
    }

    fn end(&self) -> u64 {
        self.block.offset()
    }

    fn content(&self) -> Content<'_> {
        Content::Bytes(self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use trainyard_diagnostic::Diagnostic;
    use trainyard_storage::Storage;

    use super::*;

    #[test]
    fn a_quote_opens_a_field_at_its_begin_alone() {
        let strict = QuoteSyntax {
            delimiter: b',',
            trim: false,
        };
        let trimmed = QuoteSyntax {
            trim: true,
            ..strict
        };
        for (line, open) in [
            ("b\"x,2,1\n", false),
            ("a,5\" pipe,\"\n", true),
            ("\"a\n", true),
            ("\"a\"\"\n", true),
            ("\"a\"\"\"\n", false),
            ("\"a\"b\"c\n", false),
            ("\"a\",\"b\n", true),
            ("\"a, \"\"b\"\"\",c\"d\n", false),
            ("\"\"\n", false),
        ] {
            for syntax in [strict, trimmed] {
                assert_eq!(syntax.is_open_after(line.as_bytes(), false), open, "{line}");
            }
        }
        assert!(trimmed.is_open_after(b"a, \"b\n", false));
        assert!(!strict.is_open_after(b"a, \"b\n", false));
        assert!(!strict.is_open_after(b"b\",c\"\n", true));
    }

    /// Returns the number of records of a file.
    fn records(path: &Path, syntax: LineSyntax) -> Result<usize, Error> {
        let storage = Storage::default();
        let file = InputFile {
            storage: &storage,
            path,
            compression: None,
            trim: false,
            delimiter: None,
            #[cfg(feature = "parquet")]
            keeps_digits: true,
        };
        let mut lines = Lines::open(&file, syntax)?;
        let mut place = Place::default();
        let mut count = 0;
        while lines.next(path, &mut place, Want::Content)? {
            count += 1;
        }
        Ok(count)
    }

    #[test]
    fn a_quote_that_takes_the_rest_of_a_file_is_no_bad_row_but_an_error() {
        let quotes = QuoteSyntax {
            delimiter: b',',
            trim: false,
        };
        for (text, problem) in [
            ("a,1\n\"b,2\nc,3\nd,4\n", Some("line 2")),
            ("a,1\n\"b,2\nc,3\nd,4", Some("takes 3 lines")),
            ("a,1\n\"b\n2\",3\n", None),
            // A line that is cut off is a bad row.
            ("a,1\n\"b,2", None),
            ("a,1\n\"b,2\n", None),
        ] {
            let file = tempfile::NamedTempFile::new().expect("a temporary file");
            std::fs::write(file.path(), text).expect("written");
            let found = records(file.path(), LineSyntax::Quoted(quotes));
            match problem {
                Some(part) => {
                    let problem = Diagnostic::from(found.expect_err(text)).render();
                    assert!(problem.contains(part), "{problem}");
                    assert!(problem.contains("help: close the quote"), "{problem}");
                }
                None => assert_eq!(found.expect(text), 2, "{text}"),
            }
        }
    }

    #[test]
    fn a_record_that_does_not_end_is_told_with_the_reason() {
        let quotes = QuoteSyntax {
            delimiter: b',',
            trim: false,
        };
        let short = "b,2\n".repeat(RECORD_BYTES_MAX / 4);
        let long = "b".repeat(RECORD_BYTES_MAX + 1);
        for (text, part, help) in [
            (
                format!("a,1\n\"{short}c\n"),
                "record at line 2 has no closing quote",
                "close the quote",
            ),
            (
                format!("a,1\n\"c\",{long}\n"),
                "record at line 2 is longer than",
                "line feeds",
            ),
        ] {
            let file = tempfile::NamedTempFile::new().expect("a temporary file");
            std::fs::write(file.path(), text).expect("written");
            let error = records(file.path(), LineSyntax::Quoted(quotes)).expect_err(part);
            let problem = Diagnostic::from(error).render();
            assert!(problem.contains(part), "{problem}");
            assert!(problem.contains(help), "{problem}");
            assert!(!problem.contains("permissions"), "{problem}");
        }
    }
}
