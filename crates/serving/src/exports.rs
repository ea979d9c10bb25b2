//! Exports as the source of a model: one export, or a folder of exports, of which the newest is followed.
//!
//! An export is opened by mapping it: tables cost the pages that requests read. The head of the file, its index, the job
//! and the variables that every batch reads are checked before the version answers. The checksums of the tables are
//! compared before the version answers if another one answers meanwhile, and else at once afterwards.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use tracing::info;
use trainyard_checkpoint::{Origin, TensorFiles};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model::{AnyModel, Build};
use trainyard_model_dir::{names, read};
use trainyard_predictor::Predictor;
use trainyard_run_config::Job;

use crate::job_difference::difference;

/// Name of the file that describes an export. It is written last.
const DESCRIPTION: &str = "model.json";

/// Name of the job file in an export.
const JOB: &str = "job.toml";

/// A whole export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Export {
    pub(crate) path: PathBuf,
    /// The name of its folder, which is the time of the export in seconds since 1970; 0 if that is no number.
    pub(crate) second: u64,
}

/// An export that can predict.
pub(crate) struct Opened {
    pub(crate) job: Job,
    pub(crate) predictor: Predictor,
    pub(crate) files: Arc<Origin>,
    /// Time of the export.
    pub(crate) written: SystemTime,
}

impl Export {
    /// Returns the export at a path, or the newest one in a folder of exports; nothing if the path is neither.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(crate) fn newest(path: &Path) -> Result<Option<Self>, Diagnostic> {
        let is_whole = |folder: &Path| -> Result<bool, Diagnostic> {
            Ok(names(folder)?.iter().any(|name| name == DESCRIPTION))
        };
        if is_whole(path)? {
            return Ok(Some(Self::at(path.to_owned())));
        }
        let within = names(path)?;
        let mut seconds: Vec<u64> = within.iter().filter_map(|name| name.parse().ok()).collect();
        seconds.sort_unstable();
        for second in seconds.into_iter().rev() {
            let path = path.join(second.to_string());
            if is_whole(&path)? {
                return Ok(Some(Self { path, second }));
            }
        }
        Ok(None)
    }

    fn at(path: PathBuf) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let second = name.parse().unwrap_or(0);
        Self { path, second }
    }

    /// Reads the job of the export, with changes of its keys.
    ///
    /// # Errors
    /// The export has no job, or the job has mistakes.
    pub(crate) fn job(&self, set: &[String]) -> Result<Job, Vec<Diagnostic>> {
        let path = self.path.join(JOB);
        let text = read(&path).map_err(|error| vec![error.into()])?;
        let text = text.ok_or_else(|| {
            let message = format!("{} holds no {JOB}", self.path.display());
            let problem = Diagnostic::error(Code::E1000, message);
            vec![
                problem
                    .help("export again with this release, or give the job file or the model_dir"),
            ]
        })?;
        Job::parse(&path, &String::from_utf8_lossy(&text), set)
    }

    /// Opens the export.
    ///
    /// # Errors
    /// A file is damaged or cut short, or does not belong to the job of the export.
    pub(crate) fn open(&self, build: Build, set: &[String]) -> Result<Opened, Diagnostic> {
        let job = self.job(set);
        let job = job.map_err(|mut problems| problems.swap_remove(0))?;
        let model = Arc::<AnyModel>::from(build(&job)?);
        let files = TensorFiles::open(&self.path)?.ok_or_else(|| {
            let message = format!("{} holds no model.safetensors", self.path.display());
            Diagnostic::error(Code::E3002, message)
                .help("export with --format safetensors, alone or with other formats")
        })?;
        if files.global_step().is_none() {
            let message = format!("{} is damaged", self.path.join(DESCRIPTION).display());
            return Err(Diagnostic::error(Code::E3001, message));
        }
        let origin = Arc::new(Origin::Tensors(files));
        // Exports of earlier releases have no record of their job.
        let trained = Some(origin.job()).filter(|lines| !lines.is_empty());
        if let Some(difference) = trained.and_then(|lines| difference(lines, &job)) {
            let shown = self.path.display();
            let message =
                format!("the values of {shown} were trained by another job: {difference}");
            return Err(Diagnostic::error(Code::E2007, message).help(
                "restore the vocabulary files that the job of the export names, or give no --set that changes what the values mean",
            ));
        }
        let predictor = Predictor::open(&origin, model)?;
        // A copy of an export has a number of its own choice.
        let since = Duration::from_secs(self.second);
        let written = SystemTime::UNIX_EPOCH.checked_add(since);
        Ok(Opened {
            job,
            predictor,
            files: origin,
            written: written.unwrap_or(SystemTime::UNIX_EPOCH),
        })
    }
}

impl Opened {
    /// Returns the number of the version: the second of the export, or the global step of one whose folder has another name.
    pub(crate) fn version(&self, export: &Export) -> u64 {
        match export.second {
            0 => self.files.global_step().unwrap_or(0),
            second => second,
        }
    }
}

/// Compares all checksums of an export.
///
/// # Errors
/// A checksum differs, or the file was cut or cannot be read.
pub(crate) fn verify(origin: &Origin) -> Result<(), Diagnostic> {
    let Origin::Tensors(files) = origin else {
        return Ok(());
    };
    let began = Instant::now();
    let mut tensors = 0;
    for name in files.checked() {
        files.verify(name)?;
        tensors += 1;
    }
    let path = files.path().display();
    let seconds = began.elapsed().as_secs_f64();
    info!(%path, tensors, seconds, "the checksums of the export agree");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_whole_export_is_found_and_an_export_by_itself() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let make = |name: &str, is_whole: bool| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(&path).expect("a folder");
            if is_whole {
                std::fs::write(path.join(DESCRIPTION), "{}").expect("a file");
            }
            path
        };
        let newest = |path: &Path| Export::newest(path).expect("it is read");
        assert_eq!(newest(folder.path()), None);
        make("9", true);
        let path = make("10", true);
        make("11", false);
        make("temp-12", true);
        let found = Export { path, second: 10 };
        assert_eq!(newest(folder.path()), Some(found.clone()));
        assert_eq!(newest(&found.path), Some(found));
        let path = make("copied", true);
        assert_eq!(newest(&path), Some(Export { path, second: 0 }));
    }
}
