//! What a person or a program reads on standard output, and lines of records in files.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::Path;

use trainyard_chief::Report;
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model::Scores;
use trainyard_run_config::{InputPart, Job, Sharding};

/// Records of a batch that is read for one command.
const BATCH_RECORDS: usize = 512;

/// Makes files the evaluation input of a job; without files, the job's own stays.
pub(crate) fn read_files(job: &mut Job, files: &[String]) {
    if !files.is_empty() {
        job.input.eval = Some(InputPart {
            files: files.to_vec(),
            batch_size: BATCH_RECORDS,
            shuffle_rows: 0,
            epochs: Some(1),
            sharding: Sharding::Row,
            prefetch_batches: 4,
        });
    }
}

/// Where lines go: a file, or standard output.
pub(crate) struct Sink {
    out: Box<dyn Write>,
    target: String,
    /// Whether nobody reads any more, as behind `head`.
    closed: bool,
}

impl Sink {
    /// Opens a file, or standard output where there is none.
    ///
    /// # Errors
    /// The file cannot be made.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, Diagnostic> {
        let target = path.map_or("standard output".to_owned(), |path| {
            path.display().to_string()
        });
        let out: Box<dyn Write> = match path {
            Some(path) => Box::new(BufWriter::new(
                File::create(path).map_err(|error| failed(&target, &error))?,
            )),
            None => Box::new(BufWriter::new(std::io::stdout().lock())),
        };
        Ok(Self {
            out,
            target,
            closed: false,
        })
    }

    /// Writes a line, or part of it. Where nobody reads any more, it is lost: see [`Sink::is_closed`].
    ///
    /// # Errors
    /// The target is full.
    pub(crate) fn write(&mut self, text: &str) -> Result<(), Diagnostic> {
        let written = self.out.write_all(text.as_bytes());
        self.note(written)
    }

    /// Whether nobody reads any more: there is nothing left to do.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Writes what is still held back.
    ///
    /// # Errors
    /// The target is full.
    pub(crate) fn finish(mut self) -> Result<(), Diagnostic> {
        let written = self.out.flush();
        self.note(written)
    }

    fn note(&mut self, written: std::io::Result<()>) -> Result<(), Diagnostic> {
        match written {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            written => written.map_err(|error| failed(&self.target, &error)),
        }
    }
}

fn failed(target: &str, error: &std::io::Error) -> Diagnostic {
    Diagnostic::error(Code::E9002, format!("{target} cannot be written: {error}"))
}

/// Writes to standard output. That nobody reads it any more is no mistake.
///
/// # Errors
/// It is full.
pub(crate) fn print(text: &str) -> Result<(), Diagnostic> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(failed("standard output", &error))
        }
        _ => Ok(()),
    }
}

/// Says in one line how far a run has come, for example `trained to step 6000 in 3.5 s (1714 steps/s, ...)`.
pub(crate) fn result_line(verb: &str, report: &Report) -> String {
    let step = report.global_step;
    if report.examples == 0 && report.steps_per_second == 0.0 {
        return format!(
            "{verb} step {step}: this run added no step. A larger train.max_steps goes on, another --model-dir begins anew\n"
        );
    }
    let Report {
        train_seconds,
        steps_per_second,
        examples_per_second,
        ..
    } = report;
    let mut text = format!(
        "{verb} step {step} in {train_seconds:.1} s ({steps_per_second:.0} steps/s, {examples_per_second:.0} examples/s)\n"
    );
    if let Some(why) = &report.ended_early {
        text += &format!("ended early, at the best checkpoint: {why}\n");
    }
    text
}

/// Returns metrics as a table.
pub(crate) fn table(scores: &Scores) -> String {
    let width = scores.keys().map(String::len).max().unwrap_or(0);
    scores
        .iter()
        .map(|(name, value)| format!("  {name:width$}  {value:.6}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_found_nothing_to_do_says_how_to_train_more() {
        let report = Report {
            global_step: 1000,
            ..Report::default()
        };
        let text = result_line("trained to", &report);
        assert!(
            text.starts_with("trained to step 1000: this run added no step."),
            "{text}"
        );
        assert!(
            text.contains("train.max_steps") && text.contains("--model-dir"),
            "{text}"
        );
        let rates = Report {
            examples: 640,
            steps_per_second: 2.0,
            examples_per_second: 256.0,
            ..report
        };
        let rates = Report {
            train_seconds: 2.5,
            ..rates
        };
        let text = "trained to step 1000 in 2.5 s (2 steps/s, 256 examples/s)\n";
        assert_eq!(result_line("trained to", &rates), text);
    }
}
