//! `trainyard convert`: records from one format to another.

mod columns;
mod empties;
mod fit;
mod words;

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use trainyard_daemon::{LogFormat, report};
use trainyard_diagnostic::{Code, Diagnostic, listed, suggest};
use trainyard_input::{
    Cell, ColumnKind, Compression, Decimal, Format, IndexBase, Layout, MissingTexts, NumberStyle,
    TableReader, TableWriter, TextEncoding, TextStyle, Value, column_types, copy_rows,
    format_of_extension, plain_number,
};
use trainyard_run_config::expand_files;

use self::columns::{TextColumns, of_other_types, refuse_unreadable, told_of_empty};
pub(crate) use self::columns::{TypedLists, Written, other_type, refuse_bytes, same_columns};
use self::empties::Empties;
use self::fit::Fit;
use self::words::NumberWords;
use crate::output::{print, refuse_absent_folder};
use crate::targets::{Existing, check_targets};

pub(crate) const CONVERT: &str = "Converts records between csv, tsv, libsvm, tfrecord (tf.train.Example) and parquet.

Several files become one. The names of the files say their formats, and `.gz` that they are compressed; --from and --to say \
otherwise. Columns are known by name, and csv, tsv and parquet files must have the same. A column of csv or tsv that \
holds numbers alone becomes one of numbers, unless one is written as no number is (`007`, `-0`) or is a whole number beyond 64 bits; `nan` among \
them is a missing number, and `inf` an infinite one; NaN of tfrecord and parquet stays NaN. UUIDs become their texts; other bytes of parquet are \
refused in csv, tsv and libsvm. Texts of \
tfrecord and parquet stay texts, except in the columns of --numbers. Lists are \
written to text with `|` or the character of --separator between their values. What the result could hold only as \
something else is refused. From libsvm come the columns label, qid, index and value; to libsvm go those, or \
`label` and all other columns, which must be numbers and are numbered from 1. From parquet to parquet, columns are copied with their types and bits, \
also lists in lists, maps and structures, unless --missing, --missing-of or --numbers asks for other values. Files with another type in a column are \
refused; whole numbers of several sizes become the largest, so do floats, and both together become floats. The result appears when it is whole.";

#[derive(Debug, Args)]
pub(crate) struct Convert {
    /// Files, URLs and patterns.
    #[arg(value_name = "IN", required = true)]
    pub(crate) input: Vec<String>,
    /// The file to write.
    #[arg(value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// Format of the input files. Default: the format that the name of the first file stands for.
    #[arg(long, value_enum)]
    pub(crate) from: Option<TableFormat>,
    /// Format of the output file. Default: the format that its name stands for.
    #[arg(long, value_enum)]
    pub(crate) to: Option<TableFormat>,
    /// Names of the columns of csv and tsv files whose first line does not name them.
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    pub(crate) columns: Option<Vec<String>>,
    /// Keeps the spaces around fields and names of csv and tsv files. Without it, they are dropped, as a job drops them
    /// (`trim`): a job reads the same from the result as from the files.
    #[arg(long)]
    pub(crate) keep_spaces: bool,
    /// Texts that mean a missing value, as `input.missing` of a job: they are left out, so that a column of numbers is one.
    #[arg(long, value_name = "TEXT,TEXT", value_delimiter = ',')]
    pub(crate) missing: Vec<String>,
    /// Texts that mean a missing value in one column, which it has instead of those of `--missing`, as `input.missing_of` of a job;
    /// `country=` has none. May be repeated, also for a column, which then has the texts of all.
    #[arg(long, value_name = "COLUMN=TEXT,TEXT", value_parser = texts_of_column)]
    pub(crate) missing_of: Vec<(String, Vec<String>)>,
    /// Divides texts of csv and tsv files at this character into lists, as `separator` of a feature. In a csv or tsv file that is
    /// written, it stands between the values of lists.
    #[arg(long, value_name = "CHARACTER", value_parser = separator)]
    pub(crate) separator: Option<u8>,
    /// Character between the fields of csv files, as `input.delimiter` of a job.
    #[arg(long, value_name = "CHARACTER", value_parser = separator)]
    pub(crate) delimiter: Option<u8>,
    /// Encoding of csv and tsv files, as `input.encoding` of a job: the result has the texts in UTF-8.
    #[arg(long, value_name = "NAME", default_value = "utf-8", value_parser = one_of(&TextEncoding::NAMES))]
    pub(crate) encoding: TextEncoding,
    /// Decimal character of the numbers of csv and tsv files, `.` or `,`, as `input.decimal`: a column that has numbers alone has plain
    /// decimals in the result.
    #[arg(long, value_name = "CHARACTER", default_value = ".", value_parser = one_of(&Decimal::NAMES))]
    pub(crate) decimal: Decimal,
    /// Character between groups of three digits of csv and tsv files, as `input.thousands`.
    #[arg(long, value_name = "CHARACTER")]
    pub(crate) thousands: Option<char>,
    /// Units of the numbers of csv and tsv files, such as `%` or `€`, as `input.units`: they are left out.
    #[arg(long, value_name = "TEXT,TEXT", value_delimiter = ',')]
    pub(crate) units: Vec<String>,
    /// Columns of tfrecord and parquet files whose texts are numbers, and become numbers in tfrecord and parquet: `1.10` and `1.1` are
    /// one there. Without it, texts stay texts.
    #[arg(long, value_name = "COLUMN,COLUMN", value_delimiter = ',')]
    pub(crate) numbers: Vec<String>,
    /// Replaces an existing OUT. A file that is read is never replaced.
    #[arg(long)]
    pub(crate) force: bool,
}

/// The record format of files, as an argument. libsvm has the default base of indices: the output keeps the indices of
/// the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableFormat(pub(crate) Format);

impl ValueEnum for TableFormat {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Self(Format::Csv),
            Self(Format::Tsv),
            Self(Format::LibSvm(IndexBase::One)),
            Self(Format::TfRecord),
            Self(Format::Parquet),
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self.0 {
            Format::Csv => "Comma-separated, with a header",
            Format::Tsv => "Tab-separated, with a header",
            Format::LibSvm(_) => "`label index:value ...`",
            Format::TfRecord => "`tf.train.Example` messages in a TFRecord file",
            Format::Parquet => "Parquet",
        };
        Some(PossibleValue::new(self.0.name()).help(help))
    }
}

impl Convert {
    /// Returns a reader of files as the arguments say.
    fn reader(&self, files: Vec<PathBuf>, from: Format, style: TextStyle) -> TableReader {
        let is_text = matches!(from, Format::Csv | Format::Tsv);
        let reader = TableReader::new(files, from, None, self.columns.clone())
            .without(&self.missing_texts())
            .divided(self.separator.filter(|_| is_text))
            .in_style(style);
        // An empty field of text has no value.
        let reader = if is_text {
            reader
        } else {
            reader.with_empty_texts(&self.numbers)
        };
        if self.keep_spaces {
            reader
        } else {
            reader.trimmed()
        }
    }

    /// Returns whether no argument asks for other values than those of the input.
    fn keeps_values(&self) -> bool {
        self.missing.is_empty() && self.missing_of.is_empty() && self.numbers.is_empty()
    }

    fn missing_texts(&self) -> MissingTexts {
        let mut of_columns = BTreeMap::<String, Vec<String>>::new();
        for (column, texts) in &self.missing_of {
            of_columns
                .entry(column.clone())
                .or_default()
                .extend(texts.clone());
        }
        MissingTexts {
            everywhere: self.missing.clone(),
            of_columns,
        }
    }

    /// Returns how the input files write texts and numbers.
    ///
    /// # Errors
    /// The files have no such texts, or two characters are the same.
    fn style(&self, from: Format) -> Result<TextStyle, Diagnostic> {
        let refuse = |message: String| Diagnostic::error(Code::E1000, message);
        let style = TextStyle {
            delimiter: self.delimiter.filter(|delimiter| *delimiter != b','),
            encoding: self.encoding,
            numbers: NumberStyle {
                decimal: self.decimal,
                thousands: self.thousands,
                units: self.units.clone(),
            },
        };
        let is_text = matches!(from, Format::Csv | Format::Tsv);
        if self.delimiter.is_some() && from != Format::Csv {
            let name = from.name();
            return Err(refuse(format!(
                "--delimiter is for csv files, and these are {name}"
            )));
        }
        if !is_text && style != TextStyle::default() {
            let name = from.name();
            let message = format!(
                "--encoding, --decimal, --thousands and --units are for csv and tsv files, and these are {name}"
            );
            return Err(refuse(message));
        }
        if self.thousands == Some(char::from(self.decimal.byte())) {
            let message = "--thousands and --decimal cannot be the same character".to_owned();
            return Err(refuse(message));
        }
        Ok(style)
    }
}

/// Refuses a csv file whose header has other characters between the names: it would become one column.
fn check_divided(columns: &[String], delimiter: Option<u8>) -> Result<(), Diagnostic> {
    let [only] = columns else { return Ok(()) };
    let others = [';', '\t', '|', ','].into_iter();
    let mut others =
        others.filter(|other| Some(*other) != Some(char::from(delimiter.unwrap_or(b','))));
    match others.find(|other| only.contains(*other)) {
        Some(other) => {
            let message = format!("the files have one column, whose name {only:?} has {other:?}");
            Err(Diagnostic::error(Code::E4003, message).help(format!(
                "give --delimiter {other:?}, or the names with --columns"
            )))
        }
        None => Ok(()),
    }
}

/// The columns whose texts are numbers of a style. Others keep their texts.
#[derive(Debug)]
struct NumberColumns {
    style: NumberStyle,
    /// For each column, whether a text was no number.
    are_texts: Vec<bool>,
    /// For each column, each unit of its numbers with the first text of it and its row, from 1. A number without a unit has the unit ``.
    units: Vec<BTreeMap<String, (u64, String)>>,
}

impl NumberColumns {
    fn new(style: NumberStyle) -> Self {
        Self {
            style,
            are_texts: Vec::new(),
            units: Vec::new(),
        }
    }

    /// Looks at a row of the first pass.
    fn see(&mut self, row: &[Cell]) {
        if self.style.is_plain() {
            return;
        }
        self.are_texts
            .resize(row.len().max(self.are_texts.len()), false);
        for (are_texts, cell) in self.are_texts.iter_mut().zip(row) {
            let is_text = |value: &Value| match value {
                Value::Text(text) => plain_number(&self.style, text).is_none(),
                _ => false,
            };
            *are_texts = *are_texts || cell.values.iter().any(is_text);
        }
    }

    /// Notes the units of the numbers of a row.
    fn see_units(&mut self, number: u64, row: &[Cell]) {
        if self.style.units.is_empty() {
            return;
        }
        self.units
            .resize_with(row.len().max(self.units.len()), BTreeMap::new);
        for (units, cell) in self.units.iter_mut().zip(row) {
            for value in &cell.values {
                let Value::Text(text) = value else { continue };
                let Some(plain) = plain_number(&self.style, text) else {
                    continue;
                };
                let is_zero = plain.unit.is_none() && plain.text.parse() == Ok(0.0);
                let unit = plain.unit.unwrap_or_default();
                if !is_zero && !units.contains_key(unit) {
                    let text = String::from_utf8_lossy(text).into_owned();
                    units.insert(unit.to_owned(), (number, text));
                }
            }
        }
    }

    /// Returns the columns of numbers that have several units, one of which may be none.
    fn of_several_units(&self) -> impl Iterator<Item = (usize, &BTreeMap<String, (u64, String)>)> {
        let columns = self.units.iter().zip(&self.are_texts).enumerate();
        columns
            .filter(|(_, (units, are_texts))| !**are_texts && units.len() > 1)
            .map(|(place, (units, _))| (place, units))
    }

    /// Refuses a column whose numbers have several units: without them, they would be one quantity.
    ///
    /// # Errors
    /// There is such a column.
    fn refuse_several_units(&self, columns: &[String]) -> Result<(), Diagnostic> {
        let mut several = self.of_several_units();
        let found =
            several.find(|(_, units)| units.keys().filter(|unit| !unit.is_empty()).count() > 1);
        let Some((place, units)) = found else {
            return Ok(());
        };
        let shown = units
            .values()
            .map(|(row, text)| format!("{text:?} in row {row}"));
        let message = format!(
            "the column `{}` has numbers of several units, {}: without the units they would be one quantity",
            columns.get(place).map_or("", String::as_str),
            shown.collect::<Vec<_>>().join(" and ")
        );
        Err(Diagnostic::error(Code::E4003, message).help(
            "convert the numbers to one unit in the input, or name the unit of other columns alone in --units: the column then stays one of texts",
        ))
    }

    /// Tells the columns of which some numbers have a unit and others have none.
    fn notes(&self, columns: &[String]) -> Vec<Diagnostic> {
        let note = |(place, units): (usize, &BTreeMap<String, (u64, String)>)| {
            let shown = units
                .values()
                .map(|(row, text)| format!("{text:?} in row {row}"));
            let message = format!(
                "the column `{}` has numbers with a unit and without one, {}: they are taken for one quantity",
                columns.get(place).map_or("", String::as_str),
                shown.collect::<Vec<_>>().join(" and ")
            );
            Diagnostic::warning(Code::E4005, message)
                .help("write the unit at all of them or at none, where they are not of one unit")
        };
        self.of_several_units().map(note).collect()
    }

    /// Writes the numbers of a row as plain decimals.
    fn make_plain(&self, row: &mut [Cell]) {
        for (are_texts, cell) in self.are_texts.iter().zip(row) {
            if *are_texts {
                continue;
            }
            for value in &mut cell.values {
                if let Value::Text(text) = value
                    && let Some(number) = plain_number(&self.style, text)
                {
                    *value = Value::Text(number.text.into_owned().into_bytes());
                }
            }
        }
    }
}

/// Parses the name of a column and its texts.
fn texts_of_column(argument: &str) -> Result<(String, Vec<String>), String> {
    let (column, texts) = argument
        .rsplit_once('=')
        .ok_or("must be a column and its texts, such as `age=-999,NA`, or `country=` for none")?;
    let texts = texts.split(',').filter(|text| !text.is_empty());
    Ok((column.to_owned(), texts.map(str::to_owned).collect()))
}

/// Refuses the name of a column that the input does not have.
fn refuse_unknown<'a>(
    argument: &str,
    mut names: impl Iterator<Item = &'a String>,
    columns: &[String],
) -> Result<(), Diagnostic> {
    match names.find(|name| !columns.contains(name)) {
        None => Ok(()),
        Some(name) => {
            let message = format!("{argument} {name}: the input has no such column");
            let problem = Diagnostic::error(Code::E1000, message);
            Err(match suggest(name, columns.iter().map(String::as_str)) {
                Some(near) => problem.help(format!("did you mean `{near}`?")),
                None => problem.help(format!("columns: {}", listed(columns))),
            })
        }
    }
}

/// Tells the columns of --numbers that stay texts.
fn told_of_no_numbers(names: &[String], layout: &Layout) -> Vec<Diagnostic> {
    let columns = layout.columns.iter();
    let texts = columns
        .filter(|column| column.kind == Some(ColumnKind::Text) && names.contains(&column.name));
    let told = texts.map(|column| {
        let message = format!(
            "--numbers {}: the column stays one of texts, since one of them is no number, or is written as none is or has more digits than a \
             number keeps",
            column.name
        );
        Diagnostic::warning(Code::E4005, message)
            .help("--missing names words that stand for a missing number")
    });
    told.collect()
}

/// Returns a parser of one of these names.
fn one_of<T: Copy + Send + Sync + 'static>(
    names: &'static [(&'static str, T)],
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let found = names.iter().find(|(name, _)| *name == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let known: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
            format!("must be one of {}", known.join(", "))
        })
    }
}

/// Rows between drawings of the progress line.
const DRAW_ROWS: u64 = 1000;

/// Converts the files. It reads them twice: the first pass collects the columns and their types.
pub(crate) fn convert(arguments: &Convert) -> Result<(), Vec<Diagnostic>> {
    let files = expand_files(&arguments.input).map_err(|problem| vec![problem])?;
    let work = || -> Result<(u64, usize), Diagnostic> {
        let from = match (arguments.from, files.first()) {
            (Some(TableFormat(format)), _) => format,
            (None, first) => guess(first.map_or(Path::new(""), PathBuf::as_path), "--from")?,
        };
        let to = match arguments.to {
            Some(TableFormat(format)) => format,
            None => guess(&arguments.output, "--to")?,
        };
        if to == Format::Parquet && Compression::of(&arguments.output) != Compression::None {
            return Err(compressed_parquet(&arguments.output));
        }
        check_targets(
            std::slice::from_ref(&arguments.output),
            &files,
            Existing::by_force(arguments.force),
        )?;
        if arguments.output == Path::new("-") {
            let message = "`-` is no file, and would become one of this name".to_owned();
            return Err(Diagnostic::error(Code::E1201, message)
                .help("name a file; ./- is one of this name"));
        }
        refuse_absent_folder(&arguments.output)?;
        let style = arguments.style(from)?;
        let is_text = matches!(from, Format::Csv | Format::Tsv);
        let has_types = |format| matches!(format, Format::TfRecord | Format::Parquet);
        let are_typed = has_types(from) && has_types(to);
        if !are_typed && !arguments.numbers.is_empty() {
            let message = "--numbers is for texts of tfrecord and parquet files that are written to tfrecord or parquet";
            return Err(Diagnostic::error(Code::E1000, message).help("leave it out"));
        }
        let open = |files: Vec<PathBuf>| arguments.reader(files, from, style.clone());
        let has_header = is_text && files.len() > 1;
        if has_header || from == Format::Parquet {
            same_columns(&files, |file| open(vec![file.clone()]))?;
        }
        let types = match from {
            Format::Parquet => column_types(&files, None)?,
            _ => Vec::new(),
        };
        if (from, to) == (Format::Parquet, Format::Parquet) && arguments.keeps_values() {
            let (rows, columns) = copy_rows(&files, &arguments.output)?;
            return match rows {
                0 => Err(no_record(arguments)),
                rows => Ok((rows, columns)),
            };
        }
        if !has_types(to) {
            refuse_bytes(&types, |name| format!("the column `{name}`"), to.name())?;
        }
        let mut reader = open(files.clone());
        let mut lists = TypedLists::default();
        let mut layout = Layout::default();
        let mut numbers = NumberColumns::new(style.numbers.clone());
        let mut texts = TextColumns::new(from, to, &types);
        let only = (!is_text).then(|| arguments.numbers.clone());
        let mut words = has_types(to).then(|| NumberWords::new(style.numbers.clone(), only));
        let mut empties = Empties::new(to);
        let mut row = Vec::new();
        let mut rows = 0_u64;
        let mut told = None;
        let line = bar(None);
        loop {
            let read = reader.read(&mut row);
            if rows == 0 && from == Format::Csv {
                check_divided(reader.columns(), style.delimiter)?;
            }
            refuse_unreadable(reader.unreadable())?;
            if !read? {
                break;
            }
            if from == Format::TfRecord {
                lists.see(&reader, &row, |name, has_text| {
                    !has_text || !arguments.numbers.contains(name)
                })?;
            }
            empties.see(rows + 1, &reader, &row);
            empties.make_missing(&mut row);
            if let Some(words) = &mut words {
                words.see(rows + 1, reader.columns(), &mut row);
            }
            numbers.see(&row);
            numbers.see_units(rows + 1, &row);
            numbers.make_plain(&mut row);
            match are_typed {
                true => layout.see_typed_except(&arguments.numbers, reader.columns(), &row),
                false => layout.see(reader.columns(), &row),
            }
            texts.see(rows + 1, reader.columns(), &row)?;
            if told.is_none() && is_text && matches!(to, Format::TfRecord | Format::Parquet) {
                told = undivided(reader.columns(), &row);
            }
            rows += 1;
            if rows.is_multiple_of(DRAW_ROWS) {
                line.set_position(rows);
            }
        }
        line.finish_and_clear();
        numbers.refuse_several_units(reader.columns())?;
        refuse_unknown("--numbers", arguments.numbers.iter(), reader.columns())?;
        let own = arguments.missing_of.iter().map(|(column, _)| column);
        refuse_unknown("--missing-of", own, reader.columns())?;
        if rows == 0 {
            return Err(no_record(arguments));
        }
        if let Some((column, text)) = told {
            let message = format!(
                "the column `{column}` has `|` in its texts, as in {text:?}, and each becomes one value"
            );
            let problem = Diagnostic::warning(Code::E4005, message)
                .help("where they are lists, give --separator '|'");
            report(&[problem], LogFormat::Text);
        }
        report(&of_other_types(&types, &layout, to), LogFormat::Text);
        report(told_of_empty(&layout, to).as_slice(), LogFormat::Text);
        report(&numbers.notes(reader.columns()), LogFormat::Text);
        report(&texts.notes(&layout), LogFormat::Text);
        report(&empties.notes(&layout), LogFormat::Text);
        texts.settle(&mut layout);
        if let Some(words) = &mut words {
            words.settle(&mut layout);
            report(&words.notes(&layout), LogFormat::Text);
        }
        report(
            &told_of_no_numbers(&arguments.numbers, &layout),
            LogFormat::Text,
        );
        let columns = layout.columns.len();
        let fit = Fit::new(to, arguments.separator, &layout)?;
        let mut writer = TableWriter::create(&arguments.output, to, layout)?;
        let line = bar(Some(rows));
        let of_row = |number, row: &mut Vec<Cell>| {
            empties.make_missing(row);
            if let Some(words) = &words {
                words.make_numbers(row);
            }
            numbers.make_plain(row);
            fit.make(number, row)?;
            Ok(writer.write(row)?)
        };
        write(&mut reader, &mut row, &line, of_row)?;
        writer.finish()?;
        line.finish_and_clear();
        Ok((rows, columns))
    };
    let (rows, columns) = work().map_err(|problem| vec![problem])?;
    let out = arguments.output.display();
    print(&format!("{rows} records with {columns} columns in {out}\n"))
        .map_err(|problem| vec![problem])
}

fn no_record(arguments: &Convert) -> Diagnostic {
    let message = format!("the input holds no record: {}", arguments.input.join(", "));
    Diagnostic::error(Code::E4001, message).help("check that the files are not empty")
}

/// Returns the first column of a row, with its text, that looks like a list.
fn undivided(columns: &[String], row: &[Cell]) -> Option<(String, String)> {
    columns.iter().zip(row).find_map(|(column, cell)| {
        let [Value::Text(text)] = cell.values.as_slice() else {
            return None;
        };
        let text = text.contains(&b'|').then(|| String::from_utf8_lossy(text));
        text.map(|text| (column.clone(), text.into_owned()))
    })
}

/// Parses a character that separates the values of a list.
fn separator(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => Err("must be one ASCII character".to_owned()),
    }
}

/// Reads the rows once more and writes each.
fn write(
    reader: &mut TableReader,
    row: &mut Vec<Cell>,
    line: &ProgressBar,
    mut of_row: impl FnMut(u64, &mut Vec<Cell>) -> Result<(), Diagnostic>,
) -> Result<(), Diagnostic> {
    reader.rewind();
    let mut written = 0_u64;
    while reader.read(row)? {
        written += 1;
        of_row(written, row)?;
        if written.is_multiple_of(DRAW_ROWS) {
            line.set_position(written);
        }
    }
    Ok(())
}

/// Refuses a Parquet file whose name says that the file itself is compressed: no reader would find its footer.
pub(crate) fn compressed_parquet(path: &Path) -> Diagnostic {
    let message = format!(
        "{} cannot be written: a Parquet file compresses its pages, and is not compressed as a whole",
        path.display()
    );
    Diagnostic::error(Code::E1201, message).help("end the name by .parquet")
}

/// Returns the progress line of the first pass, whose number of rows is unknown, or of the second pass, with `rows`.
fn bar(rows: Option<u64>) -> ProgressBar {
    let (bar, template) = match rows {
        _ if !std::io::stderr().is_terminal() => return ProgressBar::hidden(),
        Some(rows) => (
            ProgressBar::new(rows),
            "writing {pos} of {len} records  {wide_bar}  {per_sec}  {eta} left",
        ),
        None => (
            ProgressBar::no_length(),
            "{spinner} reading {pos} records  {per_sec}",
        ),
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

/// Returns the format that the extension of a file name stands for. An extension of compression is skipped.
pub(crate) fn guess(path: &Path, option: &str) -> Result<Format, Diagnostic> {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .to_lowercase();
    let name = [".gz", ".gzip", ".zz", ".zlib"]
        .iter()
        .find_map(|end| name.strip_suffix(end))
        .unwrap_or(&name);
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    extension.and_then(format_of_extension).ok_or_else(|| {
        let message = format!(
            "the name {} has no ending of a known format",
            path.display()
        );
        Diagnostic::error(Code::E1000, message).help(format!(
            "give {option} csv, tsv, libsvm, tfrecord or parquet"
        ))
    })
}

#[cfg(test)]
mod tests;
