//! Resolution of the files that a job names.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use trainyard_diagnostic::{Code, Diagnostic, suggest};
use trainyard_storage::{Storage, is_remote, linked_file};

use crate::{InputPart, Job};

/// Returns the files of an input in the order of the job, with patterns expanded and sorted.
///
/// A relative name is resolved beside the job file, then in the working folder. The pattern of a URL is expanded by
/// listing the store. A URL without pattern is not checked.
///
/// # Errors
/// A file does not exist, a pattern matches nothing, or a store cannot be listed.
pub fn resolve_files(job: &Job, part: &InputPart) -> Result<Vec<PathBuf>, Diagnostic> {
    expand(&part.files, job.path.parent().unwrap_or(Path::new("")))
}

/// Returns the relative names of an input that files beside the job file and other files in the working folder match.
/// The files beside the job file are read.
pub fn ambiguous_files(job: &Job, part: &InputPart) -> Vec<Ambiguous> {
    let folder = job.path.parent().unwrap_or(Path::new(""));
    let is_relative = |name: &&String| !is_remote(Path::new(name)) && Path::new(name).is_relative();
    let both = |name: &String| {
        let read = matches(&folder.join(name)).into_iter().next()?;
        let other = matches(Path::new(name)).into_iter().next()?;
        (identity(&read) != identity(&other)).then(|| Ambiguous {
            name: name.clone(),
            read,
            other,
        })
    };
    part.files
        .iter()
        .filter(is_relative)
        .filter_map(both)
        .collect()
}

/// Returns the files of the training input that an evaluation input has, too.
///
/// # Errors
/// As for [`resolve_files`].
pub fn files_in_both(job: &Job, eval: &InputPart) -> Result<Vec<PathBuf>, Diagnostic> {
    let eval: HashSet<FileIdentity> = resolve_files(job, eval)?
        .iter()
        .map(|file| FileIdentity::of(file))
        .collect();
    let mut train = resolve_files(job, &job.input.train)?;
    train.retain(|file| eval.contains(&FileIdentity::of(file)));
    Ok(train)
}

/// What a file is, whatever its names and links are: two names with one identity have the same records.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FileIdentity {
    /// The path of a file without links, or a URL.
    Path(PathBuf),
    /// Device and inode of a file that has several hard links.
    Inode(u64, u64),
}

impl FileIdentity {
    /// Returns the identity of a file.
    pub fn of(path: &Path) -> Self {
        if !is_remote(path)
            && let Ok(metadata) = path.metadata()
            // Of a file of one name, the path says what it is. Not every file system in user space has inodes of its own.
            && metadata.nlink() > 1
        {
            return Self::Inode(metadata.dev(), metadata.ino());
        }
        Self::Path(identity(path))
    }
}

/// A name of an input file with two meanings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ambiguous {
    /// The name or pattern in the job.
    pub name: String,
    /// The first file beside the job file. It is read.
    pub read: PathBuf,
    /// The first file in the working folder. It is not read.
    pub other: PathBuf,
}

/// Returns the files of paths, URLs and patterns. Relative names are resolved in the working folder.
///
/// # Errors
/// As for [`resolve_files`].
pub fn expand_files(names: &[String]) -> Result<Vec<PathBuf>, Diagnostic> {
    expand(names, Path::new(""))
}

/// Returns the name by which a file can be compared with others: its path without links, also those to nothing. What does not exist has the
/// path of the nearest folder that does. A URL is its own name.
pub fn identity(path: &Path) -> PathBuf {
    if is_remote(path) {
        return path.to_owned();
    }
    let path = linked_file(path).unwrap_or_else(|_| path.to_owned());
    if let Ok(path) = path.canonicalize() {
        return path;
    }
    let absolute = std::path::absolute(&path).unwrap_or(path);
    let resolved = absolute.ancestors().skip(1).find_map(|folder| {
        let rest = absolute.strip_prefix(folder).ok()?;
        Some(folder.canonicalize().ok()?.join(rest))
    });
    resolved.unwrap_or(absolute)
}

pub(crate) fn expand(names: &[String], beside: &Path) -> Result<Vec<PathBuf>, Diagnostic> {
    let mut files = Files::default();
    let storage = Storage::default();
    for name in names {
        if is_remote(Path::new(name)) {
            files.add(name, storage.expand(name)?)?;
            continue;
        }
        let folders = if Path::new(name).is_absolute() {
            vec![PathBuf::new()]
        } else {
            vec![beside.to_owned(), PathBuf::new()]
        };
        let mut found = Vec::new();
        for folder in &folders {
            found = matched(&folder.join(name))?;
            if !found.is_empty() {
                break;
            }
        }
        match found.is_empty() {
            false => files.add(name, found)?,
            true => {
                let there = folders
                    .iter()
                    .map(|folder| folder.join(name))
                    .find(|path| path.exists());
                return Err(
                    there.map_or_else(|| missing(name, &folders), |path| no_file(name, &path))
                );
            }
        }
    }
    Ok(files.paths)
}

/// Files in the order of their names, each of them once.
#[derive(Default)]
struct Files<'a> {
    paths: Vec<PathBuf>,
    /// Name or pattern that found each file, and the path by which it did.
    names: HashMap<FileIdentity, (&'a str, PathBuf)>,
}

impl<'a> Files<'a> {
    /// Adds the files of a name.
    ///
    /// # Errors
    /// Two names, or two links, mean one file: its records would be read twice in each pass.
    fn add(&mut self, name: &'a str, found: Vec<PathBuf>) -> Result<(), Diagnostic> {
        for path in found {
            let by = (name, path.clone());
            if let Some((other, first)) = self.names.insert(FileIdentity::of(&path), by) {
                let message = if first == path {
                    format!(
                        "input file {} is there twice: by `{other}` and by `{name}`",
                        path.display()
                    )
                } else {
                    format!(
                        "input files {} and {} are one file, by a link or a hard link: `{other}` names the one, and `{name}` the other",
                        first.display(),
                        path.display()
                    )
                };
                return Err(Diagnostic::error(Code::E1006, message)
                    .note("its records would count twice in each pass")
                    .help(
                        "name each file once; a column of weights says which records count more",
                    ));
            }
            self.paths.push(path);
        }
        Ok(())
    }
}

/// Returns the location of a path in a job: beside the job file, or unchanged if it does not exist there.
pub fn resolve_path(job: &Job, path: &str) -> PathBuf {
    if trainyard_storage::is_remote(Path::new(path)) {
        return path.into();
    }
    let beside = job.path.parent().unwrap_or(Path::new("")).join(path);
    let here = PathBuf::from(path);
    // The prefix of a TensorFlow checkpoint is not itself a file.
    let index = |path: &Path| PathBuf::from(format!("{}.index", path.display()));
    let exists = |path: &Path| path.exists() || index(path).exists();
    if exists(&beside) { beside } else { here }
}

/// Returns the location of a name or pattern in a job: beside the job file, or in the working folder if it does not exist
/// there.
pub(crate) fn find(name: &str, beside: &Path) -> PathBuf {
    let here = PathBuf::from(name);
    let other = beside.join(name);
    let there = |path: &Path| path.exists() || !matches(path).is_empty();
    if there(&other) { other } else { here }
}

fn matches(pattern: &Path) -> Vec<PathBuf> {
    matched(pattern).unwrap_or_default()
}

/// Returns the files that a path or pattern means, sorted.
///
/// # Errors
/// One of them cannot be read: its records would be left out without a word.
fn matched(pattern: &Path) -> Result<Vec<PathBuf>, Diagnostic> {
    if pattern.is_file() {
        return Ok(vec![pattern.to_owned()]);
    }
    if is_broken_link(pattern) {
        return Err(leads_nowhere(pattern));
    }
    let mut found = Vec::new();
    for path in glob::glob(&pattern.to_string_lossy()).into_iter().flatten() {
        let path = path.map_err(|error| {
            let message = format!(
                "what `{}` matches cannot be listed: {error}",
                pattern.display()
            );
            Diagnostic::error(Code::E4002, message).help(
                "give this user the right to read the folder, or name the files by another pattern",
            )
        })?;
        if is_broken_link(&path) {
            return Err(leads_nowhere(&path));
        }
        if path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Returns whether a path is a link that leads to nothing, or back to itself.
fn is_broken_link(path: &Path) -> bool {
    path.is_symlink() && path.metadata().is_err()
}

/// The diagnostic of a link that leads to nothing.
fn leads_nowhere(path: &Path) -> Diagnostic {
    let target = path.read_link().unwrap_or_default();
    let why = match path.metadata() {
        Err(error) => error.to_string(),
        Ok(_) => "it was there a moment later".to_owned(),
    };
    let message = format!(
        "input {} is a link to {}, which cannot be read: {why}",
        path.display(),
        target.display()
    );
    Diagnostic::error(Code::E4002, message)
        .help("make the link anew, or remove it; a pattern that does not match it leaves it out")
}

/// Explains why an existing path cannot be read as an input.
fn no_file(name: &str, path: &Path) -> Diagnostic {
    if path.is_dir() {
        let pattern = Path::new(name).join("*");
        return Diagnostic::error(Code::E4002, format!("input `{name}` is a folder")).help(
            format!("name the files in it, for example `{}`", pattern.display()),
        );
    }
    Diagnostic::error(Code::E4002, format!("input `{name}` is no regular file")).help(
        "an input is read from its beginning more than once: write it to a file, and name that",
    )
}

fn missing(name: &str, folders: &[PathBuf]) -> Diagnostic {
    let pattern = name.contains(['*', '?', '[']);
    let message = if pattern {
        format!("input pattern `{name}` matches no file")
    } else {
        format!("input file `{name}` does not exist")
    };
    let mut diagnostic = Diagnostic::error(Code::E4002, message);
    let mut near: Vec<String> = Vec::new();
    let mut looked: Vec<PathBuf> = Vec::new();
    for folder in folders {
        let path = folder.join(name);
        let parent = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        let shown = std::path::absolute(parent).unwrap_or_else(|_| parent.to_owned());
        if looked.contains(&shown) {
            continue;
        }
        looked.push(shown.clone());
        diagnostic = diagnostic.note(if parent.is_dir() {
            format!("looked in {}", shown.display())
        } else {
            format!("looked in {}, which does not exist", shown.display())
        });
        let entries = std::fs::read_dir(parent)
            .into_iter()
            .flatten()
            .filter_map(Result::ok);
        near.extend(entries.map(|entry| entry.file_name().to_string_lossy().into_owned()));
    }
    let wanted = Path::new(name)
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    match suggest(&wanted, near.iter().map(String::as_str)) {
        Some(near) => diagnostic.help(format!("did you mean `{near}`?")),
        None => diagnostic.help(
            "correct the name, in a job the input's `files`, or run from the folder that holds the file",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_and_is_no_file_is_called_what_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let name = folder.path().to_string_lossy().into_owned();
        let told = |name: &str| {
            expand_files(&[name.to_owned()])
                .expect_err("no file")
                .render()
        };
        let text = told(&name);
        assert!(
            text.contains("is a folder") && text.contains(&format!("`{name}/*`")),
            "{text}"
        );
        let text = told("/dev/null");
        assert!(
            text.contains("no regular file") && text.contains("write it to a file"),
            "{text}"
        );
        assert!(told(&format!("{name}/none")).contains("does not exist"));
    }

    #[test]
    fn links_that_lead_nowhere_and_two_links_to_one_file_are_called_so() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let link = |to: &str, name: &str| {
            std::os::unix::fs::symlink(path(to), path(name)).expect("a link");
        };
        let told = |name: &str| {
            let name = path(name).to_string_lossy().into_owned();
            expand_files(&[name]).expect_err("refused").render()
        };
        std::fs::write(path("a.csv"), "x\n1\n").expect("written");
        link("none", "part-1.csv");
        for name in ["part-1.csv", "part-*.csv", "*.csv"] {
            let text = told(name);
            assert!(
                text.contains("part-1.csv is a link to") && !text.contains("did you mean"),
                "{text}"
            );
        }
        link("part-2.csv", "part-2.csv");
        let text = told("part-2.csv");
        assert!(
            text.contains("is a link to") && text.contains("symbolic links"),
            "{text}"
        );
        for name in ["part-1.csv", "part-2.csv"] {
            std::fs::remove_file(path(name)).expect("removed");
        }
        link("a.csv", "b.csv");
        let text = told("*.csv");
        assert!(
            text.contains("a.csv and") && text.contains("b.csv are one file, by a link"),
            "{text}"
        );
    }

    #[test]
    fn a_link_to_a_file_that_is_not_there_has_its_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::os::unix::fs::symlink("absent", at("link")).expect("a link");
        assert_eq!(identity(&at("link")), identity(&at("absent")));
    }

    #[test]
    fn two_hard_links_to_one_file_are_one_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("a.csv"), "x\n1\n").expect("written");
        std::fs::write(path("other.csv"), "x\n1\n").expect("written");
        std::fs::hard_link(path("a.csv"), path("b.csv")).expect("a link");
        let pattern = |name: &str| vec![path(name).to_string_lossy().into_owned()];
        let told = expand_files(&pattern("?.csv"))
            .expect_err("refused")
            .render();
        assert!(
            told.contains("b.csv are one file, by a link or a hard link"),
            "{told}"
        );
        assert_eq!(
            expand_files(&pattern("[ao]*.csv"))
                .expect("two files")
                .len(),
            2
        );
        assert_eq!(
            FileIdentity::of(&path("a.csv")),
            FileIdentity::of(&path("b.csv"))
        );
        assert_ne!(
            FileIdentity::of(&path("a.csv")),
            FileIdentity::of(&path("other.csv"))
        );
    }
}
