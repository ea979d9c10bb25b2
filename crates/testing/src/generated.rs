//! Comparison of committed generated code with what its definitions give.
#![expect(
    clippy::disallowed_methods,
    reason = "a test is told by the environment to write what it compares"
)]

use std::path::{Path, PathBuf};

/// Name of the variable that asks for new files in place of the committed ones.
const REGENERATE: &str = "TRAINYARD_REGENERATE";

/// Checks that a folder holds exactly the files that `generate` writes. If `TRAINYARD_REGENERATE` is set, they are
/// written there first.
///
/// # Panics
/// The files differ, or cannot be read or written.
pub fn check(committed: &Path, generate: impl Fn(&Path)) {
    if std::env::var_os(REGENERATE).is_some() {
        std::fs::create_dir_all(committed).expect("a folder is created");
        generate(committed);
    }
    let folder = tempfile::tempdir().expect("a folder");
    generate(folder.path());
    let committed = files(committed);
    let generated = files(folder.path());
    let names =
        |files: &[(String, Vec<u8>)]| files.iter().map(|file| file.0.clone()).collect::<Vec<_>>();
    assert_eq!(names(&committed), names(&generated));
    for ((name, committed), (_, generated)) in committed.iter().zip(&generated) {
        assert!(
            committed == generated,
            "{name} is not what proto/ gives: run this test with {REGENERATE}=1"
        );
    }
}

/// Returns the files of a folder by name.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).expect("the folder is read");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry is read").path())
        .collect();
    paths.sort();
    let named = |path: PathBuf| {
        let name = path.file_name().expect("an entry has a name");
        let name = name.to_string_lossy().into_owned();
        (name, std::fs::read(&path).expect("a file is read"))
    };
    paths.into_iter().map(named).collect()
}
