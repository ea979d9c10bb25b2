//! Input files of `trainyard init`: their format and the names of their columns.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_input::{Compression, Error, Format, Options, TableReader};
use trainyard_run_config::{expand_files, identity};
use trainyard_storage::is_remote;

use crate::convert::{TableFormat, guess};
use crate::init::Init;

/// Bytes of a file that are read to detect its format.
const SNIFFED_BYTES: u64 = 64 << 10;

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
        let found = train.len();
        let of_evaluation: Vec<PathBuf> =
            eval.iter().flatten().map(|file| identity(file)).collect();
        train.retain(|file| !of_evaluation.contains(&identity(file)));
        let withheld = found - train.len();
        if train.is_empty() {
            let message =
                "no file is left to train on: each file of the data is given by --eval, too";
            return Err(Diagnostic::error(Code::E1000, message)
                .help("leave out --eval: a part of the records is then kept for evaluation"));
        }
        let first = train.first().map_or(Path::new(""), PathBuf::as_path);
        let format = match arguments.format {
            Some(TableFormat(format)) => format,
            None => guess(first, "--format").or_else(|problem| sniffed(first).ok_or(problem))?,
        };
        let mut source = Self {
            train,
            withheld,
            eval,
            format,
            columns: arguments.columns.clone(),
        };
        if source.columns.is_none() && matches!(format, Format::Csv | Format::Tsv) {
            source.columns = source.invented_names()?;
        }
        Ok(source)
    }

    pub(super) fn options(&self) -> Options {
        self.options_of(self.train.clone())
    }

    pub(super) fn eval_options(&self) -> Options {
        self.options_of(self.eval.clone().unwrap_or_default())
    }

    fn options_of(&self, files: Vec<PathBuf>) -> Options {
        let columns = self.columns.clone();
        Options {
            columns,
            trim: true,
            ..Options::new(files, self.format)
        }
    }

    /// Returns the name of the format in a job file.
    pub(super) fn format_name(&self) -> &'static str {
        self.format.name()
    }

    /// Returns invented names of columns if the first line is a record. A first line that holds a number is a record.
    fn invented_names(&self) -> Result<Option<Vec<String>>, Diagnostic> {
        let Some(first) = self.train.first() else {
            return Ok(None);
        };
        let mut reader = TableReader::new(vec![first.clone()], self.format, None, None).trimmed();
        let is_number = |name: &String| name.parse::<f64>().is_ok();
        let names = match reader.read(&mut Vec::new()) {
            Ok(_) => reader.columns().to_vec(),
            // Values of a record may be equal, while names differ.
            Err(Error::ColumnTwice { known, .. }) if known.iter().any(is_number) => known,
            Err(error) => return Err(error.into()),
        };
        let invent = |number: usize| format!("column_{number}");
        Ok(names
            .iter()
            .any(is_number)
            .then(|| (1..=names.len()).map(invent).collect()))
    }
}

/// Returns the format that the first line of a text file looks like.
fn sniffed(path: &Path) -> Option<Format> {
    if is_remote(path) || Compression::of(path) != Compression::None {
        return None;
    }
    let mut text = Vec::new();
    std::fs::File::open(path)
        .ok()?
        .take(SNIFFED_BYTES)
        .read_to_end(&mut text)
        .ok()?;
    let line = text.split(|byte| *byte == b'\n').next()?;
    if line.contains(&b'\t') {
        Some(Format::Tsv)
    } else if line.contains(&b',') {
        Some(Format::Csv)
    } else {
        None
    }
}
