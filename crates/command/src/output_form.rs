//! Form of a result, by the ending of its file's name.

use std::path::Path;

use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_input::Compression;

/// Longest ending of a name; what is longer is a part of the name.
const ENDING_BYTES_MAX: usize = 12;

/// Endings of JSON, and of one JSON object a line.
pub(crate) const JSON: [&str; 3] = ["json", "jsonl", "ndjson"];

/// Endings of texts of any form.
pub(crate) const TEXT: [&str; 3] = ["txt", "log", "out"];

/// Returns the ending of a file's name in small letters; absent without one. What follows a dot and begins with no letter is none.
pub(crate) fn ending(name: &Path) -> Option<String> {
    let name = name.file_name()?.to_string_lossy().to_lowercase();
    let (begin, ending) = name.rsplit_once('.')?;
    let is_ending = !begin.is_empty()
        && ending.len() <= ENDING_BYTES_MAX
        && ending.starts_with(|first: char| first.is_ascii_alphabetic())
        && ending.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_ending.then(|| ending.to_owned())
}

/// Returns the ending of a file's name in front of that of its compression, as [`ending`].
pub(crate) fn ending_of_content(name: &Path) -> Option<String> {
    if Compression::of(name) == Compression::None {
        ending(name)
    } else {
        ending(name.with_extension("").as_path())
    }
}

/// Refuses a file whose name ends otherwise than what is written there.
///
/// # Errors
/// Names the endings that fit.
pub(crate) fn refuse_other_ending(name: &Path, known: &[&str]) -> Result<(), Diagnostic> {
    match ending(name).filter(|ending| !known.contains(&ending.as_str())) {
        Some(other) => Err(unwritable(name, &other, known)),
        None => Ok(()),
    }
}

/// Refuses a file as [`refuse_other_ending`], and takes one that is compressed.
///
/// # Errors
/// Names the endings that fit.
pub(crate) fn refuse_other_content(name: &Path, known: &[&str]) -> Result<(), Diagnostic> {
    match ending_of_content(name).filter(|ending| !known.contains(&ending.as_str())) {
        Some(other) => Err(unwritable(name, &other, known)),
        None => Ok(()),
    }
}

/// The diagnostic of a file whose ending names what the command does not write.
pub(crate) fn unwritable(name: &Path, ending: &str, known: &[&str]) -> Diagnostic {
    let message = format!(
        "{} cannot be written: the command does not write `.{ending}`",
        name.display()
    );
    let known: Vec<String> = known.iter().map(|one| format!(".{one}")).collect();
    Diagnostic::error(Code::E1201, message).help(format!(
        "end the name by one of {}, or give it no ending",
        known.join(", ")
    ))
}

/// Refuses a folder whose name is that of a file.
///
/// # Errors
/// Names the ending.
pub(crate) fn refuse_name_of_file(folder: &Path) -> Result<(), Diagnostic> {
    const OF_FILES: [&str; 10] = [
        "onnx",
        "safetensors",
        "pb",
        "zip",
        "tar",
        "gz",
        "tgz",
        "npy",
        "npz",
        "json",
    ];
    match ending(folder).filter(|ending| OF_FILES.contains(&ending.as_str())) {
        Some(ending) => {
            let message = format!(
                "--output {}: an export is a folder, and the name is that of a file `.{ending}`",
                folder.display()
            );
            Err(Diagnostic::error(Code::E1201, message)
                .help("name a folder; the files in it have names of their own, as model.onnx"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_is_what_names_a_form() {
        for (name, found) in [
            ("x.csv", Some("csv")),
            ("a/b.CSV", Some("csv")),
            ("x", None),
            ("x.d/y", None),
            (".hidden", None),
            ("v1.2", None),
            ("day=2026-11-29.part-3", None),
            ("/dev/stdout", None),
        ] {
            assert_eq!(ending(Path::new(name)).as_deref(), found, "{name}");
        }
        for (name, found) in [
            ("x.csv.gz", Some("csv")),
            ("x.gz", None),
            ("x.jsonl", Some("jsonl")),
            ("x.parquet.zst", Some("zst")),
        ] {
            assert_eq!(
                ending_of_content(Path::new(name)).as_deref(),
                found,
                "{name}"
            );
        }
    }

    #[test]
    fn another_ending_is_refused_with_those_that_fit() {
        let refused = |name: &str| refuse_other_ending(Path::new(name), &JSON).err();
        for name in ["r.json", "r", "r.v1-2"] {
            assert!(refused(name).is_none(), "{name}");
        }
        let problem = refused("r.csv").expect("refused");
        assert_eq!(problem.code, Code::E1201);
        assert!(
            problem.render().contains(".json, .jsonl, .ndjson"),
            "{}",
            problem.render()
        );
    }

    #[test]
    fn a_folder_has_no_name_of_a_file() {
        assert!(refuse_name_of_file(Path::new("out/model.onnx")).is_err());
        assert!(refuse_name_of_file(Path::new("out/v1.2")).is_ok());
    }
}
