//! The effective job: the job file with `--set` applied and absolute paths.

use std::path::Path;

use trainyard_diagnostic::{Table, Value};
use trainyard_storage::is_remote;

use crate::Job;
use crate::files::find;
use crate::own_files::FILES_READ;

/// Keys of folders in a job file.
const FOLDERS: [&[&str]; 3] = [
    &["model_dir"],
    &["local_dir"],
    &["train", "warm_start", "from"],
];

/// Begin of a job as it was run. The path of its file follows.
const BEGIN: &str = "# As it was run: ";

impl Job {
    /// Returns whether a text is of [`Job::as_run`], and not of a person.
    pub fn is_as_run(text: &[u8]) -> bool {
        text.starts_with(BEGIN.as_bytes())
    }

    /// Returns the job as TOML, with the values of `--set` and absolute paths. It has no comments of the file.
    ///
    /// # Errors
    /// A value cannot be written as TOML.
    pub fn as_run(&self) -> Result<String, String> {
        let mut document = self.written.0.clone();
        let beside = self.path.parent().unwrap_or(Path::new(""));
        for keys in FOLDERS.into_iter().chain(FILES_READ) {
            make_absolute(&mut document.root, keys, beside);
        }
        let text = document.to_toml()?;
        let shown = std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone());
        Ok(format!(
            "{BEGIN}{}, with what --set has changed, and absolute paths.\n{text}",
            shown.display()
        ))
    }
}

fn make_absolute(table: &mut Table, keys: &[&str], beside: &Path) {
    let Some((first, rest)) = keys.split_first() else {
        return;
    };
    let entry = table.entries.iter_mut().find(|(name, ..)| name == first);
    let Some((.., node)) = entry else { return };
    match &mut node.value {
        Value::Table(inner) => make_absolute(inner, rest, beside),
        Value::List(items) if !rest.is_empty() => {
            for item in items {
                if let Value::Table(inner) = &mut item.value {
                    make_absolute(inner, rest, beside);
                }
            }
        }
        Value::List(items) => items
            .iter_mut()
            .for_each(|item| absolute(&mut item.value, beside)),
        value => absolute(value, beside),
    }
}

fn absolute(value: &mut Value, beside: &Path) {
    let Value::Text(text) = value else { return };
    if is_remote(Path::new(text.as_str())) {
        return;
    }
    let found = find(text, beside);
    if let Ok(found) = std::path::absolute(found) {
        *text = found.to_string_lossy().into_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_as_it_was_run_is_the_same_job_from_any_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let file =
            |name: &str| std::fs::write(folder.path().join(name), "a\nb\n").expect("there is room");
        ["rows-1.csv", "rows-2.csv", "words.txt", "eval.csv"]
            .into_iter()
            .for_each(file);
        let path = folder.path().join("job.toml");
        let text = r#"
            model_dir = "/tmp/runs/one" # where it goes
            [input]
            label = { column = "y", positive = "\"yes\"\n." }
            columns = ["y", "w"]
            train = { files = ["rows-*.csv", "s3://bucket/more.csv"], epochs = 3 }
            [input.eval]
            files = ["eval.csv"]
            [[feature]]
            column = "w"
            kind = "vocabulary"
            file = "words.txt"
            [[feature]]
            column = "x"
            kind = "numeric"
            clip = [-1e-3, 2.0]
            [model]
            kind = "linear_classifier"
            linear_optimizer = { kind = "sgd", learning_rate = { kind = "piecewise_constant", boundaries = [10], values = [0.1, 0.01] } }
            [[evaluation]]
            name = "again"
            files = ["eval.csv"]
        "#;
        let overrides = [
            "train.max_steps=70".to_owned(),
            "feature.1.clip=[0,1]".to_owned(),
        ];
        let job =
            Job::parse(&path, text, &overrides).unwrap_or_else(|problems| panic!("{problems:?}"));
        let written = job.as_run().expect("it is written");
        assert!(
            written.starts_with("# As it was run: /") && written.contains("max_steps = 70"),
            "{written}"
        );
        let beside = folder.path().display().to_string();
        for name in ["rows-*.csv", "words.txt", "eval.csv"] {
            assert!(
                written.contains(&format!("{beside}/{name}\"")),
                "{name}: {written}"
            );
        }
        assert!(written.contains("\"s3://bucket/more.csv\""), "{written}");
        let elsewhere = Path::new("/nowhere/job.toml");
        let again = Job::parse(elsewhere, &written, &[])
            .unwrap_or_else(|problems| panic!("{problems:?}\n{written}"));
        // The paths lead to the same content, but their text has changed.
        let settled = |mut job: Job| {
            job.path = elsewhere.to_owned();
            job.as_run()
                .expect("it is written")
                .lines()
                .skip(1)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            settled(again.clone()),
            written
                .lines()
                .skip(1)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        );
        assert_eq!(
            (again.model, again.train, again.features),
            (job.model, job.train, job.features)
        );
    }
}
