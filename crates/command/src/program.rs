//! The program of a command line: what starts it again, and its arguments.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// A program that has this command line. Tasks of a cluster on this machine are more processes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// File of the program, or of what interprets it.
    pub file: PathBuf,
    /// Arguments that come before those of the command line, for example the script that is interpreted.
    pub leading: Vec<OsString>,
    /// Arguments of this run.
    pub arguments: Vec<OsString>,
}

impl Program {
    /// Returns the program of this process.
    pub fn this() -> Self {
        let mut arguments = std::env::args_os();
        let name = arguments.next().unwrap_or_else(|| "trainyard".into());
        Self {
            file: std::env::current_exe().unwrap_or_else(|_| name.into()),
            leading: Vec::new(),
            arguments: arguments.collect(),
        }
    }

    /// Returns the name of the program and its arguments, as a process receives them.
    pub(crate) fn words(&self) -> impl Iterator<Item = &OsStr> {
        let name = self
            .leading
            .last()
            .map_or(self.file.as_os_str(), |name| name);
        std::iter::once(name).chain(self.arguments.iter().map(AsRef::as_ref))
    }

    /// Returns the daemon that was built beside the operator's program, if this is that program.
    pub(crate) fn daemon_beside(&self, name: &str) -> Option<PathBuf> {
        let own = self.leading.is_empty() && self.file.file_name() == Some(OsStr::new("trainyard"));
        let path = self.file.with_file_name(name);
        (own && path.is_file()).then_some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_operators_program_starts_the_daemons_beside_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let daemon = folder.path().join("trainyard-ps");
        std::fs::write(&daemon, "").expect("written");
        let program = |name: &str, leading: &[&str]| Program {
            file: folder.path().join(name),
            leading: leading.iter().map(OsString::from).collect(),
            arguments: Vec::new(),
        };
        let beside = |program: Program| program.daemon_beside("trainyard-ps");
        assert_eq!(beside(program("trainyard", &[])), Some(daemon));
        assert_eq!(beside(program("my-model", &[])), None);
        assert_eq!(beside(program("trainyard", &["train.py"])), None);
        let absent = program("trainyard", &[]).daemon_beside("trainyard-chief");
        assert_eq!(absent, None);
    }
}
