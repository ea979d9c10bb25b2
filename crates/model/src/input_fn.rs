//! The input function (`input_fn`): input options of one worker, made from a job.

use std::path::PathBuf;

use trainyard_diagnostic::Diagnostic;
use trainyard_input as input;
use trainyard_run_config::{InputPart, Job, resolve_files};

/// An input of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// `[input.train]`.
    Train,
    /// `[input.eval]`.
    Eval,
    /// The `[[evaluation]]` with this index in the job.
    Evaluation(usize),
    /// `[input.train]`, read once and in order, for evaluation.
    TrainForEvaluation,
}

/// A worker's part of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Index of the worker, below `count`.
    pub index: usize,
    /// Number of workers, at least 1.
    pub count: usize,
    /// Number of batches that were applied already. The first delivered batch has this number.
    pub skip_batches: u64,
}

impl Shard {
    /// The whole input, from its start.
    pub const WHOLE: Self = Self {
        index: 0,
        count: 1,
        skip_batches: 0,
    };
}

/// Returns the options of a worker that reads no file, because the records of `[input.train]` are sent to it. The files
/// keep their names in the job, and need not exist.
pub fn inline_options(job: &Job, dead_letter: Option<PathBuf>) -> input::Options {
    let section = &job.input.train;
    let files = section.files.iter().map(PathBuf::from).collect();
    input::Options {
        files,
        dead_letter,
        ..options(job, section, Part::Train, Shard::WHOLE)
    }
}

/// Returns the options of an input. `dead_letter` is the file of bad rows, under `bad_rows = "skip"`.
///
/// # Errors
/// A file does not exist, or the job has no such input.
pub fn input_options(
    job: &Job,
    part: Part,
    shard: Shard,
    dead_letter: Option<PathBuf>,
) -> Result<input::Options, Diagnostic> {
    let eval = job.input.eval.as_ref();
    let section: &InputPart = match part {
        Part::Eval => eval.ok_or_else(|| {
            let problem = Diagnostic::error(
                trainyard_diagnostic::Code::E1005,
                "the job has no section [input.eval]",
            );
            problem.help("add it, with files = [\"eval.csv\"]")
        })?,
        Part::Evaluation(place) => &job.evaluations[place].input,
        Part::Train | Part::TrainForEvaluation => &job.input.train,
    };
    Ok(input::Options {
        files: resolve_files(job, section)?,
        dead_letter,
        ..options(job, section, part, shard)
    })
}

/// Returns the options of an input without files and dead letters.
fn options(job: &Job, section: &InputPart, part: Part, shard: Shard) -> input::Options {
    let once = part == Part::TrainForEvaluation;
    input::Options {
        files: Vec::new(),
        format: job.input.format,
        compression: job.input.compression,
        columns: job.input.columns.clone(),
        trim: job.input.trim,
        text: job.input.text.clone(),
        missing: job.input.missing.clone(),
        keeps_digits: true,
        bad_rows: job.input.bad_rows,
        bad_rows_max: job.input.bad_rows_max,
        dead_letter: None,
        batch_size: section.batch_size,
        drop_remainder: false,
        interleave: input::Interleave::default(),
        shuffle_rows: if once { 0 } else { section.shuffle_rows },
        epochs: if once { Some(1) } else { section.epochs },
        sharding: if once {
            input::Sharding::None
        } else {
            section.sharding
        },
        shard_index: shard.index,
        shard_count: shard.count,
        seed: job.run.seed,
        skip_batches: shard.skip_batches,
    }
}
