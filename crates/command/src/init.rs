//! `trainyard init`: writes a job for given data. It profiles the columns, chooses a feature for each, divides the
//! records into training and evaluation, and writes a job file whose comments give the reasons.

mod design;
mod doubts;
mod job_file;
mod measurement;
mod plan;
mod sample;
mod search;
mod source;
mod split;
mod style;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use design::Design;
use doubts::Doubt;
pub(crate) use job_file::quoted;
use job_file::{JobFile, Purpose};
use measurement::{Bench, Choice, Stage};
use plan::{Coverage, Plan, Shape, Task, Wishes};
use sample::{Bounds, Sample, draw};
use source::Source;
use split::Parts;
use tokio::time::Instant;
use trainyard_daemon::{LogFormat, StopSource, report};
use trainyard_diagnostic::{Code, Diagnostic, Severity};
use trainyard_input::{Format, Profile, TextEncoding};
use trainyard_model::PREMADE;
use trainyard_model_dir::write_result;
use trainyard_run_config::Job;
use trainyard_storage::{is_remote, linked_file, unwritten};

use crate::check::check_inputs;
use crate::convert::{TableFormat, same_columns};
use crate::data_sample::{Extent, profile};
use crate::data_warnings::{absent_told, look_at_rounding, look_for_class_of_several_texts};
use crate::folder_columns::warn_of_folder_columns;
use crate::output::print;
use crate::repeated_rows::repeated_rows;
use crate::targets::{Existing, check_targets};

/// Default of `--seconds`.
const SECONDS: u64 = 30;

/// Least `--seconds` of which a third is enough for all candidates, and the rest for the best of them on more records.
const SECONDS_OF_TWO_STAGES: u64 = 3 * SECONDS;

/// Line below the table of a first stage that no second one follows.
const ALONE_AHEAD: &str =
    "No other kind of model with layers came near the one ahead, or none was tried: it is chosen.";

/// Log filter of `init`: models that are measured are quiet, and what is wrong with one is in its row of the table.
pub(crate) const LOG_FILTER: &str = "warn,trainyard_trainer=error,trainyard_chief=error,trainyard_evaluator=error,\
    trainyard_coordinator=error,trainyard_parameter_server=error,trainyard_parameter_store=error";

/// Long help of `init`.
pub(crate) const INIT: &str = "Writes a job for data: looks at the columns, and says for each what it became and why.

The files may be csv, tsv, libsvm, tfrecord or parquet, all of one format. The label is the column that is called so (label, \
target, click, rating, ...), or the only one of two values, or the one named by --label. A number becomes a numeric feature, \
brought into range by its mean and deviation or its logarithm, and buckets at its tenths for the linear part; a text becomes a \
vocabulary, or is hashed where it has many values; columns that only name their record are left out.

Without --eval, a tenth of the records is kept for evaluation: the latest, where a column says when they were made, else some \
drawn at random, written beside the job; of five files and more, the last ones.

Which model suits the data is measured: for --seconds, models of several kinds are trained on a sample of the training part and \
compared on records of it that are held out. The table of their results is printed, and is a comment of the job. The model of the \
rules is kept unless another is better by more than chance. With 90 seconds and more, on data of more than 250000 records, the best \
kinds are compared again on more of them, which tells what rare ids say together.

  trainyard init clicks.parquet --out clicks
  trainyard train clicks/job.toml";

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Files, URLs and patterns.
    #[arg(value_name = "DATA", required = true)]
    pub(crate) data: Vec<String>,
    /// Folder for the job and the files that are written; it is created if it does not exist.
    #[arg(long, value_name = "DIR", default_value = "job")]
    pub(crate) out: PathBuf,
    /// Column to predict. Default: the column that looks like a label, by its name or its two values.
    #[arg(long, value_name = "COLUMN")]
    pub(crate) label: Option<String>,
    /// Value of the label that is the positive class. Default: the rarer of two values.
    #[arg(long, value_name = "VALUE")]
    pub(crate) positive: Option<String>,
    /// Column with the time of a record: the latest records are kept for evaluation.
    #[arg(long, value_name = "COLUMN")]
    pub(crate) time: Option<String>,
    /// Files for evaluation.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) eval: Vec<String>,
    /// Share of the records to keep for evaluation, if no files are given for it; 0 = none.
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, value_parser = share)]
    pub(crate) eval_share: f64,
    /// Records to read from each file, the first ones.
    #[arg(long, value_name = "N", default_value_t = 250_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rows: u64,
    /// Reads all records.
    #[arg(long, conflicts_with = "rows")]
    pub(crate) all: bool,
    /// Seconds in which models are trained on a sample, to choose the best; 0 = the model that the rules choose. With more than the
    /// default, further kinds are tried last.
    #[arg(long, value_name = "N", default_value_t = SECONDS)]
    pub(crate) seconds: u64,
    /// Format of the files. Default: the format that the name of the first file stands for.
    #[arg(long, value_enum)]
    pub(crate) format: Option<TableFormat>,
    /// Names of the columns of csv and tsv files whose first line does not name them.
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    pub(crate) columns: Option<Vec<String>>,
    /// Character between the fields of text files. Default: the one that divides the first lines into equally many fields.
    #[arg(long, value_name = "CHARACTER", value_parser = delimiter)]
    pub(crate) delimiter: Option<u8>,
    /// Encoding of text files. Default: UTF-8, or latin1 if they hold other bytes.
    #[arg(long, value_enum)]
    pub(crate) encoding: Option<FileEncoding>,
    /// Overwrites an existing job and the files that are written with it. Files that hold the data are never overwritten.
    #[arg(long)]
    pub(crate) force: bool,
}

/// The encoding of text files, as an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileEncoding(pub(crate) TextEncoding);

impl ValueEnum for FileEncoding {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [FileEncoding; TextEncoding::NAMES.len()] = {
            let mut all = [FileEncoding(TextEncoding::Utf8); TextEncoding::NAMES.len()];
            let mut place = 0;
            while place < all.len() {
                all[place] = FileEncoding(TextEncoding::NAMES[place].1);
                place += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()))
    }
}

/// Parses a delimiter: one ASCII character, or `\\t`.
fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !byte.is_ascii_alphanumeric() && *byte != b'"' => Ok(*byte),
        _ => Err("must be one ASCII character that is no letter, digit or quote".to_owned()),
    }
}

/// Parses a share of records that leaves some for training.
fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=0.9).contains(&share) => Ok(share),
        _ => Err("must be a number from 0 to 0.9".to_owned()),
    }
}

/// Profiles the data, measures models on a sample, and writes the job. `stop` ends it without a job.
pub(crate) fn init(arguments: &Init, stop: &StopSource) -> Result<(), Vec<Diagnostic>> {
    work(arguments, stop).map_err(|problem| vec![problem])
}

fn work(arguments: &Init, stop: &StopSource) -> Result<(), Diagnostic> {
    let folder = arguments.out.clone();
    let path = folder.join("job.toml");
    let existing = Existing::by_force(arguments.force);
    let mut source = Source::find(arguments)?;
    let mut written = split::targets(&source, &folder, arguments);
    let divides = !written.is_empty();
    written.push(path.clone());
    let read: Vec<PathBuf> = source
        .train
        .iter()
        .chain(source.eval.iter().flatten())
        .cloned()
        .collect();
    check_targets(&written, &read, existing)?;
    let extent = if arguments.all {
        Extent::Whole
    } else {
        Extent::OfAll(arguments.rows)
    };
    if source.names_columns() {
        let reader = |file: &PathBuf| source.reader_of(file.clone());
        same_columns(&source.train, reader)?;
    }
    let mut found = profile(&source.options(), extent)?;
    while source.learn(&found) {
        found = profile(&source.options(), extent)?;
    }
    if found.rows == 0 {
        let message = format!(
            "{} hold no record that can be read as {}",
            arguments.data.join(", "),
            source.format_name()
        );
        let problem = Diagnostic::error(Code::E4001, message);
        return Err(match &found.first_bad {
            Some(first) => problem
                .note(format!("the first: {first}"))
                .help("correct --columns, --delimiter or --format, or the file"),
            None if source.names_columns() => problem
                .note("they hold the names of the columns, and no line after them, or nothing")
                .help("give files with records"),
            None => problem.help("give --format csv, tsv, libsvm, tfrecord or parquet"),
        });
    }
    if let Some(told) = found.mixed_times.first() {
        return Err(Diagnostic::error(Code::E4003, told).help(
            "write the files with times of one unit, or take those of each unit on their own",
        ));
    }
    let mut evaluated = match &source.eval {
        Some(_) => Some(profile(&source.eval_options(), extent)?),
        None => None,
    };
    if let Some(evaluated) = &mut evaluated {
        source.keep_texts(evaluated)?;
    }
    let texts = source.keep_texts(&mut found)?;
    let wishes = Wishes {
        label: arguments.label.clone(),
        positive: arguments.positive.clone(),
        time: arguments.time.clone(),
        eval_share: if divides { arguments.eval_share } else { 0.0 },
        coverage: if !arguments.all && found.rows >= arguments.rows {
            Coverage::Sample
        } else {
            Coverage::Whole
        },
        is_libsvm: matches!(source.format, Format::LibSvm(_)),
        shape: None,
    };
    let plan = Plan::make(&found, evaluated.as_ref(), &wishes)?;
    if let Some(evaluated) = evaluated.as_ref().filter(|found| found.rows > 0) {
        plan.refuse_lacking(evaluated)?;
    }
    let vocabularies = |plan: &Plan| -> Result<Vec<(PathBuf, String)>, Diagnostic> {
        let files: Vec<(PathBuf, String)> = job_file::vocabularies(plan)
            .into_iter()
            .map(|(name, text)| (folder.join(name), text))
            .collect();
        let written: Vec<PathBuf> = files.iter().map(|(path, _)| path.clone()).collect();
        check_targets(&written, &read, existing)?;
        Ok(files)
    };
    vocabularies(&plan)?;
    std::fs::create_dir_all(&folder).map_err(|error| cannot_write(&folder, &error))?;
    let parts = Parts::make(&source, &plan, &found, &folder, arguments)?;
    let by_rules = |why: String| Choice {
        plan: plan.clone(),
        design: Design::by_rules(&plan),
        finalists: Vec::new(),
        is_cut: false,
        lines: vec![why],
        is_no_better: None,
    };
    let choice = if arguments.seconds == 0 {
        by_rules(
            "The model is that of the rules: --seconds was 0, so that none was measured."
                .to_owned(),
        )
    } else {
        let other = Wishes {
            shape: Some(Shape::Factorized),
            ..wishes
        };
        let factorized = match plan.shape {
            Shape::WideAndDeep if !other.is_libsvm => {
                let plan = Plan::make(&found, evaluated.as_ref(), &other)?;
                Some(plan).filter(|plan| plan.shape == Shape::Factorized)
            }
            Shape::Factorized | Shape::WideAndDeep => None,
        };
        let begun = Instant::now();
        let scratch =
            tempfile::tempdir().map_err(|error| cannot_write(&std::env::temp_dir(), &error))?;
        let candidates = scratch.path();
        let total = Duration::from_secs(arguments.seconds);
        let choose = |sample: &Sample, stage: Stage, end: Duration| {
            let bench = Bench {
                source: &source,
                plan: &plan,
                factorized: factorized.as_ref(),
                profile: &found,
                sample,
                folder: candidates,
                stop,
                further_kinds: arguments.seconds > SECONDS,
                stage,
                total: end.saturating_sub(begun.elapsed()),
            };
            bench.choose()
        };
        let choose_of = |sample: &Sample| {
            if !sample.is_part || arguments.seconds < SECONDS_OF_TWO_STAGES {
                return choose(sample, Stage::Only, total);
            }
            let mut first = choose(sample, Stage::First, total / 3)?;
            let finalists = std::mem::take(&mut first.finalists);
            if finalists.len() < 2 && first.is_cut {
                // The same once more, with twice the time.
                return choose(sample, Stage::Only, total);
            }
            if finalists.len() < 2 {
                first.lines.push(ALONE_AHEAD.to_owned());
                return Ok(first);
            }
            let left = total.saturating_sub(begun.elapsed()).as_secs();
            // The drawing of the first sample has taken a part of the first second.
            let times = left.div_ceil(SECONDS);
            match draw(&source, &plan, &parts, Bounds::of_times(times), candidates)? {
                Ok(larger) => {
                    let mut last = choose(&larger, Stage::Last(finalists), total)?;
                    last.lines.splice(..0, first.lines);
                    Ok(last)
                }
                Err(why) => {
                    first.lines.push(format!("The one ahead is chosen: {why}."));
                    Ok(first)
                }
            }
        };
        match draw(&source, &plan, &parts, Bounds::of_times(1), candidates)? {
            Ok(sample) => choose_of(&sample).inspect_err(|_| {
                // The next call must not find them.
                for file in split::targets(&source, &folder, arguments) {
                    drop(linked_file(&file).and_then(std::fs::remove_file));
                }
            })?,
            Err(why) => by_rules(format!("The model is that of the rules: {why}.")),
        }
    };
    let plan = &choice.plan;
    let vocabularies = vocabularies(plan)?;
    let file = JobFile {
        source: &source,
        plan,
        design: &choice.design,
        purpose: Purpose::Written { why: &choice.lines },
        parts: &parts,
        folder: &folder,
        profile: &found,
    };
    for (path, text) in &vocabularies {
        let parent = path.parent().unwrap_or(&folder);
        std::fs::create_dir_all(parent).map_err(|error| cannot_write(parent, &error))?;
        write_result(path, text.as_bytes())?;
    }
    write_result(&path, file.text().as_bytes())?;
    // The written file is loaded as any other job file.
    let job = Job::load(&path, &[]).map_err(|problems| {
        let text: Vec<String> = problems.iter().map(Diagnostic::render).collect();
        let message = format!(
            "{} was written, and is no job that can be run",
            path.display()
        );
        Diagnostic::error(Code::E9001, message)
            .note(text.concat())
            .help("correct it by hand, and report this")
    })?;
    print(&told(&path, &job, &source, &found, &choice, &parts))?;
    check_written(&path, &job)?;
    report(
        &look_for_class_of_several_texts(&job, &found),
        LogFormat::Text,
    );
    let doubts = source.doubts(&found, plan.time.as_deref());
    let doubts: Vec<Diagnostic> = doubts.iter().map(Doubt::warning).collect();
    report(&doubts, LogFormat::Text);
    if let Task::Number { .. } = plan.label.task {
        let label = found.column(&plan.label.column);
        let rounded: Vec<Diagnostic> = label.and_then(look_at_rounding).into_iter().collect();
        report(&rounded, LogFormat::Text);
    }
    report(&texts_told(&texts), LogFormat::Text);
    report(
        &warn_of_folder_columns(&source.options().files, &found),
        LogFormat::Text,
    );
    if source.eval.is_some() {
        let repeated = repeated_rows(&source.options(), &source.eval_options(), extent)?;
        report(repeated.as_slice(), LogFormat::Text);
    }
    if let Some(message) = &choice.is_no_better {
        let problem = Diagnostic::warning(Code::E4005, message).help(
            "look at the label and at the columns that are left out: `trainyard stats JOB` shows what they hold. More records, or \
             --seconds with more time, may help",
        );
        report(&[problem], LogFormat::Text);
    }
    Ok(())
}

/// Warns about columns whose numbers are texts of a format with types.
fn texts_told(columns: &[String]) -> Vec<Diagnostic> {
    let told = columns.iter().map(|column| {
        let message = format!(
            "`{column}` holds numbers as texts: the job takes them for names, since the format has types"
        );
        Diagnostic::warning(Code::E4005, message).help(
            "if they are numbers, `trainyard convert IN OUT --numbers COLUMN` writes them as such, or in Python `pandas.to_numeric`: run \
             `trainyard init` on the result. Names may stay",
        )
    });
    told.collect()
}

/// Looks whether the written job can read the first records of each of its files, and reports those that it cannot.
///
/// # Errors
/// It cannot read a file, as where a column has other types in several files.
fn check_written(path: &Path, job: &Job) -> Result<(), Diagnostic> {
    let mut problems = Vec::new();
    check_inputs(job, &*PREMADE(job)?, &mut Vec::new(), &mut problems);
    let (records, files): (Vec<_>, Vec<_>) = problems
        .into_iter()
        .partition(|problem| problem.code == Code::E4004);
    let records: Vec<Diagnostic> = records
        .into_iter()
        .map(|problem| Diagnostic {
            severity: Severity::Warning,
            ..problem
        })
        .collect();
    report(&records, LogFormat::Text);
    match files.into_iter().next() {
        Some(problem) => Err(problem.note(format!(
            "{} was written, and cannot read this file",
            path.display()
        ))),
        None => Ok(()),
    }
}

/// Summarizes the decisions.
fn told(
    path: &Path,
    job: &Job,
    source: &Source,
    found: &Profile,
    choice: &Choice,
    parts: &Parts,
) -> String {
    let plan = &choice.plan;
    let mut text = format!(
        "read a sample of {} records of {} columns\n",
        found.rows,
        found.columns.len()
    );
    if let Some(first) = &found.first_bad {
        text += &format!(
            "           {} more cannot be read, the first: {first}\n",
            found.bad_rows
        );
    }
    for absent in &found.absent {
        text += &format!("           {}\n", absent_told(absent));
    }
    for (number, line) in source.told().iter().enumerate() {
        let caption = if number == 0 { "read as" } else { "" };
        text += &format!("{caption:<10} {line}\n");
    }
    text += &format!("label      {}\n", plan.label.told());
    text += &format!("features   {}\n", plan.features_told());
    for (name, why) in &plan.left_out {
        text += &format!("left out   `{name}`: {why}\n");
    }
    for line in &parts.told {
        text += &format!("{line}\n");
    }
    for (number, line) in choice.lines.iter().enumerate() {
        let caption = if number == 0 { "models" } else { "" };
        text += &format!("{caption:<10} {line}\n");
    }
    let path = path.display();
    text += &format!("wrote      {path}: a {}\n", job.model.kind.name());
    text + &format!("\nNext:  trainyard check {path}\n       trainyard train {path}\n")
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Diagnostic {
    unwritten(path, error).note("--out gives another folder")
}

/// Returns a path as the job file in this folder writes it.
fn beside(folder: &Path, path: &Path) -> String {
    if is_remote(path) {
        return path.display().to_string();
    }
    match path.strip_prefix(folder) {
        Ok(inside) if !folder.as_os_str().is_empty() => inside.display().to_string(),
        _ if path.is_absolute() => path.display().to_string(),
        _ => std::path::absolute(path)
            .unwrap_or_else(|_| PathBuf::from(path))
            .display()
            .to_string(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    #[cfg(feature = "parquet")]
    use trainyard_input::Kept;
    use trainyard_input::{Cell, Layout, TableReader, TableWriter, Value};

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        init: Init,
    }

    fn run(arguments: &[&Path]) -> Result<(), Diagnostic> {
        let all = ["init", "--seconds", "0"]
            .map(Path::new)
            .into_iter()
            .chain(arguments.iter().copied());
        work(
            &Line::parse_from(all.map(Path::as_os_str)).init,
            &StopSource::default(),
        )
    }

    fn records(path: &Path) -> String {
        let rows: String = (0..200)
            .map(|row| format!("{},{}\n", 2 * row, row % 2))
            .collect();
        let text = format!("x,label\n{rows}");
        std::fs::write(path, &text).expect("written");
        text
    }

    fn content(path: &Path) -> String {
        std::fs::read_to_string(path).expect("the file is there")
    }

    #[test]
    fn the_first_line_names_the_columns_whichever_of_its_fields_are_quoted() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("all.csv");
        let out = folder.path().join("job");
        for delimiter in [",", ";", "|", "\t"] {
            for (header, record) in [
                (["\"x\"", "\"c\"", "\"label\""], ["", "\""]),
                (["\"x\"", "c", "label"], ["", ""]),
                (["x", "\"c\"", "label"], ["", ""]),
                (["x", "c", "label"], ["", ""]),
                (["x", "c", "label"], ["\"", ""]),
                (["\"x\"", "\"c\"", "\"label\""], ["\"", "\""]),
            ] {
                let [of_number, of_text] = record;
                let rows: String = (0..200)
                    .map(|row| {
                        let x = format!("{of_number}0.{}{of_number}", 1000 + row);
                        let c = format!("{of_text}{}{of_text}", ["a", "b"][row / 2 % 2]);
                        [x, c, (row % 2).to_string()].join(delimiter) + "\n"
                    })
                    .collect();
                std::fs::write(&data, header.join(delimiter) + "\n" + &rows).expect("written");
                let more = [&data, Path::new("--force"), Path::new("--out"), &out];
                run(&more).unwrap_or_else(|problem| {
                    panic!("{header:?} {record:?} {delimiter:?}: {}", problem.render())
                });
                let job = content(&out.join("job.toml"));
                for column in [
                    "column = \"x\"",
                    "column = \"c\"",
                    "label = { column = \"label\"",
                ] {
                    assert!(
                        job.contains(column),
                        "{header:?} {record:?} {delimiter:?}: {job}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_rare_class_is_judged_by_the_exact_area() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("all.csv");
        for (every, metric) in [(100, "auc_exact"), (3, "auc")] {
            let rows: String = (0..20_000)
                .map(|row| format!("{},{}\n", row % 97, u8::from(row % every == 0)))
                .collect();
            std::fs::write(&data, format!("x,label\n{rows}")).expect("written");
            let out = folder.path().join(metric);
            run(&[&data, Path::new("--out"), &out]).expect("a job");
            let job = content(&out.join("job.toml"));
            assert!(job.contains(&format!("metric = \"{metric}\"")), "{job}");
        }
    }

    #[test]
    fn data_is_never_written_over_by_whatever_name_it_is_given() {
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path().join("clicks");
        std::fs::create_dir(&out).expect("a folder");
        let data = out.join("train.csv");
        let text = records(&data);
        let link = folder.path().join("link.csv");
        std::os::unix::fs::symlink(&data, &link).expect("a link");
        for name in [&data, &out.join(".").join("train.csv"), &link] {
            for more in [&[][..], &[Path::new("--force")]] {
                let arguments = [&[name, Path::new("--out"), &out], more].concat();
                let refused = run(&arguments).expect_err("refused");
                assert_eq!(refused.code, Code::E1000);
                assert!(
                    refused.message.contains("is read, and would be replaced"),
                    "{}",
                    refused.message
                );
                assert_eq!(content(&data), text);
                assert!(!out.join("eval.csv").exists() && !out.join("job.toml").exists());
            }
        }
    }

    #[test]
    fn files_that_exist_are_written_over_only_by_force() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("all.csv");
        records(&data);
        let eval = folder.path().join("eval.csv");
        std::fs::write(&eval, "mine\n").expect("written");
        let out = [&data, Path::new("--out"), folder.path()];
        let refused = run(&out).expect_err("refused");
        assert!(
            refused.message.ends_with("eval.csv exists"),
            "{}",
            refused.message
        );
        assert_eq!(content(&eval), "mine\n");
        assert!(!folder.path().join("train.csv").exists());
        run(&[&out[..], &[Path::new("--force")]].concat()).expect("a job");
        assert!(content(&eval).starts_with("x,label\n"));
    }

    #[test]
    fn parts_of_an_earlier_job_are_no_data_beside_other_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let out = [Path::new("--out"), folder.path()];
        records(&at("all.csv"));
        run(&[&[at("all.csv").as_path()][..], &out].concat()).expect("a job");
        let pattern = at("*.csv");
        let force = [&out[..], &[Path::new("--force")]].concat();
        let other = at("other");
        for more in [&force[..], &[Path::new("--out"), &other]] {
            let refused = run(&[&[pattern.as_path()][..], more].concat()).expect_err("refused");
            assert_eq!(refused.code, Code::E1000);
            assert!(refused.message.contains("is a part that"), "{refused:?}");
        }
        // The parts alone are data.
        let (train, eval) = (at("train.csv"), at("eval.csv"));
        let parts = [&train, Path::new("--eval"), &eval];
        run(&[&parts[..], &[Path::new("--out"), &other]].concat()).expect("a job");
    }

    #[test]
    fn numbers_as_texts_of_a_format_with_types_stay_texts_in_the_parts() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("all.tfrecord");
        let names = ["y", "x"].map(str::to_owned);
        let text = |text: String| Cell {
            values: vec![Value::Text(text.into_bytes())],
            list: false,
        };
        let rows: Vec<[Cell; 2]> = (0..200)
            .map(|row| {
                let x = match row % 10 {
                    3 => "1e999".to_owned(),
                    7 => "NULL".to_owned(),
                    _ => format!("{}.50", row % 40),
                };
                [text((row % 2).to_string()), text(x)]
            })
            .collect();
        let mut layout = Layout::default();
        for row in &rows {
            layout.see_typed(&names, row);
        }
        let mut writer = TableWriter::create(&data, Format::TfRecord, layout).expect("created");
        for row in &rows {
            writer.write(row).expect("written");
        }
        writer.finish().expect("finished");
        let out = folder.path().join("job");
        run(&[&data, Path::new("--out"), &out]).expect("a job");
        let text = content(&out.join("job.toml"));
        assert!(!text.contains("kind = \"numeric\""), "{text}");
        let parts = ["train", "eval"].map(|part| out.join(format!("{part}.tfrecord")));
        let mut reader = TableReader::new(parts.to_vec(), Format::TfRecord, None, None);
        let mut row = Vec::new();
        let mut found = Vec::new();
        while reader.read(&mut row).expect("read") {
            found.push(format!("{row:?}"));
        }
        let mut expected: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    }

    /// Writes the rows of the file of all types 40 times, with two columns beside them.
    #[cfg(feature = "parquet")]
    fn write_all_types(path: &Path, label: impl Fn(usize) -> Value) {
        let types = Path::new(env!("CARGO_MANIFEST_DIR")).join("../input/testdata/types.parquet");
        let mut reader = TableReader::new(vec![types.clone()], Format::Parquet, None, None);
        let mut rows = 0;
        while reader.read(&mut Vec::new()).expect("read") {
            rows += 40;
        }
        // An infinite number is told, and no file of it is checked without a warning.
        let mut columns = reader.columns().to_vec();
        columns.retain(|name| name != "f64_inf");
        let kept = Kept {
            files: vec![types; 40],
            columns,
        };
        let names = ["x", "label"].map(str::to_owned);
        let row = |row: usize| {
            [Value::Int(row as i64), label(row)].map(|value| Cell {
                values: vec![value],
                list: false,
            })
        };
        let mut layout = Layout::default();
        layout.see_typed(&names, &row(0));
        let mut writer = TableWriter::create_with_kept(path, layout, &kept).expect("created");
        for number in 0..rows {
            writer.write(&row(number)).expect("written");
        }
        writer.finish().expect("finished");
    }

    #[cfg(feature = "parquet")]
    #[test]
    fn the_job_of_parts_of_a_parquet_file_reads_the_file_of_all_types_itself() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("all.parquet");
        write_all_types(&data, |row| Value::Int((row % 3 % 2) as i64));
        let out = folder.path().join("job");
        run(&[&data, Path::new("--out"), &out]).expect("a job");
        let mut job = Job::load(&out.join("job.toml"), &[]).expect("a job");
        job.input.train.files = vec![data.display().to_string()];
        let mut problems = Vec::new();
        check_inputs(
            &job,
            &*PREMADE(&job).expect("a model"),
            &mut Vec::new(),
            &mut problems,
        );
        assert_eq!(problems, []);
        let units = |path: &Path| {
            let mut reader = TableReader::new(vec![path.to_owned()], Format::Parquet, None, None);
            let mut units = std::collections::BTreeMap::new();
            let mut row = Vec::new();
            while reader.read(&mut row).expect("read") {
                units.extend(reader.kinds().clone());
            }
            (reader.columns().to_vec(), units)
        };
        let all = units(&data);
        let times = all.1.values().filter(|kind| kind.unit().is_some());
        assert!(times.count() > 5, "{all:?}");
        for part in ["train.parquet", "eval.parquet"] {
            assert_eq!(units(&out.join(part)), all, "{part}");
        }
    }

    #[cfg(feature = "parquet")]
    #[test]
    fn classes_as_floats_are_whole_numbers_in_the_parts_and_a_later_fraction_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("all.parquet");
        let out = folder.path().join("job");
        let arguments = [&data, Path::new("--out"), &out];
        write_all_types(&data, |row| Value::Float((row % 3) as f64));
        run(&arguments).expect("a job");
        let mut reader =
            TableReader::new(vec![out.join("train.parquet")], Format::Parquet, None, None);
        let mut row = Vec::new();
        while reader.read(&mut row).expect("read") {
            let label = row.last().expect("a label");
            assert!(matches!(label.values[..], [Value::Int(0..3)]), "{label:?}");
        }
        let late = |row: usize| match row {
            100 => Value::Float(0.5),
            row => Value::Float((row % 3) as f64),
        };
        write_all_types(&data, late);
        let more = ["--force", "--rows", "50"].map(Path::new);
        let refused = run(&[&arguments[..], &more].concat()).expect_err("a fraction");
        assert!(
            refused.message.contains("`label` holds 0.5"),
            "{}",
            refused.message
        );
    }

    #[test]
    fn files_that_are_no_lines_of_as_many_fields_are_refused_with_the_first_bad_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("all.csv");
        let out = folder.path().join("job");
        let text = records(&data);
        let told = |more: &[&str]| {
            let more: Vec<&Path> = more.iter().map(Path::new).collect();
            let arguments = [&[&data, Path::new("--out"), out.as_path()], more.as_slice()];
            run(&arguments.concat()).expect_err("refused").render()
        };
        for columns in ["x", "x,label,z"] {
            let told = told(&["--columns", columns]);
            assert!(
                told.contains("all.csv:1: ") && told.contains("--columns"),
                "{told}"
            );
        }
        let header = told(&["--columns", "x,label"]);
        assert!(
            header.contains("first line holds these very names"),
            "{header}"
        );
        std::fs::write(&data, text.replace('\n', "\r")).expect("written");
        let told = told(&[]);
        assert!(
            told.contains("carriage returns") && told.len() < 1000,
            "{told}"
        );
        assert!(!out.join("job.toml").exists());
    }

    #[test]
    fn files_of_the_evaluation_are_not_trained_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let [first, second, eval] = ["a.csv", "b.csv", "ev.csv"].map(|name| {
            let path = folder.path().join(name);
            records(&path);
            path
        });
        let out = folder.path().join("job");
        let pattern = folder.path().join("*.csv");
        run(&[
            &pattern,
            Path::new("--eval"),
            &eval,
            Path::new("--out"),
            &out,
        ])
        .expect("a job");
        let job = Job::load(&out.join("job.toml"), &[]).expect("a job");
        let names = |paths: &[&PathBuf]| -> Vec<String> {
            let shown = paths.iter().map(|path| path.display().to_string());
            shown.collect()
        };
        assert_eq!(job.input.train.files, names(&[&first, &second]));
        let evaluated = job.input.eval.map(|part| part.files);
        assert_eq!(evaluated, Some(names(&[&eval])));
        let refused = run(&[
            &eval,
            Path::new("--eval"),
            &eval,
            Path::new("--out"),
            &out,
            Path::new("--force"),
        ]);
        assert_eq!(refused.map_err(|problem| problem.code), Err(Code::E1000));
    }
}
