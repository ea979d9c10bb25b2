//! Tests of the reader of published cuts.

use trainyard_checkpoint::{
    FilePurpose, InMemory, Manifest, Publication, ShardState, SliceView, stand_for, write_shard,
};
use trainyard_model::PREMADE;
use trainyard_run_config::Job;

use super::*;

/// A job with one weight and one bias.
const JOB: &str = r#"
model_dir = "model"
[input]
label = { column = "y" }
[input.train]
files = ["train.csv"]
batch_size = 1
[[feature]]
column = "x"
kind = "numeric"
[model]
kind = "linear_regressor"
[train]
max_steps = 1
"#;

/// Name of the snapshot of a cut that continues no other.
const FIRST: &str = "first";

/// A model directory whose cuts a test writes, as one server.
struct Published {
    folder: tempfile::TempDir,
    publication: Publication,
    built: Arc<BuiltJob>,
    reader: Cuts,
}

impl Published {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let job = Job::parse(Path::new("job.toml"), JOB, &[]).expect("a job");
        Self {
            publication: Publication::open(folder.path(), 0).expect("it opens"),
            built: Arc::new(BuiltJob {
                model: Arc::from(PREMADE(&job).expect("a model")),
                job,
            }),
            reader: Cuts::default(),
            folder,
        }
    }

    /// Publishes a cut in which every value is its step.
    fn publish(&mut self, step: u64, cut: &str, base: Option<&str>) -> std::path::PathBuf {
        let kind = match base {
            Some(_) => CutKind::Increment,
            None => CutKind::Base,
        };
        let folder = self.publication.begin(kind).expect("a folder");
        let variables = self.built.model.variables();
        let values: Vec<Vec<f32>> = variables
            .iter()
            .map(|variable| vec![step as f32; variable.len()])
            .collect();
        let sources: Vec<InMemory<'_>> = values
            .iter()
            .map(|values| InMemory {
                values,
                slots: Vec::new(),
            })
            .collect();
        let slices = variables.iter().zip(&sources);
        let slices = slices.map(|(variable, source)| SliceView {
            variable: &variable.name,
            part: 0,
            rows: 0..variable.rows(),
            width: variable.width(),
            slot_names: Vec::new(),
            held: None,
            source,
        });
        let slices: Vec<SliceView<'_>> = slices.collect();
        let state = ShardState {
            num_ps: 1,
            cut: Some(cut.to_owned()),
            base: base.map(str::to_owned),
            purpose: FilePurpose::Publication,
            ..ShardState::default()
        };
        let shard = write_shard(&folder, &state, &slices, &[]).expect("a file");
        let mut manifest = Manifest {
            num_ps: 1,
            shards: vec![shard],
            variables: variables.to_vec(),
            optimizers: self.built.model.optimizers(),
            ..Manifest::new("c".to_owned(), 1, step, 0)
        };
        let latest = self.publication.continued().map(<[_]>::to_vec);
        if let (CutKind::Base, Some(latest)) = (kind, latest)
            && cut != FIRST
        {
            stand_for(&mut manifest, &latest);
        }
        let published = self.publication.commit(&folder, &manifest);
        published.expect("it is committed")
    }

    /// Returns the step of the newest cut that a reader finds.
    fn look(&mut self) -> Option<u64> {
        let built = Arc::clone(&self.built);
        let mut job_of = |_: &Manifest| Ok(Arc::clone(&built));
        let found = self.reader.look(self.folder.path(), &mut job_of);
        found.expect("the cuts are read").map(|cut| cut.step)
    }
}

/// Empties the file of values of a cut, whose manifest stays.
fn damage(cut: &Path) {
    let entries = std::fs::read_dir(cut).expect("a folder");
    let files = entries.map(|entry| entry.expect("an entry").path());
    let mut values = files.filter(|path| !path.ends_with("manifest.json"));
    let file = values.next().expect("a file of values");
    std::fs::write(file, "").expect("it is emptied");
}

#[test]
fn a_reader_of_the_cut_before_a_base_reads_only_what_follows_the_base() {
    let mut published = Published::new();
    published.publish(1, "a", None);
    published.publish(2, "b", Some("a"));
    assert_eq!(published.look(), Some(2));
    let base = published.publish(3, "new readers know it as b", None);
    published.publish(4, "c", Some("b"));
    let mut new = Cuts::default();
    std::mem::swap(&mut new, &mut published.reader);
    assert_eq!(
        published.look(),
        Some(4),
        "a new reader begins with the base"
    );
    published.reader = new;
    damage(&base);
    assert_eq!(published.look(), Some(4));
    published.publish(5, "d", Some("c"));
    assert_eq!(published.look(), Some(5));
}

#[test]
fn a_base_that_stands_for_a_cut_is_held_before_its_increment_comes() {
    let mut published = Published::new();
    published.publish(1, "a", None);
    assert_eq!(published.look(), Some(1));
    damage(&published.publish(2, "a", None));
    assert_eq!(published.look(), None, "the latest cut goes on answering");
    published.publish(3, "b", Some("a"));
    assert_eq!(published.look(), Some(3));
}

#[test]
fn a_reader_that_missed_a_cut_takes_the_next_base_as_a_whole() {
    let mut published = Published::new();
    published.publish(1, "a", None);
    assert_eq!(published.look(), Some(1));
    damage(&published.publish(2, "b", Some("a")));
    let built = Arc::clone(&published.built);
    let mut job_of = |_: &Manifest| Ok(Arc::clone(&built));
    let problem = published.reader.look(published.folder.path(), &mut job_of);
    assert!(problem.is_err(), "the increment is damaged");
    published.publish(3, "c", Some("b"));
    assert_eq!(
        published.look(),
        None,
        "it does not continue the latest cut"
    );
    published.publish(4, "the base stands for c", None);
    assert_eq!(published.look(), Some(4));
    published.publish(5, "d", Some("c"));
    assert_eq!(published.look(), Some(5));
}

#[test]
fn a_base_after_a_server_was_restarted_is_read() {
    let mut published = Published::new();
    published.publish(1, "a", None);
    assert_eq!(published.look(), Some(1));
    published.publish(2, FIRST, None);
    assert_eq!(published.look(), Some(2));
}
