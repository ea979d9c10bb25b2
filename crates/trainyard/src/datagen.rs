//! `trainyard datagen`: synthetic records with the columns of the shipped jobs, from which a model can learn.

mod census;
mod ctr;
mod hidden;

use std::io::IsTerminal as _;

use indicatif::ProgressBar;
use trainyard_diagnostic::{Code, Diagnostic};

use crate::command::{DataKind, Datagen};
use crate::output::print;

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
