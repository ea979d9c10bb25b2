//! Output of commands: standard output, and files with one line per record.

use std::io::{BufWriter, ErrorKind, StdoutLock, Write};
use std::path::{Path, PathBuf};

use trainyard_chief::Report;
use trainyard_daemon::taken_console;
use trainyard_diagnostic::{Code, Diagnostic, system_problem};
use trainyard_input::CompressedFile;
use trainyard_model::Scores;
use trainyard_run_config::{InputPart, Job, Sharding, expand_files};
use trainyard_storage::{ResultFile, is_remote, linked_file, unwritten};

use crate::targets::{refuse_own_file, refuse_own_input};
use crate::text_table::width;

/// Records of a batch that a command reads.
const BATCH_RECORDS: usize = 512;

/// Replaces the evaluation input of a job by files. Without files, the job keeps its own. A name on the command line
/// means the working folder before the folder of the job file.
pub(crate) fn read_files(job: &mut Job, files: &[String]) {
    if !files.is_empty() {
        job.input.eval = Some(InputPart {
            files: files.iter().map(|name| in_working_folder(name)).collect(),
            batch_size: BATCH_RECORDS,
            shuffle_rows: 0,
            epochs: Some(1),
            sharding: Sharding::Row,
            prefetch_batches: 4,
        });
    }
}

/// Returns the whole path of a name or pattern that matches files in the working folder, and other names as they are.
fn in_working_folder(name: &str) -> String {
    let is_there = !is_remote(Path::new(name)) && expand_files(&[name.to_owned()]).is_ok();
    match std::path::absolute(name) {
        Ok(path) if is_there => path.to_string_lossy().into_owned(),
        _ => name.to_owned(),
    }
}

/// Returns a number of bytes in words.
pub(crate) fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "B" {
                format!("{bytes} B")
            } else {
                format!("{value:.1} {unit}")
            };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

enum Out {
    /// A file, compressed as its name says.
    File(Box<CompressedFile>),
    Standard(BufWriter<StdoutLock<'static>>),
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::File(out) => out.write(bytes),
            Self::Standard(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::File(out) => out.flush(),
            Self::Standard(out) => out.flush(),
        }
    }
}

/// Target of output lines: a file, or standard output. A regular file has a temporary name until it is finished, so
/// that its path never holds a part of the lines. An unfinished file is removed.
pub(crate) struct Sink {
    out: Out,
    /// Absent for standard output.
    target: Option<PathBuf>,
    /// Absent for standard output, a pipe or a device, and once the file is finished.
    file: Option<ResultFile>,
    /// The reader has closed the pipe, as `head` does.
    closed: bool,
}

impl Sink {
    /// Opens the file of a result of a job, or standard output if there is no path. What is written is made of `inputs`.
    ///
    /// # Errors
    /// As for [`Sink::open`]; or the file is one of the job, or of its run.
    pub(crate) fn of_job(
        path: Option<&Path>,
        job: &Job,
        inputs: &[PathBuf],
    ) -> Result<Self, Diagnostic> {
        if let Some(path) = path {
            refuse_own_file(path, job)?;
        }
        Self::open(path, inputs)
    }

    /// Opens a file, or standard output if there is no path. What is written is made of `inputs`.
    ///
    /// # Errors
    /// The file cannot be created, or is one of the inputs.
    pub(crate) fn open(path: Option<&Path>, inputs: &[PathBuf]) -> Result<Self, Diagnostic> {
        if let Some(path) = path {
            refuse_own_input(path, inputs)?;
        }
        let mut file = None;
        let out = match path {
            Some(path) => {
                let (result, out) =
                    ResultFile::create(path).map_err(|error| unwritten(path, &error))?;
                file = Some(result);
                Out::File(Box::new(CompressedFile::new(path, BufWriter::new(out))))
            }
            None => Out::Standard(BufWriter::new(std::io::stdout().lock())),
        };
        Ok(Self {
            out,
            target: path.map(Path::to_owned),
            file,
            closed: false,
        })
    }

    /// Writes a line, or part of it. Once the reader has closed the pipe, the text is lost: see [`Sink::is_closed`].
    ///
    /// # Errors
    /// The target is full.
    pub(crate) fn write(&mut self, text: &str) -> Result<(), Diagnostic> {
        let written = self.out.write_all(text.as_bytes());
        note(written, self.target.as_deref(), &mut self.closed)
    }

    /// Returns whether the reader has closed the pipe. The command can then stop.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Flushes the buffer, and gives the file its name.
    ///
    /// # Errors
    /// The target is full.
    pub(crate) fn finish(mut self) -> Result<(), Diagnostic> {
        let written = match self.out {
            Out::File(out) => out.end(),
            Out::Standard(mut out) => out.flush(),
        };
        let target = self.target.as_deref();
        note(written, target, &mut self.closed)?;
        let published = self.file.take().map_or(Ok(()), ResultFile::publish);
        published.map_err(|error| failed(target, &error))
    }
}

/// Notes a pipe that its reader has closed, which is no error.
fn note(
    written: std::io::Result<()>,
    target: Option<&Path>,
    closed: &mut bool,
) -> Result<(), Diagnostic> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {
            *closed = true;
            Ok(())
        }
        written => written.map_err(|error| failed(target, &error)),
    }
}

fn failed(target: Option<&Path>, error: &std::io::Error) -> Diagnostic {
    let Some(path) = target else {
        let message = format!("standard output cannot be written: {error}");
        let otherwise = (Code::E9002, "free space there, or choose another file");
        return system_problem(error, message, otherwise);
    };
    unwritten(path, error)
}

/// Refuses a file whose folder is not there, before the work whose result it is to hold.
///
/// # Errors
/// The folder does not exist.
pub fn refuse_absent_folder(path: &Path) -> Result<(), Diagnostic> {
    if path == Path::new("-") {
        let message = "`-` is no file, and would become one of this name".to_owned();
        return Err(Diagnostic::error(Code::E1201, message)
            .help("leave the option out for standard output; ./- is a file of this name"));
    }
    if is_remote(path) {
        return Ok(());
    }
    let file = linked_file(path).map_err(|error| unwritten(path, &error))?;
    let folder = file.parent();
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
    match folder.map(Path::metadata) {
        Some(Err(error)) => Err(unwritten(path, &error)),
        Some(Ok(_)) | None => Ok(()),
    }
}

/// Writes to standard output, or to the console that has been taken. A pipe that its reader has closed is no error.
///
/// # Errors
/// The target is full.
pub fn print(text: &str) -> Result<(), Diagnostic> {
    if let Some(console) = taken_console() {
        console.print(text);
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(failed(None, &error)),
        _ => Ok(()),
    }
}

/// How the summary of a run begins that was stopped before its end.
pub(crate) const STOPPED: &str = "stopped at";

/// Summarizes a run in one line, for example `trained to step 6000 in 3.5 s (1714 steps/s, ...)`.
pub(crate) fn result_line(verb: &str, report: &Report, max_steps: Option<u64>) -> String {
    let step = report.global_step;
    if report.examples == 0 && report.steps_per_second == 0.0 {
        let why = match (&report.ended_early, max_steps) {
            (Some(why), _) => format!(": {why}"),
            (None, Some(most)) if most <= step => {
                ". A larger train.max_steps continues it, another --model-dir starts from the beginning".to_owned()
            }
            (None, _) if verb == STOPPED => String::new(),
            (None, _) if step == 0 => String::new(),
            (None, _) => ". All passes were trained before, or parameter_servers.guard has rejected each further batch, as the log \
                says: a larger input.train.epochs continues it, another --model-dir starts from the beginning"
                .to_owned(),
        };
        return format!("{verb} step {step}: this run added no step{why}\n");
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

/// Refuses the end of a job that no batch has ever updated: its model answers with its initial values.
///
/// # Errors
/// The job is at step 0.
pub(crate) fn refuse_untrained(report: &Report) -> Result<(), Diagnostic> {
    if report.global_step > 0 {
        return Ok(());
    }
    let message = "the job has read its input, and no batch has updated the model: parameter_servers.guard has rejected each, or none had a good \
                   record, as the log says";
    Err(Diagnostic::error(Code::E5001, message).help(
        "where gradients were too large, so are numbers of the features: give these a normalizer, as \"standardize\", and look with `trainyard check`; \
         then train in another --model-dir, or without this one, which counts these batches as read",
    ))
}

/// Returns metrics as a table.
pub(crate) fn table(scores: &Scores) -> String {
    let width = width(scores.keys().map(String::as_str));
    scores
        .iter()
        .map(|(name, value)| format!("  {name:width$}  {value:.6}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_that_is_an_input_is_refused_and_not_emptied() {
        let folder = tempfile::tempdir().expect("a folder");
        let input = folder.path().join("a.csv");
        std::fs::write(&input, "1\n").expect("written");
        let output = folder.path().join(".").join("a.csv");
        let refused = Sink::open(Some(&output), std::slice::from_ref(&input));
        assert_eq!(refused.err().map(|problem| problem.code), Some(Code::E1000));
        assert_eq!(std::fs::read_to_string(&input).expect("there"), "1\n");
    }

    #[test]
    fn a_name_on_the_command_line_means_the_working_folder() {
        // The working folder of tests is the folder of the crate.
        let path = std::path::absolute("src/output.rs").expect("a working folder");
        assert_eq!(in_working_folder("src/output.rs"), path.to_string_lossy());
        assert_eq!(in_working_folder("src/absent.rs"), "src/absent.rs");
        assert_eq!(in_working_folder("s3://b/k.csv"), "s3://b/k.csv");
    }

    #[test]
    fn an_output_without_its_folder_is_told_with_the_cure() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("absent").join("result.jsonl");
        let problem = Sink::open(Some(&path), &[]).err().expect("no folder");
        assert_eq!(problem.code, Code::E1201);
        assert!(problem.help.is_some_and(|help| help.contains("folder")));
        let problem = refuse_absent_folder(&path).expect_err("no folder");
        assert_eq!(problem.code, Code::E1201);
        refuse_absent_folder(&folder.path().join("report.json")).expect("a folder");
        refuse_absent_folder(Path::new("report.json")).expect("the working folder");
        refuse_absent_folder(Path::new("-")).expect_err("standard output has no name");
    }

    #[test]
    fn a_link_to_a_file_that_is_not_there_is_written_through_and_its_folder_is_looked_at() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::os::unix::fs::symlink("file.jsonl", at("link")).expect("a link");
        let mut sink = Sink::open(Some(&at("link")), &[]).expect("opened");
        sink.write("new\n").expect("written");
        sink.finish().expect("finished");
        assert!(at("link").is_symlink());
        assert_eq!(
            std::fs::read_to_string(at("file.jsonl")).expect("made"),
            "new\n"
        );
        std::os::unix::fs::symlink("absent/file.jsonl", at("deep")).expect("a link");
        refuse_absent_folder(&at("link")).expect("a folder");
        let problem = refuse_absent_folder(&at("deep")).expect_err("no folder");
        assert_eq!(problem.code, Code::E1201);
        assert!(problem.message.contains("absent/file.jsonl"), "{problem:?}");
    }

    #[test]
    fn an_output_keeps_its_content_until_the_new_one_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("result.jsonl");
        std::fs::write(&path, "old\n").expect("written");
        let names = || {
            let entries = std::fs::read_dir(folder.path()).expect("a folder");
            entries.count()
        };
        let mut sink = Sink::open(Some(&path), &[]).expect("opened");
        sink.write("new\n").expect("written");
        assert_eq!(std::fs::read_to_string(&path).expect("there"), "old\n");
        drop(sink);
        assert_eq!(std::fs::read_to_string(&path).expect("there"), "old\n");
        assert_eq!(names(), 1);
        let mut sink = Sink::open(Some(&path), &[]).expect("opened");
        sink.write("new\n").expect("written");
        sink.finish().expect("finished");
        assert_eq!(std::fs::read_to_string(&path).expect("there"), "new\n");
        assert_eq!(names(), 1);
        Sink::open(Some(Path::new("/dev/null")), &[])
            .and_then(Sink::finish)
            .expect("a device is written in its place");
    }

    #[test]
    fn a_run_that_found_nothing_to_do_says_how_to_train_more() {
        let report = Report {
            global_step: 1000,
            ..Report::default()
        };
        let text = result_line("trained to", &report, Some(1000));
        assert!(
            text.starts_with("trained to step 1000: this run added no step."),
            "{text}"
        );
        assert!(
            text.contains("train.max_steps") && text.contains("--model-dir"),
            "{text}"
        );
        let text = result_line("trained to", &report, Some(2000));
        assert!(text.contains("input.train.epochs"), "{text}");
        let text = result_line(STOPPED, &report, None);
        assert_eq!(text, "stopped at step 1000: this run added no step\n");
        assert_eq!(refuse_untrained(&report), Ok(()));
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
        assert_eq!(result_line("trained to", &rates, None), text);
    }
}
