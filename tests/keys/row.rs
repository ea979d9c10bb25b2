//! The table: a key, two jobs that differ in it, and what must differ between them.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::keys::see::{See, trained};
use crate::keys::site::{How, Ran, Settings, Site, TRAIN};

/// Jobs that run at the same time. Each of them waits for the disk most of its time.
const JOBS_AT_ONCE: usize = 6;

/// One row.
#[derive(Clone)]
pub(crate) struct Row {
    /// The key that it is about.
    pub(crate) key: String,
    /// Settings of both jobs.
    base: Settings,
    /// Settings of the second job.
    change: Settings,
    how: How,
    see: See,
    /// Code of the error that ends the job without and with the change.
    fails: [Option<&'static str>; 2],
    /// What is seen without and with the change.
    gives: [Option<String>; 2],
    /// Settings of a third job, which shows what the second one does.
    like: Option<Settings>,
}

fn settings(pairs: &[(&str, &str)]) -> Settings {
    pairs
        .iter()
        .map(|(path, value)| ((*path).to_owned(), (*value).to_owned()))
        .collect()
}

/// A row of a key: by default, the trained values differ.
pub(crate) fn row(key: impl Into<String>) -> Row {
    Row {
        key: key.into(),
        base: Vec::new(),
        change: Vec::new(),
        how: TRAIN,
        see: trained,
        fails: [None, None],
        gives: [None, None],
        like: None,
    }
}

impl Row {
    /// The same row, of another key.
    pub(crate) fn of(mut self, key: impl Into<String>) -> Self {
        self.key = key.into();
        self
    }

    /// Both jobs have these settings.
    pub(crate) fn over(mut self, pairs: &[(&str, &str)]) -> Self {
        self.base.extend(settings(pairs));
        self
    }

    /// The second job has this setting.
    pub(crate) fn set(mut self, path: impl Into<String>, value: impl Into<String>) -> Self {
        self.change.push((path.into(), value.into()));
        self
    }

    /// The second job has another value of the key, which has its path as its name.
    pub(crate) fn to(self, value: &str) -> Self {
        let path = self.key.clone();
        self.set(path, value)
    }

    /// How the jobs are run.
    pub(crate) fn by(mut self, how: How) -> Self {
        self.how = how;
        self
    }

    /// What is looked at.
    pub(crate) fn sees(mut self, see: See) -> Self {
        self.see = see;
        self
    }

    /// The first job ends with an error of this code.
    pub(crate) fn fails_before(mut self, code: &'static str) -> Self {
        self.fails[0] = Some(code);
        self
    }

    /// The second job ends with an error of this code, where the first one runs to its end.
    pub(crate) fn fails(mut self, code: &'static str) -> Self {
        self.fails[1] = Some(code);
        self.see = |_| "runs to its end".to_owned();
        self
    }

    /// Exactly this is seen of the first job, and of the second.
    pub(crate) fn gives(mut self, before: &str, after: &str) -> Self {
        self.gives = [Some(before.to_owned()), Some(after.to_owned())];
        self
    }

    /// The second job shows the same as a job of these settings alone.
    pub(crate) fn like(mut self, pairs: &[(&str, &str)]) -> Self {
        self.like = Some(settings(pairs));
        self
    }

    /// Whether one of the jobs is given this name of a kind, a format and so on.
    pub(crate) fn mentions(&self, name: &str) -> bool {
        let name = format!("\"{name}\"");
        self.base
            .iter()
            .chain(&self.change)
            .any(|(_, value)| value.contains(&name))
    }

    /// Runs the jobs and compares them.
    fn check(&self, workshop: &Workshop) -> Result<(), String> {
        let name = self.key.rsplit('.').next().unwrap_or_default();
        if !self
            .change
            .iter()
            .any(|(path, value)| path.contains(name) || value.contains(name))
        {
            return Err(format!("the row changes other keys: {:?}", self.change));
        }
        let changed: Settings = self.base.iter().chain(&self.change).cloned().collect();
        let before = self.seen(
            workshop,
            &self.base,
            0,
            self.fails[0],
            self.gives[0].as_deref(),
        )?;
        let again = self.seen(workshop, &self.base, 1, self.fails[0], None)?;
        if before != again {
            return Err(format!(
                "the same job shows two things: {}",
                first_difference(&before, &again)
            ));
        }
        let after = self.seen(
            workshop,
            &changed,
            0,
            self.fails[1],
            self.gives[1].as_deref(),
        )?;
        if before == after {
            return Err(format!(
                "{:?} changes nothing: {}",
                self.change,
                shorten(&after)
            ));
        }
        let Some(like) = &self.like else {
            return Ok(());
        };
        let like = self.seen(workshop, like, 0, None, None)?;
        if after == like {
            Ok(())
        } else {
            Err(format!(
                "{:?}: {}",
                self.change,
                first_difference(&after, &like)
            ))
        }
    }

    /// What is seen of a job with these settings, which must end as said. `copy` tells equal jobs apart.
    fn seen(
        &self,
        workshop: &Workshop,
        settings: &Settings,
        copy: usize,
        fails: Option<&str>,
        gives: Option<&str>,
    ) -> Result<String, String> {
        let ran = workshop.run(self.how, settings, copy);
        let seen = match fails {
            None if ran.code == 0 => (self.see)(&ran),
            None => {
                return Err(format!(
                    "{settings:?} ends with {}:\n{}",
                    ran.code, ran.output
                ));
            }
            Some(code) if ran.code != 0 && ran.output.contains(code) => {
                format!("fails with {code}")
            }
            Some(code) => {
                return Err(format!(
                    "{settings:?} ends with {}, not with {code}:\n{}",
                    ran.code, ran.output
                ));
            }
        };
        match gives.filter(|gives| *gives != seen) {
            None => Ok(seen),
            Some(gives) => Err(format!(
                "{settings:?} shows `{}`, not `{gives}`",
                shorten(&seen)
            )),
        }
    }
}

fn shorten(text: &str) -> String {
    text.chars().take(2000).collect()
}

fn first_difference(one: &str, other: &str) -> String {
    let pair = one
        .lines()
        .zip(other.lines())
        .find(|(one, other)| one != other);
    pair.map_or_else(
        || {
            format!(
                "{} lines and {}",
                one.lines().count(),
                other.lines().count()
            )
        },
        |(one, other)| format!("`{}` and `{}`", shorten(one), shorten(other)),
    )
}

/// Jobs that have been run, so that each runs once however many rows begin with it.
type Jobs = Mutex<HashMap<String, Arc<OnceLock<Ran>>>>;

/// A folder for jobs and their data.
pub(crate) struct Workshop {
    folder: tempfile::TempDir,
    jobs: Jobs,
    made: AtomicUsize,
}

impl Workshop {
    /// Writes the data.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        crate::keys::tiny_records::write(folder.path());
        Self {
            folder,
            jobs: Jobs::default(),
            made: AtomicUsize::new(0),
        }
    }

    /// The folder of the data.
    pub(crate) fn data(&self) -> &Path {
        self.folder.path()
    }

    fn next_folder(&self) -> PathBuf {
        self.folder
            .path()
            .join(format!("job-{}", self.made.fetch_add(1, Ordering::Relaxed)))
    }

    fn run(
        &self,
        how: How,
        settings: &Settings,
        copy: usize,
    ) -> impl std::ops::Deref<Target = Ran> {
        let key = format!("{} {copy} {settings:?}", how.name);
        let cell = Arc::clone(
            self.jobs
                .lock()
                .expect("no row panics here")
                .entry(key)
                .or_default(),
        );
        cell.get_or_init(|| (how.run)(&Site::new(self.next_folder(), self.data(), settings)));
        Job(cell)
    }

    /// Checks rows, several at a time.
    ///
    /// # Panics
    /// Tells every row that does not hold.
    pub(crate) fn check(&self, rows: &[Row]) {
        let next = AtomicUsize::new(0);
        let failures = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..JOBS_AT_ONCE {
                scope.spawn(|| {
                    while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let checked =
                            std::panic::catch_unwind(AssertUnwindSafe(|| row.check(self)));
                        let why = match checked {
                            Ok(Ok(())) => continue,
                            Ok(Err(why)) => why,
                            Err(_) => "panics, see above".to_owned(),
                        };
                        failures
                            .lock()
                            .expect("no row panics here")
                            .push(format!("{}: {why}", row.key));
                    }
                });
            }
        });
        let failures = failures.into_inner().expect("no row panics here");
        assert!(
            failures.is_empty(),
            "{} of {} rows:\n{}",
            failures.len(),
            rows.len(),
            failures.join("\n\n")
        );
    }
}

/// A job that has been run.
struct Job(Arc<OnceLock<Ran>>);

impl std::ops::Deref for Job {
    type Target = Ran;

    fn deref(&self) -> &Ran {
        self.0.get().expect("it has been run")
    }
}
