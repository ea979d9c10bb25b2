//! The files that a job is made of, which no output of a command may replace.

use std::path::{Path, PathBuf};

use trainyard_diagnostic::{Table, Value};
use trainyard_storage::is_remote;

use crate::Job;
use crate::files::expand;

/// Keys of files that a job reads. A key of an array of tables applies to each element.
pub(crate) const FILES_READ: [&[&str]; 5] = [
    &["input", "train", "files"],
    &["input", "eval", "files"],
    &["evaluation", "files"],
    &["feature", "file"],
    &["feature", "boundaries_file"],
];

impl Job {
    /// Returns the job file, and the files of this machine that its keys name and that exist: data and vocabularies.
    pub fn own_files(&self) -> Vec<PathBuf> {
        let beside = self.path.parent().unwrap_or(Path::new(""));
        let mut names = Vec::new();
        for keys in FILES_READ {
            collect(&self.written.0.root, keys, &mut names);
        }
        names.retain(|name| !is_remote(Path::new(name)));
        let found = names
            .iter()
            .filter_map(|name| expand(std::slice::from_ref(name), beside).ok());
        let files = found.flatten();
        std::iter::once(self.path.clone()).chain(files).collect()
    }
}

/// Appends the texts at a key.
fn collect(table: &Table, keys: &[&str], names: &mut Vec<String>) {
    let Some((first, rest)) = keys.split_first() else {
        return;
    };
    let entry = table.entries.iter().find(|(name, ..)| name == first);
    let Some((.., node)) = entry else { return };
    match &node.value {
        Value::Table(inner) => collect(inner, rest, names),
        Value::Text(text) => names.push(text.clone()),
        Value::List(items) => {
            for item in items {
                match &item.value {
                    Value::Table(inner) => collect(inner, rest, names),
                    Value::Text(text) => names.push(text.clone()),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity;

    #[test]
    fn a_job_knows_its_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("it is written");
            path
        };
        let model_dir = folder.path().join("model");
        std::fs::create_dir_all(model_dir.join("model.ckpt-7")).expect("a checkpoint");
        let data = ["a-1.csv", "a-2.csv", "e.csv", "f.csv"].map(|name| write(name, "x,v,y\n"));
        let words = write("v.txt", "a\n");
        let text = format!(
            "model_dir = {model_dir:?}\n[input]\nlabel = {{ column = \"y\" }}\ntrain = {{ files = [\"a-*.csv\"], epochs = 1 }}\n\
             eval = {{ files = [\"e.csv\"] }}\n[[evaluation]]\nname = \"other\"\nfiles = [\"f.csv\"]\n[[feature]]\ncolumn = \"v\"\n\
             kind = \"vocabulary\"\nfile = \"v.txt\"\nwide = true\n[model]\nkind = \"linear_classifier\"\n"
        );
        let path = write("job.toml", &text);
        let job = Job::load(&path, &[]).expect("a job");
        let own: Vec<PathBuf> = job.own_files().iter().map(|file| identity(file)).collect();
        for file in data.iter().chain([&words, &path]) {
            assert!(own.contains(&identity(file)), "{}: {own:?}", file.display());
        }
        assert_eq!(own.len(), 6, "{own:?}");
    }
}
