//! The job of a model and the model that was built from it. Both follow the job that trained the values.

use std::sync::Arc;

use tracing::info;
use trainyard_checkpoint::Manifest;
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model::{AnyModel, Build};
use trainyard_run_config::Job;

use crate::config::ModelConfig;
use crate::job_difference::{difference, lines};

/// A job and its model.
pub(crate) struct BuiltJob {
    pub(crate) job: Job,
    pub(crate) model: Arc<AnyModel>,
}

impl BuiltJob {
    /// Reads the job of a model; nothing if its folder has no job file yet.
    ///
    /// # Errors
    /// The job file has mistakes or cannot be read.
    fn read(config: &ModelConfig, build: Build) -> Result<Option<Self>, Diagnostic> {
        let job = config
            .job()
            .map_err(|mut problems| problems.swap_remove(0))?;
        let Some(job) = job else { return Ok(None) };
        let model = Arc::from(build(&job).map_err(Diagnostic::from)?);
        Ok(Some(Self { job, model }))
    }
}

/// The job whose model answers, and the term of the values for which its file was read.
#[derive(Default)]
pub(crate) struct FollowedJob {
    built: Option<Arc<BuiltJob>>,
    /// Term of the chief that wrote the latest values without a record of their job.
    term: Option<u64>,
}

impl FollowedJob {
    /// Returns the job, which is read if it has not been; nothing if its folder has no job file yet.
    ///
    /// # Errors
    /// The job file has mistakes or cannot be read.
    pub(crate) fn get(
        &mut self,
        config: &ModelConfig,
        build: Build,
    ) -> Result<Option<Arc<BuiltJob>>, Diagnostic> {
        if self.built.is_none() {
            self.built = BuiltJob::read(config, build)?.map(Arc::new);
        }
        Ok(self.built.clone())
    }

    /// Returns the job that has been read.
    pub(crate) fn known(&self) -> Option<&BuiltJob> {
        self.built.as_deref()
    }

    /// Returns the job that trained values: the present one, or that of the job file, which a run with another job has
    /// written again.
    ///
    /// # Errors
    /// The values were trained by another job, or the job file has mistakes or cannot be read.
    pub(crate) fn of_values(
        &mut self,
        manifest: &Manifest,
        config: &ModelConfig,
        build: Build,
    ) -> Result<Arc<BuiltJob>, Diagnostic> {
        let present = self.get(config, build)?.ok_or_else(|| {
            let message = format!("{} has no job file", config.path.display());
            Diagnostic::error(Code::E1201, message)
        })?;
        // Published cuts have no record of their job. Another job comes with another run, hence with another term.
        let is_recorded = !manifest.job.is_empty();
        let is_of_present = if is_recorded {
            difference(&manifest.job, &present.job).is_none()
        } else {
            self.term == Some(manifest.cluster_epoch)
        };
        if is_of_present {
            return Ok(present);
        }
        let read = BuiltJob::read(config, build)?;
        let read = read.filter(|read| read.job.model_dir == present.job.model_dir);
        let file = read.as_ref().map_or(&present.job, |read| &read.job);
        if is_recorded && let Some(difference) = difference(&manifest.job, file) {
            let step = manifest.global_step;
            let message = format!("version {step} was trained by another job: {difference}");
            return Err(Diagnostic::error(Code::E2007, message).help(
                "serve the model directory, whose job.toml is that of its run, or give the job file and the --set options of the training",
            ));
        }
        self.term = Some(manifest.cluster_epoch);
        match read {
            Some(read) if difference(&lines(&present.job), &read.job).is_some() => {
                info!(model = %config.name, step = manifest.global_step, "the job has changed, and is read again");
                let read = Arc::new(read);
                self.built = Some(Arc::clone(&read));
                Ok(read)
            }
            _ => Ok(present),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use trainyard_model::PREMADE;

    use super::*;

    fn text(stddev: f32) -> String {
        format!(
            r#"
model_dir = "model"
[input]
label = {{ column = "y" }}
[input.train]
files = ["train.csv"]
batch_size = 1
[[feature]]
column = "x"
kind = "numeric"
normalizer = "standardize"
mean = 0
stddev = {stddev}
[model]
kind = "linear_regressor"
[train]
max_steps = 1
"#
        )
    }

    fn trained(stddev: f32, term: u64) -> Manifest {
        let job = Job::parse(Path::new("job.toml"), &text(stddev), &[]).expect("a job");
        Manifest {
            job: lines(&job),
            ..Manifest::new("c".to_owned(), term, 7, 0)
        }
    }

    #[test]
    fn values_of_a_changed_job_are_taken_with_it_and_refused_without_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("job.toml");
        let write = |stddev| std::fs::write(&file, text(stddev)).expect("the job is written");
        let config = ModelConfig::new("model".to_owned(), folder.path().to_owned());
        let mut followed = FollowedJob::default();
        write(1.0);
        let first = followed
            .of_values(&trained(1.0, 1), &config, PREMADE)
            .expect("its own");
        let refused = followed.of_values(&trained(10.0, 2), &config, PREMADE);
        let told = refused.err().expect("another job").message;
        assert!(
            told.contains("version 7 was trained by another job") && told.contains("stddev"),
            "{told}"
        );
        write(10.0);
        let of = |followed: &mut FollowedJob, manifest: &Manifest| {
            followed.of_values(manifest, &config, PREMADE)
        };
        let kept = of(&mut followed, &trained(1.0, 1)).expect("the present one");
        assert!(Arc::ptr_eq(&first, &kept));
        let second = of(&mut followed, &trained(10.0, 2)).expect("read again");
        assert!(!Arc::ptr_eq(&first, &second));
        // A cut without a record: its term shows whether the job may be another.
        let cut = |term| Manifest::new("c".to_owned(), term, 8, 0);
        write(3.0);
        let same = of(&mut followed, &cut(2)).expect("of the same term");
        assert!(Arc::ptr_eq(&second, &same));
        let third = of(&mut followed, &cut(3)).expect("of the next term");
        assert!(!Arc::ptr_eq(&second, &third));
    }

    #[test]
    fn each_key_of_the_input_that_decides_how_a_request_is_read_is_a_difference() {
        let job = |input: &str| {
            let text = text(1.0).replace(
                "label = { column = \"y\" }",
                &format!("label = {{ column = \"y\" }}\n{input}"),
            );
            Job::parse(Path::new("job.toml"), &text, &[]).expect("a job")
        };
        let plain = job("");
        assert_eq!(difference(&lines(&job("")), &plain), None);
        for input in [
            "missing = [\"-1\"]",
            "missing_of = { x = [\"-1\"] }",
            "trim = false",
            "format = \"tsv\"",
        ] {
            let other = job(input);
            let key = input.split(' ').next().expect("a key");
            for (trained, own) in [(&plain, &other), (&other, &plain)] {
                let told = difference(&lines(trained), own);
                assert!(told.is_some_and(|told| told.contains(key)), "{input}");
            }
        }
    }

    #[test]
    fn a_key_of_another_release_that_is_off_is_no_difference() {
        let job = Job::parse(Path::new("job.toml"), &text(1.0), &[]).expect("a job");
        let with = |line: &str| [lines(&job), vec![line.to_owned()]].concat();
        assert_eq!(difference(&with("model.later=false"), &job), None);
        assert!(difference(&with("model.later=true"), &job).is_some());
    }
}
