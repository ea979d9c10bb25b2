//! Space on the disk of `model_dir` for the checkpoints of a job.

use std::path::Path;

use trainyard_checkpoint::list;
use trainyard_diagnostic::{Code, Diagnostic, system_problem};
use trainyard_model::AnyModel;
use trainyard_run_config::Job;
use trainyard_storage::is_remote;
use trainyard_variable::Access;

const HELP: &str = "free space, or choose another model_dir";

/// Returns the space that two checkpoints need, the latest one and the one that is being written: a save begins if a tenth more than its
/// values is free.
fn need(bytes: u64) -> u64 {
    bytes.saturating_mul(2).saturating_add(bytes / 10)
}

/// Bytes of a checkpoint of a model, with its slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CheckpointBytes {
    /// Those of the variables that each step changes as a whole.
    least: u64,
    /// Those of all rows. A checkpoint holds no row that training has not changed, and a dynamic table may have fewer rows.
    most: u64,
}

impl CheckpointBytes {
    /// Returns the bytes of a checkpoint of a model.
    pub(crate) fn of(model: &AnyModel) -> Self {
        let optimizers = model.optimizers();
        let mut bytes = Self { least: 0, most: 0 };
        for spec in model.variables() {
            let slots = optimizers
                .get(&spec.optimizer_group)
                .map_or(0, |config| config.slots().len());
            let of_variable = (spec.len() as u64 * 4).saturating_mul(1 + slots as u64);
            bytes.most = bytes.most.saturating_add(of_variable);
            if spec.access == Access::Whole {
                bytes.least = bytes.least.saturating_add(of_variable);
            }
        }
        bytes
    }

    /// Returns what is said of a checkpoint.
    pub(crate) fn told(self) -> String {
        let most = if self.least < self.most {
            "at most "
        } else {
            ""
        };
        format!("a checkpoint is {most}{} bytes", self.most)
    }

    /// Compares the checkpoints with the free bytes of a folder. Returns a warning if they may not fit.
    ///
    /// # Errors
    /// They do not fit.
    fn compare(self, free: u64, folder: &Path) -> Result<Option<Diagnostic>, Diagnostic> {
        let message = |need: String| {
            format!(
                "not enough space for two checkpoints: need {need} bytes, {free} are free in {}",
                folder.display()
            )
        };
        let least = need(self.least);
        if free < least {
            let message = message(least.to_string());
            return Err(Diagnostic::error(Code::E3006, message).help(HELP));
        }
        let most = need(self.most);
        Ok((free < most).then(|| {
            let message = message(format!("up to {most}"));
            Diagnostic::warning(Code::E3006, message)
                .note("a checkpoint holds the rows of tables that training has changed, so these may take less")
                .help(HELP)
        }))
    }
}

/// Space of a disk for checkpoints.
#[derive(Debug, Default)]
pub(crate) struct Space {
    /// What is said of it, if the file system says how large it is.
    pub(crate) line: Option<String>,
    /// The checkpoints may not fit.
    pub(crate) warning: Option<Diagnostic>,
}

/// Checks that `model_dir` can be written and has space for two checkpoints. A bucket has no size. Beside the checkpoints of earlier
/// steps, too little space is told: they give way to the next one.
///
/// # Errors
/// Nothing can be written there, or there is too little space for a job that begins.
pub(crate) fn check_space(job: &Job, bytes: CheckpointBytes) -> Result<Space, Diagnostic> {
    if is_remote(&job.model_dir) {
        return Ok(Space::default());
    }
    let existing = job.model_dir.ancestors().find(|folder| folder.is_dir());
    let folder = existing.map_or(Path::new("."), |folder| folder);
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    if let Err(error) = tempfile::tempfile_in(folder) {
        let message = format!("nothing can be written in {}: {error}", folder.display());
        let help = "give this user the right to write there, or choose another model_dir";
        return Err(system_problem(&error, message, (Code::E3003, help)));
    }
    let Some(free) = free_bytes(folder) else {
        return Ok(Space::default());
    };
    let continues = || list(&job.model_dir).is_ok_and(|earlier| !earlier.is_empty());
    let warning = match bytes.compare(free, folder) {
        Err(problem) if continues() => {
            let warning = Diagnostic::warning(problem.code, problem.message);
            let note = "the earliest checkpoints there give way, as far as run.keep_checkpoint_max and run.keep_checkpoint_every_n_hours allow";
            Some(warning.note(note).help(HELP))
        }
        compared => compared?,
    };
    Ok(Space {
        warning,
        line: Some(format!("{free} bytes are free in {}", folder.display())),
    })
}

/// Returns the free bytes of the file system of a folder. Some network file systems do not report their size.
fn free_bytes(folder: &Path) -> Option<u64> {
    let space = rustix::fs::statvfs(folder).ok()?;
    (space.f_blocks > 0).then(|| space.f_bavail.saturating_mul(space.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_without_space_is_refused_and_one_that_may_lack_it_is_told() {
        let bytes = CheckpointBytes {
            least: 100,
            most: 1000,
        };
        let compare = |free| bytes.compare(free, Path::new("/m"));
        let refused = compare(209).expect_err("too small");
        assert_eq!(refused.code, Code::E3006);
        assert!(
            refused.message.contains("need 210 bytes, 209"),
            "{}",
            refused.message
        );
        for free in [210, 2099] {
            let told = compare(free).expect("may fit").expect("a warning");
            assert!(told.message.contains("up to 2100"), "{}", told.message);
        }
        assert!(compare(2100).expect("fits").is_none());
        let huge = CheckpointBytes {
            least: u64::MAX,
            most: u64::MAX,
        };
        assert!(huge.compare(u64::MAX - 1, Path::new("/m")).is_err());
    }
}
