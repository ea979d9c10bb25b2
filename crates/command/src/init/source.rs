//! Input files of `trainyard init`: their format and the names of their columns.

use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_input::{
    ColumnKind, Compression, Decimal, Error, Format, MissingTexts, NumberStyle, Options, Profile,
    TableReader, TextEncoding, TextStyle, Value,
};
use trainyard_run_config::{FileIdentity, expand_files};
use trainyard_storage::is_remote;

use super::doubts::{Doubt, doubts, of_times, of_total};
use super::job_file::{WRITTEN_BY, quoted};
use super::style::{Division, Writing, begins_with_a_record, division, fields, writing};
use crate::convert::{TableFormat, guess};
use crate::init::Init;

/// Lines of the first file that are read to find how it writes its fields.
const LINES_MAX: usize = 200;

/// Records of each file that show the types of its columns.
const ROWS_OF_TYPES: usize = 1000;

/// Most bytes of the last line of a file.
const LINE_BYTES_MAX: u64 = 1 << 16;

/// Names of the parts that `init` makes of the data, without their ending.
pub(super) const PARTS: [&str; 2] = ["train", "eval"];

/// Most files whose last record is told.
const TOTALS_MAX: usize = 3;

/// A byte that no text file has between its fields, and that leaves lines whole.
const NO_DELIMITER: u8 = 0x1f;

/// Files, their format and their columns.
#[derive(Debug)]
pub(super) struct Source {
    /// The training files, or all of them. None of them is an evaluation file.
    pub(super) train: Vec<PathBuf>,
    /// Number of files of the data that are left out of `train`, because they were given for evaluation.
    pub(super) withheld: usize,
    /// The evaluation files, if they were given.
    pub(super) eval: Option<Vec<PathBuf>>,
    pub(super) format: Format,
    /// Names of the columns, if the files do not contain them.
    pub(super) columns: Option<Vec<String>>,
    /// Style of the fields of text files.
    pub(super) style: TextStyle,
    /// Words that stand for missing numbers.
    pub(super) missing: Vec<String>,
    /// Columns of texts that have such a word, with the first of their words.
    pub(super) missing_in_texts: Vec<(String, String)>,
    /// Columns that mix units, and stay texts.
    mixed: Vec<String>,
}

impl Source {
    /// Finds the files and detects their format.
    pub(super) fn find(arguments: &Init) -> Result<Self, Diagnostic> {
        let mut train = expand_files(&arguments.data)?;
        let eval = if arguments.eval.is_empty() {
            None
        } else {
            Some(expand_files(&arguments.eval)?)
        };
        refuse_own_parts(&train)?;
        let found = train.len();
        let of_evaluation: HashSet<FileIdentity> = eval
            .iter()
            .flatten()
            .map(|file| FileIdentity::of(file))
            .collect();
        train.retain(|file| !of_evaluation.contains(&FileIdentity::of(file)));
        let withheld = found - train.len();
        if train.is_empty() {
            let message =
                "no file is left to train on: each file of the data is given by --eval, too";
            return Err(Diagnostic::error(Code::E1000, message)
                .help("leave out --eval: a part of the records is then kept for evaluation"));
        }
        let first = train.first().map_or(Path::new(""), PathBuf::as_path);
        let guessed = match arguments.format {
            Some(TableFormat(format)) => Ok(format),
            None => guess(first, "--format"),
        };
        let mut source = Self {
            train,
            withheld,
            eval,
            // Of a name that says nothing, the lines say whether it is text with delimiters.
            format: guessed.as_ref().copied().unwrap_or(Format::Csv),
            columns: arguments.columns.clone(),
            style: TextStyle::default(),
            missing: Vec::new(),
            missing_in_texts: Vec::new(),
            mixed: Vec::new(),
        };
        if source.is_text() {
            source.read_lines(arguments, guessed.err())?;
        }
        Ok(source)
    }

    /// Returns whether the files are lines of fields.
    fn is_text(&self) -> bool {
        matches!(self.format, Format::Csv | Format::Tsv)
    }

    /// Returns whether the values of the files have types of their own.
    pub(super) fn has_types(&self) -> bool {
        matches!(self.format, Format::TfRecord | Format::Parquet)
    }

    /// Returns the byte between the fields.
    fn delimiter(&self) -> u8 {
        match self.format {
            Format::Tsv => b'\t',
            _ => self.style.delimiter.unwrap_or(b','),
        }
    }

    /// Finds the delimiter, the encoding and the names of the columns in the first lines. `unnamed` is the problem that the name of
    /// the file says no format.
    fn read_lines(
        &mut self,
        arguments: &Init,
        unnamed: Option<Diagnostic>,
    ) -> Result<(), Diagnostic> {
        let Some(file) = self.train.first().cloned() else {
            return Ok(());
        };
        let lines = lines(&file)?;
        if let Some(encoding) = arguments.encoding {
            self.style.encoding = encoding.0;
        } else if lines.iter().any(|line| std::str::from_utf8(line).is_err()) {
            self.style.encoding = TextEncoding::Latin1;
        }
        let delimiter = match arguments.delimiter {
            Some(delimiter) => delimiter,
            None => match division(&lines, self.delimiter()) {
                Division::By(delimiter) => delimiter,
                Division::LacksName(delimiter) => {
                    refuse_comment(&file, &lines, delimiter)?;
                    return Err(lacks_name(&file, &lines, delimiter));
                }
                Division::Unknown => {
                    refuse_comment(&file, &lines, self.delimiter())?;
                    match unnamed {
                        Some(problem) => return Err(problem),
                        None => self.delimiter(),
                    }
                }
            },
        };
        refuse_comment(&file, &lines, delimiter)?;
        self.divide_by(delimiter, &lines);
        let first = lines.first().map(|line| fields(line, delimiter));
        let is_header = |names: &Vec<String>| {
            first.as_ref().is_some_and(|fields| {
                fields.len() == names.len()
                    && fields
                        .iter()
                        .zip(names)
                        .all(|(field, name)| *field == name.as_bytes())
            })
        };
        if self.columns.as_ref().is_some_and(is_header) {
            let message = format!(
                "--columns says that {} has no header, and its first line holds these very names",
                file.display()
            );
            return Err(Diagnostic::error(Code::E1000, message).help("leave out --columns"));
        }
        let has_record = self.columns.is_none() && begins_with_a_record(&lines, self.delimiter());
        if has_record {
            let width = lines
                .first()
                .map_or(0, |line| fields(line, delimiter).len());
            self.columns = Some(
                (1..=width)
                    .map(|number| format!("column_{number}"))
                    .collect(),
            );
        }
        Ok(())
    }

    /// Sets format and delimiter. Tabs between fields that may be quoted are those of csv.
    fn divide_by(&mut self, delimiter: u8, lines: &[Vec<u8>]) {
        let has_quotes = |line: &Vec<u8>| {
            let is_quoted = |field: &[u8]| {
                field.len() > 1 && field.starts_with(b"\"") && field.ends_with(b"\"")
            };
            let plain: Vec<&[u8]> = line.split(|byte| *byte == delimiter).collect();
            plain.len() != fields(line, delimiter).len() || plain.into_iter().any(is_quoted)
        };
        (self.format, self.style.delimiter) = match delimiter {
            b'\t' if !lines.iter().any(has_quotes) => (Format::Tsv, None),
            b',' => (Format::Csv, None),
            other => (Format::Csv, Some(other)),
        };
    }

    /// Takes over what the profile shows: the encoding, how numbers are written, and words for missing ones. Returns whether the
    /// columns must be profiled again.
    pub(super) fn learn(&mut self, found: &Profile) -> bool {
        if !self.is_text() {
            if !self.missing.is_empty() {
                return false;
            }
            // A format with types may hold numbers as texts, with words among them.
            let Writing {
                numbers,
                missing,
                missing_in_texts,
                ..
            } = writing(found, self.delimiter());
            if numbers.is_plain() {
                self.missing = missing;
                self.missing_in_texts = missing_in_texts;
            }
            if found.columns.iter().any(|one| one.infinite > 0) {
                let infinite = ["inf", "-inf"].map(str::to_owned);
                let new = infinite
                    .into_iter()
                    .filter(|word| !self.missing.contains(word));
                let new: Vec<String> = new.collect();
                self.missing.extend(new);
            }
            return !self.missing.is_empty();
        }
        let before = (self.style.clone(), self.missing.clone());
        if self.style.encoding == TextEncoding::Utf8
            && found.columns.iter().any(|column| column.not_utf8 > 0)
        {
            self.style.encoding = TextEncoding::Latin1;
        }
        if self.style.numbers.is_plain() && self.missing.is_empty() {
            let Writing {
                numbers,
                missing,
                missing_in_texts,
                mixed,
            } = writing(found, self.delimiter());
            self.style.numbers = numbers;
            self.missing = missing;
            self.missing_in_texts = missing_in_texts;
            self.mixed = mixed;
        }
        before != (self.style.clone(), self.missing.clone())
    }

    /// Makes texts of the columns whose numbers are texts of a format with types: no job reads them as numbers. Returns their names.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(super) fn keep_texts(&self, found: &mut Profile) -> Result<Vec<String>, Diagnostic> {
        if !self.has_types() {
            return Ok(Vec::new());
        }
        let mut texts = BTreeSet::new();
        for file in &self.train {
            let mut reader = self.reader_of(file.clone());
            let mut row = Vec::new();
            for _ in 0..ROWS_OF_TYPES {
                match super::split::next(&mut reader, &mut row)? {
                    None => break,
                    Some(false) => {}
                    Some(true) => {
                        let cells = reader.columns().iter().zip(&row);
                        let of_text = cells.filter(|(_, cell)| {
                            let mut values = cell.values.iter();
                            values.any(|value| matches!(value, Value::Text(_)))
                        });
                        texts.extend(of_text.map(|(name, _)| name.clone()));
                    }
                }
            }
        }
        let columns = found.columns.iter_mut();
        let kept = columns.filter(|column| column.is_numeric() && texts.contains(&column.name));
        let kept = kept.map(|column| {
            column.kind = Some(ColumnKind::Text);
            column.name.clone()
        });
        Ok(kept.collect())
    }

    /// Returns the doubts about columns of numbers. `time` is the column with the times of the records.
    pub(super) fn doubts(&self, found: &Profile, time: Option<&str>) -> Vec<Doubt> {
        let delimiter = self.is_text().then(|| self.delimiter());
        let mut doubts = doubts(found, &self.mixed, (delimiter, time), &self.style.numbers);
        doubts.extend(of_times(found, time));
        let files = self.train.iter().chain(self.eval.iter().flatten());
        let totals = files.filter_map(|file| {
            let record = self.last_record(file)?;
            of_total(
                &file.display().to_string(),
                &record,
                found,
                &self.style.numbers,
            )
        });
        doubts.extend(totals.take(TOTALS_MAX));
        doubts
    }

    /// Returns the fields of the last line of a local text file, by the names of their columns; none of a file of another form.
    fn last_record(&self, file: &Path) -> Option<Vec<(String, String)>> {
        if !self.is_text() || is_remote(file) || Compression::of(file) != Compression::None {
            return None;
        }
        let names = match &self.columns {
            Some(names) => names.clone(),
            None => {
                let files = vec![file.to_owned()];
                let reader = TableReader::new(files, self.format, None, None);
                let mut reader = reader.trimmed().in_style(self.style.clone());
                reader.read(&mut Vec::new()).ok()?;
                reader.columns().to_vec()
            }
        };
        let line = last_line(file).ok()??;
        let fields = fields(&line, self.delimiter()).into_iter();
        let fields = fields.map(|field| String::from_utf8_lossy(field).into_owned());
        let fields: Vec<String> = fields.collect();
        let is_whole = fields.len() == names.len() && !names.is_empty();
        is_whole.then(|| names.into_iter().zip(fields).collect())
    }

    /// Describes how the files are read, if not as usual, one entry per line.
    pub(super) fn told(&self) -> Vec<String> {
        let mut told = Vec::new();
        let TextStyle {
            delimiter,
            encoding,
            numbers:
                NumberStyle {
                    decimal,
                    thousands,
                    units,
                },
        } = &self.style;
        if let Some(delimiter) = delimiter {
            told.push(format!(
                "delimiter {:?}",
                char::from(*delimiter).to_string()
            ));
        }
        if *encoding != TextEncoding::Utf8 {
            told.push(format!(
                "encoding {:?}: its bytes are not UTF-8; --encoding names another",
                encoding.name()
            ));
        }
        if *decimal == Decimal::Comma {
            told.push("decimal \",\"".to_owned());
        }
        if let Some(thousands) = thousands {
            told.push(format!("thousands {:?}", thousands.to_string()));
        }
        if !units.is_empty() {
            told.push(format!("units {units:?}"));
        }
        if !self.missing.is_empty() {
            told.push(format!(
                "missing {:?}: they stand among numbers",
                self.missing
            ));
        }
        for (column, word) in &self.missing_in_texts {
            told.push(format!(
                "`{column}` has {word:?} among its words, where it means a missing value as well: if it is a value, write input.missing_of = {{ {} = [] }}",
                quoted(column)
            ));
        }
        if self.is_text() && self.columns.is_some() {
            told.push("no header: the first line is a record".to_owned());
        }
        for column in &self.mixed {
            told.push(format!(
                "`{column}` has numbers with a unit and without it, or with several: it stays a text"
            ));
        }
        told
    }

    pub(super) fn missing_texts(&self) -> MissingTexts {
        self.missing.clone().into()
    }

    pub(super) fn options(&self) -> Options {
        self.options_of(self.train.clone())
    }

    pub(super) fn eval_options(&self) -> Options {
        self.options_of(self.eval.clone().unwrap_or_default())
    }

    fn options_of(&self, files: Vec<PathBuf>) -> Options {
        Options {
            columns: self.columns.clone(),
            trim: true,
            text: self.style.clone(),
            missing: self.missing_texts(),
            ..Options::new(files, self.format)
        }
    }

    /// Returns a reader of files that are written as those of the data, except that files of [`TableWriter`] are UTF-8.
    ///
    /// [`TableWriter`]: trainyard_input::TableWriter
    pub(super) fn reader(
        &self,
        files: Vec<PathBuf>,
        columns: Option<Vec<String>>,
        style: &TextStyle,
    ) -> TableReader {
        TableReader::new(files, self.format, None, columns)
            .in_style(style.clone())
            .rounding_decimals()
            .trimmed()
    }

    /// Returns whether each file names its columns.
    pub(super) fn names_columns(&self) -> bool {
        self.format == Format::Parquet || self.is_text() && self.columns.is_none()
    }

    /// Returns a reader of a file of the data.
    pub(super) fn reader_of(&self, file: PathBuf) -> TableReader {
        self.reader(vec![file], self.columns.clone(), &self.style)
    }

    /// Returns how files are written that `init` writes.
    pub(super) fn written_style(&self) -> TextStyle {
        TextStyle {
            encoding: TextEncoding::Utf8,
            ..self.style.clone()
        }
    }

    /// Returns the name of the format in a job file.
    pub(super) fn format_name(&self) -> &'static str {
        self.format.name()
    }
}

/// Returns the last line of a file that is not empty, if it is not longer than a line is.
fn last_line(file: &Path) -> std::io::Result<Option<Vec<u8>>> {
    let mut file = File::open(file)?;
    let bytes = file.metadata()?.len();
    let begin = bytes.saturating_sub(LINE_BYTES_MAX);
    file.seek(SeekFrom::Start(begin))?;
    let mut end = Vec::new();
    file.take(LINE_BYTES_MAX).read_to_end(&mut end)?;
    let is_end_of_line = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let length = end.iter().rposition(|byte| !is_end_of_line(byte));
    let end = &end[..length.map_or(0, |place| place + 1)];
    let line = end.iter().rposition(|byte| *byte == b'\n');
    Ok(line.map(|place| end[place + 1..].to_vec()))
}

/// Reads the first lines of a file, with their quotes: a line whose first field is quoted would be no record of one field.
fn lines(file: &Path) -> Result<Vec<Vec<u8>>, Diagnostic> {
    let whole = TextStyle {
        delimiter: Some(NO_DELIMITER),
        ..TextStyle::default()
    };
    let columns = Some(vec!["line".to_owned()]);
    let files = vec![file.to_owned()];
    let mut reader = TableReader::new(files, Format::Tsv, None, columns).in_style(whole);
    let mut lines = Vec::new();
    let mut row = Vec::new();
    while lines.len() < LINES_MAX {
        match super::split::next(&mut reader, &mut row)? {
            None => break,
            Some(false) => {}
            Some(true) => {
                if let Some(Value::Text(line)) = row.first().and_then(|cell| cell.values.first()) {
                    lines.push(line.clone());
                }
            }
        }
    }
    if lines.first().is_some_and(|line| line.contains(&0)) {
        let message = format!("{} is a text of UTF-16, or no text", file.display());
        return Err(Diagnostic::error(Code::E4002, message)
            .help("write it as UTF-8: `iconv -f UTF-16 -t UTF-8 IN > OUT`"));
    }
    if let [only] = lines.as_slice()
        && only.trim_ascii().contains(&b'\r')
    {
        return Err(Error::CarriageReturns {
            file: file.to_owned(),
        }
        .into());
    }
    let is_json = |line: &Vec<u8>| {
        line.starts_with(b"{\"") || line.starts_with(b"[{") || line.as_slice() == b"["
    };
    if lines.first().is_some_and(is_json) {
        let message = format!(
            "{} is JSON, which is no format of tables here",
            file.display()
        );
        return Err(Diagnostic::error(Code::E4002, message).help(
            "write it as csv or parquet: in Python, `pandas.read_json(IN, lines=True).to_csv(OUT, index=False)`",
        ));
    }
    Ok(lines)
}

/// Refuses the parts that an earlier `init` has made of data beside other files, which may be that data: a pattern of a folder names both,
/// and the same records would be in training and evaluation.
fn refuse_own_parts(files: &[PathBuf]) -> Result<(), Diagnostic> {
    let part = files.iter().find(|file| is_own_part(file));
    let Some(part) = part.filter(|_| !files.iter().all(|file| is_own_part(file))) else {
        return Ok(());
    };
    let message = format!(
        "{} is a part that `trainyard init` has made of other files, and is given beside {} more",
        part.display(),
        files.len() - 1
    );
    Err(Diagnostic::error(Code::E1000, message).help(
        "name the files of the data without those of the job, or write the job into a folder of its own by --out",
    ))
}

/// Returns whether a file is a part beside a job that `init` has written.
fn is_own_part(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    if !PARTS
        .iter()
        .any(|part| name.split('.').next() == Some(part))
    {
        return false;
    }
    let job = std::fs::read_to_string(file.with_file_name("job.toml")).unwrap_or_default();
    job.contains(WRITTEN_BY)
}

/// Refuses a first line that is a comment: it would name the columns. A `#` before the names of all columns is part of a name.
fn refuse_comment(file: &Path, lines: &[Vec<u8>], delimiter: u8) -> Result<(), Diagnostic> {
    let [first, second, ..] = lines else {
        return Ok(());
    };
    let width = |line: &[u8]| fields(line, delimiter).len();
    if !first.starts_with(b"#") || width(first) == width(second) {
        return Ok(());
    }
    let message = format!(
        "{}:1: the first line is the comment `{}`, and would name the columns",
        file.display(),
        String::from_utf8_lossy(first).escape_debug()
    );
    Err(Diagnostic::error(Code::E4004, message).help("remove such lines: `grep -v '^#' IN > OUT`"))
}

fn lacks_name(file: &Path, lines: &[Vec<u8>], delimiter: u8) -> Diagnostic {
    let width = lines
        .first()
        .map_or(0, |line| fields(line, delimiter).len());
    let message = format!(
        "{}: the first line names {width} columns, and the records have {}",
        file.display(),
        width + 1
    );
    Diagnostic::error(Code::E4004, message).help(
        "name the column that lacks a name in the first line (the first one, where R has written the file), or remove the \
         first line and give --columns",
    )
}
