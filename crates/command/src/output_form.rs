//! Form of a result, by the ending of its file's name.

use std::path::Path;

use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_input::Compression;

/// Longest ending of a name; what is longer is a part of the name.
const ENDING_BYTES_MAX: usize = 12;

/// Endings of JSON, and of one JSON object a line.
pub(crate) const JSON: [&str; 3] = ["json", "jsonl", "ndjson"];

/// Endings that name a format. Another ending, such as `.txt` or `.old`, is a name for any text.
const OF_FORMATS: [&str; 68] = [
    "7z",
    "arrow",
    "avro",
    "bson",
    "bz2",
    "cbor",
    "csv",
    "db",
    "doc",
    "docx",
    "dta",
    "duckdb",
    "feather",
    "gif",
    "gz",
    "gzip",
    "h5",
    "hdf5",
    "html",
    "ipc",
    "jpg",
    "json",
    "jsonl",
    "keras",
    "libsvm",
    "lz4",
    "lzma",
    "mat",
    "msgpack",
    "ndjson",
    "npy",
    "npz",
    "ods",
    "onnx",
    "orc",
    "parquet",
    "pb",
    "pdf",
    "pickle",
    "pkl",
    "png",
    "pq",
    "pt",
    "pth",
    "rar",
    "rds",
    "safetensors",
    "sas7bdat",
    "sav",
    "snappy",
    "sqlite",
    "svg",
    "svm",
    "svmlight",
    "tab",
    "tar",
    "tfrecord",
    "tfrecords",
    "tgz",
    "toml",
    "tsv",
    "xls",
    "xlsx",
    "xml",
    "xz",
    "yaml",
    "yml",
    "zip",
];

/// Further endings of compressed files.
const OF_COMPRESSION: [&str; 4] = ["zlib", "zst", "zstd", "zz"];

/// Returns whether an ending names a format, so that nothing else is written into a file of that name.
fn names_format(ending: &str) -> bool {
    OF_FORMATS.contains(&ending) || OF_COMPRESSION.contains(&ending)
}

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

/// Refuses a file whose name ends by a format that the command does not write. A text is written into one of another ending.
///
/// # Errors
/// Names the endings that fit.
pub(crate) fn refuse_other_ending(name: &Path, known: &[&str]) -> Result<(), Diagnostic> {
    refuse_format(name, ending(name), known)
}

/// Refuses a file as [`refuse_other_ending`], and takes one that is compressed.
///
/// # Errors
/// Names the endings that fit.
pub(crate) fn refuse_other_content(name: &Path, known: &[&str]) -> Result<(), Diagnostic> {
    refuse_format(name, ending_of_content(name), known)
}

fn refuse_format(name: &Path, ending: Option<String>, known: &[&str]) -> Result<(), Diagnostic> {
    let other = |ending: &String| names_format(ending) && !known.contains(&ending.as_str());
    let Some(ending) = ending.filter(other) else {
        return Ok(());
    };
    let message = format!(
        "{} cannot be written: the command does not write `.{ending}`",
        name.display()
    );
    let known: Vec<String> = known.iter().map(|one| format!(".{one}")).collect();
    Err(Diagnostic::error(Code::E1201, message).help(format!(
        "end the name by one of {}, or by none that names a format",
        known.join(", ")
    )))
}

/// Refuses a folder whose name is that of a file.
///
/// # Errors
/// Names the ending.
pub(crate) fn refuse_name_of_file(folder: &Path) -> Result<(), Diagnostic> {
    match ending(folder).filter(|ending| names_format(ending)) {
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
        for name in ["r.json", "r", "r.v1-2", "r.txt", "r.old", "r.metrics"] {
            assert!(refused(name).is_none(), "{name}");
        }
        for name in [
            "r.xlsx",
            "r.orc",
            "r.avro",
            "r.zip",
            "r.bz2",
            "r.json.gz",
            "r.json.zst",
            "r.JSON.GZ",
        ] {
            assert!(refused(name).is_some(), "{name}");
        }
        assert!(refuse_other_content(Path::new("r.json.gz"), &JSON).is_ok());
        assert!(refuse_other_content(Path::new("r.txt.gz"), &JSON).is_ok());
        assert!(refuse_other_content(Path::new("r.csv.gz"), &JSON).is_err());
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
