//! The power is cut while a program writes: what it did to its files is recorded, and what a disk keeps of it at any moment
//! is laid out for the next start.

mod disk;
mod recording;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use disk::Disk;
pub use disk::{Act, Left, Tree};

/// What a program did below a folder, and said.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    folder: PathBuf,
    before: Tree,
    acts: Vec<Act>,
}

impl Recording {
    /// Runs a program to its end, which must be good, and records what it does below a folder, which holds `before` at its start.
    ///
    /// # Errors
    /// The program cannot be recorded or fails, or the recording does not lead to what lies in the folder: something was done by a
    /// call that it does not hold.
    pub fn of(
        program: &Path,
        arguments: &[&str],
        folder: &Path,
        before: Tree,
    ) -> Result<Self, String> {
        let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
        let output = scratch.path().join("calls");
        let ended = Command::new("strace")
            .args(recording::arguments(&output))
            .arg(program)
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| error.to_string())?;
        if !ended.status.success() {
            return Err(String::from_utf8_lossy(&ended.stderr).into_owned());
        }
        let text = std::fs::read(&output).map_err(|error| error.to_string())?;
        let acts = recording::read(&String::from_utf8_lossy(&text), folder)?;
        let recording = Self {
            folder: folder.to_owned(),
            before,
            acts,
        };
        let led_to = recording.after_cut(recording.acts.len(), &mut Left::Everything)?;
        let lies_there = Tree::of(folder).map_err(|error| error.to_string())?;
        if led_to == lies_there {
            return Ok(recording);
        }
        let differs = |path: &&PathBuf| led_to.files.get(*path) != lies_there.files.get(*path);
        let files: Vec<&PathBuf> = led_to
            .files
            .keys()
            .chain(lies_there.files.keys())
            .filter(differs)
            .collect();
        Err(format!(
            "the recording leads to other files than there are: {files:?}, or to other folders: {:?} and {:?}",
            led_to.folders, lies_there.folders
        ))
    }

    /// What was done and said, in order.
    pub fn acts(&self) -> &[Act] {
        &self.acts
    }

    /// The same without some of what was done.
    pub fn without(&self, left_out: impl Fn(&Act) -> bool) -> Self {
        let acts = self.acts.iter().filter(|act| !left_out(act)).cloned();
        Self {
            folder: self.folder.clone(),
            before: self.before.clone(),
            acts: acts.collect(),
        }
    }

    /// What a disk keeps where the power is cut after so many acts.
    ///
    /// # Errors
    /// What was done before does not fit together.
    pub fn after_cut(&self, acts: usize, left: &mut Left<'_>) -> Result<Tree, String> {
        let mut disk = Disk::holding(&self.folder, &self.before)?;
        self.acts[..acts].iter().try_for_each(|act| disk.act(act))?;
        Ok(disk.after_cut(left))
    }

    /// What was said before the power was cut.
    pub fn said(&self, acts: usize) -> String {
        let said = self.acts[..acts].iter().filter_map(|act| match act {
            Act::Say(text) => Some(text.as_str()),
            _ => None,
        });
        said.collect()
    }
}
