//! `trainyard init`: writes a job for given data. It profiles the columns, chooses a feature for each, divides the
//! records into training and evaluation, and writes a job file whose comments give the reasons.

mod job_file;
mod plan;
mod source;
mod split;

use std::path::{Path, PathBuf};

use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_input::{Format, Profile};
use trainyard_run_config::Job;
use trainyard_storage::is_remote;

use crate::command::Init;
use crate::data_sample::{Extent, profile};
use crate::output::print;
use job_file::JobFile;
use plan::{Plan, Wishes};
use source::Source;
use split::Parts;

/// Profiles the data and writes the job.
pub(crate) fn init(arguments: &Init) -> Result<(), Vec<Diagnostic>> {
    work(arguments).map_err(|problem| vec![problem])
}

fn work(arguments: &Init) -> Result<(), Diagnostic> {
    let folder = arguments.out.clone();
    let path = folder.join("job.toml");
    if path.exists() && !arguments.force {
        let message = format!("{} exists", path.display());
        return Err(Diagnostic::error(Code::E1000, message)
            .help("give --force to write over it, or another --out"));
    }
    let source = Source::find(arguments)?;
    let extent = if arguments.all {
        Extent::Whole
    } else {
        Extent::OfAll(arguments.rows)
    };
    let found = profile(&source.options(), extent)?;
    if found.rows == 0 {
        let message = format!(
            "{} hold no record that can be read as {}",
            arguments.data.join(", "),
            source.format_name()
        );
        return Err(Diagnostic::error(Code::E4001, message)
            .help("give --format csv, tsv, libsvm, tfrecord or parquet"));
    }
    let evaluated = match &source.eval {
        Some(_) => Some(profile(&source.eval_options(), extent)?),
        None => None,
    };
    let wishes = Wishes {
        label: arguments.label.clone(),
        positive: arguments.positive.clone(),
        time: arguments.time.clone(),
        is_sample: !arguments.all && found.rows >= arguments.rows,
        is_libsvm: matches!(source.format, Format::LibSvm(_)),
    };
    let plan = Plan::make(&found, evaluated.as_ref(), &wishes)?;
    std::fs::create_dir_all(&folder).map_err(|error| cannot_write(&folder, &error))?;
    let parts = Parts::make(&source, &plan, &found, &folder, arguments)?;
    let file = JobFile {
        source: &source,
        plan: &plan,
        parts: &parts,
        folder: &folder,
        profile: &found,
    };
    for (name, text) in file.vocabularies() {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(&folder);
        std::fs::create_dir_all(parent).map_err(|error| cannot_write(parent, &error))?;
        std::fs::write(&path, text).map_err(|error| cannot_write(&path, &error))?;
    }
    std::fs::write(&path, file.text()).map_err(|error| cannot_write(&path, &error))?;
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
    print(&told(&path, &job, &found, &plan, &parts))
}

/// Summarizes the decisions.
fn told(path: &Path, job: &Job, found: &Profile, plan: &Plan, parts: &Parts) -> String {
    let mut text = format!(
        "looked at {} records of {} columns\n",
        found.rows,
        found.columns.len()
    );
    text += &format!("label      {}\n", plan.label.told());
    text += &format!("features   {}\n", plan.features_told());
    for (name, why) in &plan.left_out {
        text += &format!("left out   `{name}`: {why}\n");
    }
    for line in &parts.told {
        text += &format!("{line}\n");
    }
    let path = path.display();
    text += &format!("wrote      {path}: a {}\n", job.model.kind.name());
    text + &format!("\nNext:  trainyard check {path}\n       trainyard train {path}\n")
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Diagnostic {
    let message = format!("{} cannot be written: {}", path.display(), error.kind());
    Diagnostic::error(Code::E9002, message).help("give another folder by --out")
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
