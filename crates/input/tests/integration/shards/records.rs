//! Files of numbered rows in every format.

use std::path::PathBuf;

use proptest::prelude::*;
use trainyard_input::*;

use crate::writer::{Kind, Writer, compress, example, feature};

/// An input in a temporary folder, and the schema of its columns `n` and `text`.
#[derive(Debug)]
pub(crate) struct Data {
    pub(crate) _folder: tempfile::TempDir,
    pub(crate) options: Options,
    pub(crate) schema: Schema,
    /// Number of rows. Column `n` counts them from 0, in file order.
    pub(crate) rows: u64,
}

/// Form of the files.
#[derive(Debug, Clone)]
pub(crate) struct Form {
    pub(crate) format: Format,
    pub(crate) header: bool,
    pub(crate) compression: Compression,
    /// Texts of the rows, by row number modulo their count. CSV quotes them.
    pub(crate) texts: Vec<String>,
    /// Whether text begins with a byte order mark.
    pub(crate) mark: bool,
    /// Whether there are blank lines between rows, and whether the last line of a file has a line end.
    pub(crate) blanks: bool,
    pub(crate) ends: bool,
}

impl Form {
    pub(crate) fn csv() -> Self {
        let texts = vec!["a".to_owned(), "b,\"\nc".to_owned(), String::new()];
        let compression = Compression::None;
        Self {
            format: Format::Csv,
            header: true,
            compression,
            texts,
            mark: false,
            blanks: false,
            ends: true,
        }
    }
}

pub(crate) fn form() -> impl Strategy<Value = Form> {
    let texts = prop::collection::vec("[a-z,\"\n é]{0,12}", 1..5);
    (
        0..3_usize,
        any::<bool>(),
        0..3_usize,
        texts,
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(
            |(format, header, compression, texts, mark, blanks, ends)| Form {
                format: [Format::Csv, Format::Tsv, Format::TfRecord][format],
                header,
                compression: [Compression::None, Compression::Gzip, Compression::Zlib][compression],
                texts,
                mark,
                blanks,
                ends,
            },
        )
}

/// Writes `counts[i]` rows to file i, and returns the input.
pub(crate) fn data(counts: &[usize], form: &Form) -> Data {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut schema = Schema::default();
    schema.want("n", FieldKind::INT);
    schema.want("text", FieldKind::BYTES);
    let mut files = Vec::<PathBuf>::new();
    let mut next = 0;
    for (number, rows) in counts.iter().enumerate() {
        let path = folder.path().join(format!("{number}.data"));
        let bytes = content(form, next..next + rows);
        std::fs::write(&path, compress(&bytes, form.compression)).expect("a file is written");
        files.push(path);
        next += rows;
    }
    let names = vec!["n".to_owned(), "text".to_owned()];
    let options = Options {
        compression: Some(form.compression),
        columns: (!form.header).then_some(names),
        bad_rows_max: 1000,
        seed: 3,
        ..Options::new(files, form.format)
    };
    Data {
        _folder: folder,
        options,
        schema,
        rows: next as u64,
    }
}

fn content(form: &Form, rows: std::ops::Range<usize>) -> Vec<u8> {
    let text = |row: usize| form.texts[row % form.texts.len()].as_str();
    if form.format == Format::TfRecord {
        let mut writer = Writer::default();
        for row in rows {
            let number = [row as i64];
            let text = [text(row).as_bytes()];
            writer.write(&example(&[
                ("n", feature(Kind::Ints(&number), true)),
                ("text", feature(Kind::Texts(&text), true)),
                ("unwanted", feature(Kind::Floats(&[0.5]), true)),
            ]));
        }
        return writer.finish(Compression::None);
    }
    let mut lines = Vec::new();
    if form.header {
        lines.push(if form.format == Format::Csv {
            "n,text".to_owned()
        } else {
            "n\ttext".to_owned()
        });
    }
    lines.extend(rows.map(|row| match form.format {
        Format::Csv => format!("{row},\"{}\"", text(row).replace('"', "\"\"")),
        _ => format!("{row}\t{}", text(row).replace('\n', " ")),
    }));
    let end = if form.blanks { "\r\n\n" } else { "\n" };
    let mut joined = if form.mark {
        "\u{feff}".to_owned()
    } else {
        String::new()
    };
    joined.push_str(&lines.join(end));
    if form.ends && !lines.is_empty() {
        joined.push_str(end);
    }
    joined.into_bytes()
}
