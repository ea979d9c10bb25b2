//! Jobs of one process, each training into a folder of its own, and the parameters that they end with.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use trainyard_checkpoint::{Checkpoint, latest_good};
use trainyard_tests::Program;

use crate::end_to_end::LIMIT;

/// What a job has come to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Trained {
    pub(crate) global_step: u64,
    /// Values and optimizer slots of each variable, as bits.
    pub(crate) parameters: BTreeMap<String, Vec<u32>>,
}

impl Trained {
    /// Reads the last checkpoint of a model folder.
    pub(crate) fn of(model_dir: &Path) -> Self {
        let found = latest_good(model_dir, &mut |warning| panic!("{}", warning.render()));
        Self::in_checkpoint(
            &found
                .expect("the folder can be read")
                .expect("a checkpoint"),
        )
    }

    /// Reads a checkpoint.
    pub(crate) fn in_checkpoint(checkpoint: &Checkpoint) -> Self {
        let manifest = checkpoint.manifest();
        let mut parameters = BTreeMap::new();
        for spec in &manifest.variables {
            let slots = manifest.optimizers[&spec.optimizer_group].slots();
            for slot in std::iter::once(None).chain(slots.iter().map(|slot| Some(slot.name))) {
                let mut values = vec![0.0; spec.len()];
                let read = checkpoint.read_rows(&spec.name, slot, 0..spec.rows(), &mut values);
                read.expect("the checkpoint holds it");
                let name = format!("{} {}", spec.name, slot.unwrap_or("values"));
                parameters.insert(
                    name,
                    values.iter().map(|value: &f32| value.to_bits()).collect(),
                );
            }
        }
        assert!(!parameters.is_empty(), "a model has variables");
        Self {
            global_step: manifest.global_step,
            parameters,
        }
    }

    /// Checks that another job has come to the same step and the same bits.
    pub(crate) fn assert_equals(&self, other: &Self, which: &str) {
        assert_eq!(self.global_step, other.global_step, "{which}: steps");
        let names = |trained: &Self| trained.parameters.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(self), names(other), "{which}: variables and slots");
        let apart = self
            .parameters
            .iter()
            .filter(|(name, bits)| other.parameters[*name] != **bits);
        let apart: Vec<&String> = apart.map(|(name, _)| name).collect();
        assert!(apart.is_empty(), "{which}: other bits in {apart:?}");
    }
}

/// Runs the command line to its end, which must be this exit code, and returns what it said.
pub(crate) fn trainyard(arguments: &[&str], code: i32) -> String {
    let ended = Program::start("trainyard", arguments, &[]).wait(LIMIT);
    assert_eq!(ended.code, code, "{arguments:?}\n{}", ended.output);
    ended.output
}

/// Returns the line of an output that is a JSON object.
pub(crate) fn json(output: &str) -> serde_json::Value {
    let line = output.lines().find(|line| line.starts_with('{'));
    let line = line.unwrap_or_else(|| panic!("no JSON object in {output}"));
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// A folder with a job and its data.
#[derive(Debug)]
pub(crate) struct Solo {
    folder: tempfile::TempDir,
    pub(crate) job: PathBuf,
}

impl Solo {
    /// Writes a job, which says nothing of a model folder.
    pub(crate) fn new(job: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("job.toml");
        let model_dir = folder.path().join("model");
        std::fs::write(&path, format!("model_dir = {model_dir:?}\n{job}"))
            .expect("the job is written");
        Self { folder, job: path }
    }

    /// Writes the small wide-and-deep job of the other tests, with its data.
    pub(crate) fn wide_and_deep(rows: usize, end: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let job = trainyard_tests::write_job(folder.path(), rows, end);
        Self { folder, job }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a path of the folder as an argument.
    pub(crate) fn argument(&self, name: &str) -> String {
        self.path(name).to_string_lossy().into_owned()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("the file is written");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        let path = self.path(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The arguments of `train`, into a folder of this one, with keys of the job set and nothing evaluated.
    pub(crate) fn training(&self, model: &str, set: &[&str]) -> Vec<String> {
        let mut arguments = vec!["train".to_owned(), self.job.to_string_lossy().into_owned()];
        arguments.extend([
            "--no-evaluation".to_owned(),
            "--model-dir".to_owned(),
            self.argument(model),
        ]);
        for assignment in set {
            arguments.extend(["--set".to_owned(), (*assignment).to_owned()]);
        }
        arguments
    }

    /// Starts to train.
    pub(crate) fn start(&self, model: &str, set: &[&str]) -> Program {
        let arguments = self.training(model, set);
        Program::start(
            "trainyard",
            &arguments.iter().map(String::as_str).collect::<Vec<_>>(),
            &[],
        )
    }

    /// Trains to the end.
    pub(crate) fn train(&self, model: &str, set: &[&str]) -> Trained {
        self.run(model, set, 0);
        Trained::of(&self.path(model))
    }

    /// Trains until the program ends with this exit code, and returns what it said.
    pub(crate) fn run(&self, model: &str, set: &[&str], code: i32) -> String {
        let ended = self.start(model, set).wait(LIMIT);
        assert_eq!(ended.code, code, "{set:?}\n{}", ended.output);
        ended.output
    }
}
