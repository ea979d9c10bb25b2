//! Checks what the compiler cannot: floors, circles of modules, absences, captions and links.

mod commands;
mod floors;
mod imports;
mod links;
mod metrics;
mod modules;
mod sources;
mod text;

use std::path::{Path, PathBuf};

/// The root of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every file below a folder whose name ends with `ending`.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(folder) else {
        return found;
    };
    for entry in entries.filter_map(Result::ok) {
        let path = entry.path();
        if path.is_dir() {
            if path
                .file_name()
                .is_none_or(|name| name != "target" && name != "__pycache__")
            {
                found.extend(files(&path, ending));
            }
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// A file and its text.
fn read(path: &Path) -> String {
    std::fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("{} cannot be read: {error}", path.display()))
}

/// Fails with every offender, one a line.
fn assert_none(claim: &str, offenders: &[String]) {
    assert!(offenders.is_empty(), "{claim}:\n{}", offenders.join("\n"));
}
