//! `trainyard datagen`: synthetic records with the columns of the shipped jobs, from which a model can learn.

mod census;
mod ctr;
mod hidden;

use std::io::IsTerminal as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use trainyard_command::print;
use trainyard_diagnostic::{Code, Diagnostic};

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
    let write = || {
        std::fs::create_dir_all(folder)?;
        match arguments.kind {
            DataKind::Census => {
                census::write(
                    &folder.join("train.csv"),
                    arguments.rows,
                    arguments.seed,
                    &bar,
                )?;
                census::write(&folder.join("eval.csv"), eval, arguments.seed + 1, &bar)
            }
            DataKind::Ctr => {
                for shard in 0..arguments.shards.max(1) {
                    let rows = arguments.rows * shard / arguments.shards.max(1)
                        ..arguments.rows * (shard + 1) / arguments.shards.max(1);
                    ctr::write(
                        &folder.join(format!("ctr-train-{shard:02}.tsv")),
                        rows,
                        arguments.seed,
                        &bar,
                    )?;
                }
                ctr::write(
                    &folder.join("ctr-eval-00.tsv"),
                    0..eval,
                    arguments.seed + 1,
                    &bar,
                )
            }
        }
    };
    write().map_err(|error: std::io::Error| {
        Diagnostic::error(
            Code::E9002,
            format!("data cannot be written to {}: {error}", folder.display()),
        )
        .help("give --out another folder")
    })?;
    bar.finish_and_clear();
    print(&format!(
        "{} training and {eval} evaluation records in {}\n",
        arguments.rows,
        folder.display()
    ))
}
