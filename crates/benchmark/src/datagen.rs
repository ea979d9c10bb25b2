//! `trainyard datagen`: synthetic records with the columns of the shipped jobs, from which a model can learn.

mod census;
mod ctr;
mod hidden;

use std::io::IsTerminal as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use trainyard_command::{Existing, check_targets, print};
use trainyard_diagnostic::Diagnostic;
use trainyard_storage::{ResultFile, unwritten};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DataKind {
    /// Records shaped like the adult census: CSV with a header.
    Census,
    /// Click records: 13 numbers and 26 categories, TSV without a header.
    Ctr,
}

#[derive(Debug, Args)]
pub(crate) struct Datagen {
    /// Kind of the data.
    #[arg(value_enum)]
    pub(crate) kind: DataKind,
    /// Folder of the data.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Training records.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(crate) rows: u64,
    /// Evaluation records; a fifth of the training records, at most 100000, by default.
    #[arg(long, value_name = "N")]
    pub(crate) eval_rows: Option<u64>,
    /// Number of training files of click data.
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) shards: u64,
    /// Seed of the random data.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Replaces files that exist.
    #[arg(long)]
    pub(crate) force: bool,
}

/// Most evaluation records by default.
const EVAL_ROWS_MAX: u64 = 100_000;

/// Writes the data.
pub(crate) fn datagen(arguments: &Datagen) -> Result<(), Diagnostic> {
    let eval = arguments
        .eval_rows
        .unwrap_or((arguments.rows / 5).clamp(1, EVAL_ROWS_MAX));
    let bar = if std::io::stderr().is_terminal() {
        ProgressBar::new(arguments.rows + eval)
    } else {
        ProgressBar::hidden()
    };
    let folder = &arguments.out;
    let parts = parts(arguments, eval);
    let files: Vec<PathBuf> = parts.iter().map(|part| folder.join(&part.name)).collect();
    check_targets(&files, &[], Existing::by_force(arguments.force))?;
    let unwritten = |path: &Path, error: &std::io::Error| {
        unwritten(path, error).note("--out gives another folder")
    };
    std::fs::create_dir_all(folder).map_err(|error| unwritten(folder, &error))?;
    for (part, path) in parts.iter().zip(&files) {
        let Part { rows, seed, .. } = part;
        let (result, file) = ResultFile::create(path).map_err(|error| unwritten(path, &error))?;
        let written = match arguments.kind {
            DataKind::Census => census::write(file, rows.end, *seed, &bar),
            DataKind::Ctr => ctr::write(file, rows.clone(), *seed, &bar),
        };
        written.map_err(|error| unwritten(path, &error))?;
        result.publish().map_err(|error| unwritten(path, &error))?;
    }
    bar.finish_and_clear();
    print(&format!(
        "{} training and {eval} evaluation records in {}\n",
        arguments.rows,
        folder.display()
    ))
}

/// A file of the data.
struct Part {
    name: String,
    rows: Range<u64>,
    seed: u64,
}

/// Returns the files of training and evaluation.
fn parts(arguments: &Datagen, eval: u64) -> Vec<Part> {
    let Datagen { rows, seed, .. } = *arguments;
    let part = |name: &str, rows, seed| Part {
        name: name.to_owned(),
        rows,
        seed,
    };
    match arguments.kind {
        DataKind::Census => vec![
            part("train.csv", 0..rows, seed),
            part("eval.csv", 0..eval, seed + 1),
        ],
        DataKind::Ctr => {
            let shards = arguments.shards.max(1);
            let train = (0..shards).map(|shard| {
                let name = format!("ctr-train-{shard:02}.tsv");
                part(
                    &name,
                    rows * shard / shards..rows * (shard + 1) / shards,
                    seed,
                )
            });
            train
                .chain([part("ctr-eval-00.tsv", 0..eval, seed + 1)])
                .collect()
        }
    }
}
